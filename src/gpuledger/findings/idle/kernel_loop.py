"""KERNEL-LOOP: small kernels are launched tensor by tensor.

LAUNCH-BOUND is listed below it: the GPU is often idle between kernels. Part of the step is the same few kernels over
and over, a hundred times and more: an optimizer, gradient clipping, a moving average of the weights, statistics of
each parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.idle.launching import are_most_of_launching, launch_loops_once, loop_evidence, looping_calls
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import count_words, per_step
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.messages import say

FIX: Final = FixWords.of(
    say("one kernel for all of them: pass their addresses and sizes as an array"),
    torch=say("use the fused or foreach form: one kernel for all tensors"),
    jax=say("`jax.vmap` or `jax.lax.scan` over stacked arrays, instead of a loop in Python"),
    tensorflow=say("stack the tensors and call the operation once, inside one `tf.function`"),
    cupy=say("stack the arrays, and call the operation once for all"),
    julia=say("stack the arrays, and broadcast once over all"),
    numba=say("stack the arrays, and launch one kernel with an index more"),
    openacc=say("take the loop around the region into it (`collapse`)"),
    openmp=say("take the loop around the region into it (`collapse`)"),
)
MIN_LOOP_SHARE: Final = 0.2  # loops that hold less of what launching costs are not what to begin with


def _kernel_loop(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Part of what the host launches are the same few kernels, for one tensor after the other."""
    device, repeated = subject.device, subject.fixes.looped.repeated
    if not len(repeated) or are_most_of_launching(subject):
        return ()
    edit = rule.edit_of(subject)
    lost = _host_ns(subject)
    saving = subject.saved_ns(edit, lost)
    if not is_significant(device, saving):
        return ()
    count = round(len(repeated) * device.step_count / subject.scenario.part.steps)
    launches = count_words(device, count, say("launch"), say("launches"))
    claim = say(
        "small kernels launched in a loop, tensor by tensor: {launches} cost the host {time}",
        launches=launches,
        time=per_step(device, lost),
    )
    assumption = say("one kernel handles all tensors: only the first round of each loop is launched")
    evidence = loop_evidence(subject)
    return [rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)]


def _host_ns(subject: OneGpu) -> int:
    """What the host takes to launch what is repeated."""
    graph, looping = subject.fixes.graph, subject.fixes.once(looping_calls)
    return subject.scenario.of_steady(int(graph.calls.duration_ns[looping].sum() + graph.code_before(looping).sum()))


def is_what_to_begin_with(part: Finding, bound: Finding) -> bool:
    """Whether a finding is about loops that hold much of what a bound is about: it says what can be had, and how."""
    return part.code == "KERNEL-LOOP" and part.gpu == bound.gpu and part.saving_ns >= MIN_LOOP_SHARE * bound.saving_ns


RULE: Final = Rule(
    "KERNEL-LOOP",
    _kernel_loop,
    FIX,
    edit=launch_loops_once,
    triggers=(QueueTrigger.BEHIND,),
    is_slowed=True,
)
