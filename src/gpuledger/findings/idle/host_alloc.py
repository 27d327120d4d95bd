"""HOST-ALLOC: the GPU waits while the host allocates or frees memory.

The time breakdown has `idle: allocation`, and gaps whose largest part is a call such as `cudaMalloc`, `cudaFree`,
`cudaHostAlloc`, `cudaFreeHost`, `cuMemCreate` or `cuMemMap`. On the timeline such a call covers the gap, and often it
begins while the GPU is still working: a `cudaFree` waits for the work before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gpuledger.attribution.lost_time import MOSTLY
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.frameworks import Framework
from gpuledger.findings.finding import Evidence
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.idle.occupied import host_is_occupied
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.causes import Cause
from gpuledger.messages import Message, say
from gpuledger.regex import regex

FIX: Final = FixWords.of(
    say("allocate once at start-up; allocate, free and pin nothing in the loop"),
    torch=say("allocate once at start-up; no `cudaMalloc`, `empty_cache()` or pinning in the loop"),
    jax=say("donate inputs that are not needed again (`donate_argnums`), and leave `XLA_PYTHON_CLIENT_PREALLOCATE` on"),
    tensorflow=say("leave `set_memory_growth` off, so that memory is allocated once"),
    cupy=say("keep CuPy's memory pool, without `free_all_blocks()` in the loop; give results an `out=`"),
    numba=say("make arrays once with `cuda.device_array`, and pass these to kernels, not NumPy arrays"),
    julia=say("allocate before the loop and write in place (`.=`, `mul!`); no `CUDA.reclaim()` in it"),
    openacc=say("put one `acc data` region around the loop: entering a region allocates its arrays"),
    openmp=say("put one `target data` region around the loop: each `map` allocates its arrays"),
    cuda=say("allocate before the loop, or from a pool with `cudaMallocAsync`"),
    hip=say("allocate before the loop, or from a pool with `hipMallocAsync`"),
)

_PINS: Final = regex(r"HostRegister|HostAlloc|MallocHost")
_PIN_ONCE: Final = FIX.words(Framework.ANY)
"""Whose memory is pinned, MPI's or an array's, does not depend on what launches the kernels."""


def _pinned(
    _subject: OneGpu, evidence: Sequence[Evidence], doing: Message, fix: Message | None
) -> tuple[Message, Message | None]:
    pins = any(_PINS.search(piece.call) for piece in evidence if (piece.share or 0) >= MOSTLY)
    return doing, _PIN_ONCE if pins else fix


RULE: Final = Rule(
    "HOST-ALLOC",
    partial(host_is_occupied, doing=say("the host allocates or frees memory"), details=_pinned),
    FIX,
    edit=lambda fixes: fixes.drop_calls(fixes.steady_calls(CallKind.ALLOC)),
    triggers=(Cause.ALLOC,),
)
