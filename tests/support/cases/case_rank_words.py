"""What a case may expect of a job of several ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuledger.analyse.ranks.collectives import bus_bytes, bus_bytes_per_s, worst_place
from gpuledger.analyse.ranks.job import slowest_step_ns
from gpuledger.analyse.ranks.matching import Lane, RankClock
from gpuledger.analyse.ranks.rank_collectives import KINDS
from gpuledger.jobs.run import Fleet
from gpuledger.present.views.compare.fleet import fleet_answer
from gpuledger.trace.model import NotMeasured
from support.cases.case import (
    Case,
    Expectation,
    figure_of,
    says,
    us,
)
from support.traces.rank_notation import waits_of


def _of_lanes(read: Callable[[Lane], Iterable[object]]) -> Expectation:
    """A value for each collective, lane by lane."""

    def check(case: Case, rest: str) -> tuple[bool, str]:
        found = " | ".join(" ".join(map(str, read(lane))) for lane in case.job.lanes) or "none"
        return found == rest, found

    return check


def _waits(case: Case, rest: str) -> tuple[bool, str]:
    lanes = [" / ".join(" ".join(map(us, row)) for row in waits_of(lane)) for lane in case.job.lanes]
    found = " | ".join(lanes) or "none"
    return found == rest, found


def _parts(case: Case, rest: str) -> tuple[bool, str]:
    name, *_ = rest.split()
    values = [getattr(part, name) for part in case.job.parts]
    found = " ".join([name, *(us(value) if name.endswith("_ns") else str(value) for value in values)])
    return found == rest, found


def _clocks(read: Callable[[RankClock], Any]) -> Expectation:
    def check(case: Case, rest: str) -> tuple[bool, str]:
        found = " ".join(us(read(clock)) for clock in case.job.clocks)
        return found == rest, found

    return check


def _notes(case: Case, rest: str) -> tuple[bool, str]:
    notes = [f"{note.code} {note.count}" for note in case.job.notes if note.code != "groups-unknown"]
    found = ", ".join(sorted(notes)) or "none"
    return found == rest, found


def _noted(case: Case, rest: str) -> tuple[bool, str]:
    found = [note.sentence for note in case.job.notes]
    return any(says(rest, sentence) for sentence in found), "; ".join(found)


def _gate(case: Case, rest: str) -> tuple[bool, str]:
    """`all_reduce 2 2 60 1`: the kind, its place in the step, how often, what was waited, and who was late."""
    place = worst_place(case.job)
    if isinstance(place, NotMeasured):
        return rest == "none", "none"
    found = f"{place.kind} {place.ordinal} {place.times} {us(place.wait_ns)} {place.late}"
    return found == rest, found


def _unmeasured(case: Case, rest: str) -> tuple[bool, str]:
    """Nothing is measured that needs two ranks, and the answer says so for every rank."""
    whole = [*(clock.residual_ns for clock in case.job.clocks[1:]), worst_place(case.job), slowest_step_ns(case.job)]
    fits = all(rank.wait_ns is None for rank in fleet_answer("job", Fleet(case.job, 1, 1, ())).ranks)
    return fits and all(isinstance(each, NotMeasured) for each in whole), str(whole)


RANK_WORDS: Mapping[str, Expectation] = {
    "ahead": _clocks(lambda clock: clock.ahead_ns),
    "bus": _of_lanes(lambda lane: bus_bytes(lane).tolist()),
    "bus-rate": _of_lanes(lambda lane: bus_bytes_per_s(lane).tolist()),
    "bytes": _of_lanes(lambda lane: lane.bytes.tolist()),
    "gate": _gate,
    "kinds": _of_lanes(lambda lane: [KINDS[kind] for kind in lane.kind]),
    "late": _of_lanes(lambda lane: lane.late.tolist()),
    "matched": _of_lanes(lambda lane: [len(lane)]),
    "noted": _noted,
    "notes": _notes,
    "offsets": _clocks(lambda clock: clock.offset_ns),
    "parts": _parts,
    "residuals": _clocks(lambda clock: clock.residual_ns),
    "skews": _of_lanes(lambda lane: map(us, lane.skew_ns.tolist())),
    "transfers": _of_lanes(lambda lane: map(us, lane.transfer_ns.tolist())),
    "unmeasured": _unmeasured,
    "waited": figure_of(lambda case: case.job.waited_ns),
    "waits": _waits,
    "world": figure_of(lambda case: float(str(case.job.world_size)), float),
}
