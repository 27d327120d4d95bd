"""What a case may expect of one profile: its books, steps, findings, and what commands say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from msgspec.structs import fields

from gpuledger.analyse.memory.figures import copies_by_kind
from gpuledger.analyse.phases.phase_costs import PhaseRow, phase_costs
from gpuledger.analyse.ranges.range_tree import range_tree
from gpuledger.catalog.calls import CALL_KINDS
from gpuledger.errors import GpuledgerError
from gpuledger.findings.finding import Evidence, Finding
from gpuledger.ledger.causes import TRIGGERS
from gpuledger.ledger.gaps import histogram
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.steps import PHASES, phases
from gpuledger.present.views.report_parts import next_command, verdict
from gpuledger.trace.model import NotMeasured
from support.cases.case import (
    US,
    WIDTH,
    Case,
    Expectation,
    Unexpected,
    figure_of,
    holds,
    listed,
    near,
    pairs,
    plain_text,
    same,
    says,
    us,
)
from support.command import Ran
from support.traces.trace_notation import number, time_ns


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
    of_graphs = f"{nodes.missing} of {nodes.expected} nodes of {plain_text(tuple(nodes.calls.tolist()))}"
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


def _hidden(case: Case, rest: str) -> tuple[bool, str]:
    """Communication and copies under more important work."""
    split = case.device.ledger.busy
    found = f"{us(split.hidden_comm_ns)} {us(split.hidden_copy_ns)}"
    return found == rest, found


def _median_length(case: Case) -> float:
    lengths = sorted(case.device.steps.length_ns.tolist()) if case.device.steps else [0]
    return lengths[len(lengths) // 2]


def _next(case: Case, rest: str) -> tuple[bool, str]:
    """The command that is told to run next."""
    found = " ".join(str(line) for line in next_command(case.run))
    return says(rest, found), found


def _lengths(case: Case, rest: str) -> tuple[bool, str]:
    found = " ".join(us(length) for length in case.device.steps.length_ns.tolist()) if case.device.steps else "none"
    return found == rest, found


def _ranges(case: Case, rest: str) -> tuple[bool, str]:
    """`layer2 4`: all top ranges, and the launches in them."""
    found = " ".join(f"{node.range} {node.launches}" for node in range_tree(case.trace, case.device).nodes)
    return found == rest, found


def _of_phases(read: Callable[[PhaseRow], int]) -> Expectation:
    """What the phases of layers take, all of them."""

    def check(case: Case, rest: str) -> tuple[bool, str]:
        costs = phase_costs(case.trace, case.device)
        return same(rest, {cost.phase: read(cost) for cost in costs.phases})

    return check


def _layers(case: Case, rest: str) -> tuple[bool, str]:
    layers = phase_costs(case.trace, case.device).layers
    each = [] if isinstance(layers, NotMeasured) else [layer.layer for layer in layers]
    found = " ".join("none" if layer is None else str(layer) for layer in each)
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


def _evidence(case: Case, rest: str) -> tuple[bool, str]:
    """`CODE 0 count=16`, `CODE cudaMalloc count=16`: fields of a piece of evidence, by its place or its call."""
    code, place, *wanted = rest.split()
    pieces = case.finding(code).evidence
    piece = next((each for each in pieces if each.call == place), None) or pieces[int(place)]
    found = {each.name: plain_text(getattr(piece, each.name)) for each in fields(Evidence)}
    given = [each.split("=", 1) for each in wanted]
    return all(found[key] == value for key, value in given), " ".join(f"{key}={found[key]}" for key, _ in given)


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


PROFILE_WORDS: Mapping[str, Expectation] = {
    "absent": _absent,
    "assumption": _said(lambda found: found.assumption),
    "bound": _said(lambda found: "yes" if found.is_bound else "no"),
    "buckets": _buckets,
    "busy": figure_of(lambda case: case.device.ledger.busy.compute_ns),
    "calls": _calls,
    "causes": _causes,
    "claim": _said(lambda found: found.claim),
    "confidence": _said(lambda found: found.confidence),
    "copied": _copied,
    "coverage": figure_of(lambda case: case.device.coverage, float),
    "drift": _drift,
    "edit": _said(lambda found: "none" if found.edit is None else "some"),
    "evidence": _evidence,
    "explains": _amount(lambda _, found: found.explains_ns),
    "finding": _finding,
    "findings": _findings,
    "fits": _fits,
    "fix": _said(lambda found: found.fix or "none"),
    "floor": figure_of(lambda case: case.device.device_floor_ns),
    "gap": _gap,
    "gpus": _gpus,
    "idle": _spans(lambda case: case.device.ledger.busy.idle),
    "largest": _largest,
    "ledger": _ledger,
    "hidden": _hidden,
    "layers": _layers,
    "length": figure_of(_median_length),
    "lengths": _lengths,
    "level": _level,
    "lost": _lost,
    "lost-share": figure_of(lambda case: case.lost.share, float),
    "median": figure_of(lambda case: case.variation.median_ns),
    "next": _next,
    "nothing-saves": _nothing_saves,
    "outliers": _outliers,
    "phase-hidden": _of_phases(lambda cost: cost.hidden_ns or 0),
    "phase-times": _of_phases(lambda cost: cost.time_ns),
    "phase-visits": _of_phases(lambda cost: (cost.visits or 0) * US),
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
    "warm-up": figure_of(lambda case: case.variation.steps.warm_up, number),
}
