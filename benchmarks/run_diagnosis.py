"""gpuledger and nsys-ai on the diagnosis benchmark: both asked, both scored, one table.

    python benchmarks/run_diagnosis.py                 nsys-ai is installed in an environment of its own; ten minutes
    python benchmarks/run_diagnosis.py --kept          the answers that are kept, scored again; a second
    python benchmarks/run_diagnosis.py --write-docs    and put the tables on docs/concepts/diagnosis-benchmark.md

Answers are kept in benchmarks/diagnosis_answers/. What counts: docs/concepts/diagnosis-benchmark.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from harness import nsys_ai_answers, peers

from gpuledger.diagnosis.cases import DiagnosisBenchmark, answers_at, diagnosis_benchmark
from gpuledger.diagnosis.score import ScoreTally, ToolScore, tool_score

HERE = Path(__file__).parent
ROOT = HERE.parent
KEPT = HERE / "diagnosis_answers"
PAGE = ROOT / "docs" / "concepts" / "diagnosis-benchmark.md"
TOOLS = ("gpuledger", *nsys_ai_answers.WAYS)
BEGIN = "<!-- {part}: from here to the end mark, `python benchmarks/run_diagnosis.py --write-docs` writes -->"
END = "<!-- {part}: end -->"


def kept_at(tool: str) -> Path:
    """The file of a tool's answers."""
    return KEPT / f"{tool.replace(' ', '-')}.json"


def ask_all(work: Path) -> None:
    """Ask both tools of all captures, and keep what they say."""
    KEPT.mkdir(exist_ok=True)
    command = ["bench", "diagnosis", f"--write-answers={kept_at('gpuledger')}", "--force", "--quiet", "--format=json"]
    subprocess.run([sys.executable, "-m", "gpuledger", *command], check=True, stdout=subprocess.DEVNULL)
    ours = json.loads(kept_at("gpuledger").read_text())
    kept_at("gpuledger").write_text(f"{json.dumps(ours | {'version': released(ours['version'])}, indent=1)}\n")
    peers.install(work, say, (peers.NSYS_AI,))
    peer = peers.found(work)[peers.NSYS_AI]
    if peer.program is None:
        sys.exit("nsys-ai could not be installed")
    for tool, cases in nsys_ai_answers.answers(peer.program, peers.home(work), ROOT / "captures", say).items():
        document: dict[str, Any] = {"schema": "gpuledger.diagnosis-answers/1", "tool": tool, "version": peer.version}
        kept_at(tool).write_text(f"{json.dumps({**document, 'cases': cases}, indent=1)}\n")


def released(version: str) -> str:
    """The release that a checkout is on the way to."""
    return version.partition(".dev")[0]


def say(text: str) -> None:
    """What goes on, for people who wait."""
    print(text, file=sys.stderr, flush=True)


def scores(benchmark: DiagnosisBenchmark) -> list[ToolScore]:
    """Each tool's score by the answers that are kept."""
    return [tool_score(benchmark, answers_at(kept_at(tool), benchmark)) for tool in TOOLS]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Markdown; so many columns are words."""
    rule = ["---" if at < left else "--:" for at in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *rows))


def tally_cells(total: ScoreTally) -> tuple[str, ...]:
    """The counts of one row."""
    error = "–" if total.median_error is None else f"{100 * total.median_error:.1f} %"
    within, claimed = f"{total.savings_within} of {total.measured}", f"{total.claimed} of {total.controls}"
    first, three, area = (f"{count} of {total.faults}" for count in (total.first, total.in_first_three, total.area))
    return (first, three, area, within if total.measured else "–", error, claimed if total.controls else "–")


TALLY = ("named first", "in first 3", "right area", "saving within 25 %", "median error", "false claims")

FIRST_WITHIN_CLAIMED = itemgetter(0, 3, 5)


def docs_part(benchmark: DiagnosisBenchmark, found: Sequence[ToolScore]) -> str:
    """The tables of the page: tools, and groups of programs."""
    by_group = [{row.group: row for row in score.groups} for score in found]
    groups = [
        (
            group.id,
            group.seen,
            *(", ".join(FIRST_WITHIN_CLAIMED(tally_cells(rows[group.id]))) for rows in by_group),
        )
        for group in benchmark.groups
    ]
    return "\n\n".join(
        (
            table(("tool", *TALLY), [(score.name, *tally_cells(score.total)) for score in found], 1),
            "By group: named first, savings within 25 %, false claims. *Our rules*: whether they were made on it.",
            table(("group", "our rules", *(score.tool for score in found)), groups, 2),
        )
    )


def summary(benchmark: DiagnosisBenchmark, found: Sequence[ToolScore]) -> str:
    """The answer, in a few sentences."""
    told = []
    for score in found:
        total = score.total
        told.append(
            f"{score.name} names the fault first in {total.first} of {total.faults} programs, with a saving within "
            f"25 % in {total.savings_within} of {total.measured}, and makes false claims of {total.claimed} of "
            f"{total.controls} controls."
        )
    new, names = found[0].of_cases(benchmark.unseen), ", ".join(benchmark.unseen)
    return " ".join(told) + (
        f" Our number is in sample: of the {new.faults} programs that no rule was made on ({names}), {new.first} are "
        f"named and {new.savings_within} of {new.measured} savings are within 25 %."
    )


def page_with(text: str, part: str, content: str) -> str:
    """A page with this between the markers of a part."""
    begin, end = BEGIN.format(part=part), END.format(part=part)
    before, _, rest = text.partition(begin)
    if end not in rest:
        sys.exit(f"the page has no {begin} and {end}")
    return f"{before}{begin}\n\n{content}\n\n{end}{rest.partition(end)[2]}"


def written(page: str) -> str:
    """A page with what the kept answers score."""
    benchmark = diagnosis_benchmark()
    found = scores(benchmark)
    return page_with(page_with(page, "summary", summary(benchmark, found)), "score", docs_part(benchmark, found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", action="store_true", help="ask nobody: score the answers that are kept")
    parser.add_argument("--write-docs", action="store_true", help="replace the tables of the page")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER")
    options = parser.parse_args()
    if not options.kept:
        ask_all(options.work)
    if options.write_docs:
        PAGE.write_text(written(PAGE.read_text()))
    files = [f"--answers={kept_at(tool)}" for tool in TOOLS]
    subprocess.run([sys.executable, "-m", "gpuledger", "bench", "diagnosis", *files], check=True)


if __name__ == "__main__":
    main()
