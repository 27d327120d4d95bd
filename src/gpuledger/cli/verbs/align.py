"""`gpuledger align`: does a mock run what the model runs?"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from gpuledger.analyse.align.alignment import Isolation, alignment
from gpuledger.analyse.align.kernel_sequences import Forwards
from gpuledger.analyse.align.operation_side import OperationSide, side
from gpuledger.analyse.align.side_by_side import CHECKS, FAIL, TIERS, KnownDifferences, known
from gpuledger.analyse.align.sides_from import (
    mock_forwards,
    mock_from_table,
    model_forwards,
    model_from_table,
    side_of_timing,
)
from gpuledger.analyse.timed_operations import TimedOperation
from gpuledger.cli.completion import files
from gpuledger.cli.inputs import cache_option, limit_option, named, names_option, regex_option
from gpuledger.cli.output import Output, page_options
from gpuledger.cli.progress import ProgressLine
from gpuledger.cli.verbs.diff import timings_at, told_apart
from gpuledger.errors import GpuledgerError, OutputRefused
from gpuledger.fleet.run import Profile, job_profiles
from gpuledger.ledger.steps import Selection
from gpuledger.limits import Limits
from gpuledger.present.views.align import align_document, align_junit
from gpuledger.read import open_trace
from gpuledger.read.source import look_at, opened
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.trace.model import Note, Trace

GATE = 3
"""The exit code where --gate was given and a check fails."""

_FILE = click.Path(path_type=Path, dir_okay=False)
_COUNT = click.IntRange(min=1)
_SIDES = ("mock", "model")


@dataclass(frozen=True, slots=True)
class _Read:
    """A side as it was read: what isolating it had to say, what was lost, and whether it holds all that belongs."""

    side: OperationSide
    remarks: tuple[str, ...]
    health: tuple[Note, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class _Reading:
    """How profiles are read: what that may cost, and who is told of it."""

    limits: Limits
    tell: ProgressLine
    names_from: Path | None

    def trace(self, path: str, *, is_model: bool = False) -> Trace:
        self.tell.clear()
        trace = open_trace(path, limits=self.limits, progress=self.tell)
        if is_model:
            trace = named(trace, Path(path).name, self.names_from, self.limits, self.tell)
        self.tell.stage("looking for the operation")
        return trace


@click.command()
@click.argument("mock", shell_complete=files)
@click.argument("e2e", nargs=-1, shell_complete=files)
@regex_option("--range", "range_", said="The operation is what ranges that match launch.")
@regex_option("--pattern", said="The operation is the kernels whose names match, on both sides.")
@click.option("--auto", is_flag=True, help="Look for the mock's sequence of kernels. The default.")
@regex_option("--mock-range", said="A forward of the mock is a range that matches. Default: a step.")
@regex_option("--step-range", said="Steps of the model are ranges that match. Default: found.")
@regex_option("--step-kernel", said="A step of the model ends with each kernel that matches.")
@click.option(
    "--tier",
    type=click.Choice(list(TIERS)),
    default="mock",
    help="How close latencies must be: a mock within 10 % (the default), or the same module within 1 %.",
)
@click.option("--known", "known_file", type=_FILE, metavar="FILE", help="TOML with differences to accept.")
@click.option("--forwards-mock", type=_COUNT, metavar="N", help="Forwards in the mock's tables. Default: found.")
@click.option("--forwards-e2e", type=_COUNT, metavar="N", help="Forwards in the model's tables. Default: found.")
@click.option("--junit", type=_FILE, metavar="FILE", help="Write the checks as JUnit XML too.")
@click.option("--gate", is_flag=True, help="Exit with 3 if a check fails.")
@names_option
@cache_option
@limit_option
@page_options
def align(
    mock: str,
    e2e: tuple[str, ...],
    range_: str | None,
    pattern: str | None,
    auto: bool,
    mock_range: str | None,
    step_range: str | None,
    step_kernel: str | None,
    tier: str,
    known_file: Path | None,
    forwards_mock: int | None,
    forwards_e2e: int | None,
    junit: Path | None,
    gate: bool,
    names_from: Path | None,
    limits: Limits,
    output: Output,
) -> None:
    """Check that MOCK, one operation in isolation, runs the same kernels as in the model of E2E, as fast.

    Finds the operation in the profile of the whole model, lays one forward of each side by side, and asks seven
    questions: kernel names, calls per forward, missing kernels, extra kernels, latency, CUDA graphs, launch shape.
    Each passes, warns or fails with its figures, and says what to do. Only steady steps count; the first forward is
    left out, and the one with the median GPU time stands for the others.

    E2E may be several profiles, a folder or a glob, one per rank: each forward counts where it computes the longest.
    Both sides may also be what `nsys stats --report=cuda_gpu_kern_sum` printed, or the JSON of `gpuledger time`, which
    for two operations is one file; what these cannot tell is not measured.

    \b
    Examples:
      gpuledger align attn.sqlite model.sqlite --range=attention
      gpuledger align attn.json graph.json --range=attn --names-from=capture.json
      gpuledger align attn.sqlite model.sqlite --pattern='flash|fmha'
      gpuledger align attn.json.gz ranks/ --known=known.toml --gate
      gpuledger align timed.json --tier=same-module
      gpuledger align mock.csv model.csv --forwards-mock=20 --forwards-e2e=160
    """
    isolation = _isolation(range_, pattern, auto=auto)
    accepted = KnownDifferences() if known_file is None else known(_toml(known_file), known_file.name, CHECKS)
    if junit is not None and junit.exists() and not output.force:
        raise OutputRefused(f"{junit}: exists already", hint="--force overwrites it")
    timed = _timed_sides(mock, e2e, limits)
    if timed is None and not e2e:
        raise click.UsageError("give MOCK and E2E, or one file of two operations that `gpuledger time` timed in turns.")
    reading = _Reading(limits, output.progress, names_from)
    if timed is None:
        ours = _mock(mock, mock_range, isolation, forwards_mock, reading)
        theirs = _model(e2e, Selection(step_range, step_kernel), isolation, ours.side, forwards_e2e, reading)
    else:
        ours, theirs = (_Read(operation, (), ()) for operation in timed)
    one, other = ours.side, theirs.side
    if one.profile == other.profile and e2e:
        names = told_apart(mock, e2e[0])
        one, other = replace(one, profile=names[0]), replace(other, profile=names[1])
    made = alignment(
        one,
        other,
        isolation,
        TIERS[tier],
        accepted,
        remarks=(*ours.remarks, *theirs.remarks),
        whole=theirs.whole,
    )
    output.show(align_document(made, (*ours.health, *theirs.health)))
    if junit is not None:
        Output("junit", junit, output.force, output.quiet).write(align_junit(made))
    if gate and made.verdict == FAIL:
        sys.exit(GATE)


def _isolation(range_: str | None, pattern: str | None, *, auto: bool) -> Isolation:
    if sum((range_ is not None, pattern is not None, auto)) > 1:
        raise click.UsageError("--range, --pattern and --auto are three ways to find the operation: give one.")
    if range_ is not None:
        return Isolation("range", range_)
    return Isolation("auto") if pattern is None else Isolation("pattern", pattern)


def _toml(path: Path) -> dict[str, object]:
    with opened(look_at(path)) as file:
        content = file.read()
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GpuledgerError(f"{path.name}: cannot be read as TOML", found=str(error)) from None


def _timed_sides(mock: str, e2e: Sequence[str], limits: Limits) -> tuple[OperationSide, OperationSide] | None:
    """Both sides where they are what `gpuledger time` wrote; None where neither is."""
    files = [(given, timings_at(given, limits)) for given in (mock, *e2e)]
    operations = [(Path(given).name, operation) for given, timings in files for operation in timings or ()]
    if not operations:
        return None
    if len(operations) != len(_SIDES) or any(timings is None for _, timings in files):
        raise GpuledgerError(
            "a timing is compared with one other timing",
            found=", ".join(f"{Path(given).name}: {_count_words(timings)}" for given, timings in files),
            hint="give one file of `gpuledger time A B -o FILE.json`, or two of `gpuledger time A -o FILE.json`",
        )
    first, second = (
        side_of_timing(operation, operation.operation if not e2e else name) for name, operation in operations
    )
    return first, second


def _count_words(timings: tuple[TimedOperation, ...] | None) -> str:
    return "no timing" if timings is None else "two operations" if len(timings) > 1 else "one operation"


def _mock(path: str, mock_range: str | None, isolation: Isolation, forwards: int | None, reading: _Reading) -> _Read:
    if is_printed_tables(path, limits=reading.limits):
        run = open_summaries(path, limits=reading.limits)
        made = mock_from_table(run, isolation, forwards)
        return _Read(made.side, made.notes, run.health)
    trace = reading.trace(path)
    found = mock_forwards(trace, Path(path).name, Selection(), mock_range, isolation)
    return _Read(side(found.forwards), found.notes, trace.health)


def _model(
    given: Sequence[str],
    wanted: Selection,
    isolation: Isolation,
    mock: OperationSide,
    forwards: int | None,
    reading: _Reading,
) -> _Read:
    if len(given) == 1 and is_printed_tables(given[0], limits=reading.limits):
        run = open_summaries(given[0], limits=reading.limits)
        made = model_from_table(run, isolation, mock, forwards)
        return _Read(made.side, made.notes, run.health, made.whole)
    if not mock.ordered and isolation.by == "auto":
        raise GpuledgerError(
            "the mock's table has no order, so its sequence cannot be looked for",
            hint="--range=REGEX or --pattern=REGEX says where the operation is",
        )
    ranks, remarks, health = list[Forwards](), dict[str, None](), list[Note]()
    for profile in _profiles(given, reading.limits):
        trace = reading.trace(profile.address, is_model=True)
        found = model_forwards(trace, profile.name, wanted, isolation, mock.kernels)
        ranks += found.forwards
        remarks |= dict.fromkeys(found.notes)
        health += trace.health
    return _Read(side(ranks, mock.kernels), tuple(remarks), tuple(dict.fromkeys(health)))


def _profiles(given: Sequence[str], limits: Limits) -> list[Profile]:
    found, broken = job_profiles(given, limits)
    if broken:
        raise GpuledgerError(f"{broken[0].name}: {broken[0].sentence}")
    return found
