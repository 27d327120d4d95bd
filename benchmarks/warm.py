"""Is the second answer there at once? Every verb that reads, asked twice, at growing sizes.

    .venv/bin/python benchmarks/warm.py                          # 0.1 M and 1 M kernels, all verbs
    .venv/bin/python benchmarks/warm.py --sizes 1e6,5e6 --only report gaps

Per task: seconds of the first and of the second call, and the second's processor time as a multiple of what
`gpuledger --version` takes in the same minute, which is what starting takes: the machine's speed drops out. It fails
where the second answer takes more than `MOST` times that, or differs from the first by a byte.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Final

from growth import OURS, asked_for, tasks
from harness.measure import Command, Failed, Measured, Pace, measured, once

MOST: Final = 3.0
"""A kept answer takes about twice what starting takes; one that is not kept, ten times and more."""
LIMIT_S: Final = 600.0
SECOND: Final = Pace(runs=3, limit_s=LIMIT_S, looks_at_memory=False)
NOT_KEPT: Final = ("export",)
"""What writes a file of the user's choice, not an answer: it is written again when asked again."""


def asked_twice(argv: tuple[str, ...], env: tuple[tuple[str, str], ...]) -> tuple[Measured, Measured] | Failed:
    """The first call, and the fastest of some after it."""
    first = once(Command((*OURS, *argv), env), LIMIT_S)
    second = measured(Command((*OURS, *argv), env), SECOND)
    if isinstance(first, Failed) or isinstance(second, Failed):
        return first if isinstance(first, Failed) else second
    return first, second


def main() -> None:
    """Measure, print, and fail where a second answer is late or another one."""
    exports, only, work = asked_for(__doc__)
    wrong = list[str]()
    for kernels, export in exports.items():
        for task, argv in tasks(export, work).items():
            if task.startswith(NOT_KEPT) or not task.startswith(only):
                continue
            with tempfile.TemporaryDirectory(dir=work) as cache:
                start = measured(Command((*OURS, "--version")), SECOND)
                both = asked_twice(argv, (("XDG_CACHE_HOME", cache),))
            if isinstance(start, Failed) or isinstance(both, Failed):
                wrong.append(f"{task}, {kernels:,} kernels: {both}")
                continue
            first, second = both
            ratio = second.cpu_s / start.cpu_s
            print(
                f"{task:16} {kernels:>10,} first {first.wall_s:6.2f} s {first.cpu_s:6.2f} s CPU   "
                f"second {second.wall_s:5.2f} s {second.cpu_s:5.2f} s CPU, {ratio:4.1f} x the start",
                flush=True,
            )
            if ratio > MOST:
                wrong.append(f"{task}, {kernels:,} kernels: the second answer takes {ratio:.1f} x the start")
            if second.output != first.output:
                wrong.append(f"{task}, {kernels:,} kernels: the second answer is another one")
    print("\n".join(f"error: {line}" for line in wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
