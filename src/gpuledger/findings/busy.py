"""Findings about a GPU that is busy with the wrong work: kernels that need not run, or that others do much faster.

They are told by names, sizes and by what follows what (`analyse.wasted_work`): less sure than what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.light.kernel_light import LightSource, kernel_light
from gpuledger.analyse.light.needless_work import (
    drop_redundant_fills,
    drop_unused_results,
    gather_instead_of_onehot_matmul,
    keep_activations,
    update_looked_up_rows,
)
from gpuledger.analyse.light.reachable import LightRoof
from gpuledger.analyse.light.slow_kernels import (
    LEAST_LOST,
    aligned_products,
    at_reachable_pace,
    fused_attention,
    newer_attention,
    remove_tail_waves,
    vectorize_elementwise,
)
from gpuledger.analyse.light.steady_kernels import KernelSavings
from gpuledger.analyse.light.wasted_work import (
    batched_products,
    fuse_attention,
    fused_chains,
    fused_updates,
    narrower_types,
    remove_layout_conversions,
    remove_tensor_copies,
    topk_instead_of_sort,
    use_all_sms,
)
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings import advice
from gpuledger.findings.finding import (
    LEAST_SHARE,
    MOST_EXAMPLES,
    Evidence,
    Finding,
    count_words,
    per_step,
    worth_telling,
)
from gpuledger.findings.fixes import Fixes, OtherWay
from gpuledger.findings.kernels import headroom
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import Message, joined, say
from gpuledger.trace.keys import Positions, group, is_among
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.units import share_text

LEAST: Final = 0.03  # what would save less of the time than this is no matter
LEAST_COPIED: Final = 0.1  # so much may be copied within the GPU: what is written into a cache is a copy as well
LEAST_SORTED: Final = 0.1  # so much may be sorted: whether all of it is needed cannot be seen

MOST_NAMES: Final = 3


class OtherWayWords(Struct, frozen=True):
    """What kernels do, what is assumed of those that would run instead, and what to change."""

    doing: Message
    assumption: Message
    fix: advice.FixWords
    beside: Message | None = None  # what the kernels are that only become shorter with them


def _shorter_another_way(
    way: OtherWay, words: Mapping[str, OtherWayWords], least: float, rule: Rule[OneGpu], subject: OneGpu
) -> Sequence[Finding]:
    device, scene, work = subject.device, subject.scenario, subject.fixes.work
    chosen = subject.fixes.shorter(way)
    if not len(chosen):
        return ()
    took = (work.end_ns - work.start_ns)[chosen.operations]
    less = (took - chosen.duration_ns).sum() + _between_ns(subject, chosen)
    meant = np.ones(len(chosen), np.bool_) if chosen.are_meant is None else chosen.are_meant
    time, beside, lost = (scene.of_steady(int(amount)) for amount in (took[meant].sum(), took[~meant].sum(), less))
    if lost < least * device.steady_ns:
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    if not worth_telling(device, saving):
        return ()
    said = words[chosen.kind]
    claim = say(
        "{doing}: {kernels}, {time}",
        doing=said.doing,
        kernels=_count_words(subject, int(meant.sum())),
        time=per_step(device, time),
    )
    if beside and said.beside is not None:
        others, more = _count_words(subject, int((~meant).sum())), per_step(device, beside)
        claim = say(
            "{claim}, and {kernels} {beside}, {time}", claim=claim, kernels=others, beside=said.beside, time=more
        )
    evidence = (
        *_evidence(subject, chosen.operations[meant], time / device.steady_ns),
        *_of_light(subject, chosen.operations[meant]),
    )
    faster = rule.finding(device, claim, evidence, saving, said.assumption, explains=lost, edit=edit)
    confidence = faster.confidence if chosen.was_sampled else say("medium")  # by their names
    return [replace(faster, fix=said.fix, confidence=confidence)]


def _count_words(subject: OneGpu, count: int) -> Message:
    """How many kernels of the replayed steps there are in all."""
    count = round(count * subject.device.step_count / subject.scenario.part.steps)
    return count_words(subject.device, count, say("kernel"), say("kernels"))


def _between_ns(subject: OneGpu, chosen: KernelSavings) -> int:
    """What the device takes to get to those kernels that would not run."""
    device, gaps = subject.device, subject.device.ledger.gaps
    own = np.concatenate([device.gaps_of(trigger) for trigger in (Cause.TURNAROUND, Cause.GRAPH)])
    here, operations = subject.scenario.part.places(gaps.after[own])
    gone = is_among(operations, chosen.operations[chosen.duration_ns == 0])
    return int(gaps.length_ns[own[here]][gone].sum())


def _evidence(subject: OneGpu, operations: Positions, share: float) -> tuple[Evidence, ...]:
    """The kernels that take the most of it."""
    work, strings = subject.fixes.work, subject.trace.strings
    took = (work.end_ns - work.start_ns)[operations]
    first_of_name, number = group(work.name[operations])
    codes = work.name[operations[first_of_name]]
    by_name = np.bincount(number, weights=took)
    names = [strings.text(int(code)) or "" for code in codes[np.argsort(-by_name, kind="stable")]]
    shown = list(dict.fromkeys(cut_label(label(name)) for name in names))[:MOST_NAMES]
    rows = operations[largest(took, MOST_EXAMPLES)]
    first = int(rows[0])
    return (
        Evidence(
            say("{share} of the time in {names}", share=share_text(share), names=joined(say(", "), shown)),
            span=Span(int(work.start_ns[first]), int(work.end_ns[first])),
            pid=int(work.pid[first]),
            kernel=names[0],
            correlations=tuple(work.gathered_at("correlation", rows).tolist()),
            count=len(operations),
            share=share if share >= LEAST_SHARE else None,
            of=say("the time"),
        ),
    )


_BY: Final = {
    LightSource.SHAPES: say("by the shapes of their operators"),
    LightSource.SAMPLES: say("by samples of the GPU's counters"),
    LightSource.NCU: say("by Nsight Compute's counters"),
    LightSource.LAUNCH: say("by the size of their launches"),
}


def _of_light(subject: OneGpu, operations: Positions) -> tuple[Evidence, ...]:
    """How far they are from what the GPU could do, where that is known of most of their time."""
    kernels = subject.fixes.busy
    light, mine = kernels.once(kernel_light), kernels.place_of(operations)
    known, took = mine & light.is_known & (light.light_ns > 0), kernels.took_ns  # 0: the work is not needed at all
    if 2 * took[known].sum() <= took[mine].sum():
        return ()
    share = float(light.light_ns[known].sum() / max(took[known].sum(), 1))
    source = LightSource(int(np.bincount(light.source[known], took[known]).argmax()))
    is_memory = bool(took[known & (light.roof == LightRoof.MEMORY)].sum() * 2 > took[known].sum())
    roof = say("the memory's bandwidth") if is_memory else say("the arithmetic peak")
    sentence = say("they reach {share} of {roof}, {by}", share=share_text(share), roof=roof, by=_BY[source])
    return (Evidence(sentence, count=int(np.count_nonzero(mine))),)


def _rule_by_kind(code: str, way: OtherWay, words: Mapping[str, OtherWayWords], least: float = LEAST) -> Rule[OneGpu]:
    """A rule about kernels that another way of doing their work would make shorter; words by what is found."""
    find, general = partial(_shorter_another_way, way, words, least), next(iter(words.values()))
    edit = partial(Fixes.another_way, way=way)
    return Rule(code, find, general.fix, edit=edit, is_estimate=True)


def _rule(
    code: str,
    way: OtherWay,
    doing: Message,
    assumption: Message,
    fix: advice.FixWords,
    beside: Message | None = None,
    *,
    least: float = LEAST,
) -> Rule[OneGpu]:
    return _rule_by_kind(code, way, {"": OtherWayWords(doing, assumption, fix, beside)}, least)


_FAR_FROM_ROOF: Final = _rule(
    "KERNEL-HEADROOM",
    at_reachable_pace,
    say("a kernel far from its roof, for a reason that is not in the profile"),
    say("it reaches the pace of other kernels that are limited by the same"),
    advice.FAR_FROM_ROOF,
    least=LEAST_LOST,
)


def _far_from_roof(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """By Nsight Compute where it profiled the kernels, else by what they could take at most."""
    if subject.kernels is not None:
        return headroom(replace(rule, fix=None), subject)
    return _FAR_FROM_ROOF.find(rule, subject)


_ON_FLOATS: Final = say("on FP32 tensors around them")

RULES: Final = (
    _rule_by_kind(
        "PRECISION",
        narrower_types,
        {
            "fp32": OtherWayWords(
                say("FP32 matrix kernels, which do not run on tensor cores"),
                say("they run in bfloat16 on tensor cores, and the tensors around them are half the size"),
                advice.FP32,
                _ON_FLOATS,
            ),
            "fp32 to half": OtherWayWords(
                say("FP32 matrix kernels, which do not run on tensor cores"),
                say("they run in half precision on tensor cores, and the tensors around them are half the size"),
                advice.FP32_TO_HALF,
                _ON_FLOATS,
            ),
            "fp32 weights": OtherWayWords(
                say("products with a vector, which read FP32 weights"),
                say("they read their weights in 16 bits, half the bytes"),
                advice.FP32_WEIGHTS,
                _ON_FLOATS,
            ),
            "tf32": OtherWayWords(
                say("TF32 matrix kernels, at half the tensor-core rate of 16-bit types"),
                say("they run in bfloat16, and the tensors around them are half the size"),
                advice.TF32,
                _ON_FLOATS,
            ),
            "fp64": OtherWayWords(
                say("FP64 kernels, in a program that otherwise uses none"),
                say("they run in FP32, on half the bytes"),
                advice.FP64,
            ),
        },
    ),
    _rule(
        "ATTENTION-UNFUSED",
        fuse_attention,
        say("attention is not fused: the full score matrix is written, masked, normalized and read back"),
        say("one fused kernel does it all and never writes the score matrix"),
        advice.ATTENTION,
    ),
    _rule(
        "LAYOUT",
        remove_layout_conversions,
        say("layout conversions between kernels"),
        say("one layout throughout: these kernels go away, and batch norms read contiguous memory"),
        advice.LAYOUT,
        say("of batch norms"),
    ),
    _rule(
        "DEVICE-COPY",
        remove_tensor_copies,
        say("device-to-device tensor copies"),
        say("tensors are written in place or used as views: these kernels go away"),
        advice.DEVICE_COPY,
        say("that read the copies"),
        least=LEAST_COPIED,
    ),
    _rule(
        "FULL-SORT",
        topk_instead_of_sort,
        say("whole tensors are sorted"),
        say("only the largest values are needed: picking them takes a fifth of a sort"),
        advice.FULL_SORT,
        least=LEAST_SORTED,
    ),
    _rule(
        "UNFUSED-CHAIN",
        fused_chains,
        say("chains of elementwise kernels, each reading what the last one wrote"),
        say("one fused kernel reads and writes the data once"),
        advice.UNFUSED_CHAIN,
    ),
    _rule(
        "OPTIMIZER-UNFUSED",
        fused_updates,
        say("the optimizer updates parameters one by one, in many passes over memory"),
        say("a fused optimizer reads and writes parameter, gradient and moments once"),
        advice.OPTIMIZER,
    ),
    _rule(
        "GEMM-LOOP",
        batched_products,
        say("the same small GEMM runs over and over"),
        say("one batched or grouped GEMM does them all"),
        advice.GEMM_LOOP,
    ),
    _rule(
        "MISALIGNED",
        aligned_products,
        say("matrix sizes that no fast kernel fits: rows are read in pieces, or padded first"),
        say("sizes are multiples of 16 bytes, and the kernels reach the pace of others"),
        advice.MISALIGNED,
    ),
    _rule(
        "ATTENTION-SLOW-PATH",
        fused_attention,
        say("attention that leaves the fast path: it takes a mask, or heads of an odd size"),
        say("the mask is causal and given as a flag, and heads are of a size that kernels are made for"),
        advice.ATTENTION_SLOW_PATH,
    ),
    _rule(
        "OLD-KERNEL",
        newer_attention,
        say("attention by kernels made for an older GPU"),
        say("kernels made for this one do it, as cuDNN and FlashAttention 3 have them"),
        advice.OLD_KERNEL,
    ),
    _rule(
        "RECOMPUTE",
        keep_activations,
        say("backward computes activations again"),
        say("there is room to keep them: these kernels go away"),
        advice.RECOMPUTE,
    ),
    _rule(
        "DENSE-EMBEDDING",
        update_looked_up_rows,
        say("every row of an embedding table is cleared and updated, though few were looked up"),
        say("the gradient is sparse: these kernels go through the rows that were looked up"),
        advice.DENSE_EMBEDDING,
    ),
    _rule(
        "UNUSED-RESULT",
        drop_unused_results,
        say("results that nothing reads"),
        say("only what is read is computed"),
        advice.UNUSED_RESULT,
    ),
    _rule(
        "REDUNDANT-FILL",
        drop_redundant_fills,
        say("tensors are cleared that are written as a whole, or that only need to be written"),
        say("nothing is cleared: these kernels go away"),
        advice.REDUNDANT_FILL,
    ),
    _rule(
        "ONE-HOT",
        gather_instead_of_onehot_matmul,
        say("rows are picked by a product with ones and zeros"),
        say("they are looked up"),
        advice.ONE_HOT,
    ),
    _rule(
        "UNVECTORIZED",
        vectorize_elementwise,
        say("elementwise kernels that read one element at a time, as their tensors lie across each other"),
        say("the tensors have one layout, and the kernels reach the pace of others"),
        advice.UNVECTORIZED,
    ),
    _rule(
        "TAIL-WAVE",
        remove_tail_waves,
        say("the last blocks of kernels run in a nearly empty GPU"),
        say("all waves are full: the blocks are a multiple of what the GPU has room for"),
        advice.TAIL_WAVE,
    ),
    replace(_FAR_FROM_ROOF, find=_far_from_roof),
    _rule(
        "UNDER-FILLED",
        use_all_sms,
        say("kernels with too few blocks leave most SMs idle"),
        say("their work is spread over all SMs"),
        advice.UNDER_FILLED,
    ),
)
