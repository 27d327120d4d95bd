"""What HolisticTraceAnalysis says about one rank: `python hta_breakdown.py TRACE`, with a Python that has it.

Reads the trace and takes the two tables that come nearest to a ledger: time by kind, and time by kernel. Its rounding
to microseconds must be off (HTA_DISABLE_NS_ROUNDING=1), as it shortens every kernel.
"""

import json
import logging
import sys

logging.disable(logging.CRITICAL)

from hta.trace_analysis import TraceAnalysis  # noqa: E402 (it logs on import)

found = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="", include_last_profiler_step=True)
by_kind = found.get_temporal_breakdown(visualize=False)
_, by_kernel = found.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0, num_kernels=1_000_000)
answer = {
    "kernel_us": float(by_kernel["sum (us)"].sum()),
    "compute_us": float(by_kind["compute_time(us)"].iloc[0]),
    "exposed_us": float(by_kind["non_compute_time(us)"].iloc[0]),
}
print(json.dumps(answer))
