"""A fixed piece of work to hold our times against: `python reference.py EXPORT`.

Scans two tables with the standard library's SQLite and sorts four million numbers. None of it is ours, so it changes
with the machine only, and most of what makes a machine slow makes both slow.
"""

from __future__ import annotations

import sqlite3
import sys

import numpy as np

SCANS = (
    'SELECT count(*), sum("end" - start), count(DISTINCT demangledName) FROM CUPTI_ACTIVITY_KIND_KERNEL',
    'SELECT count(*), sum("end" - start), count(DISTINCT nameId) FROM CUPTI_ACTIVITY_KIND_RUNTIME',
)

db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
for scan in SCANS:
    print(*db.execute(scan).fetchone())
numbers = np.random.default_rng(0).integers(0, 1 << 40, 4_000_000)
numbers.sort(kind="heapsort")  # the only kind without code paths that depend on the processor's vector units
print(numbers[len(numbers) // 2])
