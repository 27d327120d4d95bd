"""What a terminal shows: as wide as it is, in colours where it has them, and what there is no room for is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuledger.present.safe_text import display_width
from support.command import gpuledger
from support.terminal import in_terminal, without_colours

pytestmark = pytest.mark.usefixtures("profiles_read_once")

WIDTHS = (40, 80, 120, 200)
QUESTIONS = [
    "report",
    "info",
    "stats",
    "gaps",
    "steps",
    "memory",
    "ranges",
    "ops",
    "kernels",
    "fleet",
    "whatif+--host=2",
    "diff+{profile}",
    "align+{profile}",
    "run+--list",
]
WITHOUT_PROFILE = ("run",)
"""Each verb that writes its answer to a terminal; `doctor` is tested at all widths with machines of its own."""

_TOLD = re.compile(r"\(not shown: ([^;]*); needs (\d+) columns")


def _too_long(line: str, width: int) -> bool:
    """Whether a line could have been broken earlier: a single word, such as a kernel's name, is left whole."""
    return display_width(line) > width and len(line.split()) > 1


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_line_fits_the_terminal(question: str, unpacked: Callable[[str], Path]) -> None:
    verb, *others = question.replace("{profile}", str(unpacked("graph.sqlite"))).split("+")
    arguments: list[str | Path] = [verb, *([] if verb in WITHOUT_PROFILE else [unpacked("graph.sqlite")]), *others]
    for columns in WIDTHS:
        shown = without_colours(in_terminal(*arguments, columns=columns))
        assert [line for line in shown.splitlines() if _too_long(line, columns)] == [], columns


def test_a_table_takes_the_width_there_is_and_tells_what_it_leaves_out(unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("graph.sqlite")
    shown = {columns: without_colours(in_terminal("gaps", profile, columns=columns)) for columns in (80, 200)}
    told = _TOLD.search(" ".join(shown[80].split()))
    assert told is not None
    assert "no room" not in shown[200]
    assert "no room" not in without_colours(in_terminal("gaps", profile, columns=int(told[2])))
    assert all(name in shown[200] for name in told[1].split(", "))
    assert max(map(len, shown[200].splitlines())) > 120


def test_columns_is_respected(unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("graph.sqlite")
    narrow = in_terminal("steps", profile, "-q", columns=200, COLUMNS="80", NO_COLOR="1")
    assert narrow == in_terminal("steps", profile, "-q", columns=80, NO_COLOR="1")
    assert narrow == gpuledger("steps", profile, COLUMNS="80").stdout


@pytest.mark.parametrize("columns", [0, 1, 7])
def test_a_terminal_of_no_width_still_shows_the_answer(columns: int, unpacked: Callable[[str], Path]) -> None:
    assert "GPU" in in_terminal("report", unpacked("graph.sqlite"), columns=columns)


@pytest.mark.parametrize("verb", ["report", "gaps"])
def test_colours_are_in_a_terminal_and_nowhere_else(verb: str, unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("graph.sqlite")
    assert "\x1b[1m" in in_terminal(verb, profile, columns=120)
    assert "\x1b" not in in_terminal(verb, profile, "-q", columns=120, NO_COLOR="1")
    assert "\x1b" not in in_terminal(verb, profile, columns=120, TERM="dumb")
    assert "\x1b" not in gpuledger(verb, profile).stdout
    assert "\x1b[1m" in gpuledger(verb, profile, CLICOLOR_FORCE="1").stdout
    assert "\x1b" not in gpuledger(verb, profile, FORCE_COLOR="1", NO_COLOR="1").stdout


def test_colours_change_no_letter(unpacked: Callable[[str], Path]) -> None:
    """Bars of shares are the one thing that a terminal without colours does not have."""
    profile = unpacked("graph.sqlite")
    plain = in_terminal("report", profile, "-q", columns=80, NO_COLOR="1")
    assert without_colours(in_terminal("report", profile, columns=80)) == plain


def test_a_file_is_never_coloured(tmp_path: Path, unpacked: Callable[[str], Path]) -> None:
    target = tmp_path / "report.txt"
    gpuledger("report", unpacked("graph.sqlite"), "-o", target, FORCE_COLOR="1")
    assert "\x1b" not in target.read_text()


def test_raw_shows_the_exact_numbers_of_csv(unpacked: Callable[[str], Path]) -> None:
    profile = unpacked("decode.sqlite")
    people, raw = (gpuledger("memory", profile, *option).stdout for option in ((), ("--raw",)))
    exact = gpuledger("memory", profile, "--format=csv").stdout
    cells = {cell for line in exact.splitlines() for cell in line.split(",") if cell.isdecimal() and len(cell) > 6}
    assert cells
    assert all(cell in raw for cell in cells)
    assert not any(cell in people for cell in cells)
    assert "(ns)" in raw
    assert "(ns)" not in people


def test_help_fits_a_narrow_terminal() -> None:
    for arguments in (["--help"], ["gaps", "--help"]):
        shown = in_terminal(*arguments, columns=50).partition("Examples:")[0]
        assert max(map(len, shown.splitlines())) <= 50


def test_an_error_is_marked_in_colour_where_stderr_is_a_terminal(tmp_path: Path) -> None:
    told = gpuledger("report", tmp_path / "none.sqlite", FORCE_COLOR="1").stderr
    assert told.startswith("\x1b[31m\x1b[1merror:\x1b[0m none.sqlite")


def test_an_explanation_is_as_wide_as_the_terminal_and_its_code_is_left_alone() -> None:
    page = gpuledger("explain", "HOST-SYNC").stdout
    shown = without_colours(in_terminal("explain", "HOST-SYNC", columns=40))
    code = [line for part in page.split("```")[1::2] for line in part.splitlines()[1:] if line]
    assert all(f"    {line}" in shown for line in code)
    assert [line for line in shown.splitlines() if _too_long(line, 40) and line[4:] not in code] == []
    words = [word for word in re.sub(r"```\w*|#", "", page).split() if word != "-"]
    assert [word for word in shown.split() if word not in ("#", "-")] == words
