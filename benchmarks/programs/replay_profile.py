"""Replay a profile: `python replay_profile.py PROFILE [--pass]`. Prints the seconds, and whether it came out as it was.

The seconds are those of its dependency graph and one replay, or, with --pass, of the replay alone, as every further
change costs. Opening the profile is not counted.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from gpuledger import open_trace
from gpuledger.ledger.host import host_and_activities
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.passes import replay_times

trace = open_trace(sys.argv[1])
host, work = host_and_activities(trace)
start = time.perf_counter()
graph = dependency_graph(trace, host, work)
built = time.perf_counter()
times = replay_times(graph)
done = time.perf_counter()
is_exact = np.array_equal(times.end, work.end_ns) and np.array_equal(times.call_end, graph.recorded.call_end)
seconds = done - (built if "--pass" in sys.argv else start)
print(json.dumps({"operations": len(work), "exact": is_exact, "seconds": seconds}))
