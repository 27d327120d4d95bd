"""`gpuledger diff`: did the change help, by how much, and why; and may it be merged.

A side is what the user names: a profile, several runs, a baseline, or tables of `nsys stats`.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from gpuledger.analyse.diff.baseline import baseline_json, is_baseline, read_baseline
from gpuledger.analyse.diff.compare import Diff, compare
from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.diff.from_trace import busiest, side_of
from gpuledger.analyse.diff.gate import GRAMMAR, BadExpression, DiffGate, outcome, parse_gate
from gpuledger.analyse.diff.run_side import (
    RunSide,
    like_sides,
    pool_runs,
    side_of_timing,
    sides_of_pair,
)
from gpuledger.analyse.timed_operations import TimedOperation, is_timing, timed_operations
from gpuledger.answers.several_profiles import Compared
from gpuledger.cli.completion import files
from gpuledger.cli.inputs import limit_option, regex_option, step_options
from gpuledger.cli.output import Output, page_options
from gpuledger.cli.progress import ProgressLine
from gpuledger.errors import OutputRefused, UnreadableProfile
from gpuledger.fleet.run import job_profiles
from gpuledger.json_types import builtins
from gpuledger.ledger.device import analyse_devices
from gpuledger.ledger.steps import Selection
from gpuledger.limits import Limits
from gpuledger.present.document import Document
from gpuledger.present.views.diff.document import diff_document, verdict_text
from gpuledger.present.views.diff.tables import gate_result, gate_values
from gpuledger.present.writers import write
from gpuledger.present.writers.json import json_text
from gpuledger.present.writers.junit import Case, junit_xml
from gpuledger.read import SAMPLES, open_trace
from gpuledger.read.source import look_at, opened
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.stages import BOOKS
from gpuledger.units import bytes_text


class Sides:
    """Reads sides. All of one comparison are of the same GPU: that of the first, where the others use it too."""

    def __init__(self, wanted: Selection, tell: ProgressLine, limits: Limits) -> None:
        self._wanted, self._tell, self._limits = wanted, tell, limits
        self._gpu: int | None = None

    def read(self, given: str) -> RunSide:
        """The side at a path or glob."""
        path = Path(given)
        if path.is_file() and is_baseline(look_at(path).head):
            return self._keep_gpu(read_baseline(_content(path, "baseline", self._limits), path.name))
        if (timed := timings_at(given, self._limits)) is not None:
            return side_of_timing(_only(timed, path.name), path.name)
        if is_printed_tables(given, limits=self._limits):
            return side_of_tables(open_summaries(given, limits=self._limits), path.name, self._wanted.families)
        found, failed = job_profiles([given], self._limits)
        if failed:
            raise UnreadableProfile(f"{failed[0].name}: {failed[0].sentence}")
        runs = [self._of_profile(profile.address, profile.name) for profile in found]
        return pool_runs(runs, path.name or given)

    def _of_profile(self, address: str, name: str) -> RunSide:
        self._tell.clear()
        trace = open_trace(address, where_sampled=SAMPLES, limits=self._limits, progress=self._tell)
        self._tell.stage(BOOKS)
        devices = analyse_devices(trace, name, self._wanted)
        return self._keep_gpu(side_of(trace, devices, busiest(devices, self._gpu), name, self._wanted.families))

    def _keep_gpu(self, side: RunSide) -> RunSide:
        if self._gpu is None:
            self._gpu = side.gpu
        return side


def told_apart(one: str, other: str) -> tuple[str, str]:
    """What to call two files: their names, with as many folders as it takes to tell them apart."""
    parts = Path(one).parts, Path(other).parts
    longest = max(map(len, parts))
    least = next((count for count in range(1, longest + 1) if parts[0][-count:] != parts[1][-count:]), 1)
    return str(Path(*parts[0][-least:])), str(Path(*parts[1][-least:]))


def timings_at(given: str, limits: Limits) -> tuple[TimedOperation, ...] | None:
    """What `gpuledger time` wrote there, one operation or two; None where it is something else."""
    path = Path(given)
    if not path.is_file() or not is_timing(look_at(path).head):
        return None
    return timed_operations(_content(path, "timing", limits), path.name)


def pair_of_timings(given: str, limits: Limits) -> tuple[RunSide, RunSide] | None:
    """Both sides from one file of two operations that were timed in turns; None where it is something else."""
    timed = timings_at(given, limits)
    if timed is None or len(timed) == 1:
        return None
    return sides_of_pair(*timed)


def _only(timed: tuple[TimedOperation, ...], name: str) -> TimedOperation:
    if len(timed) > 1:
        raise UnreadableProfile(
            f"{name}: holds two operations that were timed in turns", hint=f"`gpuledger diff {name}` compares the two"
        )
    return timed[0]


def _content(path: Path, what: str, limits: Limits) -> bytes:
    source = look_at(path)
    if source.size > limits.event_bytes:
        most = bytes_text(limits.event_bytes)
        raise UnreadableProfile(
            f"{source.name}: {bytes_text(source.size)}, and no {what} is larger than {most}",
            hint=f"if this is one: --limit=event-bytes={source.size}",
        )
    with opened(source) as file:
        return file.read()


TRIPPED = 3
"""The exit code where a gate tripped."""

_SUMMARY = "GITHUB_STEP_SUMMARY"
_FILE = click.Path(path_type=Path, dir_okay=False)


def _gates(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[DiffGate, ...]:
    try:
        return tuple(parse_gate(text) for text in values)
    except BadExpression as error:
        raise click.BadParameter(f"{error}\n\n{GRAMMAR}") from None


@click.command()
@click.argument("before", shell_complete=files)
@click.argument("after", required=False, shell_complete=files)
@click.option(
    "--fail-on",
    "gates",
    multiple=True,
    metavar="GATE",
    callback=_gates,
    help="Exit with 3 if this holds, e.g. 'step>2%', 'launches>0', 'kernel:flash>5%'; may be given several times.",
)
@click.option("--junit", type=_FILE, metavar="FILE", help="Write the gates and the verdict as JUnit XML.")
@click.option("--github", is_flag=True, help=f"Append the result as Markdown to ${_SUMMARY}, where that is set.")
@click.option(
    "--save-baseline", "baseline", type=_FILE, metavar="FILE", help="Save BEFORE alone, to compare with later."
)
@regex_option("--control", said="Ranges whose code did not change. Default: found by their calls.")
@click.option(
    "--anyway", is_flag=True, help="Compare even if the two are unlike: another GPU, other kernels, no steps."
)
@step_options
@limit_option
@page_options
def diff(
    before: str,
    after: str | None,
    gates: tuple[DiffGate, ...],
    junit: Path | None,
    github: bool,
    baseline: Path | None,
    control: str | None,
    anyway: bool,
    wanted: Selection,
    limits: Limits,
    output: Output,
) -> None:
    """Tell whether AFTER is faster than BEFORE, by how much, how sure that is, and why.

    Each is a profile, a folder or glob of several runs of the same, a baseline saved with --save-baseline, tables that
    `nsys stats` printed, or the JSON of `gpuledger time`; that of two operations holds both sides. The difference of
    the usual step is split into parts that sum to it: number of kernel calls, time per call, other kernels, exposed
    communication and copies, idle time by cause. Steps are resampled for an interval; a difference inside the noise is
    called no change.

    \b
    Gates (--fail-on) are WHAT[:REGEX]>LIMIT:
      WHAT   step, compute, comm, copy, idle[:CAUSE], family:REGEX,
             kernel:REGEX, range:REGEX, call:REGEX (time);
             launches (a count); copied, memory (bytes)
      LIMIT  a number with %, ns, us, ms, s, B, kB, MB or GB behind it
    A time trips only if its change is also outside the noise.

    \b
    Examples:
      gpuledger diff before.sqlite after.sqlite
      gpuledger diff 'before/*.sqlite' 'after/*.sqlite' -o diff.html
      gpuledger diff timed.json
      gpuledger diff run.sqlite --save-baseline=base.json
      gpuledger diff base.json run.sqlite --fail-on='step>2%' --junit=diff.xml
    """
    pair = pair_of_timings(before, limits) if after is None and baseline is None else None
    if pair is None and (after is None) == (baseline is None):
        raise click.UsageError("give BEFORE and AFTER, or one profile with --save-baseline=FILE.")
    if baseline is not None and (gates or junit or github):
        raise click.UsageError("a baseline alone is compared with nothing: give gates when you compare with it.")
    for target in (junit, baseline):
        if target is not None and target.exists() and not output.force:
            raise OutputRefused(f"{target}: exists already", hint="--force overwrites it")
    one, other = pair or _sides(before, after, wanted, limits, output)
    if other is None:
        Output("json", baseline, output.force, output.quiet).write(json_text(builtins(baseline_json(one))))
        return
    if one.name == other.name and after is not None:
        names = told_apart(before, after)
        one, other = replace(one, name=names[0]), replace(other, name=names[1])
    found = compare(one, other, anyway=anyway, control=control)
    compared = Compared(found, tuple(outcome(gate, found) for gate in gates))
    document = diff_document(compared)
    if junit is not None:
        Output("xml", junit, output.force, output.quiet).write(_junit(compared))
    if github:
        _summarise(document, output)
    tripped = [f"tripped: {each.gate.text} ({gate_values(each)})" for each in compared.outcomes if each.tripped]
    output.show(document, remarks=tripped)
    if tripped:
        sys.exit(TRIPPED)


def _sides(
    before: str, after: str | None, wanted: Selection, limits: Limits, output: Output
) -> tuple[RunSide, RunSide | None]:
    """The two sides as the user names them; the first alone where there is no second."""
    tell = output.progress
    if after is None:
        return Sides(wanted, tell, limits).read(before), None
    return like_sides(lambda asked: _read(Sides(asked, tell, limits), before, after), wanted)


def _read(sides: Sides, before: str, after: str) -> tuple[RunSide, RunSide]:
    return sides.read(before), sides.read(after)


def _junit(compared: Compared) -> str:
    """A case per gate, and one for the verdict, which fails nothing by itself."""
    found: Diff = compared.diff
    cases = [Case("verdict", verdict_text(found))]
    for each in compared.outcomes:
        said = f"{each.gate.text}: {gate_values(each)}, {gate_result(each)}"
        cases.append(Case(each.gate.text, said, said if each.tripped else ""))
    return junit_xml(f"gpuledger diff {found.before.name} {found.after.name}", cases)


def _summarise(document: Document, output: Output) -> None:
    target = os.environ.get(_SUMMARY)
    if not target:
        if not output.quiet:
            click.echo(f"note: ${_SUMMARY} is not set, so there is no summary to append to", err=True)
        return
    try:
        with Path(target).open("ab") as file:  # other steps may have written there too, so it is never replaced
            file.write(f"{write(document, 'md')}\n".encode(errors="backslashreplace"))
    except OSError as error:
        raise OutputRefused(f"{target}: cannot be written: {(error.strerror or str(error)).lower()}") from None
