"""Us and our peers on the same inputs, with time, memory, and whether the answers agree.

    python benchmarks/run.py                                     1 M and 5 M kernels, 200 k and 2 M events
    python benchmarks/run.py --install-peers                     the same, with nsys-ai and HolisticTraceAnalysis
    python benchmarks/run.py --sizes=1000000 --only report       one size, one contest
    python benchmarks/run.py --write docs/performance.md         and put the table on that page
    python benchmarks/run.py --quick                             are we slower than before? exit 1 if so

Inputs and virtual environments are kept in the work folder. Contests: start, stats, report, table, warm, open,
replay, torch.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness import machine, page, peers, quick
from harness.aims import aims
from harness.books import books_of
from harness.contests import Contest, Place, nsys_contests, start_contest, torch_contest
from harness.inputs import HERE, export_of, trace_of
from harness.measure import Failed, Pace
from harness.results import Bench, Row, disagreements

NAMES = ("start", "stats", "report", "table", "warm", "open", "replay", "torch")
OF_EXPORTS = ("stats", "report", "table", "warm", "open", "replay")


def parser() -> argparse.ArgumentParser:
    """What can be asked for."""

    def number(text: str) -> int:
        return int(float(text))  # 5e6 is easier to get right than 5000000

    def sizes(text: str) -> list[int]:
        return sorted(number(part) for part in text.split(","))

    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--quick", action="store_true", help="small inputs against a reference task and stored ratios")
    found.add_argument("--store", action="store_true", help="with --quick: take the ratios found for those expected")
    found.add_argument("--sizes", type=sizes, default=[1_000_000, 5_000_000], help="kernels, e.g. 1e6,5e6,20e6")
    found.add_argument("--events", type=sizes, default=[200_000, 2_000_000], help="events of torch traces")
    found.add_argument("--only", nargs="+", choices=NAMES, default=list(NAMES), metavar="NAME", help="some contests")
    found.add_argument("--peers-up-to", type=number, default=5_000_000, metavar="KERNELS", help="above, we run alone")
    found.add_argument("--runs", type=int, default=3, help="the fastest of so many counts")
    found.add_argument("--limit", type=float, default=1800.0, metavar="SECONDS", help="the most that one run may take")
    found.add_argument("--write", type=Path, metavar="PAGE", help="replace the measured part of this page")
    found.add_argument("--work", type=Path, default=HERE.parent / "build" / "bench", metavar="FOLDER")
    found.add_argument("--nsys", type=Path, metavar="PATH", help="an nsys that is not where it is usually")
    found.add_argument("--install-peers", action="store_true", help="make virtual environments with the peers of PyPI")
    return found


def contests(options: argparse.Namespace, place: Place) -> Iterator[Contest]:
    """What is asked for; each input is made when its turn comes."""
    if "start" in options.only:
        yield start_contest()
    for kernels in options.sizes if set(OF_EXPORTS) & set(options.only) else []:
        export = export_of(kernels, place.work)
        for contest in nsys_contests(export, kernels, books_of(export), place):
            if contest.name in options.only:
                yield contest if kernels <= options.peers_up_to else without_peers(contest)
    for events in options.events if "torch" in options.only else []:
        yield torch_contest(trace_of(events, place.work), events, place)


def without_peers(contest: Contest) -> Contest:
    """What remains of a contest on an input that is only for us: how we grow, and the floor."""
    names = tuple(peers.ALL)
    return replace(contest, others=tuple(each for each in contest.others if not each.program.startswith(names)))


def about(options: argparse.Namespace, place: Place, load: str) -> list[str]:
    """How the figures came about. Folders of this machine are left out."""
    there = [", ".join([peer.full_name, *peer.beside]) for peer in place.peers.values() if peer.program]
    only = [] if options.only == list(NAMES) else [f"--only {' '.join(options.only)}"]
    asked = [f"--sizes={','.join(map(str, options.sizes))}", f"--events={','.join(map(str, options.events))}", *only]
    lines = [
        f"Machine: {machine.machine()}{f'; {load}' if load else ''}.",
        f"Versions: {'; '.join([*machine.versions(), *there])}.",
        f"Command: `python benchmarks/run.py {' '.join(asked)} --runs={options.runs}`.",
    ]
    if max(options.sizes) > options.peers_up_to:
        lines.append(f"Above {options.peers_up_to:,} kernels we run alone (`--peers-up-to`).")
    missing = [peer.name for peer in place.peers.values() if not peer.program]
    return [*lines, f"Not installed: {', '.join(missing)}."] if missing else lines


def compare(options: argparse.Namespace) -> int:
    """The whole comparison."""
    if options.install_peers:
        peers.install(options.work, say)
    place, load = Place(options.work, peers.found(options.work, options.nsys)), machine.load()
    if load:
        say(f"{load}; times will be poor")
    bench, rows = Bench(Pace(options.runs, options.limit)), list[Row]()
    for contest in contests(options, place):
        for row in bench.rows(contest):
            rows.append(row)
            say(" ".join(page.cells(row)[:3]) + (f" {row.outcome.reason}" if isinstance(row.outcome, Failed) else " s"))
    shutil.rmtree(place.work / "cache", ignore_errors=True)  # what warm runs found; it is made anew every time
    lines = about(options, place, load)
    print("\n".join([*lines, "", page.text_table(rows), "", *page.aim_lines(aims(rows))]))
    if options.write:
        page.write(options.write, page.measured_part(rows, lines))
        say(f"Wrote {options.write}")
    wrong = disagreements(rows)
    ours_failed = any(row.is_ours and isinstance(row.outcome, Failed) for row in rows)
    for line in wrong:
        say(f"error: answers differ: {line}")
    return 1 if wrong or ours_failed else 0


def check(options: argparse.Namespace) -> int:
    """The guard."""
    found = quick.guard(options.work)
    print("\n".join(each.said for each in found))
    if options.store:
        quick.store(found)
        say(f"Wrote {quick.EXPECTED.name}")
        return 0
    return 1 if any(each.is_slower for each in found) else 0


def say(line: str) -> None:
    """Whatever is not a result."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run it; 0 done, 1 slower, wrong or failed."""
    options = parser().parse_args(arguments)
    if options.write:
        try:
            page.replaced(options.write.read_text(), "")
        except (OSError, page.NoMarkers) as error:
            say(f"error: {options.write}: {error}")
            return 1
    machine.compile_package()
    return check(options) if options.quick else compare(options)


if __name__ == "__main__":
    sys.exit(main())
