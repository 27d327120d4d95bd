"""A guard against getting slower: small inputs, and a fixed piece of work of the same minute to hold the times against.

What counts is processor time, of all processes of a command, over that of the reference: a neighbour on the machine
makes both wait, and neither count more. And the time on the clock, over that of the reference: waiting costs no
processor. The least of several rounds counts, and commands take turns. CI runs this: see .ci/run.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.inputs import HERE, export_of, trace_of
from harness.measure import Command, Failed, once

EXPECTED: Final = HERE / "expected.json"
KERNELS: Final = 200_000
EVENTS: Final = 50_000
ROUNDS: Final = 5
LIMIT_S: Final = 120.0
ROOM: Final = 1.3


@dataclass(frozen=True, slots=True)
class Guarded:
    """One task: its processor time and its time on the clock over the reference's, now and as stored."""

    task: str
    cpu_s: float
    ratios: tuple[float, float]
    expected: tuple[float, float] | None
    room: float

    @property
    def is_slower(self) -> bool:
        return self.expected is not None and any(
            now > stored * self.room for now, stored in zip(self.ratios, self.expected, strict=True)
        )

    @property
    def said(self) -> str:
        cpu, clock = self.ratios
        found = f"{self.task}: {self.cpu_s:.2f} s of CPU, {cpu:.2f} x the reference and {clock:.2f} x on the clock"
        if self.expected is None:
            return f"{found}; nothing stored to compare with"
        is_faster = all(now * self.room < stored for now, stored in zip(self.ratios, self.expected, strict=True))
        verdict = "SLOWER" if self.is_slower else "much faster" if is_faster else "as before"
        return f"{found}, stored {self.expected[0]:.2f} x and {self.expected[1]:.2f} x: {verdict}"


def commands(export: Path, trace: Path) -> dict[str, Command]:
    """What is guarded."""
    ours, cold = (sys.executable, "-m", "gpuledger"), (("GPULEDGER_CACHE", "0"),)
    tables = "--report=cuda_gpu_kern_sum,cuda_api_sum,nvtx_sum"
    return {
        "start": Command((*ours, "--version"), cold),
        "report of an export": Command((*ours, "report", str(export), "--format=json"), cold),
        "three tables of an export": Command((*ours, "stats", str(export), tables, "--format=csv"), cold),
        "report of a torch trace": Command((*ours, "report", str(trace), "--format=json"), cold),
    }


def reference(export: Path) -> Command:
    """The fixed piece of work."""
    return Command((sys.executable, str(HERE / "programs" / "reference.py"), str(export)))


def fastest(all_of: dict[str, Command], rounds: int) -> dict[str, tuple[float, float]]:
    """The least processor time and time on the clock of each. They take turns: a busy moment meets all of them."""
    least: dict[str, tuple[float, float]] = {}
    for _ in range(rounds):
        for name, command in all_of.items():
            run = once(command, LIMIT_S)
            if isinstance(run, Failed):
                raise SystemExit(f"error: {name}: {run.reason}")
            cpu_s, wall_s = least.get(name, (run.cpu_s, run.wall_s))
            least[name] = min(run.cpu_s, cpu_s), min(run.wall_s, wall_s)
    return least


def guard(
    work: Path, *, kernels: int = KERNELS, events: int = EVENTS, rounds: int = ROUNDS, expected: Path = EXPECTED
) -> list[Guarded]:
    """Measure, and compare with what is stored."""
    export, trace = export_of(kernels, work), trace_of(events, work)
    least = fastest({"": reference(export), **commands(export, trace)}, rounds)
    base = least.pop("")
    stored: dict[str, Any] = json.loads(expected.read_text()) if expected.exists() else {"room": ROOM, "ratios": {}}
    known = {name: tuple(ratios) for name, ratios in stored["ratios"].items()}
    return [
        Guarded(name, cpu_s, (cpu_s / base[0], wall_s / base[1]), known.get(name), stored["room"])
        for name, (cpu_s, wall_s) in least.items()
    ]


def store(found: list[Guarded], expected: Path = EXPECTED) -> None:
    """Take what was found for what is expected from now on."""
    room = found[0].room if found else ROOM
    ratios = {each.task: [round(ratio, 3) for ratio in each.ratios] for each in found}
    expected.write_text(json.dumps({"room": room, "ratios": ratios}, indent=2) + "\n")
