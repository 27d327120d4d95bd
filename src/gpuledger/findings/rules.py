"""The rules that a profile is held against, in the order in which they are asked. CONTRIBUTING.md says how to add one.

`ranks/job_findings.py` lists those of a job of many ranks, `memory/snapshot_findings.py` those of a memory snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gpuledger.findings.about_gaps import ABOUT_GAPS
from gpuledger.findings.capture import (
    capture_damaged,
    capture_graphs_opaque,
    capture_loss,
    capture_overhead,
    capture_warmup,
)
from gpuledger.findings.copies import comm_exposed, copy_bound, copy_exposed, copy_pageable, unified_memory
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.idle import kernel_loop, tiny_kernels
from gpuledger.findings.kernels import (
    attention,
    cast,
    clocks_low,
    copied_tensors,
    elementwise,
    grids,
    kernel_headroom,
    needless_work,
    precision,
    products,
)
from gpuledger.findings.memory import alloc_churn
from gpuledger.findings.rule import Capture, OneGpu, Rule
from gpuledger.findings.steps import cold_start, step_periodic, unusual_steps
from gpuledger.replay.edits import Edit

ABOUT_WORK: Final[tuple[Rule[OneGpu], ...]] = (
    copy_bound.RULE,
    copy_exposed.RULE,
    copy_pageable.RULE,
    comm_exposed.RULE,
    unified_memory.RULE,
    alloc_churn.RULE,
    cast.RULE,
    tiny_kernels.RULE,
    kernel_loop.RULE,
    clocks_low.RULE,
    precision.RULE,
    attention.ATTENTION_UNFUSED,
    copied_tensors.LAYOUT,
    copied_tensors.DEVICE_COPY,
    needless_work.FULL_SORT,
    elementwise.UNFUSED_CHAIN,
    elementwise.OPTIMIZER_UNFUSED,
    products.GEMM_LOOP,
    products.MISALIGNED,
    attention.ATTENTION_SLOW_PATH,
    attention.OLD_KERNEL,
    needless_work.RECOMPUTE,
    needless_work.DENSE_EMBEDDING,
    needless_work.UNUSED_RESULT,
    needless_work.REDUNDANT_FILL,
    products.ONE_HOT,
    elementwise.UNVECTORIZED,
    grids.TAIL_WAVE,
    kernel_headroom.RULE,
    grids.UNDER_FILLED,
    step_periodic.RULE,
    unusual_steps.STEP_OUTLIERS,
    unusual_steps.STEP_DRIFT,
    cold_start.RULE,
)
OF_ONE_GPU: Final = (*ABOUT_GAPS, *ABOUT_WORK)
FIRST: Final[tuple[Rule[Capture], ...]] = (capture_damaged.RULE, capture_loss.LOST_WORK, capture_warmup.GRAPH_CAPTURE)
"""What comes before all that a profile says of the program."""

LAST: Final[tuple[Rule[Capture], ...]] = (
    capture_graphs_opaque.RULE,
    capture_overhead.RULE,
    capture_loss.RULE,
    capture_warmup.RULE,
)

RULES: Final[tuple[Rule[Any], ...]] = (*OF_ONE_GPU, *FIRST, *LAST)
REFUSALS: Final = ("CAPTURE-EMPTY",)  # codes that have a page, and that a refusal names instead of a finding
RULE_OF: Final[Mapping[str, Rule[Any]]] = {rule.code: rule for rule in reversed(RULES)}

EDIT_OF: Final[Mapping[str, Callable[[Fixes], Edit]]] = {
    rule.code: rule.edit for rule in OF_ONE_GPU if rule.edit is not None
}
"""What stands for acting on a code. Others are about the capture, say when and not why, or edit what they found."""
