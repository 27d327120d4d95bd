"""The report for people: the verdict, the ledger as a bar per line, what to do, what is not known."""

from __future__ import annotations

from gpuledger.analyse.contents import OS_CALLS_MISSING
from gpuledger.analyse.device import Device
from gpuledger.analyse.phases import PHASES
from gpuledger.model.health import Severity
from gpuledger.model.tables import Table
from gpuledger.render.markdown import escaped
from gpuledger.render.plain import visible, wrapped
from gpuledger.report import Report
from gpuledger.units import count_text, share_text, time_text

_WIDEST_BAR = 24
_BESIDE_THE_BAR = 53
"""What a ledger line needs beside its bar."""

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LITTLE = 0.02
"""A finding that saves less than this share of the time is no verdict."""

_SMALL_FAMILY = 0.02
"""Families with less than this share of the step are shown together."""

_IDLE_WORDS = {
    "sync": "synchronising",
    "host_code": "host code",
    "dispatch": "dispatch",
    "launch": "launch calls",
    "launch_latency": "launch latency",
    "load": "loading code",
    "alloc": "allocation",
    "copy_call": "copy calls",
    "call": "other CUDA calls",
    "os": "operating system",
    "wait_thread": "waiting for a thread",
    "profiler": "the profiler",
    "turnaround": "between kernels",
    "device_wait": "waiting on the device",
    "context_switch": "another process",
    "graph": "inside a graph",
    "unattributed": "unattributed",
    "tail": "after the last work",
}


