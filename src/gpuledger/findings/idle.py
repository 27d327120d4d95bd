"""Findings about idle time: one rule per way in which a GPU is left without work.

Their evidence: the places that hold the lost time, what came before and after, and what it was booked to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.memory.figures import TO_DEVICE
from gpuledger.attribution.lines import LinePlace
from gpuledger.attribution.lost_time import MOSTLY, LostTime, ThreadTime, lost_time, waits_behind
from gpuledger.attribution.places import (
    RangePlace,
    StackPlace,
    ThreadPlaces,
    awaited_thread,
    calls_behind,
    host_function_ns,
    launch_ranges,
    places,
    places_of_other,
    program_thread,
    wait_places,
)
from gpuledger.catalog.calls import CallKind
from gpuledger.catalog.compilers import Compiler
from gpuledger.catalog.frameworks import Framework
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings import advice
from gpuledger.findings.finding import (
    LEAST_SHARE,
    MOST_EXAMPLES,
    OCCUPATIONS,
    Evidence,
    Finding,
    count_words,
    lost_time_words,
    often,
    path_in_claim,
    path_text,
    per_step,
    short_text,
    worth_telling,
)
from gpuledger.findings.fixes import SMALL_COPY_NS, Fixes
from gpuledger.findings.kernels import LEAST_LAUNCHES, are_most_of_launching, loop_evidence
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.ledger.activity import State, calls_in_layers, short_function_name
from gpuledger.ledger.books import LineKind
from gpuledger.ledger.causes import TRIGGERS, Cause, QueueTrigger, Trigger
from gpuledger.ledger.compilations import compilations
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import thread
from gpuledger.messages import Message, joined, say
from gpuledger.regex import regex
from gpuledger.replay.edits import Edit
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, distinct, is_among
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Ints, Span, covered, intersection, total, union
from gpuledger.trace.statistics import largest, median
from gpuledger.trace.tables import Table
from gpuledger.units import share_text

_OF_LOST: Final = say("the lost time")


def gap_evidence(subject: OneGpu, trigger: Trigger) -> tuple[Evidence, ...]:
    """What is known of the steady gaps with one trigger."""
    device = subject.device
    chosen = device.gaps_of(trigger)
    lost = lost_time(device, chosen, trigger)
    if not lost.ns:
        return ()
    pieces = _GapEvidence(subject, trigger, lost)
    if trigger is QueueTrigger.DRAINED:
        where = pieces.waits()
    elif trigger in (Cause.DEVICE_WAIT, Cause.CONTEXT_SWITCH):
        where = pieces.launches()
    else:
        where = pieces.host()
    return (*where, pieces.before(), *pieces.by_cause(chosen))


class _GapEvidence(Struct, frozen=True):
    """Pieces of evidence about gaps with one trigger."""

    subject: OneGpu
    trigger: Trigger
    lost: LostTime

    @property
    def _device(self) -> Device:
        return self.subject.device

    def host(self) -> Iterator[Evidence]:
        """Where the host was: the thread that launches, or the one that it waited for."""
        trace, ranges, lost = self.subject.trace, self.subject.ranges, self.lost
        held = places(trace, ranges, lost.by_thread, calls_behind(trace, self._device, self.trigger))
        other, why = awaited_thread(trace, lost), say("which the launching thread waits on")
        if other is None:
            other, why = program_thread(ranges, lost), say("while the launching thread is in no range")
        elsewhere = None if other is None else self._on_thread(places_of_other(trace, ranges, other), why)
        if held.line is not None:
            yield self._at_line(held.line, held)
        if elsewhere is not None:
            yield elsewhere
        for place in held.ranges:
            if place.path or elsewhere is None:
                yield self._in_ranges(place, held)
        if held.line is None:
            yield from self._in_functions(held)
        if held.call is not None:
            yield self._of(
                held.call.amount,
                say("in {name}", name=short_text(held.call.name)),
                held,
                held.call,
                call=held.call.name,
            )

    def waits(self) -> Iterator[Evidence]:
        """Where the host waited, and where it was after that."""
        trace, device, gaps = self.subject.trace, self._device, self._device.ledger.gaps
        where_waited = wait_places(trace, self.subject.ranges, device, self.lost)
        waits = waits_behind(device, self.lost.gaps)
        base = self._example(device.host.calls.stored("correlation")[waits])
        if where_waited.line is not None:
            share, whole = where_waited.line.share, say("the time in waits")
            sentence = say(
                "{share} of the time in waits {where}", share=share_text(share), where=where_waited.line.whole
            )
            yield Evidence(sentence, **base, share=share, of=whole, line=where_waited.line)
        if where_waited.path:
            where = say("after waits in {ranges}", ranges=path_text(where_waited.path))
            place = say("in {ranges}", ranges=path_in_claim(where_waited.path))
            yield self._piece(where_waited.path_ns, where, **base, ranges=where_waited.path, place=place)
        if where_waited.stack is not None and where_waited.line is None:
            where = say("after waits in {ranges}", ranges=short_text(where_waited.stack.name))
            yield self._piece(where_waited.stack.amount, where, **base)
        name, amount = _costliest(gaps.draining, gaps.drained_by[self.lost.gaps], self.lost.by_gap_ns)
        names = [short_function_name(call or "") for call in device.host.calls.at(waits).texts("name")]
        yield self._piece(
            amount, say("after {name}", name=short_text(name)), **base, call=name, count=names.count(name)
        )
        after = places(trace, self.subject.ranges, self.lost.by_thread, None)
        if after.line is not None and where_waited.line is not None:
            yield self._at_line(after.line, after)
        elif after.line is None:
            yield from self._in_functions(after, samples_only=True)

    def launches(self) -> Iterator[Evidence]:
        """What the device waited for: a function of the host, if one was queued; and what waited."""
        trace, ranges, lost = self.subject.trace, self.subject.ranges, self.lost
        queued, amount = host_function_ns(self._device, lost)
        if amount >= LEAST_SHARE * lost.ns:
            name = short_function_name(queued)
            yield self._piece(amount, say("after {name}", name=short_text(name)), **self._example(None), call=name)
            other = awaited_thread(trace, replace(lost, waiting=lost.by_thread))
            held = None if other is None else places_of_other(trace, ranges, other)
            callback = None if held is None else self._on_thread(held, say("which runs it"))
            if callback is not None:
                yield callback
        path, amount = launch_ranges(ranges, self._device, lost)
        if path:
            where = say("before work launched in {ranges}", ranges=path_text(path))
            place = say("before work launched in {ranges}", ranges=path_in_claim(path))
            yield self._piece(amount, where, **self._example(None), ranges=path, place=place)

    def before(self) -> Evidence:
        """The kernel or copy that ended most of the gaps."""
        names, number = self.subject.trace.strings.kinds(
            self._device.work.name[self._device.ledger.gaps.after[self.lost.gaps]],
            lambda name: label(name or "a graph"),
        )
        name, amount = _costliest(names, number, self.lost.by_gap_ns)
        where = say("before {name}", name=cut_label(name))
        return self._piece(amount, where, **self._example(None), kernel=name)

    def by_cause(self, chosen: Positions) -> Iterator[Evidence]:
        """What the time of the gaps was booked to."""
        total = int(self._device.ledger.gaps.length_ns[chosen].sum())
        causes = sorted(self._device.causes_of(self.trigger).items(), key=lambda entry: -entry[1])
        most = [(cause.label, share_text(amount / total)) for cause, amount in causes if amount >= LEAST_SHARE * total]
        if most:
            shown = joined(say(", "), (joined(" ", entry) for entry in most))
            sentence = say("meanwhile: {causes}", causes=shown)
            yield Evidence(sentence, share=causes[0][1] / total, of=say("the gaps' time"))

    def _in_ranges(self, held: RangePlace, of: ThreadPlaces) -> Evidence:
        where = say("in {ranges}", ranges=path_text(held.path)) if held.path else say("outside every range")
        match held.between:
            case (str() as before, str() as after):
                where = say(
                    "{where}, between {before} and {after}",
                    where=where,
                    before=short_text(before),
                    after=short_text(after),
                )
            case (str() as before, None):
                where = say("{where}, after {before}", where=where, before=short_text(before))
            case (None, str() as after):
                where = say("{where}, before {after}", where=where, after=short_text(after))
        place = say("in {ranges}", ranges=path_in_claim(held.path)) if held.path else ""
        return self._piece(held.time_ns, where, **self._example(None, held.span, of), ranges=held.path, place=place)

    def _in_functions(self, held: ThreadPlaces, *, samples_only: bool = False) -> Iterator[Evidence]:
        if held.function is not None and not samples_only:
            yield self._of(
                held.function.amount, say("in {name}", name=short_text(held.function.name)), held, held.function
            )
        if held.stack is not None and not samples_only:
            yield self._of(
                held.stack.amount, say("in calls from {name}", name=short_text(held.stack.name)), held, held.stack
            )
        if (sampled := held.samples) is not None:
            sentence = say(
                "{share} of the samples in that time in {name}",
                share=share_text(sampled.share),
                name=short_text(sampled.name),
            )
            whole = say("the samples in that time")
            base = self._example(None, None, held)
            yield Evidence(sentence, **base, count=sampled.amount, share=sampled.share, of=whole)

    def _of(self, amount: int, where: Message, held: ThreadPlaces, place: StackPlace, call: str = "") -> Evidence:
        return self._piece(amount, where, **self._example(None, place.span, held), call=call)

    def _on_thread(self, held: ThreadPlaces, why: Message) -> Evidence | None:
        """Where another thread was: the piece that says it best."""
        if held.line is not None:
            best = self._at_line(held.line, held)
        elif held.ranges and held.ranges[0].path:
            best = self._in_ranges(held.ranges[0], held)
        elif held.function is not None:
            best = self._of(
                held.function.amount, say("in {name}", name=short_text(held.function.name)), held, held.function
            )
        elif held.samples is not None:
            best = next(self._in_functions(held, samples_only=True))
        elif held.call is not None:
            best = self._of(
                held.call.amount, say("in {name}", name=short_text(held.call.name)), held, held.call, held.call.name
            )
        else:
            return None
        sentence = say("{what}, on thread {thread}, {why}", what=best.sentence, thread=held.tid, why=why)
        return replace(best, sentence=sentence)

    def _at_line(self, line: LinePlace, of: ThreadPlaces) -> Evidence:
        sentence = say("{share} of the lost time {where}", share=share_text(line.share), where=line.whole)
        return Evidence(sentence, **self._example(None, None, of), share=line.share, of=_OF_LOST, line=line)

    def _piece(self, amount_ns: int, where: Message, **data: Any) -> Evidence:
        share = amount_ns / self.lost.ns
        sentence = say("{share} of the lost time {where}", share=share_text(share), where=where)
        return Evidence(sentence, **data, share=share, of=_OF_LOST)

    def _example(
        self, correlations: Ints | None, span: Span | None = None, of: ThreadPlaces | None = None
    ) -> dict[str, Any]:
        """When, on which thread, and some of the launches that ended the gaps, or calls, the costliest first."""
        gaps, first = self._device.ledger.gaps, self.lost.by_thread[0]
        longest = largest(self.lost.by_gap_ns, MOST_EXAMPLES)
        if correlations is None:
            calls = self._device.host.calls
            correlations = calls.stored("correlation")[gaps.call[self.lost.gaps[longest]]]
        if span is None:
            gap = self.lost.gaps[longest[0]]
            span = Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap]))
        return {
            "span": span,
            "pid": first.pid if of is None else of.pid,
            "tid": first.tid if of is None else of.tid,
            "correlations": tuple(correlations[:MOST_EXAMPLES].tolist()),
        }


def _costliest(names: Sequence[str], which: Positions, time_ns: Ints) -> tuple[str, int]:
    """The name with the most time, and that time; `which` name each amount belongs to."""
    sums = sweep.sums(which, time_ns, len(names))
    return names[int(sums.argmax())], int(sums.max())


MORE_THAN_GAPS: Final = 1.1  # a saving that exceeds the gaps of its cause by less is not explained
_WAITED: Final = (QueueTrigger.DRAINED, Cause.SYNC)  # triggers of gaps that a wait of the host leaves behind


_FRAME_RATES: Final = (15, 20, 24, 25, 30, 48, 50, 60, 72, 90, 120)
_SAME_RATE: Final = 0.005
_FEWEST_FRAMES: Final = 8

_LOADING: Final = say("the data loader prepares the next batch")

_PYTHON: Final = regex(r"python|^pt_main")
_PLACED_BY_LINES: Final = (Cause.HOST_CODE, Cause.OS, Cause.WAIT_THREAD)
_ASKS_AGAIN: Final = regex(r"cond_(timed|clock)wait")
_GIL_NS: Final = 8_000_000
"""Python's threads ask for the lock every 5 ms."""

