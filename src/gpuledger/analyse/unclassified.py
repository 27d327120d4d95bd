"""Kernels of no known family: a device in, the names of those that take the most of its steady time out."""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.catalog.kernel_families import OTHER
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.ledger.activity import State
from gpuledger.ledger.device import Device
from gpuledger.ledger.lines import UNCLASSIFIED
from gpuledger.messages import Message, joined, say
from gpuledger.trace.model import Trace
from gpuledger.units import share_text

MOST_NAMES: Final = 3


def unclassified_names(trace: Trace, device: Device) -> tuple[str, ...]:
    """A few of them, the most time first."""
    work = device.work
    unknown = np.array([family == OTHER for family in work.families], np.bool_)
    mine = np.flatnonzero((work.state == State.COMPUTE) & (work.gpu == device.gpu) & (work.family >= 0))
    mine = mine[unknown[work.family[mine]]]
    mine = mine[device.begins_steady(work.start_ns[mine])]
    codes, number = np.unique(work.name[mine], return_inverse=True)
    time = np.bincount(number, weights=(work.end_ns - work.start_ns)[mine], minlength=len(codes))
    names = [trace.strings.text(int(code)) or "" for code in codes[np.argsort(-time, kind="stable")]]
    return tuple(list(dict.fromkeys(cut_label(label(name)) for name in names if name))[:MOST_NAMES])


def about_unclassified(trace: Trace, device: Device) -> Message | None:
    """How much of compute they are; None where there are none."""
    time = device.line_ns.get(UNCLASSIFIED, 0)
    if not time:
        return None
    return say(
        "{share} of compute is in kernels of no known family, mostly {names}; --families assigns one.",
        share=share_text(time / device.compute_ns),
        names=joined(say(", "), (f"`{name}`" for name in unclassified_names(trace, device))),
    )
