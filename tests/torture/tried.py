"""One call of the command in a process of its own, with bounds; and what to think of how it ended."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

BAD = ("crash", "hang", "wrong")
_SECONDS, _MEMORY_BYTES = 60, 4 << 30


@dataclass(frozen=True, slots=True)
class Tried:
    """How a call ended: `read`, `refused`, `crash` or `hang`; and the document, where it wrote one."""

    verdict: str
    cpu_s: float
    document: Any = None


def ran(arguments: tuple[str, ...]) -> Tried:
    """Call the command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gpuledger", *arguments, "--no-cache"],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES)),
        )
    except subprocess.TimeoutExpired:
        return Tried("hang", _SECONDS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = max(after.ru_utime - before.ru_utime, 1e-3)
    if done.returncode == 0:
        return Tried("read", cpu_s, json.loads(done.stdout) if done.stdout.startswith("{") else None)
    is_sentence = done.returncode == 1 and done.stderr.startswith("error: ") and "internal error" not in done.stderr
    return Tried("refused" if is_sentence and not done.stdout else "crash", cpu_s)


def judged(whole: Tried, tried: Tried) -> str:
    """`equal`, `told`, `refused`; `silent` where numbers differ and nothing says so; or what is wrong with it."""
    if tried.verdict != "read":
        return tried.verdict
    ours, theirs = whole.document, tried.document
    balances = all(sum(line["ns"] for line in device["ledger"]) == device["window_ns"] for device in theirs["devices"])
    if not balances or any(device["device"] < 0 for device in theirs["devices"]):
        return "wrong"
    if theirs["devices"] == ours["devices"] and theirs["findings"] == ours["findings"]:
        return "equal"
    is_told = theirs["health"] != ours["health"] or theirs["not_measured"] != ours["not_measured"]
    return "told" if is_told else "silent"
