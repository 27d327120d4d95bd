"""How the analyses grow with the profile: `python benchmarks/report.py`.

Reads synthetic exports of 0.25 M to 1 M kernels. Prints seconds for reading and for all analyses of the report, and the
ratio to the size before: twice the kernels should take about twice as long.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpuledger import open_trace
from gpuledger.analyse.steps import Wanted
from gpuledger.report import build_report

SIZES = (250_000, 500_000, 1_000_000)


def main() -> None:
    before: float | None = None
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            export = Path(folder) / "large.sqlite"
            generator = Path(__file__).with_name("gen_nsys.py")
            subprocess.run(
                [sys.executable, str(generator), str(export), str(size)], check=True, stdout=subprocess.DEVNULL
            )
            start = time.perf_counter()
            trace = open_trace(export)
            read = time.perf_counter() - start
            runs = []
            for _ in range(3):
                start = time.perf_counter()
                build_report(trace, export.name, Wanted())
                runs.append(time.perf_counter() - start)
            ratio = f"{min(runs) / before:.2f} x the size before" if before else ""
            print(f"{size:>9,} kernels  read {read:6.2f} s  analyses {min(runs):5.2f} s  {ratio}")
            before = min(runs)


if __name__ == "__main__":
    main()
