"""Evidence of findings about idle time: the places that hold the lost time, what came before and after, the causes.

All shares are of the lost time (see `analyse.lost_time`), unless they say of what else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from gpuledger.analyse.host_places import (
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
from gpuledger.analyse.lost_time import LostTime, lost_time, waits_behind
from gpuledger.analyse.range_places import RangePlace
from gpuledger.analyse.stack_places import StackPlace
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.evidence import LEAST_SHARE, MOST_EXAMPLES, Evidence
from gpuledger.findings.rule import OneGpu
from gpuledger.ledger.calls import shortened
from gpuledger.ledger.causes import Cause, QueueTrigger, Trigger
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints, Span
from gpuledger.units import share_text

_INNERMOST: Final = 4
"""So many ranges of a path are told; the evidence's data has all."""

_LONGEST_NAME: Final = 100

_OF_LOST: Final = say("the lost time")


def gap_evidence(subject: OneGpu, trigger: Trigger) -> tuple[Evidence, ...]:
    """What is known of the steady gaps with one trigger."""
    device = subject.device
    chosen = device.gaps_of(trigger)
    lost = lost_time(device, chosen, trigger)
    if not lost.ns:
        return ()
    told = _Told(subject, trigger, lost)
    if trigger is QueueTrigger.DRAINED:
        where = told.waits()
    elif trigger in (Cause.DEVICE_WAIT, Cause.CONTEXT_SWITCH):
        where = told.launches()
    else:
        where = told.host()
    return (*where, told.before(), *told.by_cause(chosen))


