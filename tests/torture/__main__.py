"""`make torture`: profiles broken in every way we know, and whether each is read the same, told as lost, or refused.

    python -m torture [--quick] [--seed=N] [--minutes=N]

Takes captures of the repository, drops, renames, nulls and empties each table and column, and shuffles rows; and bombs
at growing sizes, of which the exponent of the time is fitted. Each case is a process with bounds on time and memory.
The oracle: exit code 0, books that sum to the window, and what is other than in the whole profile is told in its health
or as not measured; or exit code 1 with one `error:` sentence that is no internal error. What differs in silence is
listed: a column that only some number needs may be missed without harm, so it is for people to judge.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from torture.bombs import BOMBS, Bomb
from torture.breaks import broken_captures
from torture.growth import exponent
from torture.tried import BAD, judged, ran

_WORST_EXPONENT = 1.7
"""Of times that are mostly a process's start; those that grow with the square come near 2 at these sizes."""


def main() -> int:
    options = argparse.ArgumentParser(prog="torture", description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="a minute, as in CI")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--minutes", type=float)
    asked = options.parse_args()
    ends = time.monotonic() + 60 * (asked.minutes or (1 if asked.quick else 60))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for bomb in BOMBS:
            for verb in bomb.verbs[: 1 if asked.quick else None]:
                if time.monotonic() > ends - (30 if asked.quick else 0):
                    break
                _tell(counts, _grows(bomb, verb, Path(folder)), f"{bomb.name}: {verb[0]}")
        for name, whole, broken in broken_captures(Path(folder), asked.seed):
            if time.monotonic() > ends:
                break
            _tell(counts, judged(whole, ran(("report", str(broken), "--format=json"))), name)
            broken.unlink()
    sys.stdout.write(
        ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) + f"; seed {asked.seed}\n"
    )
    return 1 if any(counts[verdict] for verdict in (*BAD, "square")) else 0


def _grows(bomb: Bomb, verb: tuple[str, ...], folder: Path) -> str:
    """`in proportion` or `square`, or how a run went wrong."""
    times = []
    for factor in (1, 4):
        where = folder / "bomb"
        where.mkdir(exist_ok=True)
        path = bomb.put(where, factor * bomb.size)
        outcome = ran(tuple(str(path) if word == "FILE" else word for word in verb))
        path.unlink()
        if outcome.verdict in BAD:
            return outcome.verdict
        times.append(outcome.cpu_s)
    return "square" if exponent((1, 4), (times[0], times[1])) > _WORST_EXPONENT else "in proportion"


def _tell(counts: Counter[str], verdict: str, what: str) -> None:
    counts[verdict] += 1
    if verdict in (*BAD, "square", "silent"):
        sys.stderr.write(f"{verdict}: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
