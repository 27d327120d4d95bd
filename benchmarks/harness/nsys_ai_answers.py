"""nsys-ai's answers to the diagnosis benchmark: what it prints of each capture, by the benchmark's causes.

nsys-ai has two ways to say what is wrong without a language model, and which of them is "nsys-ai" is not for us to say:

- `nsys-ai diagnose PROFILE --format json`: its ranked findings
- `nsys-ai skill run root_cause_matcher PROFILE --format json`: its list of known anti-patterns

The mapping is the most favorable that we could think of. Findings that name no reason (hotspots, idle totals, a
critical path on the GPU, layers that differ, NVTX coverage) are left out, so that they take no place before one that
does. A cause counts once, at its first place. Idle gaps are read by the call that nsys-ai sees in them; where that
call covers less than half of the gap, as the host's own code. Where its advice names the fix (pinned memory), that is
the cause. What it calls the recoverable idle time is taken for the saving of what the gaps are blamed on.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from gpuledger.diagnosis.cases import DiagnosisCase, diagnosis_benchmark

Told = dict[str, Any]
PATIENCE_S = 300

ROW_KINDS = {
    "small_kernel_overhead": "launch-bound",
    "profile_sync_bound": "host-sync",
    "tc_eligible_inactive": "no-tensor-cores",
}
"""Findings of `diagnose` by the kind that it gives them."""

LABELS = (
    (r"Large (H2D|D2H) Transfer", "exposed-copies"),
    (r"H2D Spike", "exposed-copies"),
    (r"Large D2D Transfer", "device-copies"),
    (r"Critical path is cpu-bound", "host-code"),
    (r"Critical path is comm-bound|NCCL|Communication", "exposed-communication"),
)
"""And by how their labels begin, where they have no kind."""

CALLS = (
    (r"Malloc|Free|HostAlloc|MemAlloc|MemFree|HostRegister", "allocation"),
    (r"Synchronize|EventQuery|StreamQuery", "host-sync"),
    (r"Memcpy|Memset", "pageable-copies"),
    (r"ModuleLoad|LibraryLoad|LibraryGet", "module-load"),
    (r"StreamWaitEvent|LaunchHostFunc", "stream-wait"),
    (r"Launch", "launch-bound"),
)
"""What an idle gap is blamed on, by the CUDA call in it."""

PATTERNS = {
    "Excessive Synchronization": "host-sync",
    "Synchronous Memcpy": "small-copies",
    "Synchronous Memset": "host-sync",
    "Pageable Memory in Async Memcpy": "pageable-copies",
    "Excessive H2D Transfers": "pageable-copies",  # its advice is pin_memory=True
    "Continuous H2D Transfers": "pageable-copies",
    "H2D Transfer Spike": "exposed-copies",
    "Small Kernel Overhead": "launch-bound",
    "NCCL Serialization": "exposed-communication",
    "Inefficient NCCL Communicator": "exposed-communication",
    "Compute-Communication Imbalance": "exposed-communication",
    "Layer NCCL Hotspot": "exposed-communication",
}
"""Patterns of the matcher; those that are not here name no reason."""

BUBBLES = "GPU Bubbles (Pipeline Stalls)"
ADVICE = (
    (r"Over-Synchronization|Remove explicit cuda", "host-sync"),
    (r"CPU is not feeding", "host-code"),
    (r"blocking memory transfers", "pageable-copies"),  # "use cudaMemcpyAsync with pinned memory"
    (r"launch overhead dominates", "launch-bound"),
)
"""What the matcher's bubbles are blamed on, by its advice."""
SEVERITIES = ("critical", "warning", "info")


def first_match(rules: Sequence[tuple[str, str]], text: str) -> str | None:
    """The cause of the first rule whose pattern is in a text."""
    return next((cause for pattern, cause in rules if re.search(pattern, text)), None)


def gap_cause(gap: Told) -> str | None:
    """What an idle gap is blamed on: the call in it, or the host's own code where that call is short."""
    values = next(
        (piece["values"] for piece in gap.get("evidence", ()) if "top_cpu_api" in piece.get("values", {})), {}
    )
    if not values or not values["top_cpu_api"]:
        return None
    if float(values.get("top_cpu_api_ms") or 0) < float(values.get("gap_ms") or 0) / 2:
        return "host-code"
    return first_match(CALLS, values["top_cpu_api"])


