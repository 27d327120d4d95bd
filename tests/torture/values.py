"""Captures of every format with values, keys, rows, cells or bytes changed, by the mutations of the fuzzers.

Each is read by some verb. That numbers are other ones than before cannot be seen; that they do not add up can.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.command import ROOT
from torture.bench import Bench, Verdict
from torture.captures import packed, small
from torture.oracle import sane

REPORT = ("report", "--format=json")
VERBS: dict[str, tuple[tuple[str, ...], ...]] = {
    ".sqlite": (REPORT, REPORT, ("info",), ("ranges",), ("stats",), ("gaps",), ("memory",), ("kernels",)),
    ".json.gz": (REPORT, REPORT, ("info",), ("ops",), ("ranges",), ("whatif",)),
    ".csv": (("kernels",),),
    "dir": (REPORT, ("info",)),
}


def cases(bench: Bench) -> Iterator[Verdict]:
    sys.path.insert(0, str(ROOT / "fuzz"))
    changes = importlib.import_module("mutations")
    by_ending = {
        ".sqlite": changes.sometimes(changes.sqlite_changed),
        ".json.gz": changes.gzip_changed(changes.sometimes(changes.json_changed)),
        ".csv": changes.sometimes(changes.csv_changed),
        "dir": changes.as_bytes(()),
    }
    captures = packed()
    while True:
        path = small(bench.chance.choice(captures), bench.folder)
        ending = next(ending for ending in by_ending if path.name.endswith(ending))
        changed = _changed(path, bench.folder / f"changed{ending}", by_ending[ending], bench)
        verb, *options = bench.chance.choice(VERBS[ending])
        ran = bench.call(verb, changed, *options)
        yield Verdict(f"{path.name}: {verb} of changed values", sane(ran), ran.said, changed)


def _changed(path: Path, target: Path, change: Any, bench: Bench) -> Path:
    if not path.is_dir():
        target.write_bytes(change(path.read_bytes(), bench.chance))
        return target
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target)
    inner = bench.chance.choice(sorted(target.iterdir()))
    inner.write_bytes(change(inner.read_bytes(), bench.chance))
    return target
