"""The time of one GPU: its ledger, its steps, its gaps, and what overlaps, each as sentences and tables.

Answers in, a `TableAnswer` out: the first sentence answers the question, the others say what to change or where to
look, and the tables under them have the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gpuledger.analyse.gap_summary import LONGEST, GapSummary
from gpuledger.analyse.overlap import Exposure, StreamOverlap, WorkOverlap
from gpuledger.analyse.step_summary import PhasePlace, PhaseTime, StepNote
from gpuledger.catalog.kernel_names import label
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation
from gpuledger.messages import Message, say
from gpuledger.present.sheet import Column, Sheet, Unit, percent, share_column
from gpuledger.present.terms import TOTAL, cause_term, line_term, trigger_term
from gpuledger.present.views.tables import TableAnswer
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.answers.one_gpu import GapsAnswer, OverlapAnswer, StepsAnswer

Sentences = tuple[Message, ...]

WORTH_DOING: Final = 0.01
"""From this share of the step on, something is worth a sentence about what to do."""

_WHERE: Final = {
    PhasePlace.BEFORE: say("before the steps"),
    PhasePlace.STEPS: say("steps"),
    PhasePlace.AFTER: say("after the steps"),
}
_NOTES: Final = {StepNote.USUAL: "", StepNote.WARM_UP: say("warm-up"), StepNote.UNUSUAL: say("unusual")}
_LENGTH_WORDS: Final = {"under 1 us": say("under 1 us"), "over 1 ms": say("over 1 ms")}


def steady_title(device: Device, title: str, *, with_gpu: bool = True) -> str:
    """The title of a table about the steady steps; about the window, where there are none."""
    title = title if device.steps is None else say("{title}, steady steps", title=title)
    return say("{title}, GPU {gpu}", title=title, gpu=device.gpu) if with_gpu else title


def none_sentence(device: Device, what: Message | str) -> Message:
    """That there is none of something, in the steady steps where there are any."""
    said = say("GPU {gpu}: no {what}.", gpu=device.gpu, what=what)
    return said if device.steps is None else say("GPU {gpu}: no {what} in the steady steps.", gpu=device.gpu, what=what)


def step_time_text(device: Device, time_ns: int) -> str:
    """A time of all steady steps, for one of them; in all, where there are no steps."""
    time = time_text(time_ns // device.step_count)
    return time if device.steps is None else say("{time} per step", time=time)


def step_count_text(device: Device, count: int, one: Message, many: Message) -> Message:
    """A count a step where it is the same in all, else over all steps: there is no part of a call."""
    steps = device.step_count
    if device.steps is None or count % steps:
        told = say("{count} {what}", count=count_text(count), what=one if count == 1 else many)
        return told if device.steps is None else say("{told} in {steps} steps", told=told, steps=count_text(steps))
    return say("{count} {what} per step", count=count_text(count // steps), what=one if count == steps else many)


def largest_line_sentence(device: Device) -> Message:
    """The line with the most time, and the verb that looks into it."""
    line, time_ns = max(device.shown_ns.items(), key=lambda entry: entry[1])
    return say(
        "Largest line: {line}, {share}; for details run `gpuledger {verb}`.",
        line=line.label,
        share=share_text(time_ns / max(device.steady_ns, 1)),
        verb="gaps" if line.is_idle else "kernels" if line.is_compute else "overlap",
    )


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


def gaps_tables(answer: GapsAnswer) -> TableAnswer:
    """Why the GPU was idle; the longest gaps, or all from some length on."""
    return TableAnswer(_gap_sentences(answer), tuple(gap_sheets(answer.device, answer.summary)))


def _gap_sentences(answer: GapsAnswer) -> Sentences:
    """How much of the window the GPU is idle, why, and what to fix first."""
    summary, device = answer.summary, answer.device
    window_ns = device.ledger.window_ns
    if not summary.idle_ns:
        return (say("GPU {gpu}: never idle in {window}.", gpu=summary.gpu, window=time_text(window_ns)),)
    largest = summary.by_cause[0]
    idle = say(
        "GPU {gpu}: idle {share} of the window ({idle} of {window}), in {gaps}; {part} of the idle time is {cause}.",
        gpu=summary.gpu,
        share=share_text(summary.idle_ns / window_ns),
        idle=time_text(summary.idle_ns),
        window=time_text(window_ns),
        gaps=gaps_text(summary.gaps),
        part=share_text(largest.time_ns / summary.idle_ns),
        cause=largest.cause.label,
    )
    if not summary.by_trigger or not summary.steady_idle_ns:
        return (idle,)
    first = max(summary.by_trigger, key=lambda part: part.time_ns)
    figures = {
        "most": say("Most of it") if device.steps is None else say("Most of it in the steady steps"),
        "trigger": first.trigger.label,
        "share": share_text(first.time_ns / summary.steady_idle_ns),
        "gaps": gaps_text(first.gaps),
        "time": step_time_text(device, first.time_ns),
    }
    if answer.code is None or first.time_ns < WORTH_DOING * device.steady_ns:
        return idle, say("{most}: {trigger}, {share} ({gaps}, {time}).", **figures)
    return idle, say(
        "{most}: {trigger}, {share} ({gaps}, {time}): `gpuledger explain {code}`; "
        "`gpuledger report` ranks fixes by what they save.",
        **figures,
        code=answer.code,
    )


def gaps_text(count: int) -> Message:
    """How many gaps there are."""
    return say("one gap") if count == 1 else say("{count} gaps", count=count_text(count))


def gap_sheets(device: Device, summary: GapSummary) -> list[Sheet]:
    """All tables about one GPU's gaps."""
    by_line = [lines_sheet(summary)] if summary.by_line else []
    return [
        causes_sheet(summary),
        triggers_sheet(device, summary),
        *by_line,
        lengths_sheet(summary),
        longest_sheet(summary),
    ]


