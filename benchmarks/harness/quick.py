"""A guard against getting slower: small inputs, and a fixed piece of work of the same minute to hold the times against.

What counts is processor time, of all processes of a command, over that of the reference: a neighbour on the machine
makes both wait, and neither count more. The stored ratios are from one machine, so there is generous room.
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
ROUNDS: Final = 3
LIMIT_S: Final = 120.0
ROOM: Final = 2.0


@dataclass(frozen=True, slots=True)
class Guarded:
    """One task: processor time over the reference's, now and as stored."""

    task: str
    cpu_s: float
    ratio: float
    expected: float | None
    room: float

    @property
    def is_slower(self) -> bool:
        return self.expected is not None and self.ratio > self.expected * self.room

    @property
    def said(self) -> str:
        found = f"{self.task}: {self.cpu_s:.2f} s of CPU, {self.ratio:.2f} x the reference"
        if self.expected is None:
            return f"{found}; nothing stored to compare with"
        verdict = (
            "SLOWER" if self.is_slower else "much faster" if self.ratio * self.room < self.expected else "as before"
        )
        return f"{found}, stored {self.expected:.2f} x: {verdict}"


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


def fastest(all_of: dict[str, Command], rounds: int) -> dict[str, float]:
    """The least processor time of each. They take turns, so that a busy moment meets all of them."""
    least: dict[str, float] = {}
    for _ in range(rounds):
        for name, command in all_of.items():
            run = once(command, LIMIT_S)
            if isinstance(run, Failed):
                raise SystemExit(f"error: {name}: {run.reason}")
            least[name] = min(run.cpu_s, least.get(name, run.cpu_s))
    return least


def guard(
    work: Path, *, kernels: int = KERNELS, events: int = EVENTS, rounds: int = ROUNDS, expected: Path = EXPECTED
) -> list[Guarded]:
    """Measure, and compare with what is stored."""
    export, trace = export_of(kernels, work), trace_of(events, work)
    least = fastest({"": reference(export), **commands(export, trace)}, rounds)
    base = least.pop("")
    stored: dict[str, Any] = json.loads(expected.read_text()) if expected.exists() else {"room": ROOM, "ratios": {}}
    ratios, room = stored["ratios"], stored["room"]
    return [Guarded(name, cpu_s, cpu_s / base, ratios.get(name), room) for name, cpu_s in least.items()]


def store(found: list[Guarded], expected: Path = EXPECTED) -> None:
    """Take what was found for what is expected from now on."""
    room = found[0].room if found else ROOM
    ratios = {each.task: round(each.ratio, 3) for each in found}
    expected.write_text(json.dumps({"room": room, "ratios": ratios}, indent=2) + "\n")
