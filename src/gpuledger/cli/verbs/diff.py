"""`gpuledger diff`: did the change help, by how much, and why; and may it be merged.

A side is what the user names: a profile, several runs, a baseline, or tables of `nsys stats`. What compares them is
imported when no kept answer does for it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from msgspec.structs import replace

from gpuledger.cli.inputs import files, limit_option, rank_step_options, regex_option, undecided_option
from gpuledger.cli.main import load
from gpuledger.cli.output import Output, page_options
from gpuledger.errors import OutputRefused
from gpuledger.limits import Limits
from gpuledger.selection import Selection
from gpuledger.system.files import refuse_existing

if TYPE_CHECKING:
    from gpuledger.analyse.diff.gate import DiffGate
    from gpuledger.answers.several_profiles import Compared
    from gpuledger.present.document import Document

TRIPPED = 3  # the exit code where a gate tripped

_SUMMARY = "GITHUB_STEP_SUMMARY"
_FILE = click.Path(path_type=Path, dir_okay=False)


def _gates(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[DiffGate, ...]:
    if not values:
        return ()
    gate = load("gpuledger.analyse.diff.gate")
    try:
        return tuple(gate.parse_gate(text) for text in values)
    except gate.BadExpression as error:
        raise click.BadParameter(f"{error}\n\n{gate.GRAMMAR}") from None


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
@undecided_option
@click.option("--junit", type=_FILE, metavar="FILE", help="Write the gates and the verdict as JUnit XML.")
@click.option("--github", is_flag=True, help=f"Append the result as Markdown to ${_SUMMARY}, where that is set.")
@click.option("--comment", is_flag=True, help="Write Markdown for a comment on a pull request: verdict, parts, places.")
@click.option(
    "--save-baseline", "baseline", type=_FILE, metavar="FILE", help="Save BEFORE alone, to compare with later."
)
@regex_option("--control", said="Ranges whose code did not change. Default: found by their calls.")
@click.option(
    "--anyway", is_flag=True, help="Compare even if the two are unlike: another GPU, other kernels, no steps."
)
@rank_step_options
@limit_option
@page_options
def diff(
    before: str,
    after: str | None,
    gates: tuple[DiffGate, ...],
    undecided: Literal["fail", "pass"],
    junit: Path | None,
    github: bool,
    comment: bool,
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
    communication and copies, idle time by what set it off. Steps are resampled for an interval; a difference inside
    the noise is called no change.

    \b
    Gates (--fail-on) are WHAT[:REGEX]>LIMIT:
      WHAT   step, compute, comm, copy, idle[:CAUSE], family:REGEX,
             kernel:REGEX, range:REGEX, call:REGEX (time);
             launches (a count); copied, memory (bytes)
      LIMIT  a number with %, ns, us, ms, s, B, kB, MB or GB behind it
    A gate fails if the whole interval of the change is beyond the limit,
    passes if the whole is within, and is undecided else.

    \b
    Examples:
      gpuledger diff before.sqlite after.sqlite
      gpuledger diff 'before/*.sqlite' 'after/*.sqlite' -o diff.html
      gpuledger diff timed.json
      gpuledger diff run.sqlite --save-baseline=base.json
      gpuledger diff base.json run.sqlite --fail-on='step>2%' --junit=diff.xml
      gpuledger diff base.json run.sqlite --fail-on='step>2%' --comment
    """
    load("gpuledger.verbs.diff")
    from gpuledger.analyse.diff.compare import compare
    from gpuledger.analyse.diff.gate import outcome
    from gpuledger.answers.several_profiles import Compared
    from gpuledger.present.views.diff.document import diff_document
    from gpuledger.present.views.diff.tables import gate_values
    from gpuledger.verbs.diff import pair_of_timings, read_sides

    pair = pair_of_timings(before, limits) if after is None and baseline is None else None
    if pair is None and (after is None) == (baseline is None):
        raise click.UsageError("give BEFORE and AFTER, or one profile with --save-baseline=FILE.")
    if baseline is not None and (gates or junit or github):
        raise click.UsageError("a baseline alone is compared with nothing: give gates when you compare with it.")
    for target in (junit, baseline):
        if target is not None and target.exists() and not output.force:
            raise refuse_existing(target)
    if baseline is not None:
        _save(baseline, before, wanted, limits, output)
        return
    changed = compare(
        *(pair or read_sides(before, after or "", wanted, limits, output.progress)), anyway=anyway, control=control
    )
    compared = Compared(changed, tuple(outcome(gate, changed, undecided=undecided) for gate in gates))
    document = diff_document(compared)
    if junit is not None:
        Output("xml", junit, output.force, output.quiet).write(_junit(compared))
    if github:
        _summarise(document, output)
    if comment:
        document = _comment(compared, undecided)
        output = replace(output, format="md")
    tripped = [f"{each.verdict}: {each.gate.text} ({gate_values(each)})" for each in compared.outcomes if each.tripped]
    output.show(document, remarks=tripped)
    if tripped:
        sys.exit(TRIPPED)


def _comment(compared: Compared, undecided: Literal["fail", "pass"]) -> Document:
    """Where no gate was given, what became of the step is the verdict."""
    from gpuledger.analyse.diff.gate import outcome, parse_gate
    from gpuledger.present.views.diff.comment import diff_comment

    if not compared.outcomes and compared.diff.verdict is not None:
        compared = replace(compared, outcomes=(outcome(parse_gate("step>0%"), compared.diff, undecided=undecided),))
    return diff_comment(compared)


def _save(baseline: Path, before: str, wanted: Selection, limits: Limits, output: Output) -> None:
    """One side alone, to compare with later."""
    from gpuledger.analyse.diff.baseline import baseline_json
    from gpuledger.json_types import builtins
    from gpuledger.present.writers.json import json_text
    from gpuledger.verbs.diff import Sides

    side = Sides(wanted, output.progress, limits).read(before)
    Output("json", baseline, output.force, output.quiet).write(json_text(builtins(baseline_json(side))))


def _junit(compared: Compared) -> str:
    """A case per gate, and one for the verdict, which fails nothing by itself."""
    from gpuledger.present.views.diff.document import verdict_text
    from gpuledger.present.views.diff.tables import gate_result, gate_values
    from gpuledger.present.writers.junit import Case, junit_xml

    changed = compared.diff
    cases = [Case("verdict", verdict_text(changed))]
    for each in compared.outcomes:
        said = f"{each.gate.text}: {gate_values(each)}, {gate_result(each)}"
        cases.append(Case(each.gate.text, said, said if each.tripped else ""))
    return junit_xml(f"gpuledger diff {changed.before.name} {changed.after.name}", cases)


def _summarise(document: Document, output: Output) -> None:
    from gpuledger.present.writers import write

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
