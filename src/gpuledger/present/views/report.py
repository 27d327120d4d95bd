"""The report for people: the verdict, what to do, the ledger as a bar per line, what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from gpuledger.analyse.inventory import OS_CALLS_MISSING, about_unclassified, contents
from gpuledger.analyse.ranks.rank import rank_places
from gpuledger.findings.advice import first_fix
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import Headline, ProfiledRun, headline
from gpuledger.ledger.books import EXPOSED, OTHER_FAMILIES, small_families
from gpuledger.ledger.causes import Cause
from gpuledger.ledger.device import Device
from gpuledger.ledger.steps import PHASES
from gpuledger.messages import Message, capitalised, joined, say
from gpuledger.present.document import Block, Conclusion, Document, Drawn, Group, Opening, Remarks, Tell
from gpuledger.present.made_at import made_line
from gpuledger.present.safe_text import cut_in_the_middle, padded, wrapped
from gpuledger.present.terminal import Terminal, bar, saving_style, tone_style
from gpuledger.present.views.finding_head import finding_head
from gpuledger.present.views.gpu_time import ledger_sheet
from gpuledger.present.views.info import origin_line
from gpuledger.present.views.memory_snapshot import AnalysedSnapshot, TimelineClock, memory_blocks, snapshot_data
from gpuledger.present.views.ncu import integrated_blocks
from gpuledger.present.views.report_json import report_data
from gpuledger.present.writers.markdown import escaped
from gpuledger.trace.model import Severity, told_always
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, share_text, time_text

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Page, Reader

_WIDEST_BAR = 24
_NAMES = 28
_NUMBERS = 21
"""Columns of a ledger line before its bar and after it, gaps included."""


def report_document(
    report: ProfiledRun,
    pictures: Sequence[tuple[str, str]] = (),
    *,
    is_brief: bool = False,
    memory: AnalysedSnapshot | None = None,
) -> Document:
    """The report; `pictures` are titles and files that lie beside a Markdown document, `memory` is of the same run.

    A brief one has the verdict and what to do, and no more. JSON is the document gpuledger.report/1.
    """
    return Document(
        blocks=lambda: (
            Opening(report.name, origin_line(report.trace, contents(report.trace)), _facts(report)),
            Conclusion(verdict(report)),
            Drawn(
                lambda terminal, tell: "\n".join(_finding_lines(report, terminal, tell, is_brief=is_brief)),
                lambda tell: _findings_markdown(report, tell),
            ),
            *(memory_blocks(memory, clock_of(report)) if memory is not None else ()),
            *([Remarks(tuple(_next(report)))] if is_brief else _details(report, pictures)),
        ),
        data=lambda: report_data(report) | ({} if memory is None else {"memory": snapshot_data(memory)}),
        sheets=lambda: tuple(ledger_sheet(device) for device in report.devices),
        page=lambda reader: _page(report, reader, memory),
    )


def _details(report: ProfiledRun, pictures: Sequence[tuple[str, str]]) -> list[Block]:
    """Where the time went, kernels, and what is not known."""
    return [
        Drawn(
            lambda terminal, tell: "\n".join(_ledger_lines(report.main_device, terminal, tell)),
            lambda tell: _ledger_markdown(report.main_device, pictures, tell),
        ),
        Group(tuple(use_blocks_of(report))),
        Group(tuple(kernel_blocks(report))),
        Remarks(tuple(closing(report))),
    ]


def _page(report: ProfiledRun, reader: Reader, memory: AnalysedSnapshot | None) -> Page:
    from gpuledger.present.views.page.report_page import report_page

    return report_page(report, reader, memory)


def clock_of(report: ProfiledRun) -> TimelineClock | None:
    """How a snapshot's instants are told on the report's timeline; None where it has no wall clock."""
    wall_zero_ns = report.trace.origin.wall_zero_ns
    return None if wall_zero_ns is None else TimelineClock(wall_zero_ns, report.zero_ns, report.window)


def _ledger_markdown(device: Device, pictures: Sequence[tuple[str, str]], tell: Tell) -> str:
    heads = " | ".join(map(tell, (say("line"), say("share"), say("per step"))))
    lines = [f"## {tell(say('Where the time went'))}", "", escaped(tell(ledger_title(device))), ""]
    lines += [f"| {heads} |", "|---|--:|--:|"]
    for name, amount, _ in [*_rows(device), _Row(say("total"), device.steady_ns, "")]:
        share = share_text(amount / device.steady_ns)
        lines.append(f"| {escaped(tell(name))} | {share} | {_each(device, amount)} |")
    for title, file in pictures:
        lines += ["", f"![{escaped(title)}]({quote(file)})"]
    return "\n".join(lines)


def _findings_markdown(report: ProfiledRun, tell: Tell) -> str:
    lines = [f"## {tell(say('What to do'))}", ""]
    for number, found in enumerate(report.findings, 1):
        what = say("{claim}.", claim=found.claim)
        if found.saving_ns:
            saving = saving_words(found)
            for more in (unsure_words(found), then_words(found)):
                if more is not None:
                    saving = say("{saving}; {then}", saving=saving, then=more)
            what = say("{claim}. {saving}.", claim=found.claim, saving=capitalised(saving))
        lines.append(f"{number}. {tell(say('**{code}**: {what}', code=found.code, what=escaped(tell(what))))}")
        fix = first_fix(found)
        told = [*([fix_words(fix)] if fix else []), *(each for each in found.sentences if each != fix)]
        lines += [f"   - {escaped(tell(evidence))}" for evidence in told]
    return "\n".join(lines)


def fix_words(fix: Message) -> Message:
    """What to do about a finding."""
    return say("fix: {what}", what=fix)


def _facts(report: ProfiledRun) -> tuple[str, ...]:
    """When it was made, where it joins several files: such a report is handed on."""
    return (made_line(),) if report.kernels else ()


def kernel_blocks(report: ProfiledRun) -> list[Block]:
    """What Nsight Compute says of the kernels, where it was asked."""
    found = report.kernels.get(report.main_device.gpu)
    return [] if found is None else integrated_blocks(found, report.main_device)


def use_blocks_of(report: ProfiledRun) -> list[Block]:
    """How compute time uses the GPU, where it was sampled."""
    device = report.main_device
    if device.gpu not in report.use:
        return []
    from gpuledger.present.views.utilization import summary_blocks, use_blocks

    return [*use_blocks(device, report.use[device.gpu]), *summary_blocks(report.against.get(device.gpu, ()))]


def verdict(report: ProfiledRun) -> Message:
    """What was lost, then two or three sentences: how much the GPU works, and what stands in the way."""
    if report.lost is None:
        return _verdict(report)
    claim, rest = capitalised(report.lost.claim), _verdict(replace(report, findings=report.findings[1:]))
    share = share_text(report.main_device.idle_ns(Cause.LOST) / report.main_device.steady_ns)
    if share == share_text(0):
        return say("{claim}. {verdict}", claim=claim, verdict=rest)
    return say("{claim}. Up to {share} of the time only looks idle. {verdict}", claim=claim, share=share, verdict=rest)


def _verdict(report: ProfiledRun) -> Message:
    device = report.main_device
    told = headline(device, report.findings)
    works = _at_work(device, told, several=len(report.devices) > 1)
    obstacles = _obstacles(told, report.findings, device.steady_ns)
    return reduce(lambda first, then: say("{first} {then}", first=first, then=then), obstacles, works)


def _obstacles(told: Headline, findings: Sequence[Finding], steady_ns: int) -> list[str]:
    """What is lost, and to what."""
    sentences: list[str] = []
    if told.unrecorded is not None:
        sentences.append(
            say(
                "For {share} of the time it ran work launched before the recording began.",
                share=share_text(told.unrecorded.share),
            )
        )
    if told.loss is not None:
        sentences.append(
            say("{share} of the time is lost to {line}.", share=share_text(told.loss.share), line=told.loss.line.label)
        )
    if told.finding is not None:
        return [*sentences, say("{claim}.", claim=capitalised(told.finding.claim))]
    if told.outside is not None:
        sentences.append(
            say(
                "Outside the steps, {share} of the window is lost to {line}.",
                share=share_text(told.outside.share),
                line=told.outside.line.label,
            )
        )
    if told.loss is not None or told.outside is not None:
        return sentences
    if findings and findings[0].saving_ns:
        little = say(
            "Only faster kernels would help much: {code} would save {share}.",
            code=findings[0].code,
            share=share_text(findings[0].saving_ns / steady_ns),
        )
        return [*sentences, little]
    if told.unrecorded is not None or told.lost is not None:
        return [*sentences, say("What is left is the kernels themselves.")]
    return [say("No fix stands out; look at the kernels themselves.")]


def _at_work(device: Device, told: Headline, *, several: bool) -> Message:
    share, steady = share_text(told.busy_share), share_text(told.steady_busy_share)
    works = say("GPU busy {share}", share=share)
    if several:
        works = say("GPU {gpu} busy {share}", gpu=device.gpu, share=share)
    if told.steps is None or share == steady:
        return say("{works}.", works=works)
    coverage = share_text(told.coverage)
    steps = say("the one step, {coverage} of the window", coverage=coverage)
    if told.steps > 1:
        steps = say("{count} steady steps, {coverage} of the window", count=count_text(told.steps), coverage=coverage)
    return say("{works} ({share} in {steps}).", works=works, share=steady, steps=steps)


def ledger_title(device: Device) -> Message:
    """What the ledger is of: how many steps, found how, what was left out."""
    if device.steps is None:
        return say("Where the time went ({time}, no steps found)", time=time_text(device.steady_ns))
    steady, leading = device.phases.of_step[device.steps.warm_up :], device.phases.of_step[: device.steps.warm_up]
    kinds = [
        say("{count} {phase}", count=count_text(steady.count(at)), phase=name)
        for at, name in enumerate(PHASES)
        if name and at in steady
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


class _Row(NamedTuple):
    """A line of the ledger as it is shown."""

    name: str
    amount_ns: int
    tone: str


def _rows(device: Device) -> list[_Row]:
    """The lines to show, largest first within compute, then exposed copies and communication, then idle."""
    compute = {line: ns for line, ns in device.line_ns.items() if line.is_compute}
    rows = [_Row(say("compute"), sum(compute.values()), "compute")] if compute else []
    small = small_families(device.line_ns)
    large = [(line, ns) for line, ns in compute.items() if line not in small]
    rows += [_Row(f"  {line.family}", ns, "compute") for line, ns in sorted(large, key=lambda entry: -entry[1])]
    if small:
        rows.append(_Row(OTHER_FAMILIES, sum(compute[line] for line in small), "compute"))
    rows += [_Row(words, exposed, kind) for kind, words in EXPOSED.items() if (exposed := device.exposed_ns(kind))]
    idle = [(line, ns) for line, ns in device.line_ns.items() if line.is_idle]
    return [*rows, *(_Row(line.label, ns, "idle") for line, ns in sorted(idle, key=lambda entry: -entry[1]))]


def _ledger_lines(device: Device, terminal: Terminal, tell: Tell) -> list[str]:
    width = terminal.width
    lines = [terminal.painted(wrapped(tell(ledger_title(device)), terminal.prose_width, 2), "bold")]
    names = _NAMES if width is None else max(min(_NAMES, width - 2 - _NUMBERS), 1)
    room = _WIDEST_BAR if width is None else max(min(_WIDEST_BAR, width - 4 - _NAMES - _NUMBERS), 0)
    for name, amount, tone in [*_rows(device), _Row(say("total"), device.steady_ns, "")]:
        label = cut_in_the_middle(tell(name), names)
        drawn = bar(amount / device.steady_ns, room) if tone else ""
        painted = terminal.painted(drawn, tone_style(tone)) + " " * (room - len(drawn))
        share = share_text(amount / device.steady_ns)
        lines.append(f"  {padded(label, names)}{painted}  {share:>8}  {_each(device, amount):>9}")
    return lines


def _each(device: Device, amount: int) -> str:
    return time_text(amount // device.step_count)


def saving_words(found: Finding) -> Message:
    """What a finding would save."""
    time = time_text(found.saving_ns if found.saving_ns_per_step is None else found.saving_ns_per_step)
    if found.saving_ns_per_step is None:
        return say("saves at most {time}", time=time) if found.is_bound else say("saves {time}", time=time)
    return (
        say("saves at most {time} per step", time=time) if found.is_bound else say("saves {time} per step", time=time)
    )


def then_words(found: Finding) -> Message | None:
    """What it saves once those before it are mended, where that is another number than what it saves alone."""
    if found.then_ns is None or time_text(found.then_ns // found.steps) == time_text(found.saving_ns // found.steps):
        return None
    if 100 * found.then_ns < found.saving_ns:
        return say("saves nothing more once those above are fixed")
    time = time_text(found.then_ns // found.steps)
    if found.saving_ns_per_step is None:
        return say("saves {time} once those above are fixed", time=time)
    return say("saves {time} per step once those above are fixed", time=time)


def unsure_words(found: Finding) -> Message | None:
    """How little it may save without the profiler, where most of the saving may be the profiler's own."""
    if found.plain is None or not found.is_unsure:
        return None
    if 100 * found.plain.low_ns < found.saving_ns:
        return say("perhaps nothing without the profiler, which slows the host down")
    low = time_text(found.plain.low_ns // found.steps)
    if found.saving_ns_per_step is None:
        return say("perhaps only {low} without the profiler, which slows the host down", low=low)
    return say("perhaps only {low} per step without the profiler, which slows the host down", low=low)


def _finding_lines(report: ProfiledRun, terminal: Terminal, tell: Tell, *, is_brief: bool) -> list[str]:
    if not report.findings:
        return []
    width = terminal.prose_width
    lines = [terminal.painted(tell(say("What to do")), "bold")]
    whole = report.main_device.steady_ns
    for at, found in enumerate(report.findings[:3], 1):
        share = found.saving_ns / whole
        saves = tell(say("{saving} ({share})", saving=saving_words(found), share=share_text(share)))
        lines += finding_head(at, found.code, saves if found.saving_ns else "", terminal, saving_style(share))
        lines.append(wrapped(f"     {tell(found.claim)}", width, 5))
        fix = first_fix(found)
        if fix is not None:
            lines.append(terminal.painted(wrapped(f"     {tell(fix_words(fix))}", width, 10), "green"))
        if unsure := unsure_words(found):
            lines.append(wrapped(f"     {tell(unsure)}", width, 7))
        if is_brief:
            continue
        if then := then_words(found):
            lines.append(wrapped(f"     {tell(then)}", width, 7))
        lines += [wrapped(f"     {tell(each)}", width, 7) for each in found.sentences if each != fix]
    if rest := report.findings[3:]:
        codes = joined(say(", "), (found.code for found in rest))
        more = say("and {count} more: {codes}", count=count_text(len(rest)), codes=codes)
        lines.append(wrapped(f"  {tell(more)}", width, 4))
    return lines


def closing(report: ProfiledRun) -> list[Message]:
    """What is not known, and the next command."""
    others = [device for device in report.devices if device is not report.main_device]
    lines = [_at_work(device, headline(device, ()), several=True) for device in others]
    if len(report.devices) * len(report.trace.origin.processes) > 1 and (ranks := rank_places(report.trace)):
        lines.append(
            say(
                "The profile holds {count} ranks: `gpuledger fleet` shows who waits for whom, `--device=N` "
                "shows one GPU.",
                count=count_text(len(ranks)),
            )
        )
    if (unknown := about_unclassified(report.trace, report.main_device)) is not None:
        lines.append(unknown)
    calls = report.trace[Table.CALLS]
    if calls.strings.code("os") not in calls.codes("layer"):
        lines.append(say("Not measured: {what}.", what=OS_CALLS_MISSING))
    notes = (*report.trace.health, *report.kernel_health)
    losses = [note.sentence for note in notes if note.severity is Severity.LOSS]
    lines += [say("Note: {sentence}.", sentence=sentence) for sentence in (*losses, *told_always(notes))]
    return [*lines, *_next(report)]


def _next(report: ProfiledRun) -> list[Message]:
    return [say("next: {command}", command=report.findings[0].next)] if report.findings else []
