"""HOST-LOAD: the GPU waits while code is loaded, compiled or planned.

The time breakdown has `idle: module load`, usually with a much larger `idle: host code` beside it. On the timeline the
GPU is idle while one host thread is in `cuLibraryLoadData`, `cuModuleLoadData`, `cuKernelSetAttribute` or
`cudaGraphInstantiate`, or in one launch call that lasts milliseconds. If this recurs in every step, something is
specialised anew each time.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from gpuledger.catalog.calls import CallKind
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.fixes import USUAL_LAUNCH_NS, Fixes
from gpuledger.findings.idle.occupied import host_is_occupied
from gpuledger.findings.rule import Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import say
from gpuledger.replay.edits import Edit, with_call_durations, without_calls, without_code, without_latency
from gpuledger.replay.graph import DependencyGraph
from gpuledger.trace.keys import is_among

FIX: Final = FixWords.of(
    say("keep shapes stable, and run everything once before the measured steps"),
    torch=say("keep shapes stable (pad to buckets), and run every shape once before the measured steps"),
    jax=say("keep shapes static, as each new one compiles; keep what was compiled (`jax_compilation_cache_dir`)"),
    tensorflow=say("give `tf.function` an `input_signature`, so that it is traced once"),
    tensorrt=say("run each optimization profile once before the measured steps"),
    numba=say("compile before the loop: give `@cuda.jit` a signature, or call each kernel once"),
    julia=say("call every function once with these types before the measured steps"),
    cupy=say("call every kernel once before the measured steps: CuPy compiles at the first call"),
    cuda=say("launch every kernel once before the measured steps, or load all at start (`CUDA_MODULE_LOADING=EAGER`)"),
)


def load_nothing(fixes: Fixes) -> Edit:
    """What is loaded is there, what leads to it is not run, and a launch that loads takes no longer than others."""
    calls, begin = fixes.steady_calls(CallKind.LOAD), fixes.graph.recorded.call_begin
    code = fixes.code_ns(Cause.HOST_CODE, Cause.DISPATCH, Cause.WAIT_THREAD, Cause.OS)
    leads = np.zeros(len(begin), np.bool_)
    for number, mine in fixes.calls_of_threads:
        leads[mine] = is_among(begin[mine], fixes.host.leads_to_loads(number).end_ns)
    leading = np.flatnonzero(leads & fixes.in_gaps(Cause.LOAD) & fixes.steady)
    _, late = fixes.gaps_with_ends(Cause.LOAD)
    launching = fixes.graph.operations.call[late]
    late, launching = late[kept := launching >= 0], launching[kept]
    took = fixes.graph.calls.duration_ns[launching]
    shorter = np.minimum(took, min(fixes.usual_launch_ns, USUAL_LAUNCH_NS))  # most launches may be such

    def changed(graph: DependencyGraph) -> DependencyGraph:
        graph = with_call_durations(graph, launching, shorter)
        graph = without_code(without_latency(graph, late, took - shorter), leading, code[leading])
        return without_calls(graph, calls, code[calls])

    return changed


RULE: Final = Rule(
    "HOST-LOAD",
    partial(host_is_occupied, doing=say("modules are loaded, compiled or tuned")),
    FIX,
    edit=load_nothing,
    triggers=(Cause.LOAD,),
)
