"""The time of one GPU: its ledger, its steps, its gaps, and what overlaps, each as sentences and tables.

Answers in, a `TableAnswer` out: the first sentence answers the question, the others say what to change or where to
look, and the tables under them have the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuledger.analyse.step_summary import PhasePlace, PhaseTime, StepNote
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation
from gpuledger.messages import Message, say
from gpuledger.present.sheet import Column, Sheet, Unit, share_column
from gpuledger.present.terms import TOTAL, line_term
from gpuledger.present.views.tables import TableAnswer
from gpuledger.present.views.words import largest_line_sentence
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.answers.one_gpu import StepsAnswer

Sentences = tuple[Message, ...]

_WHERE: Final = {
    PhasePlace.BEFORE: say("before the steps"),
    PhasePlace.STEPS: say("steps"),
    PhasePlace.AFTER: say("after the steps"),
}
_NOTES: Final = {StepNote.USUAL: "", StepNote.WARM_UP: say("warm-up"), StepNote.UNUSUAL: say("unusual")}


def ledger_sheet(device: Device) -> Sheet:
    """The whole window by line; the foot is the window, which the lines sum to."""
    whole = device.ledger.window_ns
    return Sheet.of(
        f"ledger_gpu{device.gpu}",
        say("Ledger, GPU {gpu}", gpu=device.gpu),
        (
            Column("line", say("Line"), Unit.TEXT, lambda entry: line_term(entry[0])),
            Column("time_ns", say("Time"), Unit.NS, lambda entry: entry[1]),
            share_column("share_percent", say("Share"), lambda entry: entry[1], whole),
        ),
        device.ledger.total().items(),
        foot=({"line": TOTAL, "time_ns": whole, "share_percent": 100.0},),
    )


def steps_tables(answer: StepsAnswer) -> TableAnswer:
    """The steps of one GPU; with each step's means of its counters, where they were sampled."""
    sheets = step_sheets(answer)
    if answer.use is not None:
        from gpuledger.present.views.utilization import step_use_sheet  # few profiles have samples

        sheets.append(step_use_sheet(answer.use, answer.device.zero_ns))
    return TableAnswer(_step_sentences(answer), tuple(sheets))


