"""The line that holds time, of stacks and what they weigh: at the shares from which on a frame is the place."""

from __future__ import annotations

import pytest

from gpuledger.attribution.lines import (
    LinePlace,
    frames_of_loop,
    frames_of_models,
    heaviest_line,
    is_in_loader,
    is_own,
    own_frames,
)

MAIN, CALLED, OTHER, THIRD = "main (run.py:9)", "forward (net.py:3)", "loss (net.py:7)", "log (net.py:8)"
LIBRARY, DEEPER = "index (engine/table.py:40)", "gather (engine/rows.py:2)"
CALL_MODULE = "_call_impl (torch/nn/modules/module.py:1501)"


def place(*stacks: tuple[str, int]) -> LinePlace | None:
    """Of stacks as `main > f`, the outermost first."""
    frames = {"m": MAIN, "c": CALLED, "o": OTHER, "t": THIRD, "l": LIBRARY, "d": DEEPER, "n": CALL_MODULE}
    return heaviest_line([([frames[key] for key in keys], weight) for keys, weight in stacks])


@pytest.mark.parametrize(
    ("stacks", "at", "amount", "into"),
    [
        ([("mc", 50), ("mo", 30), ("mt", 20)], "net.py:3", 50, ""),  # half of what calls it
        ([("mc", 49), ("mo", 30), ("mt", 21)], "run.py:9", 100, ""),
        ([("mc", 20), ("m", 20), ("o", 30), ("t", 30)], "net.py:3", 20, ""),  # a fifth of all, too
        ([("mc", 19), ("m", 18), ("o", 31), ("t", 32)], "run.py:9", 37, ""),
        ([("mc", 30), ("mcl", 70)], "net.py:3", 100, "engine/table.py index"),
        ([("mc", 51), ("mcl", 49)], "net.py:3", 100, ""),  # less than half of the line's time
        ([("mc", 50), ("mcl", 50)], "net.py:3", 100, "engine/table.py index"),
        ([("mcnl", 100)], "net.py:3", 100, "engine/table.py index"),  # the call of a module hands on
    ],
)
def test_a_frame_is_the_place_from_half_of_its_caller_on(
    stacks: list[tuple[str, int]], at: str, amount: int, into: str
) -> None:
    found = place(*stacks)
    assert found is not None
    assert (found.at, found.amount_ns, found.whole_ns, found.into) == (at, amount, sum(w for _, w in stacks), into)


@pytest.mark.parametrize(("least", "is_told"), [(20, True), (19, False)])
def test_a_place_holds_a_fifth_of_all(least: int, is_told: bool) -> None:
    others = [([f"f{number} (a{number}.py:1)"], 1) for number in range(100 - least)]
    assert (heaviest_line([([MAIN], least), *others]) is not None) is is_told


def test_who_calls_the_line_is_told_unless_it_is_the_same() -> None:
    found = place(("mc", 10))
    assert found is not None
    assert (found.caller, found.frames, found.where) == ("run.py:9", (MAIN, CALLED), "at net.py:3 in forward")
    again = heaviest_line([([MAIN, CALLED, "forward (net.py:3)"], 10)])
    assert again is not None
    assert again.caller == "run.py:9"


def test_the_innermost_function_of_a_package_is_told_where_it_is_in_another_file() -> None:
    found = place(("mcld", 60), ("mcl", 40))
    assert found is not None
    assert (found.into, found.down_to) == ("engine/table.py index", "engine/rows.py gather")
    less = place(("mcld", 49), ("mcl", 51))
    assert less is not None
    assert (less.into, less.down_to) == ("engine/table.py index", "")


def test_of_an_installed_program_the_frames_of_its_package_are_its_own() -> None:
    served = heaviest_line([(["serve (engine/api.py:1)", "step (engine/core.py:2)", "mm (other/ops.py:3)"], 10)])
    assert served is not None
    assert (served.at, served.caller, served.into) == ("engine/core.py:2", "engine/api.py:1", "other/ops.py mm")


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (MAIN, True),
        (LIBRARY, False),
        ("f (torch/nn/functional.py:2)", False),
        ("wait (threading.py:320)", False),  # Python's own
        ("f (<string>:1)", False),
        ("f (c4ca4238a0b923820dcc509a6f75849b.py:4)", False),  # generated
        ("<built-in method mm of type object at 0x7f>", False),
    ],
)
def test_own_files_are_told_without_a_folder(frame: str, expected: bool) -> None:
    assert is_own(frame) is expected


def test_the_users_own_functions_come_before_packages_and_these_before_the_framework() -> None:
    torch = "linear (torch/nn/functional.py:2)"
    assert own_frames([torch, LIBRARY, CALLED, MAIN]) == [CALLED, MAIN]
    assert own_frames([torch, LIBRARY]) == [LIBRARY]
    assert own_frames([torch, "cudaLaunchKernel"]) == [torch]


def test_a_loop_of_steps_is_outside_of_what_runs_once_a_layer() -> None:
    assert frames_of_loop([CALLED, CALL_MODULE, OTHER, CALL_MODULE, MAIN]) == (MAIN,)
    assert frames_of_loop([CALLED, "linear (torch/nn/functional.py:2)", MAIN]) == (CALLED, MAIN)


def test_frames_of_a_model_are_those_of_packages_that_the_users_line_calls_through_a_module() -> None:
    assert frames_of_models([DEEPER, CALL_MODULE, LIBRARY, CALL_MODULE, MAIN]) == [DEEPER, LIBRARY]
    assert frames_of_models([DEEPER, MAIN]) == []


def test_a_loader_is_told_by_its_file() -> None:
    assert is_in_loader([CALLED, "__next__ (torch/utils/data/dataloader.py:7)"])
    assert not is_in_loader([CALLED, MAIN])
