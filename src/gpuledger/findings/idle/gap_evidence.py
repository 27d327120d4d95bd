"""Evidence about gaps with one trigger: the places that hold the lost time, what came before and after, the causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.attribution.lines import LinePlace
from gpuledger.attribution.lost_time import LostTime, lost_time, waits_behind
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
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.finding import MAX_EXAMPLES, MIN_EVIDENCE_SHARE, Evidence
from gpuledger.findings.rule import OneGpu
from gpuledger.findings.words import path_in_claim, path_text, short_text
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.causes import Cause, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints, Span
from gpuledger.trace.statistics import largest
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
        if held.line is None and held.function is not None:
            yield self._inside(held.function, held)
        if held.line is None and held.stack is not None:
            where = say("in calls from {name}", name=short_text(held.stack.name))
            yield self._piece(held.stack.amount, where, **self._example(None, held.stack.span, held))
        if held.line is None:
            yield from self._in_samples(held)
        if held.call is not None:
            yield self._inside(held.call, held, held.call.name)

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
            yield from self._in_samples(after)

    def launches(self) -> Iterator[Evidence]:
        """What the device waited for: a function of the host, if one was queued; and what waited."""
        trace, ranges, lost = self.subject.trace, self.subject.ranges, self.lost
        queued, amount = host_function_ns(self._device, lost)
        if amount >= MIN_EVIDENCE_SHARE * lost.ns:
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
        most = [
            (cause.label, share_text(amount / total))
            for cause, amount in causes
            if amount >= MIN_EVIDENCE_SHARE * total
        ]
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

    def _in_samples(self, held: ThreadPlaces) -> Iterator[Evidence]:
        if (sampled := held.samples) is not None:
            sentence = say(
                "{share} of the samples in that time in {name}",
                share=share_text(sampled.share),
                name=short_text(sampled.name),
            )
            whole = say("the samples in that time")
            base = self._example(None, None, held)
            yield Evidence(sentence, **base, count=sampled.amount, share=sampled.share, of=whole)

    def _inside(self, place: StackPlace, held: ThreadPlaces, call: str = "") -> Evidence:
        where = say("in {name}", name=short_text(place.name))
        return self._piece(place.amount, where, **self._example(None, place.span, held), call=call)

    def _on_thread(self, held: ThreadPlaces, why: Message) -> Evidence | None:
        """Where another thread was: the piece that says it best."""
        if held.line is not None:
            best = self._at_line(held.line, held)
        elif held.ranges and held.ranges[0].path:
            best = self._in_ranges(held.ranges[0], held)
        elif held.function is not None:
            best = self._inside(held.function, held)
        elif held.samples is not None:
            best = next(self._in_samples(held))
        elif held.call is not None:
            best = self._inside(held.call, held, held.call.name)
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
        longest = largest(self.lost.by_gap_ns, MAX_EXAMPLES)
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
            "correlations": tuple(correlations[:MAX_EXAMPLES].tolist()),
        }


def _costliest(names: Sequence[str], which: Positions, time_ns: Ints) -> tuple[str, int]:
    """The name with the most time, and that time; `which` name each amount belongs to."""
    sums = sweep.sums(which, time_ns, len(names))
    return names[int(sums.argmax())], int(sums.max())
