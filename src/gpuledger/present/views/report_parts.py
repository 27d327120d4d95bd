"""What a report says in every format: the verdict, what to do, where the time went, kernels, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Final

from msgspec.structs import replace

from gpuledger.analyse.recorded.inventory import OS_CALLS_MISSING
from gpuledger.answers.report import ReportAnswer
from gpuledger.catalog.frameworks import is_amd
from gpuledger.catalog.kernel_families import OTHER
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import Headline, ProfiledRun, headline, main_kernels, time_before_work
from gpuledger.ledger.activity import GRAPH_FAMILY
from gpuledger.ledger.books import EXPOSED, OTHER_FAMILIES, Line, LineKind, small_families
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.ledger.levels import COVERAGE
from gpuledger.ledger.steps import PHASES
from gpuledger.messages import Message, capitalised, joined, say
from gpuledger.present.charts.amounts import Bar, Part, stacked_bars
from gpuledger.present.document import Block, Chart, LedgerBlock, LedgerRow, Paragraph
from gpuledger.present.palette import line_tone
from gpuledger.present.safe_text import shell_word
from gpuledger.present.views.work.light import light_sentence, parts_sentence, step_sentence
from gpuledger.trace.keys import distinct
from gpuledger.trace.model import Severity, always_shown
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text, time_text

_ENLARGED: Final = 0.25
"""Where a GPU works less than this share of the time, its work is also drawn over the whole width."""

_KINDS: Final = tuple(LineKind)

_MOSTLY: Final = 0.5


def verdict(run: ProfiledRun) -> Message:
    """What was lost, then two or three sentences: how much the GPU works, and what stands in the way.

    Of a recording that cannot be true, that and nothing else.
    """
    if run.damage is not None:
        return say("{claim}. What follows is a guess.", claim=capitalised(run.damage.claim))
    if run.lost is None:
        return _verdict(run)
    claim, rest = capitalised(run.lost.claim), _verdict(replace(run, findings=run.findings[1:]))
    share = share_text(run.main_device.idle_by_trigger.get(Cause.LOST, 0) / run.main_device.steady_ns)
    if share == share_text(0):
        return say("{claim}. {verdict}", claim=claim, verdict=rest)
    return say("{claim}. Up to {share} of the time only looks idle. {verdict}", claim=claim, share=share, verdict=rest)


def _verdict(run: ProfiledRun) -> Message:
    device = run.main_device
    summary = headline(device, run.findings)
    works = _at_work(device, summary, several=len(run.devices) > 1)
    if (before := time_before_work(run)) is not None:
        time_ns, share = before
        works = say(
            "GPU work begins {time} into the recording, after {share} of it. {works}",
            time=time_text(time_ns),
            share=share_text(share),
            works=works,
        )
    if run.is_graph_capture:
        claim = next(finding.claim for finding in run.findings if finding.explains_ns)
        return say("{claim}. {works}", claim=capitalised(claim), works=works)
    obstacles = _obstacles(summary, run, device.steady_ns)
    return reduce(lambda first, then: say("{first} {then}", first=first, then=then), obstacles, works)


def _obstacles(summary: Headline, run: ProfiledRun, steady_ns: int) -> list[str]:
    """What is lost, and to what."""
    sentences: list[str] = []
    if summary.loss is not None:
        sentences.append(
            say(
                "{share} of the time is {line}.",
                share=share_text(summary.loss.share),
                line=summary.loss.label,
            )
        )
    if summary.kernels:
        shares = dict[str, float]()
        for name, share in summary.kernels:  # variants of one kernel have one label
            shares[label(name)] = shares.get(label(name), 0.0) + share
        named = (
            say("{share} in {name}", share=share_text(share), name=cut_label(name)) for name, share in shares.items()
        )
        sentences.append(say("Of the time {kernels}.", kernels=joined(say(", "), named)))
    started = summary.start is not None
    if summary.start is not None:
        start = say(
            "Before the steps, start-up takes {time}, once, mostly {line}.",
            time=time_text(summary.start.time_ns),
            line=summary.start.label,
        )
    if summary.finding is not None:
        claim = say("{claim}.", claim=capitalised(_placed_claim(summary.finding)))
        return [*sentences, claim, start] if started else [*sentences, claim]
    if started:
        sentences.append(start)
    elif summary.outside is not None:
        sentences.append(
            say(
                "Outside the steps, {share} of the window is {line}.",
                share=share_text(summary.outside.share),
                line=summary.outside.label,
            )
        )
    bound = None if run.light is None else light_sentence(run.main_device, run.light)
    if summary.loss is not None or summary.outside is not None or summary.kernels or started:
        return [*sentences, bound] if summary.kernels and bound is not None else sentences
    return [*sentences, _what_is_left(run, summary, steady_ns, bound)]


def _what_is_left(run: ProfiledRun, summary: Headline, steady_ns: int, bound: str | None) -> str:
    """What is said where nothing much is lost."""
    if run.findings and run.findings[0].saving_ns:
        little = say(
            "Only faster kernels would help much: {code} would save {share}.",
            code=run.findings[0].code,
            share=share_text(run.findings[0].saving_ns / steady_ns),
        )
        return bound or little
    in_graphs = run.main_device.shown_ns.get(Line.of_family(GRAPH_FAMILY), 0) / steady_ns
    if in_graphs >= _MOSTLY:
        return say(
            "{share} of the time is CUDA graphs traced as a whole: their kernels were not recorded.",
            share=share_text(in_graphs),
        )
    if summary.unrecorded is not None or summary.lost is not None:
        return say("What is left is the kernels themselves.")
    if bound is not None:
        return bound
    compute = {line.family: ns for line, ns in run.main_device.shown_ns.items() if line.is_compute}
    family = max(compute, key=compute.__getitem__, default=OTHER)
    if family != OTHER and compute[family] >= _MOSTLY * steady_ns:
        return say(
            "No fix stands out; look at the kernels themselves, most of all {family}: {share} of the time.",
            family=family,
            share=share_text(compute[family] / steady_ns),
        )
    return say("No fix stands out; look at the kernels themselves.")


def _placed_claim(finding: Finding) -> str:
    """A finding's claim, with the ranges that hold most of its time, where it names no line itself."""
    pieces = finding.evidence
    places = [piece.place for piece in pieces if piece.place and (piece.share or 0.0) >= _MOSTLY]
    if not places or any(piece.line is not None for piece in pieces):
        return finding.claim
    return say("{claim}, mostly {place}", claim=finding.claim, place=places[0])


