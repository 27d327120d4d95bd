"""Three tables of a large export, ours against NVIDIA's: `python benchmarks/stats.py [KERNELS]`.

Writes a synthetic export, runs `gpuledger stats` and, where it is installed, `nsys stats` on it, checks that the tables
agree, and prints the times, the peak memory and the ratio. Only the ratios mean something on another machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gpuledger.capture.tools import find_nsys

REPORTS = "cuda_gpu_kern_sum,cuda_api_sum,nvtx_sum"
RUNS = 3


@dataclass(frozen=True)
class Measured:
    seconds: float
    peak_bytes: int
    output: str


def measured(command: list[str]) -> Measured:
    """The fastest of several runs."""
    runs = []
    for _ in range(RUNS):
        with tempfile.TemporaryFile() as out:
            start = time.perf_counter()
            child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(child.pid, 0)
            seconds = time.perf_counter() - start
            if status:
                raise SystemExit(f"{command[0]} failed: status {status}")
            out.seek(0)
            runs.append(Measured(seconds, usage.ru_maxrss * 1024, out.read().decode()))
    return min(runs, key=lambda run: run.seconds)


def tables(output: str) -> list[str]:
    """Rows without the domain's colon, which older versions of nsys leave out."""
    return [line.replace(",:", ",").replace(',":', ',"') for line in output.splitlines() if line.strip()]


def main() -> None:
    kernels = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        export = Path(folder) / "large.sqlite"
        generator = Path(__file__).with_name("gen_nsys.py")
        subprocess.run([sys.executable, str(generator), str(export), str(kernels)], check=True)
        ours = measured(
            [sys.executable, "-m", "gpuledger", "stats", str(export), f"--report={REPORTS}", "--format=csv"]
        )
        print(f"gpuledger stats  {ours.seconds:7.2f} s  {ours.peak_bytes / 1e6:7.0f} MB")
        nsys = find_nsys()
        if nsys is None:
            print("nsys stats       not installed")
            return
        theirs = measured([str(nsys), "stats", "--quiet", "--format=csv", f"--report={REPORTS}", str(export)])
        print(f"nsys stats       {theirs.seconds:7.2f} s  {theirs.peak_bytes / 1e6:7.0f} MB")
        same = sum(a == b for a, b in zip(tables(ours.output), tables(theirs.output), strict=True))
        print(f"ratio {theirs.seconds / ours.seconds:.2f}; {same} of {len(tables(ours.output))} lines are the same")


if __name__ == "__main__":
    main()
