"""What a report of a generated export must say: the export in, its window and busy time out, worked out from its rows.

Nothing of gpuledger is used: the rows come through `sqlite3`, and the union of all activities of the one device that
the generator knows is taken with one sort. So a report that is fast and wrong is not taken for fast.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

_ACTIVITIES: Final = "KERNEL", "MEMCPY", "MEMSET"
_LAUNCH: Final = "SELECT start FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId = ?"
_STEP: Final = """SELECT max(range.start) FROM NVTX_EVENTS range LEFT JOIN StringIds ON StringIds.id = range.textId
    WHERE coalesce(range.text, StringIds.value) LIKE 'step %' AND ? BETWEEN range.start AND range."end"
"""


@dataclass(frozen=True, slots=True)
class Books:
    """The window, from where the step of the first launch opens to the end of the last activity; when any runs."""

    window_ns: int
    busy_ns: int


def books_of(export: Path) -> Books:
    """Worked out once, and kept beside the generated export."""
    kept = export.with_suffix(".step-books.json")
    if kept.exists():
        return Books(**json.loads(kept.read_text()))
    found = _worked_out(export)
    kept.write_text(json.dumps(asdict(found)))
    return found


def _worked_out(export: Path) -> Books:
    with closing(sqlite3.connect(f"file:{export}?mode=ro", uri=True)) as db:
        parts = []
        for name in _ACTIVITIES:
            [count] = db.execute(f"SELECT count(*) FROM CUPTI_ACTIVITY_KIND_{name}").fetchone()
            rows = db.execute(f'SELECT start, "end", correlationId FROM CUPTI_ACTIVITY_KIND_{name}')
            parts.append(np.fromiter(rows, np.dtype((np.int64, 3)), count))
        found = np.concatenate(parts)
        found = found[np.argsort(found[:, 0], kind="stable")]
        start, end = found[:, 0], np.maximum.accumulate(found[:, 1])
        [launched_ns] = db.execute(_LAUNCH, (int(found[0, 2]),)).fetchone()
        [opened_ns] = db.execute(_STEP, (launched_ns,)).fetchone()
    gaps = np.maximum(start[1:] - end[:-1], 0)
    return Books(int(end[-1]) - (launched_ns if opened_ns is None else opened_ns), int(end[-1] - start[0] - gaps.sum()))