_FREE_THE_GIL: Final = say(
    "compute in another process, or in code that gives Python's lock up (numpy, torch, C++): its threads take turns"
)

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


_PINS: Final = regex(r"HostRegister|HostAlloc|MallocHost")
_PIN_ONCE: Final = advice.HOST_ALLOC.words(Framework.ANY)
"""Whose memory is pinned, MPI's or an array's, does not depend on what launches the kernels."""


def _lost_ns(device: Device, *triggers: Trigger) -> tuple[int, int]:
    """Time and number of the steady gaps that these set off."""
    lost = [amounts for (trigger, _), amounts in device.triggers.items() if trigger in triggers]
    return sum(time for time, _ in lost), sum(count for _, count in lost)


def _host_was_busy(doing: Message, rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The host did something else than launching."""
    device, [cause] = subject.device, rule.triggers
    time, count = _lost_ns(device, cause)
    if not count or not worth_telling(device, time):
        return ()
    if (rate := _source_rate(device, device.gaps_of(cause))) is not None:
        return [_paced(rule, subject, time, rate)]
    edit = rule.edit_of(subject)
    saving = _saved_ns(subject, edit, time, _behind_ns(device))
    evidence, explains = gap_evidence(subject, cause), max(time, saving)
    advice = _loading_advice(evidence)
    if cause is Cause.WAIT_THREAD:
        doing, advice = _awaited(subject, doing, evidence, advice)
    elif advice is not None:
        doing = _LOADING
    if cause is Cause.ALLOC and any(_PINS.search(piece.call) for piece in evidence if (piece.share or 0) >= MOSTLY):
        advice = _PIN_ONCE
    waits = lost_time_words(device, time, rule.triggers)
    claim = say("the GPU waits {time} while {doing}", time=waits, doing=doing)
    assumption = say("the step shrinks to what the GPU, or the rest of the host, needs")
    claim = _with_what_follows(device, claim, time, saving)
    busy = rule.finding(device, claim, evidence, saving, assumption, explains=explains, edit=edit)
    follows = "LAUNCH-BOUND" if 2 * time < saving else ""  # most of it is lost where launches come late
    follow_up = _lines_command(subject.trace, evidence) if cause in _PLACED_BY_LINES else None
    return [replace(busy, fix=advice or busy.fix, follows=follows, next=follow_up or busy.next)]


def _compiled_again(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The host compiled in several steps, or recorded a graph for each launch."""
    device = subject.device
    time, count = _lost_ns(device, *rule.triggers)
    if not count or not worth_telling(device, time):
        return ()
    chosen = device.gaps_of(QueueTrigger.COMPILE)
    lost = lost_time(device, chosen, QueueTrigger.COMPILE)
    known = compilations(device.host, device.work)
    spent_ns, compiled = dict.fromkeys(Compiler, 0), 0
    for part in lost.by_thread:
        for compiler in Compiler:
            spent_ns[compiler] += total(intersection(part.spans, known.of(part.thread, compiler)))
        stretches = known.of(part.thread)
        compiled += int(np.count_nonzero(covered(part.spans, stretches.start_ns, stretches.end_ns)))
    if device.steps is not None:  # samples do not tell one compilation from the next
        steps = np.searchsorted(device.steps.edges_ns, device.ledger.gaps.start_ns[chosen], side="right")
        compiled = max(compiled, len(distinct(steps)))
    doing, fix = advice.RECOMPILE[max(spent_ns, key=lambda compiler: spent_ns[compiler])]
    edit, evidence = rule.edit_of(subject), gap_evidence(subject, QueueTrigger.COMPILE)
    saving = _saved_ns(subject, edit, time, _behind_ns(device))
    claim = say(
        "the GPU waits {time} while {doing}, {often}",
        time=lost_time_words(device, time, rule.triggers),
        doing=doing,
        often=often(device, compiled),
    )
    claim = _with_what_follows(device, claim, time, saving)
    assumption = say("what is compiled, or recorded, is there from the start")
    found = rule.finding(device, claim, evidence, saving, assumption, explains=max(time, saving), edit=edit)
    return [replace(found, fix=fix, next=_lines_command(subject.trace, evidence) or found.next)]


def _lines_command(trace: Trace, evidence: Sequence[Evidence]) -> str | None:
    """The capture that would name the line, where the program is Python's and no stack of it was recorded."""
    if any(piece.line is not None for piece in evidence) or (
        Table.SAMPLES in trace.tables and trace.strings.code("python") in trace[Table.SAMPLES].codes("source")
    ):
        return None
    is_torch = trace.origin.tool != "nsys"
    is_python = is_torch or any(_PYTHON.search(process.name or "") for process in trace.origin.processes)
    return f"gpuledger capture {'torch' if is_torch else 'nsys'} -- COMMAND" if is_python else None


def _source_rate(device: Device, chosen: Positions) -> int | None:
    """How many times a second a source lets the GPU go on, where one sets the pace: a camera, a video; else None.

    Work that follows a clock begins more evenly than it waits: what it takes longer, it waits less. Work that waits for
    the host's own code takes as much longer as that does.
    """
    gaps, length_ns = device.ledger.gaps, device.ledger.gaps.length_ns[chosen]
    long = chosen[2 * length_ns >= length_ns.max(initial=0)]
    period_ns, waits_ns = np.diff(gaps.end_ns[long]), gaps.length_ns[long]
    if len(long) < _FEWEST_FRAMES:
        return None
    usual_ns = median(period_ns)
    uneven_ns = median(np.abs(period_ns - usual_ns))
    rate = min(_FRAME_RATES, key=lambda rate: abs(1e9 / rate - usual_ns))
    is_frames = abs(1e9 / rate - usual_ns) <= _SAME_RATE * usual_ns and uneven_ns <= _SAME_RATE * usual_ns
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


def _awaited(
    subject: OneGpu, doing: Message, evidence: Sequence[Evidence], loading: Message | None
) -> tuple[Message, Message | None]:
    """What the launching thread waits for, as far as that is known, and what to do about it."""
    lost = lost_time(subject.device, subject.device.gaps_of(Cause.WAIT_THREAD), Cause.WAIT_THREAD)
    if not lost.ns or loading is not None:
        return _LOADING if loading is not None else doing, loading
    first = lost.by_thread[0]
    if _waits_for_gil(subject.trace, first):
        return say("the launching thread waits for Python's lock (GIL), which another thread holds"), _FREE_THE_GIL
    other = awaited_thread(subject.trace, lost)
    for piece in evidence:
        if (
            other is not None
            and piece.tid == other.tid
            and (where := path_in_claim(piece.ranges) or short_text(piece.call))
        ):
            return say("the launching thread waits for another thread, which is in {where}", where=where), None
    return doing, None


def _waits_for_gil(trace: Trace, waiting: ThreadTime) -> bool:
    """Whether a thread of Python waits for its lock: it asks again every few milliseconds, which nobody else does."""
    names = [process.name for process in trace.origin.processes if process.pid == waiting.pid]
    if not any(name and _PYTHON.search(name) for name in names):
        return False
    system = calls_in_layers(trace, "os")
    asks = system.strings.each(system.codes("name"), lambda name: bool(_ASKS_AGAIN.search(name)), np.bool_)
    asking = system.where(asks & (thread(system) == waiting.thread) & (system.duration_ns < _GIL_NS))
    held = intersection(waiting.spans, union(asking["start_ns"], asking["end_ns"]))
    return total(held) >= MOSTLY * waiting.ns


def _loading_advice(evidence: Sequence[Evidence]) -> Message | None:
    """What to do about a data loader that the host was in, or waited for, for most of the time; None where none is."""
    names = [
        (*piece.ranges, piece.sentence, *(piece.line.stack if piece.line else ()))
        for piece in evidence
        if (piece.share or 0.0) >= MOSTLY
    ]
    return next((advice for loader, advice in _LOADERS if any(map(loader.search, chain(*names)))), None)


def _saved_ns(subject: OneGpu, edit: Edit, gaps_ns: int, after_ns: int) -> int:
    """What a change saves of the gaps of a cause and, where it is much, of those after them."""
    saving = subject.saved_ns(edit, gaps_ns + after_ns)
    return saving if saving > MORE_THAN_GAPS * gaps_ns else min(saving, gaps_ns)


def _is_named(part_ns: int, whole_ns: int) -> bool:
    """Whether a claim names a part beside the rest: a twentieth of the whole, or nobody would miss it."""
    return 0 < whole_ns <= 20 * part_ns


def _with_what_follows(device: Device, claim: Message, gaps_ns: int, saving: int) -> Message:
    """The claim, and what is lost after its gaps: the host is behind until it has queued enough again."""
    if not _is_named(saving - gaps_ns, saving):
        return claim
    more = per_step(device, saving - gaps_ns)
    return say("{claim}, and {more} more until the host is ahead again", claim=claim, more=more)


def _device_was_busy(doing: Message, rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Work was queued, and the device did not run it."""
    device, [cause] = subject.device, rule.triggers
    time, _ = _lost_ns(device, cause)
    if not time or not worth_telling(device, time):
        return ()
    claim, edit = say("{doing}: {time}", doing=doing, time=per_step(device, time)), rule.edit_of(subject)
    saving, assumption = subject.saved_ns(edit, time), say("this wait disappears")
    evidence = gap_evidence(subject, cause)
    return [rule.finding(device, claim, evidence, saving, assumption, explains=time, edit=edit)]


def _host_waited(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The host waits, the queue runs dry, and the device then waits for the host."""
    device = subject.device
    idle, time = _lost_ns(device, *_WAITED)[0], _waited_ns(device)
    if 2 * _time_between_copies(device) > time or not worth_telling(device, time):
        return ()
    edit = rule.edit_of(subject)
    saving = _saved_ns(subject, edit, time, _behind_ns(device) + _longer_waited_ns(device))
    claim = say("syncs drain the queue, and the GPU idles after them: {rounds}", rounds=_rounds(device, idle))
    if _is_named(time - idle, time):
        claim = say("{claim}, and {more} more for what they read", claim=claim, more=per_step(device, time - idle))
    claim = _with_what_follows(device, claim, time, saving)
    assumption = say("no syncs: they go away, with the small copies and the code around them")
    evidence = gap_evidence(subject, QueueTrigger.DRAINED)
    sync = rule.finding(device, claim, evidence, saving, assumption, explains=max(time, saving), edit=edit)
    return [replace(sync, fix=advice.UPLOADED) if _waits_for_uploads(subject) else sync]


def _waits_for_uploads(subject: OneGpu) -> bool:
    """Whether most of the time is lost after copies to the device: then nothing is read back."""
    device = subject.device
    gaps, work, drained = device.ledger.gaps, device.work, device.gaps_of(QueueTrigger.DRAINED)
    before = gaps.before[drained]
    upload = [subject.trace.strings.code(label) for label in TO_DEVICE]
    is_upload = (before >= 0) & (work.state[before] == State.COPY) & is_among(work.name[before], upload)
    lost_ns = device.steady_gap_ns[drained]
    return bool(2 * lost_ns[is_upload].sum() > lost_ns.sum())


def _behind_ns(device: Device) -> int:
    """The gaps in which the host was behind."""
    return _lost_ns(device, QueueTrigger.BEHIND)[0]


def _waited_ns(device: Device) -> int:
    """The gaps that waits leave behind, with what is read for them."""
    time, count = _lost_ns(device, *_WAITED)
    return time + _read_ns(device) if count else 0


def _longer_waited_ns(device: Device) -> int:
    """Gaps that begin with a wait, though what the host did then set them off: without the wait it was done before."""
    gaps = device.ledger.gaps
    occupied = is_among(gaps.trigger, [TRIGGERS.index(cause) for cause in OCCUPATIONS])
    return int(device.steady_gap_ns[occupied & (gaps.by_cause.of(Cause.SYNC) > 0)].sum())


def _read_ns(device: Device) -> int:
    """What small copies that the host waits for take of the device's time, with the gaps before them."""
    gaps, work, chosen = device.ledger.gaps, device.work, device.gaps_of(QueueTrigger.DRAINED)
    read = distinct(gaps.before[chosen])
    read = read[(read >= 0) & (work.state[read] == State.COPY)]
    length = work.end_ns[read] - work.start_ns[read]
    small, launched_late = length < SMALL_COPY_NS, gaps.trigger == TRIGGERS.index(QueueTrigger.BEHIND)
    before_ns = device.steady_gap_ns[is_among(gaps.after, read[small]) & launched_late]
    return int(length[small].sum() + before_ns.sum())


def _small_copies(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """The host waits for one small copy after the other."""
    device = subject.device
    time, count = _lost_ns(device, *_WAITED)
    if not count or 2 * _time_between_copies(device) <= time:
        return ()
    lost = time + device.exposed_ns(LineKind.COPY)
    if not worth_telling(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    rounds = _rounds(device, time)
    claim = say("back-to-back small blocking copies drain the queue: {rounds}", rounds=rounds)
    assumption = say("one packed, asynchronous copy takes the place of the small ones")
    evidence = gap_evidence(subject, QueueTrigger.DRAINED)
    return [rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)]


def _rounds(device: Device, time: int) -> Message:
    """How many calls waited so that the queue ran dry, and what that costs; one wait may leave many gaps behind."""
    waits = len(waits_behind(device, device.gaps_of(QueueTrigger.DRAINED)))
    return say("{often}, {time}", often=often(device, waits), time=per_step(device, time))


def _time_between_copies(device: Device) -> int:
    """The time of drained gaps that lie between one small copy and the next."""
    gaps, drained, work = device.ledger.gaps, device.gaps_of(QueueTrigger.DRAINED), device.work
    drained = drained[(gaps.before[drained] >= 0) & (gaps.after[drained] >= 0)]
    before, after = gaps.before[drained], gaps.after[drained]
    small = (work.state == State.COPY) & (work.end_ns - work.start_ns < SMALL_COPY_NS)
    same_way = work.name[before] == work.name[after]  # not there and back
    return int(device.steady_gap_ns[drained][small[before] & small[after] & same_way].sum())


def _host_was_behind(rule: Rule[OneGpu], subject: OneGpu) -> Sequence[Finding]:
    """Gaps in which the host was behind, and those after waits that it would be behind in if it did not wait."""
    device = subject.device
    own, _ = _lost_ns(device, QueueTrigger.BEHIND)
    steady_launches = len(device.steady_launches)
    if steady_launches < LEAST_LAUNCHES:
        return ()
    waited = _waited_ns(device)
    if worth_telling(device, waited):
        waited -= subject.saved_ns(subject.fixes.waits(), waited)
    lost = own + waited
    if not worth_telling(device, lost):
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    launches = count_words(device, steady_launches, say("launch"), say("launches"))
    what = say("{launches}, {time} idle between them", launches=launches, time=per_step(device, own))
    if not own:
        what = say("{launches}, {time} idle after syncs", launches=launches, time=per_step(device, lost))
    elif _is_named(lost - own, lost):
        what = say("{what}, and {more} more after syncs", what=what, more=per_step(device, lost - own))
    claim = say("CPU launches can't keep up with the GPU: {what}", what=what)
    assumption = say("launches become free, as in a captured graph or with far fewer, larger kernels")
    evidence = gap_evidence(subject, QueueTrigger.BEHIND if own >= waited else QueueTrigger.DRAINED)
    if are_most_of_launching(subject):
        evidence = (*loop_evidence(subject), *evidence)
    late = rule.finding(device, claim, evidence, saving, assumption, explains=lost, edit=edit)
    return [replace(late, follows="HOST-SYNC") if own < waited else late]


RULES: Final = (
    Rule(
        "HOST-LOAD",
        partial(_host_was_busy, say("modules are loaded, compiled or tuned")),
        advice.HOST_LOAD,
        edit=Fixes.load,
        triggers=(Cause.LOAD,),
    ),
    Rule(
        "RECOMPILE",
        _compiled_again,
        advice.RECOMPILE[Compiler.OTHER][1],
        edit=Fixes.compiled,
        triggers=(QueueTrigger.COMPILE,),
    ),
    Rule(
        "HOST-ALLOC",
        partial(_host_was_busy, say("the host allocates or frees memory")),
        advice.HOST_ALLOC,
        edit=lambda fixes: fixes.calls(CallKind.ALLOC),
        triggers=(Cause.ALLOC,),
    ),
    Rule(
        "HOST-OS",
        partial(_host_was_busy, say("the host is in OS calls")),
        say("move reads, writes and sleeps off the launching thread"),
        edit=lambda fixes: fixes.host_code(Cause.OS),
        triggers=(Cause.OS,),
    ),
    Rule(
        "HOST-THREAD",
        partial(_host_was_busy, say("the launching thread waits for another thread")),
        say("shorten what the other thread does, or start it a step earlier"),
        edit=Fixes.thread_waits,
        triggers=(Cause.WAIT_THREAD,),
    ),
    Rule(
        "HOST-CODE",
        partial(_host_was_busy, say("the host runs its own code")),
        say("move the host's work off the launching thread, or run it while the GPU is busy"),
        edit=lambda fixes: fixes.host_code(Cause.HOST_CODE),
        triggers=(Cause.HOST_CODE,),
        is_slowed=True,
    ),
    Rule("HOST-SYNC", _host_waited, advice.HOST_SYNC, edit=Fixes.waits, triggers=_WAITED),
    Rule("HOST-COPY", _small_copies, advice.HOST_COPY, edit=Fixes.small_copies, triggers=_WAITED),
    Rule(
        "LAUNCH-BOUND",
        _host_was_behind,
        advice.LAUNCH_BOUND,
        edit=Fixes.launches,
        triggers=(QueueTrigger.BEHIND,),
        is_bound=True,
        is_slowed=True,
    ),
    Rule(
        "DEVICE-WAIT",
        partial(_device_was_busy, say("work was queued but not started: the GPU waited for something else")),
        say("record the event right after the producer, and launch that work earlier"),
        edit=lambda fixes: fixes.gaps(Cause.DEVICE_WAIT),
        triggers=(Cause.DEVICE_WAIT,),
    ),
    Rule(
        "GPU-SHARED",
        partial(_device_was_busy, say("the GPU switched between processes")),
        say("give the process the GPU for itself, or run both under MPS"),
        edit=lambda fixes: fixes.gaps(Cause.CONTEXT_SWITCH),
        triggers=(Cause.CONTEXT_SWITCH,),
    ),
)


def code_of_trigger(trigger: Trigger) -> str | None:
    """The finding that is about gaps of a trigger; None where none is."""
    return next((rule.code for rule in RULES if trigger in rule.triggers), None)
