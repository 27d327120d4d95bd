"""CAST: kernels that only convert from one type to another.

The kernel table lists copy kernels with a conversion in them, such as `bfloat16_copy_kernel_cuda`,
`float16_copy_kernel_cuda` or `direct_copy_kernel_cuda`, often as many as there are linear layers. In a torch profile
they sit under `aten::to`, `aten::_to_copy` and `aten::copy_`. They read and write memory and compute nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.kernel_names import label
from gpuledger.catalog.kernel_types import changes_type
from gpuledger.findings.finding import Finding
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu, Rule, steady_rows
from gpuledger.findings.words import count_words, kernel_evidence, per_step
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.messages import joined, say
from gpuledger.replay.edits import Edit
from gpuledger.trace.keys import distinct, is_among
from gpuledger.trace.tables import Table

FIX: Final = FixWords.of(
    say("keep data in one type; convert once, not in each step"),
    torch=say("keep weights and activations in one type; convert weights once, not in each step"),
)
MIN_CAST_SHARE: Final = 0.01  # of the time: a few casts are part of most programs


def _casts(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    trace, device = subject.trace, subject.device
    codes = distinct(trace[Table.KERNELS].codes("name")).tolist()
    casts = [code for code in codes if changes_type(trace.strings.text(code) or "")]
    if not casts:
        return ()
    kernels = steady_rows(trace[Table.KERNELS], device, "name", "pid", "correlation")
    cast_rows = kernels.where(is_among(kernels.codes("name"), casts))
    if not len(cast_rows):
        return ()
    # where the host cannot keep up, launches that go away save their share of what is lost between launches
    late = device.idle_by_trigger.get(QueueTrigger.BEHIND, 0)
    time = int(cast_rows.duration_ns.sum()) + late * len(cast_rows) // len(kernels)
    if time < MIN_CAST_SHARE * device.steady_ns:
        return ()
    count = count_words(device, len(cast_rows), say("kernel"), say("kernels"))
    claim = say("{kernels} that only convert dtypes: {time}", kernels=count, time=per_step(device, time))
    names = joined(say(", "), sorted({label(trace.strings.text(code) or "") for code in casts})[:3])
    evidence, edit = (
        (kernel_evidence(names, cast_rows, np.ones(len(cast_rows), np.bool_)),),
        drop_kernels(subject.fixes, casts),
    )
    saving, assumption = subject.saved_ns(edit, time), say("the dtype is kept, or converted inside another kernel")
    return [rule.finding(device, claim, evidence, saving, assumption, explains=time, edit=edit)]


def drop_kernels(fixes: Fixes, codes: list[int]) -> Edit:
    """Kernels of these names do not run and are not launched."""
    chosen = fixes.steady_operations(State.COMPUTE)
    return fixes.not_launched(chosen[is_among(fixes.work.name[chosen], codes)])


RULE: Final = Rule("CAST", _casts, FIX)