def _at_work(device: Device, summary: Headline, *, several: bool) -> Message:
    """One figure: of the steady steps where there are any, with what they are of the window where that is not all."""
    share = share_text(summary.busy_share if summary.steps is None else summary.steady_busy_share)
    works = say("GPU busy {share}", share=share)
    if several:
        works = say("GPU {gpu} busy {share}", gpu=device.gpu, share=share)
    if summary.steps is not None:
        steps = say("{count} steady steps", count=count_text(summary.steps)) if summary.steps > 1 else say("one step")
        works = say("{works} over {steps}", works=works, steps=steps)
        if summary.coverage < COVERAGE:
            works = say("{works} ({coverage} of the window)", works=works, coverage=share_text(summary.coverage))
    if summary.unrecorded is not None:
        before = share_text(summary.unrecorded.share)
        works = say("{works}, and {share} with work launched before the recording began", works=works, share=before)
    return say("{works}.", works=works)


def ledger_title(device: Device) -> Message:
    """What the ledger is of: how many steps, found how, what was left out."""
    if device.steps is None:
        return say("Where the time went ({time}, no steps found)", time=time_text(device.steady_ns))
    steady, leading = device.phases.of_step[device.steps.warm_up :], device.phases.of_step[: device.steps.warm_up]
    kinds = [
        say("{count} {phase}", count=count_text(steady.count(phase)), phase=name)
        for phase, name in enumerate(PHASES)
        if name and phase in steady
    ]
    if kinds and 0 not in steady:
        steps = say("{kinds} steps", kinds=joined(say(" and "), kinds))
    else:
        steps = say("{count} steps", count=device.step_count)
    source = device.steps.source
    if not leading and device.step_count == 1:
        return say("Where the time went, in {steps} ({source})", steps=_one_step(steady[0]), source=source)
    if not leading:
        return say("Where the time went, per step (mean of {steps}, {source})", steps=steps, source=source)
    prefill = PHASES.index("prefill")
    is_prefill = set(leading) == {prefill} and prefill not in steady
    count = len(leading)
    left_out = say("{count} of prefill", count=count) if is_prefill else say("{count} of warm-up", count=count)
    if device.step_count == 1:
        return say(
            "Where the time went, in {steps} ({source}), {leading} left out",
            steps=_one_step(steady[0]),
            source=source,
            leading=left_out,
        )
    return say(
        "Where the time went, per step (mean of {steps}, {source}; {leading} left out)",
        steps=steps,
        source=source,
        leading=left_out,
    )


