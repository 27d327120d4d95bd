"""Reading a large torch.profiler trace: `python benchmarks/torch.py [EVENTS] [--hta PYTHON]`.

Writes a synthetic trace (2 M events are 600 MB) and reads it, each way in a process of its own: msgspec alone, with the
reader's own types and without types, and `open_trace`, which also cuts the text into pieces, parses times exactly and
makes columns. Prints seconds, peak memory, and both as ratios. With `--hta`, a Python that has HolisticTraceAnalysis
installed reads a trace of 200 k events, and so do we.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 3
REPORT = """
import json, resource
peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(json.dumps([seconds, peak * 1024, answer]))
"""
START = "import sys, time; path = sys.argv[1]; "
TYPED = """
import msgspec
from gpuledger.read.event_types import Event
class Whole(msgspec.Struct):
    traceEvents: list[Event]
begin = time.perf_counter()
with open(path, "rb") as file:
    found = msgspec.json.decode(file.read(), type=Whole).traceEvents
seconds = time.perf_counter() - begin
answer = sum(each.cat == "kernel" for each in found)
"""
UNTYPED = """
import msgspec
begin = time.perf_counter()
with open(path, "rb") as file:
    found = msgspec.json.decode(file.read())["traceEvents"]
seconds = time.perf_counter() - begin
answer = sum(each.get("cat") == "kernel" for each in found)
"""
OURS = """
from gpuledger import Table, open_trace
begin = time.perf_counter()
trace = open_trace(path)
seconds = time.perf_counter() - begin
answer = len(trace[Table.KERNELS])
"""
HTA = """
import logging; logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
begin = time.perf_counter()
trace = Trace(trace_files={0: path}, trace_dir="")
trace.parse_traces(use_multiprocessing=False)
seconds = time.perf_counter() - begin
frame = trace.get_trace(0)
kernel = trace.symbol_table.sym_index["kernel"]
answer = int((frame["cat"] == kernel).sum())
"""


def measured(python: str, code: str, path: Path) -> tuple[float, int, int]:
    """Seconds, peak bytes (child processes included) and number of kernels: the fastest of several runs."""
    runs = []
    for _ in range(RUNS):
        done = subprocess.run(
            [python, "-c", START + code + REPORT, str(path)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        seconds, peak, answer = json.loads(done.stdout.splitlines()[-1])
        runs.append((seconds, peak, answer))
    return min(runs)


def generated(folder: str, events: int) -> Path:
    path = Path(folder) / f"{events}.json"
    generator = Path(__file__).with_name("gen_kineto.py")
    subprocess.run([sys.executable, str(generator), str(path), str(events)], check=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("events", type=int, nargs="?", default=2_000_000)
    parser.add_argument("--hta", metavar="PYTHON", help="a Python with HolisticTraceAnalysis")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = generated(folder, options.events)
        size = path.stat().st_size
        print(f"{options.events:,} events, {size / 1e6:.0f} MB")
        ours = measured(sys.executable, OURS, path)
        for name, code in (("msgspec, the reader's types", TYPED), ("msgspec, no types", UNTYPED)):
            bare = measured(sys.executable, code, path)
            if bare[2] != ours[2]:
                raise SystemExit(f"{name} counts {bare[2]} kernels, open_trace {ours[2]}")
            print(f"{name:28} {bare[0]:6.2f} s  {bare[1] / size:5.2f} x the file in memory")
            print(f"{'  open_trace against it':28} {ours[0] / bare[0]:6.2f} x the time")
        print(f"{'open_trace':28} {ours[0]:6.2f} s  {ours[1] / size:5.2f} x the file in memory")
        if options.hta:
            small = generated(folder, 200_000)
            theirs, mine = measured(options.hta, HTA, small), measured(sys.executable, OURS, small)
            agree = "the same kernels" if theirs[2] == mine[2] else f"{theirs[2]} kernels against {mine[2]}"
            print(f"200,000 events: HolisticTraceAnalysis {theirs[0]:.2f} s, open_trace {mine[0]:.2f} s:")
            print(f"  {theirs[0] / mine[0]:.1f} x as long, {agree}; memory {theirs[1] / mine[1]:.1f} x")


if __name__ == "__main__":
    main()
