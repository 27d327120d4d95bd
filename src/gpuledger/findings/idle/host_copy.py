"""HOST-COPY: the host waits for many small copies.

As in HOST-SYNC the queue empties during a blocking call, but the call waits for a small copy, and there are many of
them. On the timeline kernels alternate with copies of a few bytes, each followed by a synchronization; `cuda_api_sum`
shows `cudaMemcpyAsync` and `cudaStreamSynchronize` in similar numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.catalog.calls import CallKind
from gpuledger.findings.finding import Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.idle.gap_evidence import gap_evidence
from gpuledger.findings.idle.host_sync import SMALL_COPY_NS, WAITED, rounds_text, time_between_copies_ns
from gpuledger.findings.idle.occupied import gap_time
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import State
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import QueueTrigger
from gpuledger.messages import say
from gpuledger.replay.edits import Edit, without_waits
from gpuledger.trace.keys import is_among

FIX: Final = FixWords.of(
    say("pack the small copies into one"),
    torch=say("replace the loop of small copies by one tensor operation, or pack them into one copy"),
    openacc=say("update whole arrays once (`acc update`), not elements or sections in a loop"),
    openmp=say("update whole arrays once (`target update`), not elements or sections in a loop"),
    julia=say("copy whole arrays: `CUDA.allowscalar(false)` finds what goes element by element"),
)


def _small_copies(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The host waits for one small copy after the other."""
    device = subject.device
    time, count = gap_time(device, *WAITED)
    if not count or 2 * time_between_copies_ns(device) <= time:
        return ()
    lost = time + device.exposed_ns(LineKind.COPY)
    if not is_significant(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    rounds = rounds_text(device, time)
    claim = say("back-to-back small blocking copies drain the queue: {rounds}", rounds=rounds)
    assumption = say("one packed, asynchronous copy takes the place of the small ones")
    evidence = gap_evidence(subject, QueueTrigger.DRAINED)
    return [rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)]


def pack_small_copies(fixes: Fixes) -> Edit:
    """One copy takes the place of each run of small ones, and nobody waits for it."""
    work = fixes.work
    copies = fixes.steady_operations(State.COPY)
    copies = copies[work.end_ns[copies] - work.start_ns[copies] < SMALL_COPY_NS]
    call = fixes.graph.calls_of(copies)
    run, place = fixes.launch_group, np.arange(len(fixes.kinds))
    first, last = np.full(len(run), len(run)), np.full(len(run), -1)
    np.minimum.at(first, run[call], call)
    np.maximum.at(last, run[call], call)
    # whatever else the host does between two copies of a run, or right after one, goes with them
    between = (place > first[run]) & (place <= last[run])
    follows = is_among(fixes.previous_call, call) & fixes.steady & (fixes.kinds != CallKind.LAUNCH.number)
    gone = fixes.drop_calls(np.flatnonzero(between | follows))
    return lambda graph: without_waits(gone(graph), np.flatnonzero(place == first[run]))


RULE: Final = Rule("HOST-COPY", _small_copies, FIX, edit=pack_small_copies, triggers=WAITED)