def length_words(bucket: str) -> str:
    """What gaps of about one length are called: words in the reader's language, or numbers."""
    return _LENGTH_WORDS.get(bucket, bucket)


def _time_columns(whole_ns: int) -> tuple[Column, Column]:
    """Time, and its share of a whole."""
    return (
        Column("time_ns", say("Time"), Unit.NS),
        share_column("share_percent", say("Share"), "time_ns", whole_ns),
    )


def causes_sheet(summary: GapSummary) -> Sheet:
    """Idle time of the whole window by cause."""
    whole = summary.idle_ns
    return Sheet.of(
        f"gaps_by_cause_gpu{summary.gpu}",
        say("Idle time by cause, GPU {gpu}", gpu=summary.gpu),
        (Column("cause", say("Cause"), Unit.TEXT, lambda part: cause_term(part.cause)), *_time_columns(whole)),
        summary.by_cause,
        foot=({"cause": TOTAL, "time_ns": whole, "share_percent": percent(whole, whole)},),
    )


def triggers_sheet(device: Device, summary: GapSummary) -> Sheet:
    """Idle time of the steady steps by what set it off."""
    columns = (
        Column("trigger", say("Trigger"), Unit.TEXT, lambda part: trigger_term(part.trigger)),
        Column("call", say("Call"), Unit.TEXT),
        Column("gaps", say("Gaps"), Unit.COUNT),
        *_time_columns(summary.steady_idle_ns),
    )
    title = steady_title(device, say("Idle time by trigger"))
    return Sheet.of(f"gaps_by_trigger_gpu{summary.gpu}", title, columns, summary.by_trigger)


def lines_sheet(summary: GapSummary) -> Sheet:
    """Idle time of the whole window by the line that the host was at, by samples of Python's stacks."""
    columns = (
        Column("line", say("Line"), Unit.TEXT, "at"),
        Column("function", say("Function"), Unit.TEXT),
        Column("into", say("Calls"), Unit.TEXT, detail=1),
        Column("time_ns", say("Time"), Unit.NS, "amount_ns"),
        share_column("share_percent", say("Share"), "amount_ns", summary.by_line[0].whole_ns),
    )
    title = say("Idle time by the line the host was at, GPU {gpu}", gpu=summary.gpu)
    return Sheet.of(f"gaps_by_line_gpu{summary.gpu}", title, columns, summary.by_line)


def lengths_sheet(summary: GapSummary) -> Sheet:
    """Gaps of the whole window by their length."""
    columns = (
        Column("length", say("Length"), Unit.TEXT, lambda bucket: length_words(bucket.name)),
        Column("gaps", say("Gaps"), Unit.COUNT),
        *_time_columns(summary.idle_ns),
    )
    title = say("Gaps by length, GPU {gpu}", gpu=summary.gpu)
    return Sheet.of(f"gaps_by_length_gpu{summary.gpu}", title, columns, summary.by_length)


def longest_sheet(summary: GapSummary) -> Sheet:
    """The longest gaps, or all of the length that was asked for, one by one."""
    name = f"gaps_longest_gpu{summary.gpu}"
    title = say("The {count} longest gaps, GPU {gpu}", count=LONGEST, gpu=summary.gpu)
    if summary.least_ns is not None:
        listed_ns = sum(gap.length_ns for gap in summary.longest)
        name = f"gaps_over_gpu{summary.gpu}"
        title = say(
            "{count} of {gaps} gaps are {time} or longer, {share} of the idle time, GPU {gpu}",
            count=count_text(len(summary.longest)),
            gaps=count_text(summary.gaps),
            time=time_text(summary.least_ns),
            share=share_text(listed_ns / summary.idle_ns if summary.idle_ns else 0.0),
            gpu=summary.gpu,
        )
    columns = (
        Column("length_ns", say("Length"), Unit.NS),
        Column("start_ns", say("Start"), Unit.INSTANT_NS),
        Column("end_ns", say("End"), Unit.INSTANT_NS, detail=1),
        Column("trigger", say("Trigger"), Unit.TEXT, lambda gap: trigger_term(gap.trigger, gap.drained_by)),
        Column("cause", say("Largest cause"), Unit.TEXT, lambda gap: cause_term(gap.largest_cause), detail=2),
        Column("cause_ns", say("Cause"), Unit.NS, "largest_cause_ns", detail=3),
        Column("before", say("Before"), Unit.TEXT, detail=4, shorten=label),
        Column("range", say("Range"), Unit.TEXT, lambda gap: " > ".join(gap.ranges), detail=5),
        Column("tid", say("Thread"), Unit.ID, detail=6),
        Column("after", say("After"), Unit.TEXT, shorten=label),
    )
    return Sheet.of(name, title, columns, summary.longest)


