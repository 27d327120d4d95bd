"""Open a profile, and nothing else: `python open_profile.py PROFILE`. Prints the seconds and the number of kernels.

Imports are not counted: this is what a notebook or a service waits for.
"""

from __future__ import annotations

import json
import sys
import time

from gpuledger import Table, open_trace

start = time.perf_counter()
trace = open_trace(sys.argv[1])
seconds = time.perf_counter() - start
print(json.dumps({"kernels": len(trace[Table.KERNELS]), "span": str(trace.span), "seconds": seconds}))
