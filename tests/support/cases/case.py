"""A case: a small trace in one of several languages, what is found in it, and how figures and texts are compared."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gpuledger.analyse.ranks.fixing import fixing
from gpuledger.analyse.ranks.job import Job, job
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import ProfiledRun, diagnose
from gpuledger.findings.ranks.job_findings import job_findings
from gpuledger.ledger.device import Device
from gpuledger.ledger.host import host_and_activities
from gpuledger.ledger.lost_work import LostWork, lost_work
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace
from gpuledger.trace.spans import Span
from support.command import ROOT, Ran, gpuledger
from support.profiles.corpus import corpus_file
from support.profiles.opened import plain, trace_of
from support.traces.book_checks import analysed
from support.traces.program import programmed
from support.traces.rank_notation import ranks_of
from support.traces.torch_programs import torch_trace
from support.traces.trace_notation import time_ns, traced

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


def _of_capture(word: str) -> str:
    """The path of a capture, unpacked, where a word of a command, or what it sets, names one."""
    option, equals, name = word.rpartition("=")
    for path in (ROOT / "captures" / name, ROOT / "captures" / "nsys" / f"{name}.xz"):
        if "." in name and path.exists():
            return f"{option}{equals}{plain(path)}"
    return word


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


Expectation = Callable[[Case, str], tuple[bool, str]]


def plain_text(value: Any) -> str:
    if isinstance(value, Span):
        return f"{us(value.start_ns)}-{us(value.end_ns)}"
    return ",".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def figure_of(read: Callable[[Case], float], figure: Callable[[str], float] | None = None) -> Expectation:
    def check(case: Case, rest: str) -> tuple[bool, str]:
        found = read(case)
        return near(rest, found, figure), us(found) if figure is None else f"{found:g}"

    return check
