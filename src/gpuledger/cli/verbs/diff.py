"""`gpuledger diff`: what is done with the answer besides showing it: gates, JUnit, a summary, a comment, a baseline."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec.structs import replace

from gpuledger.cli.main import load
from gpuledger.cli.output import Output
from gpuledger.errors import OutputRefused
from gpuledger.system.files import refuse_existing
from gpuledger.verbs.definition import Option

if TYPE_CHECKING:
    from gpuledger.present.document import Document
    from gpuledger.present.views.compare.diff import DiffAnswer

TRIPPED = 3  # the exit code where a gate tripped

_SUMMARY = "GITHUB_STEP_SUMMARY"


def diff(
    verb: Callable[..., DiffAnswer],
    output: Output,
    *,
    junit: Annotated[Path | None, Option("Write the gates and the verdict as JUnit XML.", metavar="FILE")] = None,
    github: Annotated[bool, Option(f"Append the result as Markdown to ${_SUMMARY}, where that is set.")] = False,
    comment: Annotated[bool, Option("Write Markdown for a comment on a pull request: verdict, parts, places.")] = False,
    baseline: Annotated[
        Path | None, Option("Save BEFORE alone, to compare with later.", "--save-baseline", metavar="FILE")
    ] = None,
    **asked: Any,
) -> None:
    """Show the comparison, save one side of it, or tell other programs of it."""
    load("gpuledger.present.views.compare.diff")
    from gpuledger.present.views.compare.diff_words import gate_values
    from gpuledger.verbs.compared_sides import pair_of_timings

    before, after = asked["before"], asked["after"]
    is_pair = after is None and baseline is None and pair_of_timings(before, asked["limits"]) is not None
    if not is_pair and (after is None) == (baseline is None):
        raise click.UsageError("give BEFORE and AFTER, or one profile with --save-baseline=FILE.")
    if baseline is not None and (asked["gates"] or junit or github):
        raise click.UsageError("a baseline alone is compared with nothing: give gates when you compare with it.")
    for target in (junit, baseline):
        if target is not None and target.exists() and not output.force:
            raise refuse_existing(target)
    if baseline is not None:
        _save(baseline, asked, output)
        return
    if comment and not asked["gates"]:
        asked["gates"] = ("step>0%",)  # what became of the step is the verdict
    answer = verb(**asked)
    document = answer.document()
    if junit is not None:
        Output("xml", junit, output.force, output.quiet).write(_junit(answer))
    if github:
        _summarise(document, output)
    if comment:
        document, output = answer.comment(), replace(output, format="md")
    tripped = [f"{gate.verdict}: {gate.gate} ({gate_values(gate)})" for gate in answer.gates if gate.tripped]
    output.show(document, remarks=tripped)
    if tripped:
        sys.exit(TRIPPED)


def _save(baseline: Path, asked: dict[str, Any], output: Output) -> None:
    """One side alone, to compare with later."""
    from gpuledger.analyse.diff.baseline import baseline_content
    from gpuledger.verbs.compared_sides import Sides

    side = Sides(asked["wanted"], output.progress, asked["limits"]).read(asked["before"])
    Output("json", baseline, output.force, output.quiet).write(baseline_content(side).decode())


def _junit(answer: DiffAnswer) -> str:
    """A case per gate, and one for the verdict, which fails nothing by itself."""
    from gpuledger.present.views.compare.diff_words import gate_text
    from gpuledger.present.writers.junit import Case, junit_xml

    cases = [Case("verdict", answer.sentences[0])]
    for gate in answer.gates:
        said = gate_text(gate)
        cases.append(Case(gate.gate, said, said if gate.tripped else ""))
    return junit_xml(f"gpuledger diff {answer.before.name} {answer.after.name}", cases)


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
