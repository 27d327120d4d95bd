"""`gpuledger align`: differences to accept, a gate, JUnit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import click

from gpuledger.cli.output import Output
from gpuledger.errors import GpuledgerError
from gpuledger.system.files import refuse_existing
from gpuledger.verbs.definition import Option
from gpuledger.verdicts import FAIL, UNDECIDED

if TYPE_CHECKING:
    from gpuledger.analyse.align.checks import KnownDifferences
    from gpuledger.present.views.compare.align import AlignAnswer

GATE: Final = 3
"""The exit code where --gate was given and a check fails."""


def align(
    verb: Callable[..., AlignAnswer],
    output: Output,
    *,
    auto: Annotated[bool, Option("Look for the mock's sequence of kernels. The default.")] = False,
    known_file: Annotated[Path | None, Option("TOML with differences to accept.", "--known", metavar="FILE")] = None,
    forwards_mock: Annotated[
        int | None, Option("Forwards in the mock's tables. Default: found.", metavar="N", least=1)
    ] = None,
    forwards_e2e: Annotated[
        int | None, Option("Forwards in the model's tables. Default: found.", metavar="N", least=1)
    ] = None,
    junit: Annotated[Path | None, Option("Write the checks as JUnit XML too.", metavar="FILE")] = None,
    gate: Annotated[bool, Option("Exit with 3 if a check fails.")] = False,
    undecided: Annotated[
        Literal["fail", "pass"], Option("What a gate makes of UNDECIDED: the interval holds the limit.")
    ] = "pass",
    **asked: Any,
) -> None:
    """Show the checks; write them as JUnit and end with 3 where that is asked for."""
    if auto and (asked["range_pattern"] or asked["kernel_pattern"]):
        raise click.UsageError("--range, --pattern and --auto are three ways to find the operation: give one.")
    if junit is not None and junit.exists() and not output.force:
        raise refuse_existing(junit)
    accepted = None if known_file is None else _accepted(known_file)
    answer = verb(**asked, known=accepted, forwards=(forwards_mock, forwards_e2e))
    output.show(answer.document())
    if junit is not None:
        Output("junit", junit, output.force, output.quiet).write(answer.junit())
    if gate and answer.verdict in ((FAIL, UNDECIDED) if undecided == "fail" else (FAIL,)):
        sys.exit(GATE)


def _accepted(path: Path) -> KnownDifferences:
    """The differences that the user knows of, from a TOML file."""
    import tomllib

    from gpuledger.analyse.align.checks import CHECKS, known
    from gpuledger.read.source import look_at, opened

    with opened(look_at(path)) as file:
        content = file.read()
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GpuledgerError(f"{path.name}: cannot be read as TOML", found=str(error)) from None
    return known(table, path.name, CHECKS)