def _one_step(phase: int) -> Message:
    return say("one {phase} step", phase=PHASES[phase]) if PHASES[phase] else say("one step")


def drawing_order(lines: Mapping[Line, int]) -> list[Line]:
    """Lines in the order that they are drawn in: compute, what is exposed, idle; within each the largest first."""
    return sorted(lines, key=lambda line: (_KINDS.index(line.kind), -lines[line], line))


def ledger_block(run: ProfiledRun, files: Sequence[tuple[str, str]] = ()) -> LedgerBlock:
    """Where the time of the main GPU went; `files` are pictures that lie beside a Markdown document."""
    device = run.main_device
    lines = device.shown_ns
    compute = {line: ns for line, ns in lines.items() if line.is_compute}
    small = small_families(lines)
    by_family = sorted((entry for entry in compute.items() if entry[0] not in small), key=lambda entry: -entry[1])
    amounts: list[tuple[str, int, str]] = [
        *([(say("compute"), sum(compute.values()), "compute")] if compute else []),
        *((f"  {line.family}", ns, "compute") for line, ns in by_family),
        *([(OTHER_FAMILIES, sum(compute[line] for line in small), "compute")] if small else []),
        *((words, exposed, kind) for kind, words in EXPOSED.items() if (exposed := device.exposed_ns(kind))),
        *((line.label, lines[line], "idle") for line in drawing_order(lines) if line.is_idle),
        (say("total"), device.steady_ns, ""),
    ]
    rows = tuple(
        LedgerRow(name, ns / device.steady_ns, time_text(ns // device.step_count), tone) for name, ns, tone in amounts
    )
    return LedgerBlock(ledger_title(device), rows, _ledger_chart(run), tuple(files))


def _ledger_chart(run: ProfiledRun) -> Chart:
    """A bar for every GPU, the main one first."""
    main = run.main_device
    others = [device for device in run.devices if device is not main]
    bars = [
        Bar(say("GPU {gpu}", gpu=device.gpu) if others else "", _bar_parts(device, device.shown_ns))
        for device in (main, *others)
    ]
    work = {line: amount for line, amount in main.line_ns.items() if not line.is_idle}
    share = sum(work.values()) / main.steady_ns
    if 0 < share < _ENLARGED:
        title = say("The busy {share}, full width", share=share_text(share))
        bars.insert(1, Bar(title, _bar_parts(main, work)))
    said = joined("; ", (part.hint for part in bars[0].parts))
    return Chart(partial(stacked_bars, say("Where the time went"), said, bars), name="ledger-chart")


def _bar_parts(device: Device, lines: Mapping[Line, int]) -> tuple[Part, ...]:
    """The lines as shares of what they sum to, named with shares of the steady stretch."""
    whole_ns = sum(lines.values()) or 1
    return tuple(
        Part(
            line_tone(line),
            lines[line] / whole_ns,
            line.label,
            share_text(lines[line] / device.steady_ns),
            time_text(lines[line] // device.step_count),
            line.brief_label,
        )
        for line in drawing_order(lines)
    )


def saving_share(run: ProfiledRun, finding: Finding) -> float | None:
    """What a finding would save of the time of its own GPU; None where that is nothing, or not known."""
    steady_ns = {device.gpu: device.steady_ns for device in run.devices}.get(finding.gpu)
    return finding.saving_ns / steady_ns if steady_ns and finding.saving_ns else None


def kernel_blocks(run: ProfiledRun) -> list[Block]:
    """What Nsight Compute says of the kernels, where it was asked."""
    matched = run.kernels.get(run.main_device.gpu)
    if matched is None:
        return []
    from gpuledger.present.views.work.ncu import integrated_blocks  # few reports have them

    return integrated_blocks(matched, run.main_device)


def phase_blocks(report: ReportAnswer) -> list[Block]:
    """What each phase of a layer takes, where phases hold most of the work: the longest first."""
    times = report.step_phases
    if times is None:
        return []
    longest_first = sorted(times.phases_ns.items(), key=lambda entry: -entry[1])
    rest = (say("other work"), times.other_ns), (say("idle"), times.idle_ns)
    steps = times.steps or 1
    parts = (
        say("{name} {time} ({share})", name=name, time=time_text(ns // steps), share=share_text(ns / times.whole_ns))
        for name, ns in (*longest_first, *rest)
        if ns
    )
    phases = joined(say(", "), parts)
    if times.steps is None:
        said = say("By phase: {phases}.", phases=phases)
    elif times.steps == report.run.main_device.step_count:
        said = say("By phase, per step: {phases}.", phases=phases)
    elif times.steps == 1:
        said = say("By phase, in one step from the middle: {phases}.", phases=phases)
    else:
        count = count_text(steps)
        said = say("By phase, per step (mean of {count} in the middle): {phases}.", count=count, phases=phases)
    return [Paragraph(said)]


def light_blocks(run: ProfiledRun) -> list[Block]:
    """What compute was good for, where that is known of most of it."""
    books = run.light
    if books is None or not books.is_telling:
        return []
    return [Paragraph(parts_sentence(books)), Paragraph(step_sentence(run.main_device, books))]


def use_blocks_of(run: ProfiledRun) -> list[Block]:
    """How compute time uses the GPU, where it was sampled."""
    device = run.main_device
    if device.gpu not in run.use:
        return []
    from gpuledger.present.views.work.utilization import summary_blocks, use_blocks

    return [*use_blocks(device, run.use[device.gpu]), *summary_blocks(device.gpu, run.against.get(device.gpu, ()))]


def closing(report: ReportAnswer) -> list[Message]:
    """What is not known, and the next command."""
    run = report.run
    others = [device for device in run.devices if device is not run.main_device]
    lines = [_at_work(device, headline(device, ()), several=True) for device in others]
    if report.rank_count:
        count = count_text(report.rank_count)
        lone = say("One process uses {count} GPUs, without a collective: `--device=N` shows one GPU.", count=count)
        together = say(
            "The profile holds {count} ranks: `gpuledger fleet` shows who waits for whom, `--device=N` shows one GPU.",
            count=count,
        )
        busy = [device.ledger.busy for device in run.devices]
        several = len(distinct(run.main_device.work.pid)) > 1
        may_wait = several or any(len(of.comm) or of.hidden_comm_ns for of in busy)
        lines.append(together if may_wait else lone)
    if report.unclassified is not None:
        lines.append(report.unclassified)
    calls = run.trace[Table.CALLS]
    if calls.strings.code("os") not in calls.codes("layer"):
        lines.append(say("Not measured: {what}.", what=OS_CALLS_MISSING))
    late, launches, most_ns = run.main_device.late_launches
    if late:
        skewed = say(
            "{count} of {launches} launches seem to come after their work began, by up to {time}: the clocks of host "
            "and GPU differ, and times between the two are off by as much",
            count=count_text(late),
            launches=count_text(launches),
            time=time_text(most_ns),
        )
        lines.append(say("Note: {sentence}.", sentence=skewed))
    notes = run.health
    losses = [note.sentence for note in notes if note.severity is Severity.LOSS and note not in run.trace.damage]
    lines += [say("Note: {sentence}.", sentence=sentence) for sentence in (*losses, *always_shown(notes))]
    return [*lines, *next_command(run)]


def next_command(run: ProfiledRun) -> list[Message]:
    """What to run next: of a program that is a few kernels, what Nsight Compute should look at, on GPUs it knows."""
    if main_kernels(run.main_device, run.findings) and not is_amd(run.trace):
        return [say("next: {command}", command=f"gpuledger kernels {shell_word(run.name)} -- COMMAND")]
    return [say("next: {command}", command=run.findings[0].next)] if run.findings else []
