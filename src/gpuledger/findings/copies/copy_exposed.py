"""COPY-EXPOSED: copies run while nothing computes.

The time breakdown has many `exposed copies`: for that time only copies or memsets ran on the GPU. On the timeline a
transfer runs alone, with compute before and after it. What overlaps with compute is listed beside the line as hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from gpuledger.analyse.memory.figures import WITHIN_DEVICE
from gpuledger.findings.copies.flows import (
    are_most_of_time,
    could_be_hidden_ns,
    exposed_copies_ns,
    exposed_flows,
    launched_flows,
    pageable_loss_ns,
    run_beside_compute,
    share_of_time,
)
from gpuledger.findings.finding import Finding
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import per_step
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import LineKind
from gpuledger.messages import say

_WITHIN_DEVICE: Final = say("write results in place, or where they are used, and copy many small tensors in one kernel")
MIN_EXPOSED_SHARE: Final = 0.01  # of the time: inputs have to come from somewhere


def _exposed_copies(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Copies that compute could hide. Where copies are most of the time it cannot: that is COPY-BOUND."""
    device, flows = subject.device, launched_flows(subject)
    exposed = exposed_copies_ns(flows)
    if not exposed or are_most_of_time(device, flows):
        return ()
    # copies of pageable memory cannot overlap at all: that is another finding's
    lost = could_be_hidden_ns(device, exposed - pageable_loss_ns(flows))
    if lost < MIN_EXPOSED_SHARE * device.steady_ns:
        return ()
    edit = rule.edit_of(subject)
    saving, assumption = subject.saved_ns(edit, lost), say("compute in the same step hides it, without slowing down")
    time = per_step(device, exposed)
    claim = say("{time} of {what} not overlapped with compute", time=time, what=say("copies"))
    evidence = (share_of_time(device, exposed), *exposed_flows(subject, flows))
    finding = rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)
    is_within = 2 * sum(flow.exposed_ns for flow in flows if flow.kind in WITHIN_DEVICE) > exposed
    return [replace(finding, fix=_WITHIN_DEVICE if is_within else finding.fix)]


RULE: Final = Rule(
    "COPY-EXPOSED",
    _exposed_copies,
    say("keep data on the device, or copy one step ahead on a side stream from pinned memory"),
    edit=partial(run_beside_compute, state=State.COPY),
    exposed=LineKind.COPY,
)
