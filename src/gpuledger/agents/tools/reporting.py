"""What a profile says in short, one finding in full, and the page about its code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuledger.agents.answers import AgentAnswer, OurWords, paged, picked
from gpuledger.agents.evidence_rows import evidence_rows
from gpuledger.agents.profiles import AgentProfiles, OpenedProfile
from gpuledger.agents.tools.tool import DEVICE, HANDLE, AgentTool
from gpuledger.errors import GpuledgerError
from gpuledger.findings.finding import Finding
from gpuledger.findings.headline import headline
from gpuledger.findings.pages import page
from gpuledger.findings.rules import codes
from gpuledger.present.views.report import verdict
from gpuledger.present.views.report_json import finding_dict, report_data

_MOST_FINDINGS: Final = 4
_MOST_LINES: Final = 7
_MOST_CORRELATIONS: Final = 5
_EVIDENCE_LETTERS: Final = 2_000

_IN_SHORT: Final = ("code", "claim", "saving_ns_per_step", "saving_ns", "saving_is_bound", "fix", "device")
"""Of a finding, in a report."""

_STEPS: Final = ("source", "count", "warm_up", "median_ns", "p10_ns", "p90_ns")


def report(profiles: AgentProfiles, handle: str) -> AgentAnswer:
    """Say where the time went and what to do: headline, busy share, the largest lines of time, findings with savings.

    Lines of `ledger` are disjoint and sum to steady_ns; divide by `steps` for a step. Savings are predicted by
    replaying the run with the fix; one with saving_is_bound is the most there can be. Keys are those of the JSON of
    `gpuledger report`, shortened. Next: finding(handle, code) for the evidence and the fix.
    """
    opened = profiles.of(handle)
    run = opened.run
    whole = report_data(run)
    told = headline(run.main_device, run.findings)
    main = next(device for device in whole["devices"] if device["device"] == run.main_device.gpu)
    rest = [found["code"] for found in whole["findings"][_MOST_FINDINGS:]]
    return AgentAnswer(
        {
            "handle": handle,
            "profile": whole["profile"],
            "headline": verdict(run),
            "busy_share": round(told.busy_share, 4),
            "window_ns": whole["window_ns"],
            "steps": None if whole["steps"] is None else picked(whole["steps"], *_STEPS),
            "devices": [{"device": main["device"], "steady": _steady(main["steady"])}],
            "other_devices": [device["device"] for device in whole["devices"] if device is not main],
            "findings": [picked(found, *_IN_SHORT) for found in whole["findings"][:_MOST_FINDINGS]],
            "more_findings": rest,
        }
    )


def _steady(steady: Mapping[str, Any]) -> dict[str, Any]:
    """The largest lines, and the others together."""
    lines = sorted(steady["ledger"], key=lambda line: -line["ns"])
    shown, small = lines[:_MOST_LINES], lines[_MOST_LINES:]
    return {
        "steady_ns": steady["steady_ns"],
        "steps": steady["steps"],
        "ledger": [picked(line, "line", "ns") | {"share": round(line["share"], 4)} for line in shown],
        "other_lines_ns": sum(line["ns"] for line in small),
    }


def finding(profiles: AgentProfiles, handle: str, code: str, device: int | None = None) -> AgentAnswer:
    """Show one finding: claim, evidence in words and as rows of the trace, where it happens, the fix, how to verify.

    `saving` has what it saves per step as profiled (profiled_ns), and without the profiler (plain_ns, with the interval
    plain_low_ns to plain_high_ns). `t0_ns` and `t1_ns` are an example: timeline_picture(handle, time="T0:T1") shows it.
    """
    opened = profiles.of(handle)
    found = _finding(opened, code.upper(), device)
    told = finding_dict(found, opened.run.zero_ns)
    for piece in told["evidence_data"]:
        del piece["correlations"][_MOST_CORRELATIONS:]
    rows = evidence_rows(opened.run, found, _MOST_CORRELATIONS)
    sections = _sections(found.code)
    return AgentAnswer(
        {
            "handle": handle,
            **told,
            "evidence_data": _first(told["evidence_data"]),
            "evidence_rows": _first(rows),
            "how_to_fix": OurWords(sections["Fix"]),
            "how_to_verify": OurWords(sections["How to verify"]),
        }
    )


def _first(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many as there is room for."""
    shown: list[dict[str, Any]] = paged(rows, 0, len(rows), _EVIDENCE_LETTERS)["rows"]
    return shown


def explain(profiles: AgentProfiles, code: str | None = None) -> AgentAnswer:  # noqa: ARG001  all tools take them
    """Explain a finding's code: symptom, how it was detected, usual causes, fix, how to verify.

    Without code, list all codes.
    """
    if code is None:
        return AgentAnswer({"codes": {known: OurWords(_title(known)) for known in codes()}})
    known = _known(code.upper())
    return AgentAnswer({"code": known, "title": OurWords(_title(known)), "page": OurWords(page(known))})


def _finding(opened: OpenedProfile, code: str, gpu: int | None) -> Finding:
    """The finding of that code: the one with the most to gain, where several GPUs have it."""
    for found in opened.run.findings:
        if found.code == code and gpu in (None, found.gpu):
            return found
    there = ", ".join(dict.fromkeys(found.code for found in opened.run.findings)) or "none"
    raise GpuledgerError(
        f"{opened.run.name}: no finding {code}" + ("" if gpu is None else f" of GPU {gpu}"),
        found=f"it has {there}",
        hint="explain(code) says what a code means",
    )


def _known(code: str) -> str:
    if code in codes():
        return code
    close = difflib.get_close_matches(code, codes(), n=1)
    raise GpuledgerError(
        f"no finding has the code {code!r}",
        hint=f"did you mean {close[0]}?" if close else "explain without a code lists them",
    )


def _title(code: str) -> str:
    return page(code).splitlines()[0].removeprefix(f"# {code}: ")


def _sections(code: str) -> dict[str, str]:
    """The sections of a page by their title."""
    parts = re.split(r"^## (.*)$", page(code), flags=re.MULTILINE)
    return {title: text.strip() for title, text in zip(parts[1::2], parts[2::2], strict=True)}


_CODE: Final = {"type": "string", "description": "e.g. HOST-SYNC."}

TOOLS: Final = (
    AgentTool(report, {"handle": HANDLE}, title="Report"),
    AgentTool(
        finding, {"handle": HANDLE, "code": _CODE, "device": DEVICE}, ("handle", "code"), title="One finding in full"
    ),
    AgentTool(explain, {"code": _CODE}, (), title="Explain a finding"),
)