def _step_sentences(answer: StepsAnswer) -> Sentences:
    """How long a step takes, how steady that is, and what most of it is."""
    device, steps = answer.device, answer.variation
    if steps is None:
        missing = say("GPU {gpu}: no steps found in {window}.", gpu=device.gpu, window=time_text(device.steady_ns))
        return missing, say("Fix: define the step with --step-range=REGEX or --step-kernel=REGEX.")
    busy_ns = sum(time for line, time in device.line_ns.items() if not line.is_idle)
    figures = {
        "gpu": device.gpu,
        "median": time_text(steps.median_ns),
        "busy": share_text(busy_ns / max(device.steady_ns, 1)),
        "source": steps.steps.source,
    }
    sentences = [say("GPU {gpu}: one step of {median}, GPU busy {busy} ({source}).", **figures)]
    if device.step_count > 1:
        sentences = [
            say(
                "GPU {gpu}: {count} steps of {median} (median; P10 {low}, P90 {high}), GPU busy {busy} ({source}).",
                **figures,
                count=count_text(device.step_count),
                low=time_text(steps.p10_ns),
                high=time_text(steps.p90_ns),
            )
        ]
    if steps.outliers:
        worst = max(steps.outliers, key=lambda outlier: outlier.length_ns)
        sentences.append(
            say(
                "Unusual steps: {count}. The longest, step {step}, takes {length}: {excess} more {line} than usual.",
                count=count_text(len(steps.outliers)),
                step=worst.step,
                length=time_text(worst.length_ns),
                excess=time_text(worst.excess_ns),
                line=worst.line.label,
            )
        )
    if steps.periodic is not None:
        sentences.append(
            say(
                "Every {count} steps one takes {time} longer.",
                count=count_text(steps.periodic.every),
                time=time_text(steps.periodic.more_ns // len(steps.periodic.steps)),
            )
        )
    if steps.drifts and steps.drift is not None:
        sentences.append(
            say(
                "Steps drift: {early} in the first third, {late} in the last, most of it {line}.",
                early=time_text(steps.drift.early_ns),
                late=time_text(steps.drift.late_ns),
                line=steps.drift.line.label,
            )
        )
    return (*sentences, largest_line_sentence(device))


def step_sheets(answer: StepsAnswer) -> list[Sheet]:
    """All tables about one GPU's steps; one without rows where there are none."""
    device, steps = answer.device, answer.variation
    if steps is None:
        return [usual_sheet(device, None), levels_sheet(device)]
    return [
        usual_sheet(device, steps),
        levels_sheet(device),
        phases_sheet(device, answer.phases),
        outliers_sheet(device, steps),
        _every_step_sheet(answer),
    ]


def usual_sheet(device: Device, steps: Variation | None) -> Sheet:
    """How long a step takes, in one row; none where there are no steps."""
    columns = (
        Column("source", say("How found"), Unit.TEXT, "steps.source"),
        Column("steps", say("Steps"), Unit.COUNT, lambda usual: len(usual.steps)),
        Column("warm_up", say("of them warm-up"), Unit.COUNT, "steps.warm_up"),
        Column("median_ns", say("Median"), Unit.NS),
        Column("p10_ns", "P10", Unit.NS, detail=1),
        Column("p90_ns", "P90", Unit.NS, detail=1),
        share_column("drift_percent", say("Drift"), "drift_share", detail=2, unit=Unit.CHANGE_PERCENT),
    )
    title = say("Steps, GPU {gpu}", gpu=device.gpu)
    return Sheet.of(f"steps_gpu{device.gpu}", title, columns, () if steps is None else (steps,))


def levels_sheet(device: Device) -> Sheet:
    """All that repeats: `--level` takes any of the names."""
    columns = (
        Column("level", say("Level"), Unit.TEXT, "name"),
        Column("source", say("How found"), Unit.TEXT, "kind"),
        Column("count", say("Count"), Unit.COUNT),
        Column("median_ns", say("Median"), Unit.NS),
        share_column("coverage_percent", say("of the window"), "coverage"),
    )
    return Sheet.of(f"levels_gpu{device.gpu}", say("What repeats, GPU {gpu}", gpu=device.gpu), columns, device.levels)


def phases_sheet(device: Device, phases: tuple[PhaseTime, ...]) -> Sheet:
    """Prefill and decode, where they can be told apart."""
    columns = (
        Column("phase", say("Phase"), Unit.TEXT, lambda phase: phase.phase or say("unknown")),
        Column("where", say("Where"), Unit.TEXT, lambda phase: _WHERE[phase.where]),
        Column("steps", say("Steps"), Unit.COUNT),
        Column("median_ns", say("Median"), Unit.NS),
        Column("total_ns", say("Total"), Unit.NS),
    )
    title = say("Prefill and decode, GPU {gpu}", gpu=device.gpu)
    return Sheet.of(f"step_phases_gpu{device.gpu}", title, columns, phases)


def outliers_sheet(device: Device, steps: Variation) -> Sheet:
    """The unusual steps, the longest first."""
    columns = (
        Column("step", say("Step"), Unit.ID),
        Column("length_ns", say("Length"), Unit.NS),
        Column("line", say("Line that grew most"), Unit.TEXT, lambda outlier: line_term(outlier.line)),
        Column("excess_ns", say("Grew by"), Unit.NS),
    )
    title = say("Unusual steps, GPU {gpu}", gpu=device.gpu)
    return Sheet.of(f"step_outliers_gpu{device.gpu}", title, columns, steps.outliers)


def _every_step_sheet(answer: StepsAnswer) -> Sheet:
    """A row per step, warm-up included."""
    device = answer.device
    lines = {line: line_term(line) for line in device.shown_tiles[0]}
    columns = (
        Column("step", say("Step"), Unit.ID),
        Column("start_ns", say("Start"), Unit.INSTANT_NS, detail=1),
        Column("end_ns", say("End"), Unit.INSTANT_NS, detail=2),
        Column("length_ns", say("Length"), Unit.NS),
        Column("busy_ns", say("Busy"), Unit.NS, detail=3),
        Column("idle_ns", say("Idle"), Unit.NS, detail=3),
        share_column("busy_percent", say("GPU busy"), "busy_share"),
        Column("kernels", say("Kernels"), Unit.COUNT),
        Column("largest", say("Largest line"), Unit.TEXT, lambda step: lines[step.largest_line]),
        Column("phase", say("Phase"), Unit.TEXT),
        Column("note", "", Unit.TEXT, lambda step: _NOTES[step.note]),
    )
    title = say("Every step, GPU {gpu}", gpu=device.gpu)
    return Sheet.of(f"step_list_gpu{device.gpu}", title, columns, answer.every_step)