def idle_percent(findings: Sequence[Told]) -> float | None:
    """What it calls the recoverable idle time, of the profile."""
    for finding in findings:
        values = next(
            (piece["values"] for piece in finding.get("evidence", ()) if "pct_of_profile" in piece["values"]), {}
        )
        if finding.get("headroom_ms") is not None and values.get("total_idle_ms"):
            return min(100.0, float(values["pct_of_profile"]) * finding["headroom_ms"] / values["total_idle_ms"])
    return None


def diagnosed(report: Told) -> list[Told]:
    """The causes that `diagnose` names, in its order."""
    findings, idle = report["findings"], idle_percent(report["findings"])
    told: list[Told] = []
    for finding in findings:
        kind = (finding.get("provenance") or {}).get("row_kind", "")
        is_gap = kind == "per_gap"
        cause = gap_cause(finding) if is_gap else ROW_KINDS.get(kind) or first_match(LABELS, finding["label"])
        saving = {"saving_percent": round(idle, 1)} if is_gap and idle is not None else {}
        told.append({"cause": cause, "where": finding["label"], **saving})
    return named_once(told)


def matched(rows: Sequence[Told]) -> list[Told]:
    """The causes that the matcher names, the most severe first."""
    ordered = sorted(rows, key=lambda row: SEVERITIES.index(row["severity"]) if row["severity"] in SEVERITIES else 9)
    return named_once(
        {
            "cause": first_match(ADVICE, row["recommendation"])
            if row["pattern"] == BUBBLES
            else PATTERNS.get(row["pattern"]),
            "where": row["pattern"],
        }
        for row in ordered
    )


def named_once(findings: Iterator[Told] | Sequence[Told]) -> list[Told]:
    """Those that name a cause, each cause at its first place."""
    seen: dict[str, Told] = {}
    for finding in findings:
        if finding["cause"] is not None:
            seen.setdefault(finding["cause"], finding)
    return list(seen.values())


WAYS: dict[str, tuple[tuple[str, ...], Callable[[Any], list[Told]]]] = {
    "nsys-ai diagnose": (("diagnose", "case.sqlite", "--format", "json"), diagnosed),
    "nsys-ai root causes": (("skill", "run", "root_cause_matcher", "case.sqlite", "--format", "json"), matched),
}


def unpacked(captures: Path, folder: Path) -> Iterator[DiagnosisCase]:
    """Each case, its capture at case.sqlite in `folder`: a name that says nothing, and a copy, as it is written to."""
    for name, group in groupby(diagnosis_benchmark().cases, key=lambda case: case.capture.partition("::")[0]):
        wanted = {case.capture.partition("::")[2]: case for case in group}
        with tarfile.open(captures / name) as archive:
            for member in archive:
                if member.name in wanted:
                    shutil.rmtree(folder, ignore_errors=True)
                    folder.mkdir()
                    content = archive.extractfile(member)
                    assert content is not None
                    (folder / "case.sqlite").write_bytes(content.read())
                    yield wanted[member.name]


def asked(python: Path, arguments: Sequence[str], folder: Path, home: Path) -> Any:
    """What it prints, as JSON. It keeps its own files in `home`, not in the user's."""
    done = subprocess.run(
        [str(python), "-m", "nsys_ai", *arguments],
        cwd=folder,
        env={**os.environ, "HOME": str(home), "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return json.loads(done.stdout)


def answers(python: Path, home: Path, captures: Path, say: Callable[[str], None]) -> dict[str, list[Told]]:
    """The cases with their findings, for each way to ask."""
    told: dict[str, list[Told]] = {tool: [] for tool in WAYS}
    with tempfile.TemporaryDirectory() as beside:
        folder = Path(beside, "case")
        for number, case in enumerate(unpacked(captures, folder), 1):
            say(f"nsys-ai, case {number}: {case.id}")
            for tool, (arguments, mapped) in WAYS.items():
                told[tool].append({"id": case.id, "findings": mapped(asked(python, arguments, folder, home))})
    return told
