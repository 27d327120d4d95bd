"""What findings about an occupied host share: it does something else than launching, and the GPU waits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

import numpy as np
from msgspec.structs import replace

from gpuledger.attribution.lost_time import MOSTLY
from gpuledger.findings.finding import Evidence, Finding, is_significant
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.idle.gap_evidence import gap_evidence
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.single_gap import OCCUPATIONS, lost_time_words
from gpuledger.findings.words import per_step
from gpuledger.ledger.causes import Cause, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.regex import regex
from gpuledger.replay.edits import Edit, without_code
from gpuledger.trace.keys import Positions
from gpuledger.trace.model import Trace
from gpuledger.trace.statistics import median
from gpuledger.trace.tables import Table

MIN_SAVING_PER_GAPS: Final = 1.1  # a saving that exceeds the gaps of its cause by less is not explained
_FRAME_RATES: Final = (15, 20, 24, 25, 30, 48, 50, 60, 72, 90, 120)
_MAX_RATE_ERROR: Final = 0.005
_MIN_FRAMES: Final = 8
_LOADING: Final = say("the data loader prepares the next batch")
PYTHON_PROCESS: Final = regex(r"python|^pt_main")
_PLACED_BY_LINES: Final = (Cause.HOST_CODE, Cause.OS, Cause.WAIT_THREAD)

_LOADERS: Final = (
    (
        regex(r"_SingleProcessDataLoaderIter"),
        say(
            "load in worker processes, which prefetch: `DataLoader(num_workers=4, pin_memory=True, "
            "persistent_workers=True)`; or decode on the GPU"
        ),
    ),
    (
        regex(r"_MultiProcessingDataLoaderIter"),
        say(
            "give the data loader more workers (`num_workers`) and a larger `prefetch_factor`, with `pin_memory=True`; "
            "or decode on the GPU (nvJPEG, DALI)"
        ),
    ),
    (
        regex(r"DALI|\breaders__\w+|(?:File|Record|MXNet|COCO|Caffe2?|Video|Numpy|Webdataset|LMDB)Reader"),
        say(
            "give DALI more threads (`num_threads`) and a deeper `prefetch_queue_depth`, and decode on the GPU "
            "(`device='mixed'`)"
        ),
    ),
    (
        regex(r"DataLoader\b|torch/utils/data/|IteratorGetNext"),
        say("load in workers, pin the memory, prefetch a batch ahead, or decode on the GPU"),
    ),
)
"""Data loaders by the ranges and functions that they run in, and what to do about each; the first that matches."""

Details = Callable[[OneGpu, Sequence[Evidence], Message, Message | None], tuple[Message, Message | None]]
"""Says more exactly what the host does, and what to do about it, from the evidence."""


def gap_time(device: Device, *triggers: Trigger) -> tuple[int, int]:
    """Time and number of the steady gaps that these set off."""
    lost = [amounts for (trigger, _), amounts in device.triggers.items() if trigger in triggers]
    return sum(time for time, _ in lost), sum(count for _, count in lost)


def host_is_occupied(
    rule: Rule[OneGpu], subject: OneGpu, *, doing: Message, details: Details | None = None
) -> Sequence[Finding]:
    """The host did something else than launching."""
    device, [cause] = subject.device, rule.triggers
    time, count = gap_time(device, cause)
    if not count or not is_significant(device, time):
        return ()
    if (rate := _source_rate(device, device.gaps_of(cause))) is not None:
        return [_paced(rule, subject, time, rate)]
    evidence = gap_evidence(subject, cause)
    fix = _loading_fix(evidence)
    if fix is not None:
        doing = _LOADING
    if details is not None:
        doing, fix = details(subject, evidence, doing, fix)
    claim = say("the GPU waits {time} while {doing}", time=lost_time_words(device, time, rule.triggers), doing=doing)
    assumption = say("the step shrinks to what the GPU, or the rest of the host, needs")
    busy = with_backlog(rule, subject, claim, evidence, assumption, time)
    command = lines_command(subject.trace, evidence) if cause in _PLACED_BY_LINES else None
    follows = "LAUNCH-BOUND" if 2 * time < busy.saving_ns else ""  # most of it is lost where launches come late
    return [replace(busy, fix=fix or busy.fix, follows=follows, next=command or busy.next)]


def with_backlog(
    rule: Rule[OneGpu],
    subject: OneGpu,
    claim: Message,
    evidence: tuple[Evidence, ...],
    assumption: Message,
    gaps_ns: int,
) -> Finding:
    """A finding that saves its gaps and, where it is much, those after them, in which the host is still behind."""
    edit = rule.edit_of(subject)
    saving = saved_with_backlog_ns(subject, edit, gaps_ns, behind_ns(subject.device))
    claim = with_what_follows(subject.device, claim, gaps_ns, saving)
    explains = max(gaps_ns, saving)
    return rule.finding(subject.device, claim, evidence, saving, assumption, explains=explains, edit=edit)


def lines_command(trace: Trace, evidence: Sequence[Evidence]) -> str | None:
    """The capture that would name the line, where the program is Python's and no stack of it was recorded."""
    if any(piece.line is not None for piece in evidence) or (
        Table.SAMPLES in trace.tables and trace.strings.code("python") in trace[Table.SAMPLES].codes("source")
    ):
        return None
    is_torch = trace.origin.tool != "nsys"
    is_python = is_torch or any(PYTHON_PROCESS.search(process.name or "") for process in trace.origin.processes)
    return f"gpuledger capture {'torch' if is_torch else 'nsys'} -- COMMAND" if is_python else None


