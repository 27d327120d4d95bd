"""What the shell completes: verbs, codes, files, names of ranges; and that no option is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, ShellComplete

from gpuledger.cli.main import cli, verb_named
from gpuledger.findings.pages import codes
from gpuledger.verbs import VERBS
from support.command import gpuledger

FREE = {
    *("rank", "sql", "time", "least_ns", "gpu_hour_price", "speedup", "light", "reachable", "remove"),
    *("hide", "host", "launch_cost", "named", "ranks", "metrics", "gates", "scheduler", "operation"),
    *("other", "input_", "target", "via", "name", "env", "command", "arguments", "trace", "settings"),
    *("session", "rank_variable", "size", "set_", "picked", "step_kernel", "kernel_pattern", "kernel"),
    *("graph", "figure"),
    "ranges phases",
    "kernels coverage",
    "torch step_range",
    "rocprof pmc",
    *(f"add {name}" for name in ("commit", "machine", "method")),
}
"""What a user makes up, or names kernels, numbers and places by: there is nothing to offer."""


def offered(*words: str) -> list[CompletionItem]:
    *before, incomplete = words
    return ShellComplete(cli, {}, "gpuledger", "_GPULEDGER_COMPLETE").get_completions(list(before), incomplete)


def values(*words: str) -> list[str]:
    return [item.value for item in offered(*words)]


def test_verbs_and_codes() -> None:
    assert values("expl") == ["explain"]
    assert values("explain", "HOST-S") == values("explain", "host-s") == ["HOST-SYNC"]
    assert values("explain", "") == list(codes())
    assert offered("explain", "HOST-SYNC")[0].help == "the host waits for the GPU, and the GPU then waits for the host"
    assert values("whatif", "run.sqlite", "--fix", "TINY") == ["TINY-KERNELS"]


def test_files_are_left_to_the_shell() -> None:
    for words in (["report", ""], ["diff", "a"], ["diff", "a", "b"], ["fleet", "a", "b"], ["export", "a", "-o", "b"]):
        assert [item.type for item in offered(*words)] == ["file"], words


def test_ranges_are_those_of_the_profile(unpacked: Callable[[str], Path]) -> None:
    profile = str(unpacked("decode.sqlite"))
    assert values("report", profile, "--range", "bench") == ["bench:decode", "bench:prefill"]
    assert values("gaps", profile, "--step-range", "lay") == [r"layer\d+"]
    assert "layer#" in values("steps", profile, "--level", "")


@pytest.mark.parametrize("content", [b"", b"nonsense", b"SQLite format 3\0 and then nothing"])
def test_a_file_that_is_no_profile_offers_nothing(content: bytes, tmp_path: Path) -> None:
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(content)
    assert values("report", str(broken), "--range", "") == []
    assert values("report", str(tmp_path / "none"), "--range", "") == []
    assert values("report", "--range", "") == []


def test_standard_input_is_not_waited_for_while_completing() -> None:
    assert values("report", "-", "--range", "") == []


def _commands() -> Iterator[click.Command]:
    for verb in VERBS:
        command = verb_named(verb)
        yield command
        if isinstance(command, click.Group):
            yield from (command.commands[name] for name in command.list_commands(click.Context(command)))


def test_every_option_completes_or_takes_what_only_the_user_knows() -> None:
    silent = {
        f"{command.name} {parameter.name}"
        for command in _commands()
        for parameter in command.params
        if type(parameter.type) is click.types.StringParamType
        and parameter._custom_shell_complete is None
        and FREE.isdisjoint((parameter.name, f"{command.name} {parameter.name}"))
    }
    assert silent == set()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_each_shell_is_taught_by_one_line(shell: str) -> None:
    assert "_GPULEDGER_COMPLETE" in gpuledger(_GPULEDGER_COMPLETE=f"{shell}_source").stdout