def overlap_tables(answer: OverlapAnswer) -> TableAnswer:
    """What runs beside what, and kernels that overlap on one stream."""
    sheets = overlap_sheet(answer.work), _stream_overlap_sheet(answer.device, answer.on_streams)
    shown = sheets if answer.on_streams.kernels else sheets[:1]
    return TableAnswer((*_overlap_sentences(answer.work), *_stream_sentences(answer)), sheets, shown)


def _overlap_sentences(overlap: WorkOverlap) -> Sentences:
    """How busy the GPU is, and what of communication and copies is not overlapped with compute."""
    exposed = {"compute": overlap.compute, "communication": overlap.communication, "copies": overlap.copies}
    busy = say(
        "GPU {gpu}: busy {busy} of the window: compute {compute}, exposed communication {communication}, exposed "
        "copies {copies}.",
        gpu=overlap.gpu,
        busy=share_text(sum(work.exposed_ns for work in exposed.values()) / overlap.window_ns),
        **{kind: share_text(work.exposed_ns / overlap.window_ns) for kind, work in exposed.items()},
    )
    kinds = (
        (say("communication"), overlap.communication, "COMM-EXPOSED"),
        (say("copies"), overlap.copies, "COPY-EXPOSED"),
    )
    return busy, *(_exposed(what, work, code, overlap.window_ns) for what, work, code in kinds if work.running_ns)


def _exposed(what: Message, work: Exposure, code: str, window_ns: int) -> Message:
    figures = {
        "what": what,
        "time": time_text(work.running_ns),
        "share": share_text(work.exposed_ns / work.running_ns),
    }
    if work.exposed_ns < WORTH_DOING * window_ns:
        return say("Of {time} of {what}, {share} is not overlapped with compute.", **figures)
    return say(
        "Fix: of {time} of {what}, {share} is not overlapped with compute (`gpuledger explain {code}`).",
        **figures,
        code=code,
    )


def _stream_sentences(answer: OverlapAnswer) -> Sentences:
    """That kernels overlap on one stream, why, and what that gains at most; nothing where none do."""
    overlap = answer.on_streams
    if not overlap.kernels:
        return ()
    why = say("programmatic dependent launch")
    if overlap.in_graphs:
        why = say("programmatic dependent launch, or branches of a graph on one stream")
    return (
        say(
            "On one stream, {kernels} begin before the one before them ends ({why}): they overlap by {time}, "
            "and one after the other they would take at most that much longer.",
            kernels=step_count_text(answer.device, overlap.kernels, say("kernel"), say("kernels")),
            why=why,
            time=step_time_text(answer.device, overlap.overlap_ns),
        ),
    )


def overlap_sheet(overlap: WorkOverlap) -> Sheet:
    """Compute, communication, copies and idle of the whole window; the exposed times sum to it."""
    whole = overlap.window_ns
    return Sheet.of(
        f"overlap_gpu{overlap.gpu}",
        say("Overlap, GPU {gpu}", gpu=overlap.gpu),
        (
            Column("kind", say("Kind"), Unit.TEXT, lambda kind: kind[0]),
            Column("running_ns", say("Running"), Unit.NS, lambda kind: kind[1].running_ns, detail=1),
            Column("hidden_ns", say("Hidden"), Unit.NS, lambda kind: kind[1].hidden_ns),
            Column("exposed_ns", say("Exposed"), Unit.NS, lambda kind: kind[1].exposed_ns),
            share_column("exposed_percent", say("Of the window"), lambda kind: kind[1].exposed_ns, whole),
        ),
        (
            (say("compute"), overlap.compute),
            (say("communication"), overlap.communication),
            (say("copies"), overlap.copies),
            (say("idle"), overlap.idle),
        ),
        foot=({"kind": say("window"), "exposed_ns": whole, "exposed_percent": 100.0},),
    )


def _stream_overlap_sheet(device: Device, overlap: StreamOverlap) -> Sheet:
    """Which kernels overlap on one stream in the steady steps, the longest overlap first."""
    columns = (
        Column("before", say("Kernel"), Unit.TEXT, shorten=label),
        Column("name", say("Begins before it ends"), Unit.TEXT, shorten=label),
        Column("count", say("Count"), Unit.COUNT),
        Column("per_step", say("Per step"), Unit.MEAN, lambda pair: pair.count / overlap.steps, detail=1),
        Column("overlap_ns", say("Overlap"), Unit.NS),
    )
    title = steady_title(device, say("Kernels that overlap on one stream"))
    return Sheet.of(f"stream_overlap_gpu{overlap.gpu}", title, columns, overlap.pairs)