def _source_rate(device: Device, chosen: Positions) -> int | None:
    """How many times a second a source lets the GPU go on, where one sets the pace: a camera, a video; else None.

    Work that follows a clock begins more evenly than it waits: what it takes longer, it waits less. Work that waits for
    the host's own code takes as much longer as that does.
    """
    gaps, length_ns = device.ledger.gaps, device.ledger.gaps.length_ns[chosen]
    long = chosen[2 * length_ns >= length_ns.max(initial=0)]
    period_ns, waits_ns = np.diff(gaps.end_ns[long]), gaps.length_ns[long]
    if len(long) < _MIN_FRAMES:
        return None
    usual_ns = median(period_ns)
    uneven_ns = median(np.abs(period_ns - usual_ns))
    rate = min(_FRAME_RATES, key=lambda rate: abs(1e9 / rate - usual_ns))
    is_frames = abs(1e9 / rate - usual_ns) <= _MAX_RATE_ERROR * usual_ns and uneven_ns <= _MAX_RATE_ERROR * usual_ns
    is_paced = is_frames and 2 * uneven_ns < median(np.abs(waits_ns - median(waits_ns)))
    return rate if is_paced else None


def _paced(rule: Rule[OneGpu], subject: OneGpu, time: int, rate: int) -> Finding:
    """Nothing is saved of waiting for what comes when it comes."""
    claim = say(
        "the GPU waits {time} for its next input: work begins evenly, {rate} times a second, at the rate of its source",
        time=per_step(subject.device, time),
        rate=rate,
    )
    fix = say("nothing, where a camera or a clock sets the pace; else feed it as fast as it takes")
    evidence, assumption = gap_evidence(subject, rule.triggers[0]), say("inputs come no sooner")
    return replace(rule.finding(subject.device, claim, evidence, 0, assumption, explains=time), fix=fix)


def _loading_fix(evidence: Sequence[Evidence]) -> Message | None:
    """What to do about a data loader that the host was in, or waited for, for most of the time; None where none is."""
    names = [
        (*piece.ranges, piece.sentence, *(piece.line.stack if piece.line else ()))
        for piece in evidence
        if (piece.share or 0.0) >= MOSTLY
    ]
    return next((fix for loader, fix in _LOADERS if any(map(loader.search, chain(*names)))), None)


def saved_with_backlog_ns(subject: OneGpu, edit: Edit, gaps_ns: int, after_ns: int) -> int:
    """What a change saves of the gaps of a cause and, where it is much, of those after them."""
    saving = subject.saved_ns(edit, gaps_ns + after_ns)
    return saving if saving > MIN_SAVING_PER_GAPS * gaps_ns else min(saving, gaps_ns)


def is_worth_mentioning(part_ns: int, whole_ns: int) -> bool:
    """Whether a claim names a part beside the rest: a twentieth of the whole, or nobody would miss it."""
    return 0 < whole_ns <= 20 * part_ns


def with_what_follows(device: Device, claim: Message, gaps_ns: int, saving: int) -> Message:
    """The claim, and what is lost after its gaps: the host is behind until it has queued enough again."""
    if not is_worth_mentioning(saving - gaps_ns, saving):
        return claim
    more = per_step(device, saving - gaps_ns)
    return say("{claim}, and {more} more until the host is ahead again", claim=claim, more=more)


def behind_ns(device: Device) -> int:
    """The gaps in which the host was behind."""
    return gap_time(device, QueueTrigger.BEHIND)[0]


def without_code_of(fixes: Fixes, cause: Cause) -> Edit:
    """Code of this cause takes no time, but for what lies in gaps that another occupation of the host set off."""
    code = fixes.code_ns(cause)
    elsewhere = fixes.in_gaps(*(other for other in OCCUPATIONS if other is not cause))
    calls = np.flatnonzero(fixes.steady & (code > 0) & ~elsewhere)
    return lambda graph: without_code(graph, calls, code[calls])
