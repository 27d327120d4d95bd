"""Runs the cases of Markdown files: a trace or a program, and what must come out. tests/cases/README.md has the words.

A heading is a pytest item, or, where a table stands under it, each row is one: `{column}` is its cell. Whatever a case
expects, its books balance and its findings keep the laws of savings.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuledger.analyse.memory.figures import copies_by_kind
from gpuledger.analyse.range_tree import range_tree
from gpuledger.analyse.ranks.collectives import bus_bytes, bus_bytes_per_s, worst_place
from gpuledger.analyse.ranks.fixing import fixing
from gpuledger.analyse.ranks.job import Job, job, slowest_step_ns
from gpuledger.analyse.ranks.matching import Lane, RankClock
from gpuledger.analyse.ranks.rank_collectives import KINDS
from gpuledger.answers.several_profiles import job_answer
from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.errors import GpuledgerError
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.findings.ranks import job_findings
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.ledger.gaps import histogram
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.lost_work import LostWork, lost_work
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.ledger.steps import PHASES, phases
from gpuledger.present.views.fleet import job_sheets
from gpuledger.present.views.report_parts import verdict
from gpuledger.replay.build import dependency_graph
from gpuledger.replay.critical_path import critical_path
from gpuledger.replay.cross_stream_waits import with_rendezvous
from gpuledger.replay.edits import with_durations
from gpuledger.replay.graph import DependencyGraph
from gpuledger.replay.passes import replay_times
from gpuledger.replay.scenario import scenario
from gpuledger.selection import Selection
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Span
from support.book_checks import analysed, check_balance
from support.command import ROOT, Ran, gpuledger
from support.corpus import corpus_file
from support.opened import plain, trace_of
from support.program import programmed
from support.rank_notation import ranks_of, waits_of
from support.saving_laws import broken_laws
from support.torch_programs import torch_trace
from support.trace_notation import filled, number, number_or_text, time_ns, traced

US = 1_000
WIDTH = 80
NEAR = 0.03
"""How far a value with `~` may be off, if the case does not say."""


LANGUAGES = ("trace", "program", "torch", "capture", "command", "ranks")


class Unexpected(Exception):
    """What a case says, and what was found instead."""


@dataclass(frozen=True)
class Case:
    """A trace, a program or a capture, and what must come out of it."""

    language: str
    lines: tuple[str, ...]
    expected: tuple[str, ...]
    known: Mapping[str, Any]
    """What stands for names in expressions."""

    @cached_property
    def trace(self) -> Trace:
        kept = "\n".join(line for line in self.lines if not line.startswith("select "))
        if self.language == "capture":
            return trace_of(corpus_file(kept.strip()) if "/" not in kept else ROOT / "captures" / kept.strip())
        return {"trace": traced, "program": programmed, "torch": torch_trace}[self.language](kept, **self.known)

    @cached_property
    def ran(self) -> Ran:
        """What the command of the case did; `decode.sqlite` is the capture of that name."""
        words = [word for line in self.lines for word in shlex.split(line)]
        return gpuledger(*(_of_capture(word) for word in words), COLUMNS=str(WIDTH))

    @cached_property
    def job(self) -> Job:
        return job(ranks_of("\n".join(self.lines), **self.known))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return job_findings(self.job, fixing(self.job)) if self.language == "ranks" else self.run.findings

    @cached_property
    def wanted(self) -> Selection:
        lines = [line for line in self.lines if line.startswith("select ")]
        given: dict[str, Any] = {key: value for line in lines for key, value in re.findall(r"(\w+)=(\S+)", line)}
        given |= {"any_level": True} if given.get("any_level") == "true" else {}
        if "time" in given:
            start, end = (time_ns(side, US) if side else None for side in given.pop("time").split(":"))
            given["time_ns"] = (start, end)
        return Selection(**given)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        return analysed(self.trace, self.wanted)

    @cached_property
    def run(self) -> ProfiledRun:
        return diagnose(self.trace, "case", self.wanted)

    @cached_property
    def device(self) -> Device:
        """The only GPU, or that which reports are about."""
        return self.devices[0] if len(self.devices) == 1 else self.run.main_device

    @cached_property
    def variation(self) -> Variation:
        varies = variation(self.device)
        if varies is None:
            raise Unexpected("there are no steps to compare")
        return varies

    @cached_property
    def lost(self) -> LostWork:
        return lost_work(self.trace, *host_and_activities(self.trace))

    def finding(self, code: str) -> Finding:
        """The only finding of a code."""
        found = [finding for finding in self.findings if finding.code == code]
        if len(found) != 1:
            raise Unexpected(f"{len(found)} findings {code}, among {self.codes()}")
        return found[0]

    def codes(self) -> str:
        return " ".join(finding.code for finding in self.findings) or "none"

    def check(self) -> None:
        """Everything that is expected, and what holds for all."""
        lines = [filled(line, self.known) for line in self.expected]
        found = [(line, self._found_instead(line)) for line in lines]
        wrong = [f"expected  {line}\n   found  {instead}" for line, instead in found if instead is not None]
        if not lines:
            wrong = ["the case expects nothing"]
        if self.language not in ("command", "ranks") and not any(line.startswith("refused ") for line in lines):
            for device in self.devices:
                check_balance(device)
            wrong += broken_laws(self.run) if self.devices else []
        if wrong:
            raise Unexpected("\n".join(wrong))

    def _found_instead(self, line: str) -> str | None:
        """None where it is as expected."""
        negated = line.startswith("not ")
        word, _, rest = line.removeprefix("not ").partition(" ")
        if word not in EXPECTATIONS:
            return f"{word!r} is no expectation; there are {', '.join(sorted(EXPECTATIONS))}"
        try:
            is_so, found = EXPECTATIONS[word](self, rest.strip())
        except Unexpected as why:
            is_so, found = False, str(why)
        return None if is_so is not negated else found


def _of_capture(word: str) -> str:
    """The path of a capture, unpacked, where a word of a command, or what it sets, names one."""
    option, equals, name = word.rpartition("=")
    for path in (ROOT / "captures" / name, ROOT / "captures" / "nsys" / f"{name}.xz"):
        if "." in name and path.exists():
            return f"{option}{equals}{plain(path)}"
    return word


# values


def says(wanted: str, found: object) -> bool:
    """Whether a text is as wanted, in which `...` stands for any."""
    return _pattern(wanted).fullmatch(" ".join(str(found).split())) is not None


def holds(wanted: str, found: object) -> bool:
    """Whether it stands somewhere in the text."""
    return _pattern(wanted).search(" ".join(str(found).split())) is not None


def _pattern(wanted: str) -> re.Pattern[str]:
    parts = (re.escape(" ".join(part.split())) for part in wanted.split("..."))
    return re.compile(r"\s*" + r"\s*.*?\s*".join(parts) + r"\s*")


def near(wanted: str, found_ns: float, read: Callable[[str], float] | None = None) -> bool:
    """Whether a figure is as wanted: `10`, `5..10`, `<5`, `>5`, `~10`, `~10 20%`."""
    figure = read or (lambda text: time_ns(text, US))
    if match := re.fullmatch(r"(\S+)\.\.(\S+)", wanted):
        return figure(match[1]) <= found_ns <= figure(match[2])
    if match := re.fullmatch(r"~(\S+)(?: (\S+)%)?", wanted):
        return abs(found_ns - figure(match[1])) <= abs(figure(match[1])) * (float(match[2]) / 100 if match[2] else NEAR)
    if wanted[0] in "<>":
        return found_ns < figure(wanted[1:]) if wanted[0] == "<" else found_ns > figure(wanted[1:])
    return figure(wanted) == found_ns


def us(time: float) -> str:
    return f"{time / US:.3f}".rstrip("0").rstrip(".")


def pairs(amounts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {us(ns)}" for name, ns in amounts.items() if ns) or "nothing"


def listed(text: str) -> list[tuple[str, str]]:
    """`sync 5, dispatch 3`: names and figures."""
    return [(name, figure) for name, _, figure in (part.strip().partition(" ") for part in text.split(","))]


def same(wanted: str, amounts: Mapping[str, int]) -> tuple[bool, str]:
    """Whether these are all of the amounts, in whatever order."""
    some = {name: ns for name, ns in amounts.items() if ns}
    given = dict(listed(wanted)) if wanted != "nothing" else {}
    return given.keys() == some.keys() and all(near(given[name], ns) for name, ns in some.items()), pairs(some)


# what may be expected

Expectation = Callable[[Case, str], tuple[bool, str]]


def _ledger(case: Case, rest: str) -> tuple[bool, str]:
    total = {str(line): ns for line, ns in case.device.ledger.total().items()}
    return all(near(figure, total.get(line, 0)) for line, figure in listed(rest)), pairs(total)


def _steady(case: Case, rest: str) -> tuple[bool, str]:
    total = {str(line): ns for line, ns in case.device.line_ns.items()}
    return all(near(figure, total.get(line, 0)) for line, figure in listed(rest)), pairs(total)


def _causes(case: Case, rest: str) -> tuple[bool, str]:
    lines = case.device.ledger.total().items()
    return same(rest, {str(line).removeprefix("idle."): ns for line, ns in lines if line.is_idle})


def _gap_at(case: Case, start: str) -> int:
    gaps = case.device.ledger.gaps
    at = np.flatnonzero(gaps.start_ns == time_ns(start, US))
    if len(at) != 1:
        raise Unexpected(f"gaps begin at {', '.join(us(begin) for begin in gaps.start_ns.tolist())}")
    return int(at[0])


def _gap(case: Case, rest: str) -> tuple[bool, str]:
    start, _, causes = rest.partition(": ")
    booked = case.device.ledger.gaps.by_cause.sums(np.array([_gap_at(case, start)]))
    return same(causes, {str(cause): ns for cause, ns in booked.items()})


def _trigger(case: Case, rest: str) -> tuple[bool, str]:
    start, _, wanted = rest.partition(" ")
    gaps, at = case.device.ledger.gaps, _gap_at(case, start)
    by = gaps.draining[gaps.drained_by[at]]
    found = f"{TRIGGERS[gaps.trigger[at]]}" + (f" by {by}" if by else "")
    return found == wanted or found.startswith(f"{wanted} by "), found


def _triggers(case: Case, rest: str) -> tuple[bool, str]:
    found = [str(TRIGGERS[trigger]) for trigger in case.device.ledger.gaps.trigger]
    return found == rest.split(), " ".join(found)


def _buckets(case: Case, rest: str) -> tuple[bool, str]:
    found = ", ".join(f"{name}: {count} of {us(ns)}" for name, count, ns in histogram(case.device.ledger.gaps) if count)
    return found == rest, found


def _calls(case: Case, rest: str) -> tuple[bool, str]:
    found = " ".join(CALL_KINDS[kind].name for kind in case.device.host.kinds.tolist())
    return found == rest, found


def _copied(case: Case, rest: str) -> tuple[bool, str]:
    """`Host-to-Device 4096 pageable`: a kind of copies, its bytes, and its memory."""
    found = [
        f"{kind.kind} {'none' if kind.total_bytes is None else kind.total_bytes}{' pageable' * kind.is_pageable}"
        for kind in copies_by_kind(case.trace, case.device)
    ]
    return rest in found, "; ".join(found)


def _lost(case: Case, rest: str) -> tuple[bool, str]:
    nodes = case.lost.nodes
    of_graphs = f"{nodes.missing} of {nodes.expected} nodes of {_plain(tuple(nodes.calls.tolist()))}"
    found = " ".join(map(str, case.lost.calls.tolist())) or (of_graphs if len(case.lost) else "none")
    return found == rest or (rest == "some" and len(case.lost) > 0), found


def _steps(case: Case, rest: str) -> tuple[bool, str]:
    steps = case.device.steps
    found = "none" if steps is None else f"{len(steps)} {steps.source}"
    return says(rest, found), found


def _level(case: Case, rest: str) -> tuple[bool, str]:
    found = [
        f"{level.name} {level.count} {level.source.name.lower()} {level.coverage:.0%}" for level in case.device.levels
    ]
    return any(says(rest, level) for level in found), "; ".join(found) or "none"


def _phases(case: Case, rest: str) -> tuple[bool, str]:
    """`0 100: decode`: of the stretches between these instants; without them, of the steps."""
    edges, _, words = rest.rpartition(": ")
    at = case.device.phases
    if edges:
        host, work = host_and_activities(case.trace)
        at = phases(case.trace, work, host, 0, np.array([time_ns(edge, US) for edge in edges.split()]))
    found = " ".join(PHASES[each] or "none" for each in at.of_step)
    return found == words, found


def _spans(read: Callable[[Case], Iterable[tuple[int, int]]]) -> Expectation:
    def check(case: Case, rest: str) -> tuple[bool, str]:
        found = " ".join(f"{us(start)}-{us(end)}" for start, end in read(case)) or "none"
        return found == rest, found

    return check


def _lengths(case: Case, rest: str) -> tuple[bool, str]:
    found = " ".join(us(length) for length in case.device.steps.length_ns.tolist()) if case.device.steps else "none"
    return found == rest, found


def _ranges(case: Case, rest: str) -> tuple[bool, str]:
    """`layer2 4`: all top ranges, and the launches in them."""
    found = " ".join(f"{node.name} {node.launches}" for node in range_tree(case.trace, case.device).nodes)
    return found == rest, found


def _outliers(case: Case, rest: str) -> tuple[bool, str]:
    found = " ".join(str(outlier.step) for outlier in case.variation.outliers) or "none"
    return found == rest, found


def _drift(case: Case, rest: str) -> tuple[bool, str]:
    drift = case.variation.drift
    longer = drift is not None and drift.late_ns > drift.early_ns
    found = "none" if drift is None else f"{drift.line} {'longer' if longer else 'shorter'}"
    return says(rest, found), found


def _findings(case: Case, rest: str) -> tuple[bool, str]:
    return case.codes() == rest, case.codes()


def _finding(case: Case, rest: str) -> tuple[bool, str]:
    code, *first = rest.split()
    told = case.codes().split()
    return (told[:1] == [code]) if first else (code in told), case.codes()


def _absent(case: Case, rest: str) -> tuple[bool, str]:
    return not {*rest.split()} & {*case.codes().split()}, case.codes()


def _largest(case: Case, rest: str) -> tuple[bool, str]:
    found = max(case.findings, key=lambda finding: finding.explains_ns).code
    return found == rest, found


def _gpus(case: Case, rest: str) -> tuple[bool, str]:
    """What is told is of these GPUs."""
    found = " ".join(str(gpu) for gpu in sorted({finding.gpu for finding in case.findings}))
    return found == rest, found


def _nothing_saves(case: Case, rest: str) -> tuple[bool, str]:
    """`5%`: no finding saves more of the time."""
    most = max((found.saving_ns for found in case.findings), default=0) / case.device.steady_ns
    return most <= float(rest.rstrip("%")) / 100, f"{most:.1%}"


def _surest(case: Case, rest: str) -> tuple[bool, str]:
    """How sure one may be of what is not about the capture."""
    told = {str(found.confidence) for found in case.findings if not found.code.startswith("CAPTURE-")}
    found = next((each for each in ("high", "medium", "low") if each in told), "none")
    return found == rest, found


def _said(read: Callable[[Finding], object]) -> Expectation:
    """A text of a finding."""

    def check(case: Case, rest: str) -> tuple[bool, str]:
        code, _, wanted = rest.partition(" ")
        found = read(case.finding(code))
        texts = found if isinstance(found, tuple) else (found,)
        return any(says(wanted.strip(), text) for text in texts), "\n          ".join(map(str, texts)) or "nothing"

    return check


def _amount(read: Callable[[Case, Finding], float | None]) -> Expectation:
    """A time of a finding, or of the run."""

    def check(case: Case, rest: str) -> tuple[bool, str]:
        code, _, wanted = rest.partition(" ")
        found = read(case, case.finding(code))
        return (
            (wanted == "none", "none")
            if found is None
            else (wanted != "none" and near(wanted.strip(), found), us(found))
        )

    return check


def _figure(read: Callable[[Case], float], figure: Callable[[str], float] | None = None) -> Expectation:
    def check(case: Case, rest: str) -> tuple[bool, str]:
        found = read(case)
        return near(rest, found, figure), us(found) if figure is None else f"{found:g}"

    return check


def _evidence(case: Case, rest: str) -> tuple[bool, str]:
    """`CODE 0 count=16`, `CODE cudaMalloc count=16`: fields of a piece of evidence, by its place or its call."""
    code, place, *wanted = rest.split()
    pieces = case.finding(code).evidence
    piece = next((each for each in pieces if each.call == place), None) or pieces[int(place)]
    found = {each.name: _plain(getattr(piece, each.name)) for each in fields(Evidence)}
    given = [each.split("=", 1) for each in wanted]
    return all(found[key] == value for key, value in given), " ".join(f"{key}={found[key]}" for key, _ in given)


def _plain(value: Any) -> str:
    if isinstance(value, Span):
        return f"{us(value.start_ns)}-{us(value.end_ns)}"
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _verdict(case: Case, rest: str) -> tuple[bool, str]:
    found = str(verdict(case.run))
    return says(rest, found), found


def _report(case: Case, rest: str) -> tuple[bool, str]:
    from gpuledger import build_report

    found = build_report(case.trace, "case", case.wanted).to_text(width=300)
    return holds(rest, found), found


def _command(exit_code: int, read: Callable[[Ran], str]) -> Expectation:
    """What a command says that ends so."""

    def check(case: Case, rest: str) -> tuple[bool, str]:
        ran, said = case.ran, read(case.ran)
        is_so = ran.exit_code == exit_code and (exit_code == 0 or not ran.stdout) and holds(rest, said)
        return is_so, f"exit {ran.exit_code}: {ran.stdout[:2_000]}{ran.stderr[:2_000]}"

    return check


def _fits(case: Case, rest: str) -> tuple[bool, str]:
    """`fits 56`: so many lines at most, none wider than the terminal."""
    lines = case.ran.stdout.splitlines()
    return len(lines) <= int(rest) and max(map(len, lines)) <= WIDTH, f"{len(lines)} lines, {max(map(len, lines))} wide"


def _refused(case: Case, rest: str) -> tuple[bool, str]:
    try:
        run = case.run
    except GpuledgerError as why:
        return says(rest, why), str(why)
    return False, f"answered with {len(run.findings)} findings"


# of the graph that is replayed


def _graph_of(case: Case, *, residuals: bool = True) -> DependencyGraph:
    return dependency_graph(case.trace, *host_and_activities(case.trace), residuals=residuals)


def _graph(case: Case, rest: str) -> tuple[bool, str]:
    """`calls.after -1 0`: a column; what ends in `_ns` is in microseconds."""
    name, *_ = rest.split()
    values = attrgetter(name)(_graph_of(case)).tolist()
    found = " ".join([name, *(us(value) if name.endswith("_ns") else str(value) for value in values)])
    return found == rest.removesuffix(" none"), found


def _ends(graph: DependencyGraph, rest: str) -> tuple[bool, str]:
    """`0=100 112 212`: when operations end where the first takes so long."""
    change, *_ = rest.split()
    row, length = change.split("=")
    changed = with_durations(graph, np.array([int(row)]), np.array([time_ns(length, US)]))
    found = " ".join([change, *map(us, replay_times(changed).end.tolist())])
    return found == rest, found


def _meeting(case: Case, rest: str) -> tuple[bool, str]:
    meetings, _, change = rest.partition(" with ")
    return _ends(with_rendezvous(_graph_of(case), np.array([*map(int, meetings.split())])), change)


def _met(case: Case, rest: str) -> tuple[bool, str]:
    """`-1 -1 5 5: 38 68 19 20`: who meets whom, and how long each takes by itself."""
    meetings, _, lengths = rest.partition(": ")
    graph = with_rendezvous(_graph_of(case), np.array([*map(int, meetings.split())]))
    found = " ".join(map(us, graph.operations.duration_ns.tolist()))
    return found == lengths, found


def _path(case: Case, rest: str) -> tuple[bool, str]:
    path = critical_path(scenario(case.trace, case.device))
    pieces = zip(path.start_ns.tolist(), path.end_ns.tolist(), path.line.tolist(), strict=True)
    found = ", ".join(f"{us(start)}-{us(end)} {path.lines[line]}" for start, end, line in pieces)
    return found == rest, found


# of several ranks


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
    """Nothing is measured that needs two ranks, and every sheet is whole all the same."""
    whole = [*(clock.residual_ns for clock in case.job.clocks[1:]), worst_place(case.job), slowest_step_ns(case.job)]
    sheets = job_sheets(job_answer(case.job, fixing(case.job)))
    fits = all(len(row) == len(sheet.columns) for sheet in sheets for row in sheet.rows)
    return fits and all(isinstance(each, NotMeasured) for each in whole), str(whole)


EXPECTATIONS: Mapping[str, Expectation] = {
    "absent": _absent,
    "assumption": _said(lambda found: found.assumption),
    "bound": _said(lambda found: "yes" if found.is_bound else "no"),
    "busy": _figure(lambda case: case.device.ledger.busy.compute_ns),
    "buckets": _buckets,
    "calls": _calls,
    "causes": _causes,
    "claim": _said(lambda found: found.claim),
    "confidence": _said(lambda found: found.confidence),
    "copied": _copied,
    "coverage": _figure(lambda case: case.device.coverage, float),
    "drift": _drift,
    "edit": _said(lambda found: "none" if found.edit is None else "some"),
    "evidence": _evidence,
    "explains": _amount(lambda _, found: found.explains_ns),
    "finding": _finding,
    "findings": _findings,
    "fits": _fits,
    "fix": _said(lambda found: found.fix or "none"),
    "floor": _figure(lambda case: case.device.device_floor_ns),
    "gap": _gap,
    "gpus": _gpus,
    "idle": _spans(lambda case: case.device.ledger.busy.idle),
    "largest": _largest,
    "ledger": _ledger,
    "lengths": _lengths,
    "level": _level,
    "lost": _lost,
    "lost-share": _figure(lambda case: case.lost.share, float),
    "median": _figure(lambda case: case.variation.median_ns),
    "nothing-saves": _nothing_saves,
    "outliers": _outliers,
    "phases": _phases,
    "place": _said(lambda found: found.sentences[0]),
    "prints": _command(0, lambda ran: ran.stdout),
    "ranges": _ranges,
    "refused": _refused,
    "refuses": _command(1, lambda ran: ran.stderr.removeprefix("error: ") if ran.stderr[:7] == "error: " else ""),
    "report": _report,
    "saving": _amount(lambda _, found: found.saving_ns),
    "saving-per-step": _amount(lambda case, found: found.saving_ns / case.device.step_count),
    "says": _said(lambda found: found.sentences),
    "steady": _steady,
    "steps": _steps,
    "stretches": _spans(lambda case: case.device.ledger.busy.stretches),
    "surest": _surest,
    "then": _amount(lambda _, found: found.then_ns),
    "trigger": _trigger,
    "triggers": _triggers,
    "unsure": _said(lambda found: "yes" if found.is_unsure else "no"),
    "usage": _command(2, lambda ran: ran.stderr),
    "verdict": _verdict,
    "warm-up": _figure(lambda case: case.variation.steps.warm_up, number),
    "bus": _of_lanes(lambda lane: bus_bytes(lane).tolist()),
    "bus-rate": _of_lanes(lambda lane: bus_bytes_per_s(lane).tolist()),
    "bytes": _of_lanes(lambda lane: lane.bytes.tolist()),
    "gate": _gate,
    "kinds": _of_lanes(lambda lane: [KINDS[kind] for kind in lane.kind]),
    "late": _of_lanes(lambda lane: lane.late.tolist()),
    "matched": _of_lanes(lambda lane: [len(lane)]),
    "ahead": _clocks(lambda clock: clock.ahead_ns),
    "noted": _noted,
    "notes": _notes,
    "offsets": _clocks(lambda clock: clock.offset_ns),
    "parts": _parts,
    "residuals": _clocks(lambda clock: clock.residual_ns),
    "skews": _of_lanes(lambda lane: map(us, lane.skew_ns.tolist())),
    "transfers": _of_lanes(lambda lane: map(us, lane.transfer_ns.tolist())),
    "unmeasured": _unmeasured,
    "waited": _figure(lambda case: case.job.waited_ns),
    "waits": _waits,
    "world": _figure(lambda case: case.job.world_size, float),
    "graph": _graph,
    "with": lambda case, rest: _ends(_graph_of(case), rest),
    "unfitted": _figure(lambda case: replay_times(_graph_of(case, residuals=False)).start[-1]),
    "meeting": _meeting,
    "met": _met,
    "path": _path,
}


# files


class CaseItem(pytest.Item):
    """A heading of a file, or a row of the table under it."""

    def __init__(self, *, case: Case, line: int, **given: Any) -> None:
        super().__init__(**given)
        self.case, self.line = case, line

    def runtest(self) -> None:
        try:
            self.case.check()
        except (ValueError, NameError, SyntaxError) as why:
            raise Unexpected(f"the case cannot be read: {why}") from why

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *given: Any) -> Any:
        if isinstance(excinfo.value, Unexpected):
            return f"{self.path}:{self.line}: {self.name}\n\n{excinfo.value}"
        return super().repr_failure(excinfo, *given)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, self.name


class CaseFile(pytest.File):
    """A Markdown file of cases."""

    def collect(self) -> Iterator[CaseItem]:
        for line, name, case in cases_in(self.path.read_text()):
            yield CaseItem.from_parent(self, name=name, case=case, line=line)


_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NEXT = re.compile(rf"; (?=(?:not )?(?:{'|'.join(EXPECTATIONS)})(?: |;|$))")


def cases_in(text: str) -> Iterator[tuple[int, str, Case]]:
    """All cases of a file: line, words and content. Names of a section without a case are known from there on."""
    names: dict[str, str] = {}
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        line = text[: text.index(section)].count("\n") + 1
        heading = section.partition("\n")[0].removeprefix("## ").strip()
        block = dict(_FENCE.findall(section))
        for name, value in re.findall(r"^(\w+) = (.+)$", block.pop("names", ""), re.MULTILINE):
            names[name] = _named(value, names)
        header, *rows = re.findall(r"^\|(.+)\|$", _FENCE.sub("", section), re.MULTILINE) or [""]
        columns = _cells(header)
        for row in rows[1:] if rows else [""] if block else []:
            cells = dict(zip(columns, _cells(row), strict=False))
            given = {language: cells[language] for language in LANGUAGES if language in cells} or block
            told = [cell for name, cell in cells.items() if name not in (*given, "=>")] or list(cells.values())[:1]
            yield line, " - ".join((heading, *told)), _case(given, cells, names)


def _cells(row: str) -> list[str]:
    return [cell.strip().strip("`").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)]


def _named(text: str, *known: Mapping[str, str]) -> str:
    """The text with names and cells in their places; a cell may hold names."""
    for each in known:
        for name, value in each.items():
            text = text.replace(f"{{{name}}}", value)
    return text


def _case(given: Mapping[str, str], cells: Mapping[str, str], names: Mapping[str, str]) -> Case:
    [(language, text)] = given.items()
    text += "".join(f"\n=> {each}" for each in _NEXT.split(_named(cells.get("=>", ""), names)) if each)
    text = _named(text, cells, names)
    lines = [re.sub(r"(^|\s+)# .*$", "", line) for line in text.splitlines()]
    expected = tuple(line.removeprefix("=> ") for line in lines if line.startswith("=> "))
    numbers = {name: number_or_text(value) for name, value in cells.items()}
    return Case(language, tuple(line for line in lines if not line.startswith("=> ")), expected, numbers)
