"""Causes and triggers of gaps against a second computation, microsecond by microsecond, of what the docs define.

Programs are drawn: one thread that launches, waits, allocates, loads and copies, beside calls of the system, and a
second thread that launches now and then. Lengths lie on both sides of each limit, and on it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from gpuledger.ledger.causes import TRIGGERS
from gpuledger.trace.model import Trace
from support.traces.book_checks import analysed
from support.traces.trace_notation import called

US = 1_000
CAUSE_OF = {
    "cudaLaunchKernel": "launch",
    "cudaStreamSynchronize": "sync",
    "cudaMalloc": "alloc",
    "cuModuleLoadData": "load",
    "cudaMemcpyAsync": "copy_call",
    "cudaEventRecord": "call",
    "read": "os",
    "futex": "wait_thread",
}
SYSTEM = ("read", "futex")
ORDER = (
    *("sync", "host_code", "dispatch", "launch", "launch_latency", "load", "context", "alloc", "copy_call", "call"),
    *("os", "wait_thread", "profiler", "turnaround", "unrecorded", "device_wait", "page_migration", "context_switch"),
    *("graph", "lost", "unattributed", "tail"),
)
"""Of causes with equal time the first counts."""


@dataclass
class Call:
    name: str
    start: int
    end: int
    kernel: tuple[int, int] | None = None


@dataclass
class Drawn:
    """What a program did: the calls of its threads, in order, each with its kernel."""

    threads: dict[int, list[Call]] = field(default_factory=dict)

    def launches(self) -> list[tuple[int, int, Call, int]]:
        """Kernels by start: start, end, launch, thread."""
        found = [(*call.kernel, call, tid) for tid, calls in self.threads.items() for call in calls if call.kernel]
        return sorted(found, key=lambda one: one[:2])

    def trace(self) -> Trace:
        lines = []
        for tid, calls in self.threads.items():
            for call in calls:
                ran = "" if call.kernel is None else f" -> s{tid + 7}: {call.kernel[0]}-{call.kernel[1]} k"
                lines.append(f"t{tid}: {call.start}-{call.end} {call.name}{ran}")
        return called(*lines)


def drawn(seed: int) -> Drawn:
    random, program = Random(seed), Drawn()
    for tid in range(random.choice((1, 1, 2))):
        now, busy_until, calls = random.choice((0, 3)) + 40 * tid, 0, list[Call]()
        for _ in range(random.randint(3, 14)):
            now += random.choice((0, 1, 2, 5, 20, 99, 100, 101, 150))
            name = random.choice((*CAUSE_OF, *["cudaLaunchKernel"] * 6, *["cudaStreamSynchronize"] * 2))
            if not calls:
                name = "cudaLaunchKernel"
            length = random.choice((2, 3, 5)) if name == "cudaLaunchKernel" else random.choice((1, 4, 9, 30, 99, 120))
            call = Call(name, now, now + length)
            if name == "cudaLaunchKernel":
                late = random.choice((1, 2, 4, 9, 10, 11, 15))
                begin = max(
                    call.end + late if random.random() < 0.9 else call.start + 1,
                    busy_until + random.choice((1, 2, 10, 11)),
                )
                call.kernel = (begin, begin + random.choice((1, 3, 8, 30, 200)))
                busy_until = call.kernel[1]
            elif name == "cudaStreamSynchronize":
                call.end = max(call.end, busy_until + 1) if random.random() < 0.7 else call.end
            now = call.end
            calls.append(call)
        program.threads[tid] = calls
    return program


@dataclass
class Gap:
    start: int
    end: int
    causes: Counter[str]
    trigger: str


def doing(calls: list[Call], instant: int) -> tuple[str, tuple[int, int] | None]:
    """What a thread is doing in the microsecond from an instant on; of its own code also between which CUDA calls."""
    for call in calls:
        if call.start <= instant < call.end:
            return CAUSE_OF[call.name], None
    cuda = [call for call in calls if call.name not in SYSTEM]
    before = [call.end for call in cuda if call.end <= instant]
    after = [call.start for call in cuda if call.start > instant]
    if not before or not after:
        return "host_code", None
    stretch = (max(before), min(after))
    return ("dispatch" if stretch[1] - stretch[0] < 100 else "host_code"), stretch


def gap_by_hand(program: Drawn, start: int, end: int) -> Gap:
    launches = program.launches()
    _, _, launch, tid = next(one for one in launches if one[0] == end)
    calls, causes = program.threads[tid], Counter[str]()
    has_before = any(one[0] < start for one in launches)
    if launch.end <= start:
        causes["turnaround" if end - start <= 10 else "device_wait"] = end - start
        return Gap(start, end, causes, max(causes))
    led = 0
    loads = [call.start for call in calls if call.name == "cuModuleLoadData"]
    for instant in range(start, end):
        if instant >= launch.end:
            causes["launch_latency" if end - launch.end <= 10 else "device_wait"] += 1
        elif instant >= launch.start:
            causes["launch"] += 1
        else:
            cause, _ = doing(calls, instant)
            causes[cause] += 1
            cuda = [call for call in calls if call.name not in SYSTEM]
            for one, other in pairwise(cuda):
                leads = other.start - one.end >= 100 and any(0 <= load - other.start < 100 for load in loads)
                led += one.end <= instant < other.start and leads
    return Gap(start, end, causes, trigger_by_hand(program, tid, launch, (start, end), causes, led, has_before))


def trigger_by_hand(
    program: Drawn, tid: int, launch: Call, gap: tuple[int, int], causes: Counter[str], led: int, has_before: bool
) -> str:
    calls, length = program.threads[tid], gap[1] - gap[0]
    largest = min(causes, key=lambda cause: (-causes[cause], ORDER.index(cause)))
    around = sum(causes[cause] for cause in ("load", "host_code", "wait_thread", "os"))
    if 2 * causes["load"] > length:
        return "load"
    if causes["load"] and 2 * around > length and 2 * (led + causes["load"]) > length:
        return "load"
    if largest in ("alloc", "os", "wait_thread"):
        return largest
    if 2 * causes["host_code"] > length:
        return largest
    behind = 2 * sum(causes[cause] for cause in ("dispatch", "launch", "call", "launch_latency")) > length
    waits = [call.end for call in calls if call.name == "cudaStreamSynchronize" and call.end <= launch.start]
    if waits and has_before:
        since = [call for call in calls if call.name == "cudaLaunchKernel" and max(waits) <= call.end < launch.start]
        if max(waits) >= gap[0] or (behind and len(since) <= 8):
            return "drained"
    return "behind" if behind else largest


def gaps_by_hand(program: Drawn) -> list[Gap]:
    launches = program.launches()
    reach, gaps = launches[0][2].start, []
    for start, end, _, _ in launches:
        if start > reach:
            gaps.append(gap_by_hand(program, reach, start))
        reach = max(reach, end)
    return gaps


@pytest.mark.parametrize("part", range(8))
def test_gaps_are_what_a_look_at_each_microsecond_says(part: int) -> None:
    seen = Counter[str]()
    for seed in range(40 * part, 40 * part + 40):
        program = drawn(seed)
        if len({one[0] for one in program.launches()}) < len(program.launches()):
            continue  # two kernels that begin at once: either may end the gap
        [device] = analysed(program.trace())
        gaps = device.ledger.gaps
        told = [
            (
                start // US,
                end // US,
                {str(cause): ns // US for cause in gaps.by_cause.used if (ns := int(gaps.by_cause.of(cause)[row]))},
                str(TRIGGERS[int(gaps.trigger[row])]),
            )
            for row, (start, end) in enumerate(zip(gaps.start_ns.tolist(), gaps.end_ns.tolist(), strict=True))
        ]
        by_hand = gaps_by_hand(program)
        assert told == [(gap.start, gap.end, dict(gap.causes), gap.trigger) for gap in by_hand], f"seed {seed}"
        seen.update(gap.trigger for gap in by_hand)
    assert seen.keys() >= {"behind", "drained", "host_code", "turnaround"}
