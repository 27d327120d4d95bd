"""RECOMPILE: the GPU waits while code is compiled, or a CUDA graph recorded, again.

The time breakdown has `idle: recompilation`. In many steps the GPU is idle for tens of milliseconds to seconds while
one host thread runs a compiler, or for a fraction of a millisecond while it records a CUDA graph that it then launches
once or twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.attribution.lost_time import lost_time
from gpuledger.catalog.compilers import Compiler
from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.idle.gap_evidence import gap_evidence
from gpuledger.findings.idle.occupied import gap_time, lines_command, with_backlog
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.single_gap import lost_time_words
from gpuledger.findings.words import occurrences_text
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.ledger.compilations import compilations
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.replay.edits import Edit, without_calls, without_code
from gpuledger.trace.keys import distinct
from gpuledger.trace.spans import covered, intersection, total

_BY_COMPILER: Final[Mapping[Compiler, tuple[Message, Message]]] = {
    Compiler.TORCH: (
        say("torch.compile compiles again"),
        say(
            "`TORCH_LOGS=recompiles` names the guard that fails: mark that dimension dynamic "
            "(`torch._dynamo.mark_dynamic`), or keep shapes, dtypes and numbers of the arguments the same"
        ),
    ),
    Compiler.TRITON: (
        say("Triton compiles a kernel again"),
        say("keep shapes and `tl.constexpr` arguments the same, or mark what varies dynamic (`do_not_specialize`)"),
    ),
    Compiler.CUDA_GRAPHS: (
        say("a CUDA graph is recorded again"),
        say("record a graph once per shape, copy inputs into its buffers, and replay it"),
    ),
    Compiler.XLA: (
        say("XLA compiles again"),
        say("pad shapes to a few sizes, and pass what varies as an array: `jax_log_compiles` names the function"),
    ),
    Compiler.OTHER: (
        say("code is compiled again"),
        say("keep the types and shapes that code is compiled for the same, or compile before the loop"),
    ),
}
"""What the host does while it compiles, and what to do about it."""


def _compiled_again(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The host compiled in several steps, or recorded a graph for each launch."""
    device = subject.device
    time, count = gap_time(device, *rule.triggers)
    if not count or not is_significant(device, time):
        return ()
    compiler, times = _compilations(device)
    doing, fix = _BY_COMPILER[compiler]
    evidence = gap_evidence(subject, QueueTrigger.COMPILE)
    claim = say(
        "the GPU waits {time} while {doing}, {often}",
        time=lost_time_words(device, time, rule.triggers),
        doing=doing,
        often=occurrences_text(device, times),
    )
    assumption = say("what is compiled, or recorded, is there from the start")
    found = with_backlog(rule, subject, claim, evidence, assumption, time)
    return [replace(found, fix=fix, next=lines_command(subject.trace, evidence) or found.next)]


def _compilations(device: Device) -> tuple[Compiler, int]:
    """Who compiled for the most of the lost time, and how often."""
    chosen = device.gaps_of(QueueTrigger.COMPILE)
    known = compilations(device.host, device.work)
    spent_ns, compiled = dict.fromkeys(Compiler, 0), 0
    for part in lost_time(device, chosen, QueueTrigger.COMPILE).by_thread:
        for compiler in Compiler:
            spent_ns[compiler] += total(intersection(part.spans, known.of(part.thread, compiler)))
        stretches = known.of(part.thread)
        compiled += int(np.count_nonzero(covered(part.spans, stretches.start_ns, stretches.end_ns)))
    if device.steps is not None:  # samples do not tell one compilation from the next
        steps = np.searchsorted(device.steps.edges_ns, device.ledger.gaps.start_ns[chosen], side="right")
        compiled = max(compiled, len(distinct(steps)))
    return max(spent_ns, key=lambda compiler: spent_ns[compiler]), compiled


def compile_nothing(fixes: Fixes) -> Edit:
    """What is compiled is there: what is called for it is not, and the code around it is not run."""
    inside, launching = fixes.in_gaps(QueueTrigger.COMPILE) & fixes.steady, np.zeros(len(fixes.graph.calls), np.bool_)
    launching[fixes.graph.operations.call[fixes.graph.operations.call >= 0]] = True
    gone, kept = np.flatnonzero(inside & ~launching), np.flatnonzero(inside & launching)
    code = np.maximum(fixes.graph.code_before(kept) - fixes.usual_dispatch_ns, 0)
    return lambda graph: without_code(without_calls(graph, gone), kept, code)


RULE: Final = Rule(
    "RECOMPILE",
    _compiled_again,
    _BY_COMPILER[Compiler.OTHER][1],
    edit=compile_nothing,
    triggers=(QueueTrigger.COMPILE,),
)
