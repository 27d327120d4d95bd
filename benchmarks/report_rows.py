"""Rows of .nsys-rep files as gpuledger reads them, held against those of `nsys export`.

    python benchmarks/report_rows.py --nsys /opt/nvidia/nsight-systems/bin/nsys REPORT...

Every table and every column that both have is compared, to the nanosecond and the letter, in any order of the rows.
A line per report, and a last one that counts: equal, differ, not opened by this nsys (reports of newer releases). The
exit code is 1 where one differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpuledger import Table, open_trace
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Kind, Rows

OURS = ("stack", "parent", "depth")
"""Positions in tables of our own, which say nothing by themselves."""


def columns(rows: Rows, table: Table) -> dict[str, list[Any]]:
    kinds = {column.name: column.kind for column in table.schema.columns if column.name not in OURS}
    return {
        name: rows.texts(name) if kind is Kind.TEXT else rows[name].tolist()
        for name, kind in kinds.items()
        if name in rows
    }


def sorted_rows(held: dict[str, list[Any]], names: list[str]) -> list[str]:
    return sorted(map(repr, zip(*(held[name] for name in names), strict=True)))


def differences(native: Trace, exported: Trace) -> list[str]:
    """What differs, table by table."""
    found = []
    for table in Table:
        ours, theirs = (trace.tables.get(table) for trace in (native, exported))
        if len(ours or ()) != len(theirs or ()):
            found.append(f"{table.value}: {len(ours or ())} rows, exported {len(theirs or ())}")
        elif ours and theirs:
            held, told = columns(ours, table), columns(theirs, table)
            names = sorted(held.keys() & told.keys())
            if sorted_rows(held, names) != sorted_rows(told, names):
                odd = [name for name in names if sorted(map(repr, held[name])) != sorted(map(repr, told[name]))]
                found.append(f"{table.value}: {', '.join(odd) or 'which belong together'}")
    return found


def compare(report: Path, nsys: str, folder: Path) -> tuple[str, str]:
    export = folder / "export.sqlite"
    export.unlink(missing_ok=True)
    command = [nsys, "export", "--type=sqlite", "--force-overwrite=true", "-o", str(export), str(report)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if not export.exists():
        return "not opened by this nsys", (ran.stderr or ran.stdout).strip().splitlines()[-1]
    native, exported = (open_trace(path, only=Table, cache=False) for path in (report, export))
    if found := differences(native, exported):
        return "differ", "; ".join(found)
    return "equal", ", ".join(f"{len(rows):,} {table.value}" for table, rows in native.tables.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nsys", default="nsys")
    parser.add_argument("reports", nargs="+", type=Path)
    asked = parser.parse_args()
    verdicts = Counter[str]()
    with TemporaryDirectory() as folder:
        for report in asked.reports:
            verdict, said = compare(report, asked.nsys, Path(folder))
            verdicts[verdict] += 1
            print(f"{report.name}: {verdict}: {said}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    return 1 if verdicts["differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
