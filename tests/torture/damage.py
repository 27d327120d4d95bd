"""Recordings that cannot be true: told, or the first finding is the same, and saves what it did within a tenth.

python -m torture.damage    every kind on every capture: a table, and what is neither told nor the same
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gpuledger import build_report, open_trace
from gpuledger.errors import GpuledgerError
from gpuledger.selection import Selection
from gpuledger.trace.model import CORRECTED, DAMAGE
from support.profiles.damage import EXPORT_DAMAGE, TRACE_DAMAGE, damaged_export, damaged_trace
from support.profiles.opened import plain
from torture.bench import Bench, Verdict
from torture.captures import packed

_NEAR: Final = 0.1
_TOLD: Final = ("CAPTURE-DAMAGED", "CAPTURE-LOSS")

_UNSEEN: Final = (("experts_loop", "synchronize returns early"),)
"""What nothing in the recording gives away: calls that return some us too soon, as clocks of host and GPU are no better
matched than that."""

First = tuple[str, int] | None
"""The code of a finding, and what it saves."""


def is_like(first: First, before: First) -> bool:
    """Whether two findings are the same, and save the same within a tenth."""
    if first is None or before is None:
        return first is before
    return first[0] == before[0] and abs(first[1] - before[1]) <= _NEAR * before[1]


def cases(bench: Bench) -> Iterator[Verdict]:
    """A kind of damage on a capture, as chance gives both."""
    captures = [capture for capture in packed() if capture.name.endswith((".sqlite.xz", ".json.gz"))]
    while True:
        capture = bench.chance.choice(captures)
        path = plain(capture) if capture.suffix == ".xz" else capture  # not cut: what tells of damage may be at its end
        whole = bench.whole(path)
        kind = bench.chance.choice(list(TRACE_DAMAGE if path.suffix == ".gz" else EXPORT_DAMAGE))
        if (capture.name.partition(".")[0], kind) in _UNSEEN:
            continue
        damaged = _damaged(path, bench.empty("damaged") / "damaged", kind)
        changed = bench.call("report", damaged, "--format=json")
        verdict = changed.verdict
        if verdict == "read":
            is_same = is_like(_first(changed.document), _first(whole.document))
            verdict = "told" if _is_told(changed.document) else "equal" if is_same else "silent"
        yield Verdict(f"{path.name}: {kind}", verdict, changed.said, damaged)


def _damaged(source: Path, target: Path, kind: str) -> Path:
    if source.suffix == ".gz":
        return damaged_trace(source, target.with_suffix(".json"), kind)
    return damaged_export(source, target.with_suffix(".sqlite"), kind)


def _is_told(document: Any) -> bool:
    codes = {note["code"] for note in document["health"]}
    return bool(codes & {*DAMAGE, *CORRECTED}) or any(found["code"] in _TOLD for found in document["findings"])


def _first(document: Any) -> First:
    found = next((found for found in document["findings"] if not found["code"].startswith("CAPTURE")), None)
    return None if found is None else (found["code"], found["saving_ns"])


def _answered(path: Path) -> tuple[bool, First] | None:
    """Whether damage is told of a profile, and its first finding; None where it is refused, which tells it too."""
    try:
        trace = open_trace(path)
        findings = build_report(trace, path.name, Selection()).findings
    except GpuledgerError:
        return None
    codes = {note.code for note in trace.health}
    is_told = bool(codes & {*DAMAGE, *CORRECTED}) or any(found.code in _TOLD for found in findings)
    first = next((found for found in findings if not found.code.startswith("CAPTURE")), None)
    return is_told, None if first is None else (first.code, first.saving_ns)


def main() -> int:
    counts: dict[str, Counter[str]] = {}
    silent = 0
    found_here = [capture for capture in packed() if capture.name.endswith((".sqlite.xz", ".json.gz"))]
    captures = [*map(Path, sys.argv[1:]), *found_here]
    with tempfile.TemporaryDirectory(prefix="damage-") as folder:
        for capture in captures:
            is_trace = capture.name.endswith(".gz")
            source = plain(capture) if capture.suffix == ".xz" else Path(shutil.copy(capture, folder))
            whole = _answered(source)
            counts.setdefault("nothing", Counter())["told" if whole is None or whole[0] else "same"] += 1
            for kind in TRACE_DAMAGE if is_trace else EXPORT_DAMAGE:
                found = _answered(_damaged(source, Path(folder) / "damaged", kind))
                same = found is not None and whole is not None and is_like(found[1], whole[1])
                verdict = "told" if found is None or found[0] else "same" if same else "silent"
                counts.setdefault(f"{kind}, {'torch' if is_trace else 'nsys'}", Counter())[verdict] += 1
                if verdict == "silent":
                    silent += 1
                    _print(f"silent: {capture.name}: {kind}: {whole} -> {found}")
    _print(f"{'damage':45} {'told':>5} {'same':>5} {'silent':>6}")
    for name, count in counts.items():
        _print(f"{name:45} {count['told']:5} {count['same']:5} {count['silent']:6}")
    return 1 if silent or counts["nothing"]["told"] else 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