def report_text(report: Report, headline: str, width: int | None) -> str:
    """For a terminal."""
    device = report.main_device
    blocks = [
        wrapped(f"{visible(report.name)}  {headline}", width, 2),
        wrapped(verdict(report), width),
        "\n".join(_ledger_lines(device, width)),
        "\n".join(_finding_lines(report, width)),
        "\n".join(wrapped(line, width, 2) for line in _closing(report)),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def report_markdown(report: Report, headline: str) -> str:
    """For a document."""
    device = report.main_device
    lines = [f"# {escaped(report.name)}", "", escaped(headline), "", f"**{escaped(verdict(report))}**", ""]
    lines += [
        "## Where the time went",
        "",
        escaped(_ledger_title(device)),
        "",
        "| line | share | per step |",
        "|---|--:|--:|",
    ]
    for name, amount in _rows(device):
        lines.append(f"| {escaped(name)} | {share_text(amount / device.steady_ns)} | {_each(device, amount)} |")
    lines += [f"| total | {share_text(1)} | {_each(device, device.steady_ns)} |", "", "## What to do", ""]
    for at, found in enumerate(report.findings, 1):
        saving = f" Saves {_saving(found.saving_ns_per_step, found.saving_ns)}." if found.saving_ns else ""
        lines.append(f"{at}. **{found.code}**: {escaped(found.claim)}.{saving}")
        lines += [f"   - {escaped(each)}" for each in found.evidence]
    lines += ["", *(f"- {escaped(line)}" for line in _closing(report))]
    return "\n".join(lines) + "\n"


def verdict(report: Report) -> str:
    """One sentence or two."""
    device = report.main_device
    working = sum(amount for line, amount in device.line_ns.items() if not line.startswith("idle"))
    which = f"GPU {device.gpu}" if len(report.devices) > 1 else "The GPU"
    first = f"{which} works {share_text(working / device.steady_ns)} of the time."
    top = report.findings[0] if report.findings else None
    if top is not None and top.saving_ns >= _LITTLE * device.steady_ns:
        return f"{first} {top.claim[0].upper()}{top.claim[1:]}."
    if top is not None and top.saving_ns:
        most = share_text(top.saving_ns / device.steady_ns)
        return f"{first} Little would make it faster but faster kernels: {top.code} would save {most}."
    return f"{first} Nothing stands out that would make it faster; look at the kernels themselves."


def _ledger_title(device: Device) -> str:
    if device.steps is None:
        return f"Where the time went ({time_text(device.steady_ns)}, no steps found)"
    steady, leading = device.phases.of_step[device.steps.warm_up :], device.phases.of_step[: device.steps.warm_up]
    prefill = PHASES.index("prefill")
    warming = "prefill" if set(leading) == {prefill} and prefill not in steady else "warm-up"
    warm = f", {len(leading)} of {warming} left out" if leading else ""
    kinds = [f"{count_text(steady.count(at))} {name}" for at, name in enumerate(PHASES) if name and at in steady]
    many = f"{' and '.join(kinds)} steps" if len(kinds) > 0 and 0 not in steady else f"{device.step_count} steps"
    return f"Where the time went, per step (mean of {many} by {device.steps.source}{warm})"


def _rows(device: Device) -> list[tuple[str, int]]:
    """The lines to show, largest first within compute, then exposed copies and communication, then idle."""
    compute = {line.removeprefix("compute."): ns for line, ns in device.line_ns.items() if line.startswith("compute.")}
    rows = [("compute", sum(compute.values()))] if compute else []
    large = {name: ns for name, ns in compute.items() if ns >= _SMALL_FAMILY * sum(compute.values())}
    rows += [(f"  {name}", ns) for name, ns in sorted(large.items(), key=lambda each: -each[1])]
    if rest := sum(compute.values()) - sum(large.values()):
        rows.append(("  other families", rest))
    words = {"comm": "communication, exposed", "copy": "copies, exposed"}
    rows += [(words[line], device.line_ns[line]) for line in words if line in device.line_ns]
    idle = {line.removeprefix("idle."): ns for line, ns in device.line_ns.items() if line.startswith("idle.")}
    rows += [(f"idle: {_IDLE_WORDS[cause]}", ns) for cause, ns in sorted(idle.items(), key=lambda each: -each[1])]
    return rows


def _ledger_lines(device: Device, width: int | None) -> list[str]:
    lines = [wrapped(_ledger_title(device), width, 2)]
    room = _WIDEST_BAR if width is None else max(min(_WIDEST_BAR, width - _BESIDE_THE_BAR), 1)
    for name, amount in [*_rows(device), ("total", device.steady_ns)]:
        share = amount / device.steady_ns
        bar = "" if name == "total" else _bar(share, room)
        lines.append(f"  {name:<28}{bar:<{room}}  {share_text(share):>8}  {_each(device, amount):>9}")
    return lines


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    return _EIGHTHS[8] * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")


def _each(device: Device, amount: int) -> str:
    return time_text(amount // device.step_count)


def _saving(per_step: int | None, whole: int) -> str:
    return f"{time_text(per_step)} a step" if per_step is not None else time_text(whole)


def _finding_lines(report: Report, width: int | None) -> list[str]:
    if not report.findings:
        return []
    lines = ["What to do"]
    device = report.main_device
    for at, found in enumerate(report.findings[:3], 1):
        share = f" ({share_text(found.saving_ns / device.steady_ns)})" if found.saving_ns else ""
        saves = f"  saves {_saving(found.saving_ns_per_step, found.saving_ns)}{share}" if found.saving_ns else ""
        lines.append(f"  {at}  {found.code:<14}{saves}")
        lines.append(wrapped(f"     {visible(found.claim)}", width, 5))
        lines += [wrapped(f"     {visible(each)}", width, 7) for each in found.evidence]
    if len(report.findings) > 3:
        rest = ", ".join(found.code for found in report.findings[3:])
        lines.append(wrapped(f"  and {count_text(len(report.findings) - 3)} more: {rest}", width, 4))
    return lines


def _closing(report: Report) -> list[str]:
    """What is not known, and the next command."""
    lines = []
    others = [device for device in report.devices if device is not report.main_device]
    for device in others:
        working = sum(amount for line, amount in device.line_ns.items() if not line.startswith("idle"))
        lines.append(f"GPU {device.gpu} works {share_text(working / device.steady_ns)} of the time.")
    unclassified = report.main_device.line_ns.get("compute.other", 0)
    if unclassified:
        share = share_text(unclassified / report.main_device.compute_ns)
        lines.append(f"{share} of compute is in kernels of no known family; name them with --families.")
    calls = report.trace[Table.CALLS]
    if calls.strings.code("os") not in calls.codes("layer"):
        lines.append(f"Not measured: {OS_CALLS_MISSING}.")
    lines += [f"Note: {visible(n.sentence)}." for n in report.trace.health if n.severity is Severity.LOSS]
    if report.findings:
        lines.append(f"next: {report.findings[0].next}")
    return lines