@dataclass(frozen=True, slots=True)
class _Told:
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
        if elsewhere is not None:
            yield elsewhere
        for place in held.ranges:
            if place.path or elsewhere is None:
                yield self._in_ranges(place, held)
        yield from self._in_functions(held)
        if held.call is not None:
            yield self._of(
                held.call.amount, say("in {name}", name=_cut(held.call.name)), held, held.call, call=held.call.name
            )

    def waits(self) -> Iterator[Evidence]:
        """Where the host waited, and where it was after that."""
        trace, device, gaps = self.subject.trace, self._device, self._device.ledger.gaps
        made = wait_places(trace, self.subject.ranges, device, self.lost)
        waits = waits_behind(device, self.lost.gaps)
        base = self._example(device.host.calls["correlation"][waits])
        if made.path:
            where = say("after waits in {ranges}", ranges=path_text(made.path))
            yield self._piece(made.path_ns, where, **base, ranges=made.path)
        if made.stack is not None:
            where = say("after waits in {ranges}", ranges=_cut(made.stack.name))
            yield self._piece(made.stack.amount, where, **base)
        name, amount = _costliest(gaps.draining, gaps.drained_by[self.lost.gaps], self.lost.by_gap_ns)
        names = [shortened(call or "") for call in device.host.calls.at(waits).texts("name")]
        yield self._piece(amount, say("after {name}", name=_cut(name)), **base, call=name, count=names.count(name))
        yield from self._in_functions(places(trace, self.subject.ranges, self.lost.by_thread, None), samples_only=True)

    def launches(self) -> Iterator[Evidence]:
        """What the device waited for: a function of the host, if one was queued; and what waited."""
        trace, ranges, lost = self.subject.trace, self.subject.ranges, self.lost
        queued, amount = host_function_ns(self._device, lost)
        if amount >= LEAST_SHARE * lost.ns:
            name = shortened(queued)
            yield self._piece(amount, say("after {name}", name=_cut(name)), **self._example(None), call=name)
            other = awaited_thread(trace, replace(lost, waiting=lost.by_thread))
            held = None if other is None else places_of_other(trace, ranges, other)
            callback = None if held is None else self._on_thread(held, say("which runs it"))
            if callback is not None:
                yield callback
        path, amount = launch_ranges(ranges, self._device, lost)
        if path:
            where = say("before work launched in {ranges}", ranges=path_text(path))
            yield self._piece(amount, where, **self._example(None), ranges=path)

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
            sentence = say("by cause: {causes}", causes=shown)
            yield Evidence(sentence, share=causes[0][1] / total, of=say("the gaps' time"))

    def _in_ranges(self, held: RangePlace, of: ThreadPlaces) -> Evidence:
        where = say("in {ranges}", ranges=path_text(held.path)) if held.path else say("outside every range")
        match held.between:
            case (str() as before, str() as after):
                where = say(
                    "{where}, between {before} and {after}", where=where, before=_cut(before), after=_cut(after)
                )
            case (str() as before, None):
                where = say("{where}, after {before}", where=where, before=_cut(before))
            case (None, str() as after):
                where = say("{where}, before {after}", where=where, after=_cut(after))
        return self._piece(held.time_ns, where, **self._example(None, held.span, of), ranges=held.path)

    def _in_functions(self, held: ThreadPlaces, *, samples_only: bool = False) -> Iterator[Evidence]:
        if held.function is not None and not samples_only:
            yield self._of(held.function.amount, say("in {name}", name=_cut(held.function.name)), held, held.function)
        if held.stack is not None and not samples_only:
            yield self._of(held.stack.amount, say("in calls from {name}", name=_cut(held.stack.name)), held, held.stack)
        for sampled in held.samples[:1]:
            sentence = say(
                "{share} of the samples in that time in {name}",
                share=share_text(sampled.share),
                name=_cut(sampled.name),
            )
            whole = say("the samples in that time")
            base = self._example(None, None, held)
            yield Evidence(sentence, **base, count=sampled.amount, share=sampled.share, of=whole)

    def _of(self, amount: int, where: Message, held: ThreadPlaces, place: StackPlace, call: str = "") -> Evidence:
        return self._piece(amount, where, **self._example(None, place.span, held), call=call)

    def _on_thread(self, held: ThreadPlaces, why: Message) -> Evidence | None:
        """Where another thread was: the piece that says it best."""
        if held.ranges and held.ranges[0].path:
            best = self._in_ranges(held.ranges[0], held)
        elif held.function is not None:
            best = self._of(held.function.amount, say("in {name}", name=_cut(held.function.name)), held, held.function)
        elif held.samples:
            best = next(self._in_functions(held, samples_only=True))
        elif held.call is not None:
            best = self._of(
                held.call.amount, say("in {name}", name=_cut(held.call.name)), held, held.call, held.call.name
            )
        else:
            return None
        sentence = say("{what}, on thread {thread}, {why}", what=best.sentence, thread=held.tid, why=why)
        return replace(best, sentence=sentence)

    def _piece(self, amount_ns: int, where: Message, **data: Any) -> Evidence:
        share = amount_ns / self.lost.ns
        sentence = say("{share} of the lost time {where}", share=share_text(share), where=where)
        return Evidence(sentence, **data, share=share, of=_OF_LOST)

    def _example(
        self, correlations: Ints | None, span: Span | None = None, of: ThreadPlaces | None = None
    ) -> dict[str, Any]:
        """When, on which thread, and some of the launches that ended the gaps, or calls, the costliest first."""
        gaps, first = self._device.ledger.gaps, self.lost.by_thread[0]
        longest = np.argsort(-self.lost.by_gap_ns, kind="stable")
        if correlations is None:
            calls = self._device.host.calls
            correlations = calls["correlation"][gaps.call[self.lost.gaps[longest[:MOST_EXAMPLES]]]]
        if span is None:
            gap = self.lost.gaps[longest[0]]
            span = Span(int(gaps.start_ns[gap]), int(gaps.end_ns[gap]))
        return {
            "span": span,
            "pid": first.pid if of is None else of.pid,
            "tid": first.tid if of is None else of.tid,
            "correlations": tuple(correlations[:MOST_EXAMPLES].tolist()),
        }


def path_text(path: Sequence[str]) -> str:
    """A path of ranges in words, the innermost of a long one; what calls itself by its own name counts once."""
    names = [name for name, around in zip(path, (None, *path), strict=False) if name != around]
    told = [_cut(name) for name in names[-_INNERMOST:]]
    return " > ".join(("…", *told) if len(names) > _INNERMOST else told)


def _cut(name: str) -> str:
    """A name in words; a program may give one of any length."""
    return cut_label(name, _LONGEST_NAME)


def _costliest(names: Sequence[str], which: Positions, time_ns: Ints) -> tuple[str, int]:
    """The name with the most time, and that time; `which` name each amount belongs to."""
    sums = np.zeros(len(names), np.int64)
    np.add.at(sums, which, time_ns)
    return names[int(sums.argmax())], int(sums.max())
