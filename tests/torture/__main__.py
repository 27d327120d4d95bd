"""`make torture`: profiles broken in every way we know, and whether each is read the same, told as lost, or refused.

    python -m torture [--quick] [--minutes=N] [--seed=N] [--testers=N] [--keep=FOLDER]

Several testers work side by side, each on cases that chance gives: structure and values of every capture changed,
recordings that cannot be true, bombs at growing sizes, kills at any moment, no room to write, damaged caches, two calls
at once, calls that try to stop a server, another user who looks. What counts as a result is said in `oracle`. At the
end: how many cases, and how many crashed, hung, were wrong, or took time or memory by the square of their size. What
went wrong is kept in a folder, with the file and the seed; so are the counts, every minute, in `counts.json`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from torture import breaks, caches, damage, growth, kills, reports, servers, users, values
from torture.bench import BAD, Bench, Verdict

_EVERY_S: Final = 60
"""How often it is said how far it is."""


class _Results(Protocol):
    """A queue of what testers find; each puts None when it ends."""

    def put(self, case: Verdict | None, /) -> None: ...
    def get(self) -> Verdict | None: ...


@dataclass(frozen=True, slots=True)
class Way:
    """A way to break things: its cases, and how often it comes up."""

    name: str
    cases: Callable[[Bench], Iterator[Verdict]]
    weight: float


WAYS: Final = (
    Way("structure", breaks.cases, 10),
    Way("values", values.cases, 10),
    Way("damage", damage.cases, 10),
    Way("reports", reports.cases, 10),
    Way("kills", kills.killed, 2),
    Way("no room", kills.without_room, 2),
    Way("cache", caches.flipped, 2),
    Way("two at once", caches.two_at_once, 0.5),
    Way("bombs", growth.cases, 0.15),
    *((Way("server", servers.cases, 0.15),) if servers.can_try() else ()),
    *((Way("another user", users.cases, 0.05),) if users.can_try() else ()),
)


def main() -> int:
    options = argparse.ArgumentParser(prog="torture", description=(__doc__ or "").splitlines()[0])
    options.add_argument("--quick", action="store_true", help="a minute, not an hour")
    options.add_argument("--minutes", type=float, help="another time")
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--testers", type=int, default=os.cpu_count() or 1)
    options.add_argument("--keep", type=Path, default=Path("build/torture"), help="where finds are kept")
    asked = options.parse_args()
    ends = time.monotonic() + 60 * (asked.minutes or (1 if asked.quick else 60))
    context = multiprocessing.get_context("fork")
    results: multiprocessing.Queue[Verdict | None] = context.Queue()
    testers = [
        context.Process(target=_test, args=(f"{asked.seed}-{number}", ends, results)) for number in range(asked.testers)
    ]
    for tester in testers:
        tester.start()
    counts = _gathered(results, len(testers), _Kept(asked.keep, asked.seed))
    for tester in testers:
        tester.join()
    _tell(counts, asked.seed)
    return 1 if any(counts[verdict] for verdict in BAD) else 0


def _test(seed: str, ends: float, results: _Results) -> None:
    """One tester: cases of all ways, as chance gives them, until the time is over."""
    try:
        with tempfile.TemporaryDirectory(prefix="torture-") as folder:
            bench = Bench(Path(folder), random.Random(seed))
            cases = {way.name: way.cases(bench) for way in WAYS}
            while time.monotonic() < ends:
                [way] = bench.chance.choices(WAYS, [way.weight for way in WAYS])
                try:
                    case = next(cases[way.name])
                except Exception:  # the tester's own: it is a find too, and the others go on
                    case = Verdict(f"{way.name}: the tester itself", "crash", traceback.format_exc())
                    cases[way.name] = way.cases(bench)
                if case.verdict in BAD and case.file is not None:
                    case = _aside(case)
                results.put(replace(case, way=way.name))
            bench.server.close()
    finally:
        results.put(None)


def _aside(case: Verdict) -> Verdict:
    """The same with a copy of its file, as the next case writes over it."""
    assert case.file is not None
    copy = Path(tempfile.mkdtemp(prefix="torture-find-")) / case.file.name
    (shutil.copytree if case.file.is_dir() else shutil.copyfile)(case.file, copy)
    return replace(case, file=copy)


class _Kept:
    """The folder of finds: what was wrong, a line each, and the files that show it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder, self._seed, self._count = folder, seed, 0

    def add(self, case: Verdict) -> None:
        self._count += 1
        self._folder.mkdir(parents=True, exist_ok=True)
        name = None
        if case.file is not None:
            name = f"{self._seed}-{self._count}-{case.file.name}"
            shutil.move(case.file, self._folder / name)
        find = {"seed": self._seed, "verdict": case.verdict, "case": case.case, "file": name, "said": case.detail}
        with (self._folder / "finds.jsonl").open("a") as file:
            file.write(json.dumps(find) + "\n")

    def count(self, counts: Counter[str], ways: Counter[str], seconds: float) -> None:
        """Write down how many cases there were so far: what is killed has its counts too."""
        self._folder.mkdir(parents=True, exist_ok=True)
        bad = {verdict: counts[verdict] for verdict in BAD}
        told = {"seed": self._seed, "seconds": round(seconds), "cases": counts.total(), "failures": sum(bad.values())}
        (self._folder / "counts.json").write_text(
            json.dumps(told | {"verdicts": bad | dict(counts), "ways": ways}) + "\n"
        )


def _gathered(results: _Results, testers: int, kept: _Kept) -> Counter[str]:
    counts, ways = Counter[str](), Counter[str]()
    begun = told = time.monotonic()
    while testers:
        case = results.get()
        if case is None:
            testers -= 1
        else:
            counts[case.verdict] += 1
            ways[case.way] += 1
        if case is not None and case.verdict in BAD:
            kept.add(case)
            sys.stderr.write(f"{case.verdict}: {case.case}\n")
        if not testers or time.monotonic() > told + _EVERY_S:
            told = time.monotonic()
            kept.count(counts, ways, told - begun)
            sys.stderr.write(f"{counts.total()} cases in {told - begun:.0f} s\n")
    return counts


def _tell(counts: Counter[str], seed: int) -> None:
    good = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()) if verdict not in BAD)
    bad = ", ".join(f"{counts[verdict]} {verdict}" for verdict in BAD)
    sys.stdout.write(f"{counts.total()} cases, seed {seed}: {good}\n{bad}\n")


if __name__ == "__main__":
    sys.exit(main())
