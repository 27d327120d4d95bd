"""TINY-KERNELS: the step consists of kernels too short to hide their launches.

The GPU is often idle between kernels, and the kernels themselves last under 5 us. Where the host is late with them
this is part of LAUNCH-BOUND; it is a finding of its own where the GPU's own pace from kernel to kernel loses more. The
kernel table shows thousands of instances of elementwise, copy, index and small matrix kernels; none of them is a
bottleneck alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from gpuledger.analyse.idle.launch_costs import TINY_NS
from gpuledger.findings.finding import Evidence, Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.idle.launching import MIN_LAUNCHES, free_launches
from gpuledger.findings.rule import OneGpu, Rule, are_steady
from gpuledger.findings.words import kernel_evidence, per_step
from gpuledger.ledger.causes import Cause, QueueTrigger
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.replay.edits import GRAPH_TURNAROUND_NS
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Span
from gpuledger.trace.tables import Table
from gpuledger.units import share_text

FIX: Final = FixWords.of(
    say("fuse them, batch them, or capture the step in a graph"),
    torch=say("fuse them, batch them, or capture the step in a CUDA graph"),
    tensorrt=say("capture `enqueueV3` in a CUDA graph (`trtexec --useCudaGraph`)"),
    jax=say("put more into one `jax.jit`, which fuses it, or batch with `jax.vmap`"),
    cupy=say("fuse them with `@cupy.fuse` or an `ElementwiseKernel`, or batch them"),
    julia=say("fuse them into one broadcast (`@.`) or one kernel, or batch them"),
    openacc=say("join the loops into one region, or `collapse` them"),
    openmp=say("join the loops into one `target` region, or `collapse` them"),
)
MIN_TURNAROUND_SHARE: Final = 0.05
"""Below this share of the time, what the device takes from kernel to kernel is its usual due."""


def _tiny(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Where kernels are too short to be worth a launch: the host falls behind, or the device goes from one to the next.

    What the device needs between two kernels it also needs in a graph, only less.
    """
    device, kernels = subject.device, subject.trace[Table.KERNELS]
    behind, between = device.gaps_of(QueueTrigger.BEHIND), device.gaps_of(Cause.TURNAROUND)
    if device.idle_ns(Cause.TURNAROUND) < MIN_TURNAROUND_SHARE * device.steady_ns:
        between = between[:0]
    steady = are_steady(kernels, device)
    if not (len(behind) or len(between)) or not steady.any():
        return ()
    tiny = steady & (kernels.duration_ns < TINY_NS)
    share = float(np.count_nonzero(tiny) / np.count_nonzero(steady))
    gaps, gap_ns, chosen = device.ledger.gaps, device.steady_gap_ns, np.concatenate((behind, between))
    before_tiny = _ends_before_tiny(device, chosen)
    all_ns, tiny_gaps = int(gap_ns[chosen].sum()), chosen[before_tiny]
    time = int(gap_ns[tiny_gaps].sum())
    kept = GRAPH_TURNAROUND_NS * int(np.count_nonzero(before_tiny[len(behind) :]))
    lost = max(time - kept, 0)
    if np.count_nonzero(tiny) < MIN_LAUNCHES or share < 0.5 or 2 * time < all_ns or not is_significant(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    claim = say(
        "{share} of the kernels take under 5 us, less than a launch: {time} of gaps",
        share=share_text(share),
        time=per_step(device, time),
    )
    assumption = say("the gaps close, as in a captured graph")
    evidence = kernel_evidence(
        rule.fix or "", kernels.only("name", "pid", "correlation"), tiny, share, say("the kernels")
    )
    longest = int(tiny_gaps[gap_ns[tiny_gaps].argmax()])
    evidence = replace(evidence, span=Span(int(gaps.start_ns[longest]), int(gaps.end_ns[longest])))
    return [rule.finding(device, claim, (evidence,), saving, assumption, explains=time, edit=edit)]


def as_part(evidence: Evidence) -> Evidence:
    """The evidence of tiny kernels, where those are part of why launches come late."""
    share = share_text(evidence.share or 0.0)
    return replace(evidence, sentence=say("{share} of the kernels take under 5 us, less than a launch", share=share))


def _ends_before_tiny(device: Device, chosen: Positions) -> NDArray[np.bool_]:
    """Which of these gaps a tiny kernel ends."""
    work, after = device.work, device.ledger.gaps.after[chosen]
    before: NDArray[np.bool_] = work.end_ns[after] - work.start_ns[after] < TINY_NS
    return before


RULE: Final = Rule(
    "TINY-KERNELS",
    _tiny,
    FIX,
    edit=free_launches,
    triggers=(QueueTrigger.BEHIND, Cause.TURNAROUND),
    is_bound=True,
    is_slowed=True,
)
