"""Findings about a GPU that is busy with the wrong work: kernels that need not run, or that others do much faster.

They are told by names, sizes and by what follows what (`analyse.wasted_work`): less sure than what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from gpuledger.analyse.steady_kernels import Shortened
from gpuledger.analyse.wasted_work import (
    batched_products,
    between_products,
    fused_chains,
    fused_updates,
    narrower_types,
    one_layout,
    picked_sorts,
    spread,
    views,
)
from gpuledger.catalog.frameworks import Framework, framework_of
from gpuledger.catalog.kernel_names import cut_label, label
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
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import Message, joined, say
from gpuledger.records import dataclass
from gpuledger.trace.keys import distinct, is_among
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.units import share_text

LEAST: Final = 0.03
"""What would save less of the time than this is no matter."""

LEAST_COPIED: Final = 0.1
"""So much may be copied within the GPU: what is written into a cache is a copy as well."""

LEAST_SORTED: Final = 0.1
"""So much may be sorted: whether all of it is needed cannot be seen."""

MOST_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class OtherWayWords:
    """What kernels do, what is assumed of those that would run instead, and what to change, by framework."""

    doing: Message
    assumption: Message
    advice: Mapping[Framework, Message]


def _shorter_another_way(
    way: OtherWay, words: Mapping[str, OtherWayWords], least: float, rule: Rule[OneGpu], subject: OneGpu
) -> Sequence[Finding]:
    device, scene, work = subject.device, subject.scenario, subject.fixes.work
    chosen = subject.fixes.shorter(way)
    if not len(chosen):
        return ()
    took = (work.end_ns - work.start_ns)[chosen.operations]
    less = (took - chosen.duration_ns).sum() + _between_ns(subject, chosen)
    time, lost = (scene.of_steady(int(amount)) for amount in (took.sum(), less))
    if lost < least * device.steady_ns:
        return ()
    edit = rule.edit_of(subject)
    count = round(len(chosen) * device.step_count / scene.part.steps)
    kernels = count_words(device, count, say("kernel"), say("kernels"))
    said = words[chosen.kind]
    claim = say("{doing}: {kernels}, {time}", doing=said.doing, kernels=kernels, time=per_step(device, time))
    evidence = _evidence(subject, chosen, time / device.steady_ns)
    saving = subject.saved_ns(edit, lost)
    if not worth_telling(device, saving):
        return ()
    faster = rule.finding(device, claim, evidence, saving, said.assumption, explains=lost, edit=edit)
    confidence = faster.confidence if chosen.was_sampled else say("medium")  # by their names
    return [replace(faster, fix=_advice(subject, said), confidence=confidence)]


def _between_ns(subject: OneGpu, chosen: Shortened) -> int:
    """What the device takes to get to those kernels that would not run."""
    device, gaps = subject.device, subject.device.ledger.gaps
    own = np.concatenate([device.gaps_of(trigger) for trigger in (Cause.TURNAROUND, Cause.GRAPH)])
    here, operations = subject.scenario.part.places(gaps.after[own])
    gone = is_among(operations, chosen.operations[chosen.duration_ns == 0])
    return int(gaps.length_ns[own[here]][gone].sum())


def _evidence(subject: OneGpu, chosen: Shortened, share: float) -> tuple[Evidence, ...]:
    """The kernels that take the most of it."""
    work, strings = subject.fixes.work, subject.trace.strings
    took = (work.end_ns - work.start_ns)[chosen.operations]
    codes, number = np.unique(work.name[chosen.operations], return_inverse=True)
    by_name = np.bincount(number, weights=took)
    names = [strings.text(int(code)) or "" for code in codes[np.argsort(-by_name, kind="stable")]]
    shown = list(dict.fromkeys(cut_label(label(name)) for name in names))[:MOST_NAMES]
    rows = chosen.operations[largest(took, MOST_EXAMPLES)]
    first = int(rows[0])
    return (
        Evidence(
            say("{share} of the time in {names}", share=share_text(share), names=joined(say(", "), shown)),
            span=Span(int(work.start_ns[first]), int(work.end_ns[first])),
            pid=int(work.pid[first]),
            kernel=names[0],
            correlations=tuple(work.gathered_at("correlation", rows).tolist()),
            count=len(chosen),
            share=share if share >= LEAST_SHARE else None,
            of=say("the time"),
        ),
    )


def _advice(subject: OneGpu, words: OtherWayWords) -> Message:
    """What to change, in the words of the framework; as CUDA has it, where that has none of its own for it."""
    strings = subject.trace.strings
    framework = framework_of(strings.text(int(name)) or "" for name in distinct(subject.fixes.busy.names))
    return words.advice.get(framework, words.advice[Framework.CUDA])


def _rule(code: str, way: OtherWay, words: Mapping[str, OtherWayWords], least: float = LEAST) -> Rule[OneGpu]:
    """A rule about kernels that another way of doing their work would make shorter; words by what is found."""
    find, general = partial(_shorter_another_way, way, words, least), next(iter(words.values()))
    edit = partial(Fixes.another_way, way=way)
    return Rule(code, find, general.advice[Framework.CUDA], edit=edit, is_estimate=True)


RULES: Final = (
    _rule(
        "PRECISION",
        narrower_types,
        {
            "fp32": OtherWayWords(
                say("FP32 matrix kernels, which do not run on tensor cores"),
                say("they run in bfloat16 on tensor cores, and the tensors around them are half the size"),
                {
                    Framework.TORCH: say(
                        "`model.to(torch.bfloat16)`, or `torch.set_float32_matmul_precision('high')` for TF32"
                    ),
                    Framework.JAX: say(
                        "parameters and inputs in `jnp.bfloat16`, or `jax_default_matmul_precision='tensorfloat32'`"
                    ),
                    Framework.TENSORRT: say("build the engine with `--bf16` or `--fp16`"),
                    Framework.CUDA: say("`cublasGemmEx` with 16-bit inputs, or `CUBLAS_COMPUTE_32F_FAST_TF32`"),
                },
            ),
            "tf32": OtherWayWords(
                say("TF32 matrix kernels, at half the tensor-core rate of 16-bit types"),
                say("they run in bfloat16, and the tensors around them are half the size"),
                {
                    Framework.TORCH: say(
                        "`model.to(torch.bfloat16)`, or `torch.set_float32_matmul_precision('high')` for TF32"
                    ),
                    Framework.JAX: say(
                        "parameters and inputs in `jnp.bfloat16`, or `jax_default_matmul_precision='tensorfloat32'`"
                    ),
                    Framework.TENSORRT: say("build the engine with `--bf16` or `--fp16`"),
                    Framework.CUDA: say("`cublasGemmEx` with 16-bit inputs, or `CUBLAS_COMPUTE_32F_FAST_TF32`"),
                },
            ),
            "fp64": OtherWayWords(
                say("FP64 kernels, in a program that otherwise uses none"),
                say("they run in FP32, on half the bytes"),
                {
                    Framework.TORCH: say(
                        "NumPy defaults to float64: `astype(np.float32)` before `torch.from_numpy`, and no `.double()`"
                    ),
                    Framework.JAX: say("leave `jax_enable_x64` off, and cast NumPy arrays to float32"),
                    Framework.CUDA: say("float instead of double, and constants as `1.0f`"),
                },
            ),
        },
    ),
    _rule(
        "ATTENTION-UNFUSED",
        between_products,
        {
            "": OtherWayWords(
                say("attention is not fused: the full score matrix is written, masked, normalized and read back"),
                say("one fused kernel does it all and never writes the score matrix"),
                {
                    Framework.TORCH: say(
                        "`F.scaled_dot_product_attention`, or `attn_implementation='sdpa'` in transformers"
                    ),
                    Framework.JAX: say("`jax.nn.dot_product_attention(implementation='cudnn')`"),
                    Framework.CUDA: say("a FlashAttention kernel, or cuDNN's fused attention"),
                },
            )
        },
    ),
    _rule(
        "LAYOUT",
        one_layout,
        {
            "": OtherWayWords(
                say("layout conversions between kernels"),
                say("one layout throughout: these kernels go away, and batch norms read contiguous memory"),
                {
                    Framework.TORCH: say("model and inputs `.to(memory_format=torch.channels_last)`"),
                    Framework.JAX: say("NHWC in `dimension_numbers` of `lax.conv_general_dilated`"),
                    Framework.TENSORRT: say(
                        "give inputs and outputs the format that the engine's layers use (`--inputIOFormats`)"
                    ),
                    Framework.CUDA: say("`CUDNN_TENSOR_NHWC` for tensors and filters throughout"),
                },
            )
        },
    ),
    _rule(
        "DEVICE-COPY",
        views,
        {
            "": OtherWayWords(
                say("device-to-device tensor copies"),
                say("tensors are written in place or used as views: these kernels go away"),
                {
                    Framework.TORCH: say(
                        "views instead of `.contiguous()` and `torch.cat`; write into preallocated buffers"
                    ),
                    Framework.JAX: say("`jax.lax.dynamic_update_slice` with donated buffers (`donate_argnums`)"),
                    Framework.CUDA: say("write results where they are read"),
                },
            )
        },
        LEAST_COPIED,
    ),
    _rule(
        "FULL-SORT",
        picked_sorts,
        {
            "": OtherWayWords(
                say("whole tensors are sorted"),
                say("only the largest values are needed: picking them takes a fifth of a sort"),
                {
                    Framework.TORCH: say(
                        "`torch.topk` for the few largest, `torch.bincount` to count; a sampler without a sort "
                        "for top-p"
                    ),
                    Framework.JAX: say("`jax.lax.top_k`, or `jax.lax.approx_max_k`, for the few largest"),
                    Framework.CUDA: say(
                        "a selection of the few largest (RAFT's `select_k`), or a sort of fewer values"
                    ),
                },
            )
        },
        LEAST_SORTED,
    ),
    _rule(
        "UNFUSED-CHAIN",
        fused_chains,
        {
            "": OtherWayWords(
                say("chains of elementwise kernels, each reading what the last one wrote"),
                say("one fused kernel reads and writes the data once"),
                {
                    Framework.TORCH: say(
                        "`torch.compile`, or one operator for it: `F.rms_norm`, `F.layer_norm`, `F.gelu`"
                    ),
                    Framework.JAX: say("call it inside one `jax.jit`, which fuses it"),
                    Framework.CUDA: say("one kernel that keeps intermediates in registers"),
                },
            )
        },
    ),
    _rule(
        "OPTIMIZER-UNFUSED",
        fused_updates,
        {
            "": OtherWayWords(
                say("the optimizer updates parameters one by one, in many passes over memory"),
                say("a fused optimizer reads and writes parameter, gradient and moments once"),
                {
                    Framework.TORCH: say("`torch.optim.AdamW(..., fused=True)`"),
                    Framework.CUDA: say("one kernel for all passes over a parameter"),
                },
            )
        },
    ),
    _rule(
        "GEMM-LOOP",
        batched_products,
        {
            "": OtherWayWords(
                say("the same small GEMM runs over and over"),
                say("one batched or grouped GEMM does them all"),
                {
                    Framework.TORCH: say("`torch.bmm`, or `torch._grouped_mm` where sizes differ"),
                    Framework.JAX: say("`jax.vmap` over the loop, or `jax.lax.ragged_dot` where sizes differ"),
                    Framework.CUDA: say("`cublasGemmStridedBatchedEx`, or CUTLASS's grouped GEMM"),
                },
            )
        },
    ),
    _rule(
        "UNDER-FILLED",
        spread,
        {
            "": OtherWayWords(
                say("kernels with too few blocks leave most SMs idle"),
                say("their work is spread over all SMs"),
                {
                    Framework.TORCH: say("one call for all rows or requests, instead of a loop over them"),
                    Framework.JAX: say("`jax.vmap` instead of a loop"),
                    Framework.CUDA: say("more blocks: split rows, or handle several of them in one launch"),
                },
            )
        },
    ),
)
