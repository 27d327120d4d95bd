"""COPY-PAGEABLE: copies between the GPU and pageable host memory.

Copies to or from the host run far below the link's rate, and the memory kind of the host side is `Pageable`. On the
timeline the copy call, even `cudaMemcpyAsync`, lasts about as long as the copy and blocks its thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.findings.copies.flows import at_rate, copies_of, flow_evidence
from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import per_step
from gpuledger.messages import say
from gpuledger.replay.edits import Edit, one_after_another, with_call_durations, without_waits
from gpuledger.replay.graph import DependencyGraph
from gpuledger.units import bytes_text

FIX: Final = FixWords.of(
    say("copy from and to pinned memory, and reuse the buffers"),
    torch=say("copy from and to pinned memory (`pin_memory=True`), and reuse the buffers"),
    jax=say("`jax.device_put` the next inputs while this step runs; fewer, larger arrays"),
    tensorflow=say("`prefetch_to_device` at the end of the `tf.data` pipeline"),
    cupy=say("copy from and to `cupyx.empty_pinned` arrays, and reuse them"),
    numba=say("copy from and to `cuda.pinned_array` arrays, and reuse them"),
    julia=say("pin the host's arrays once (`CUDA.pin`), and reuse them"),
    openacc=say("have the compiler pin host arrays (`-gpu=pinned` of nvc and nvfortran)"),
    cuda=say("allocate host buffers with `cudaMallocHost` (or `cudaHostRegister` them), and reuse them"),
    hip=say("allocate host buffers with `hipHostMalloc` (or `hipHostRegister` them), and reuse them"),
)


def _pageable(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Pageable memory is staged through a buffer, far below the link's rate, and blocks the host."""
    device = subject.device
    flows = [flow for flow in subject.fixes.copy_flows if flow.is_pageable and flow.bytes_per_s]
    if not flows or not is_significant(device, sum(flow.slow_ns for flow in flows)):
        return ()
    time, size = sum(flow.running_ns for flow in flows), sum(flow.total_bytes for flow in flows)
    claim = say(
        "{size} are copied from or to pageable memory: {time}",
        size=bytes_text(size // device.step_count),
        time=per_step(device, time),
    )
    evidence = flow_evidence(subject, [(flow, flow.running_ns) for flow in flows], say("their time"))
    assumption = say("pinned memory reaches the link's usual rate, and no call blocks")
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, time)
    return [rule.finding(device, claim, evidence, saving, assumption, explains=time, edit=edit)]


def pin(fixes: Fixes) -> Edit:
    """Copies of pageable memory come at the link's rate, and nobody waits for them."""
    flows = [flow for flow in fixes.copy_flows if flow.is_pageable]
    pageable = np.sort(np.concatenate([np.zeros(0, np.intp), *(copies_of(fixes, flow) for flow in flows)]))
    fast = at_rate(fixes, pageable, flows)
    call = fixes.graph.calls_of(pageable)
    shorter = np.minimum(fixes.graph.calls.duration_ns[call], fixes.usual_launch_ns)

    # a link carries one copy in each direction at a time, whatever streams they are on
    way, start, end = fixes.work.name[pageable], fixes.work.start_ns, fixes.work.end_ns
    ordered = pageable[np.lexsort((start[pageable], way))]
    before, after = ordered[:-1], ordered[1:]
    apart = (fixes.work.name[before] == fixes.work.name[after]) & (end[before] <= start[after])

    def changed(graph: DependencyGraph) -> DependencyGraph:
        in_turn = one_after_another(without_waits(graph, call), after[apart], before[apart])
        return fast(with_call_durations(in_turn, call, shorter))

    return changed


RULE: Final = Rule("COPY-PAGEABLE", _pageable, FIX, edit=pin)
