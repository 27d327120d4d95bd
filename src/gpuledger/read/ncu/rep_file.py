"""An Nsight Compute report (.ncu-rep) in, its launches out, by way of NVIDIA's own `ncu_report` library.

The format is NVIDIA's and not documented; the library knows it and says nothing about what is missing. So its answer
is compared with what the container announces (`walk`), and of a cut report it is given the whole blocks only. The
library runs in a process of its own: this module, run as a program.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from msgspec import Struct

from gpuledger.catalog.ncu_metrics import is_used
from gpuledger.errors import MissingPackage, NothingRecorded, ToolFailed, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.ncu.csv import LARGEST
from gpuledger.read.ncu.launch import (
    NcuLaunches,
    UnknownUnit,
    completed,
    is_wanted,
    plain,
    scale,
    scaled,
    unit_notes,
    unit_refused,
)
from gpuledger.read.protobuf import Damage, fields
from gpuledger.read.request import Progress, counted
from gpuledger.read.source import Source, look_at, opened
from gpuledger.system.processes import run
from gpuledger.trace.deadline import paused
from gpuledger.trace.measured import Advice, Profiled
from gpuledger.trace.model import Note, Severity
from gpuledger.units import bytes_text, count_text

PACKAGE: Final = "ncu_report"


class MeasuredLaunch(msgspec.Struct, array_like=True, frozen=True):
    """One launch as the library tells it. Metrics are numbered: their names are the same for all launches."""

    index: int
    name: str
    metrics: dict[int, float]
    texts: dict[int, str]
    nvtx: list[str]
    advice: list[Advice]


class ChildReply(msgspec.Struct, array_like=True, frozen=True):
    """What the child hands to its parent."""

    names: list[str]
    units: list[str]
    """The unit of each metric where it is not understood, else empty."""
    launches: list[MeasuredLaunch]
    actions: int
    ranges: int
    unknown_units: dict[int, int]
    """By metric, how many values were left out for their unit."""
    implausible: int = 0
    """How many values were left out as larger than any counter can be."""


def main(report: str, target: str, every_metric: bool, text_bytes: int, memory_bytes: int) -> None:
    """Read `report`, write what it says to `target`."""
    _limit_memory(memory_bytes)
    context = importlib.import_module(PACKAGE).load_report(report)
    Path(target).write_bytes(msgspec.msgpack.encode(ReportWalk(every_metric, text_bytes).of(context)))


def _limit_memory(memory_bytes: int) -> None:
    """No more memory than allowed, and no core file when it crashes; where the system has such bounds."""
    try:
        resource = importlib.import_module("resource")
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    bound = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class ReportWalk:
    """Goes through a report once and numbers the metrics as they come."""

    def __init__(self, every_metric: bool, text_bytes: int) -> None:
        self._every, self._text_bytes = every_metric, text_bytes
        self._numbers: dict[str, int] = {}
        self._units: dict[int, str] = {}
        self._unknown: dict[int, int] = {}
        self._implausible = 0

    def of(self, context: Any) -> ChildReply:
        ranges = [context.range_by_idx(number) for number in range(context.num_ranges())]
        actions = [results.action_by_idx(number) for results in ranges for number in range(results.num_actions())]
        launches = [
            measured for at, action in enumerate(actions) if action and (measured := self._measure_launch(at, action))
        ]
        return ChildReply(
            list(self._numbers),
            [self._units.get(number, "") for number in self._numbers.values()],
            launches,
            len(actions),
            len(ranges),
            self._unknown,
            self._implausible,
        )

    def _measure_launch(self, at: int, action: Any) -> MeasuredLaunch | None:
        """None for a launch of which nothing is left, as the end of a cut file leaves them."""
        name = action.name(action.NameBase_DEMANGLED) or action.name(action.NameBase_FUNCTION)
        if not name and action.workload_type() != action.WorkloadType_KERNEL:
            name = "(range)"
        # a name that is not ASCII is none of NVIDIA's, and the library would not take it back
        names = [metric for metric in action.metric_names() if metric.isascii() and is_wanted(metric, self._every)]
        if not names or not name:
            return None
        metrics: dict[int, float] = {}
        texts: dict[int, str] = {}
        for metric_name in names:
            metric = action.metric_by_name(metric_name)
            value = metric.value() if metric is not None and metric.has_value() else None
            if isinstance(value, str) and value:
                texts[self._number(metric_name)] = self._clean(value)
            elif isinstance(value, int | float) and math.isfinite(value):
                self._keep(metrics, metric_name, float(value), metric.unit() or "")
        return MeasuredLaunch(at, self._clean(name), metrics, texts, [*self._nvtx(action)], [*self._advice(action)])

    def _keep(self, metrics: dict[int, float], name: str, value: float, unit: str) -> None:
        number = self._number(name)
        try:
            exponent, _ = scale(unit)
        except UnknownUnit:
            self._units[number] = self._clean(unit)
            self._unknown[number] = self._unknown.get(number, 0) + 1
        else:
            base = scaled(value, exponent)
            if abs(base) < LARGEST:
                metrics[number] = base
            else:
                self._implausible += 1

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(self._clean(name), len(self._numbers))

    def _nvtx(self, action: Any) -> Iterator[str]:
        """Names of the ranges that were open, outermost first."""
        state = action.nvtx_state()
        for domain in map(state.domain_by_id, state.domains()) if state else ():
            if domain is not None:
                yield from map(self._clean, (*domain.start_end_ranges(), *domain.push_pop_ranges()))

    def _advice(self, action: Any) -> Iterator[Advice]:
        """What NVIDIA's rules said; rules that said nothing are left out."""
        for result in action.rule_results_as_dicts():
            said, gain = result.get("rule_message") or {}, result.get("speedup_estimation") or {}
            message = plain(self._clean(said.get("message") or ""))
            speedup = float(gain.get("speedup", math.nan))
            if message:
                yield Advice(
                    rule=self._clean(result.get("rule_identifier") or ""),
                    title=plain(self._clean(said.get("title") or "")),
                    message=message,
                    speedup_share=speedup / 100 if math.isfinite(speedup) else None,
                    scope={1: "local", 2: "global"}.get(int(gain.get("type", 0)), ""),
                )

    def _clean(self, text: str) -> str:
        """Text that can be written, no longer than it may be."""
        return text[: self._text_bytes].encode("utf-8", "replace").decode()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3] == "every", int(sys.argv[4]), int(sys.argv[5]))


MAGIC: Final = b"NVR\0"
_RESULTS, _SESSION, _PAYLOAD_SIZE, _PROCESS, _RANGE_RESULTS = 2, 3, 5, 6, 7
_TOOL: Final = b"Nsight Compute Target"


class ReportContainer(Struct, frozen=True):
    """What the block headers of a report say."""

    size: int
    whole: int
    """Where the last whole block ends."""
    processes: tuple[int | None, ...]
    """For each launch in whole blocks, the process that made it."""
    tool_version: str | None
    trouble: str = ""
    """What the file is from there on: cut off, or damaged; empty if it ends there as it should."""

    @property
    def launches(self) -> int:
        return len(self.processes)


class _Truncated(Exception):
    """The file ends within a block."""


def walk(source: Source, limits: Limits) -> ReportContainer:
    """Step through the blocks of a report."""
    processes: list[int | None] = []
    tool_version, trouble = None, ""
    with opened(source) as file:
        whole = file.seek(len(MAGIC))
        try:
            _message(file, source.size, limits)
            whole = file.tell()
            while whole < source.size:
                header = dict(fields(_message(file, source.size, limits)))
                end = file.tell() + _number(header, _PAYLOAD_SIZE)
                if end > source.size:
                    raise _Truncated
                results = _number(header, _RESULTS, 0) + _number(header, _RANGE_RESULTS, 0)
                if results > end - whole:
                    raise Damage
                processes += [_process(header)] * results
                tool_version = tool_version or _tool_version(header)
                whole = file.seek(end)
        except _Truncated:
            trouble = say("truncated")
        except Damage:
            trouble = say("damaged")
    return ReportContainer(source.size, whole, tuple(processes), tool_version, trouble)


def _message(file: BinaryIO, size: int, limits: Limits) -> bytes:
    start = file.read(4)
    if len(start) < 4:
        raise _Truncated
    (length,) = struct.unpack("<I", start)
    if length == 0 or length > limits.event_bytes:
        raise Damage
    if length > size - file.tell():
        raise _Truncated
    return file.read(length)


_Value = int | bytes


def _number(header: dict[int, _Value], field: int, default: int | None = None) -> int:
    value = header.get(field, default)
    if not isinstance(value, int):
        raise Damage
    return value


def _process(header: dict[int, _Value]) -> int | None:
    about = header.get(_PROCESS)
    number = dict(fields(about)).get(1) if isinstance(about, bytes) else None
    return number if isinstance(number, int) else None


def _tool_version(header: dict[int, _Value]) -> str | None:
    """The release of Nsight Compute that measured, where this block names it."""
    session = header.get(_SESSION)
    if not isinstance(session, bytes) or _TOOL not in session:
        return None
    for field, value in fields(session):
        if field == 8 and isinstance(value, bytes):
            named = dict(fields(value))
            version = named.get(2)
            if named.get(1) == _TOOL and isinstance(version, bytes):
                return version.decode("utf-8", "replace").partition(" ")[0]
    return None


def read_report(source: Source, every_metric: bool, limits: Limits, progress: Progress) -> NcuLaunches:
    """Read a report that may be cut."""
    container = walk(source, limits)
    if container.trouble and not container.launches:
        raise UnreadableProfile(
            f"{source.name}: the report of Nsight Compute is {container.trouble}, and no launch of it can be read",
            found=f"{bytes_text(container.whole)} of {bytes_text(container.size)} are whole",
            hint="copy it again, or profile again",
        )
    if not container.launches:
        raise NothingRecorded(
            f"{source.name}: the report holds no launches", hint="ncu profiled nothing; check its --kernel-name filter"
        )
    if importlib.util.find_spec(PACKAGE) is None:
        raise MissingPackage(
            f"{source.name}: an Nsight Compute report; opening it needs the {PACKAGE} package, which is not installed",
            hint="pip install 'gpuledger[ncu]'; or give the output of `ncu --import FILE --csv --page raw`",
        )
    progress(f"the report {source.name}, with NVIDIA's {PACKAGE}", container.launches)
    handed = _from_library(source, container, every_metric, limits)
    for number, unit in enumerate(handed.units):
        if unit and is_used(handed.names[number]):
            raise unit_refused(source.name, handed.names[number], unit)
    launches = _launches(source, container, handed)
    unknown: Counter[str] = Counter()
    for number, count in handed.unknown_units.items():
        unknown[handed.units[number]] += count
    notes = [
        *_losses(source, container, len(launches)),
        *counted("values-implausible", handed.implausible, file=source.name),
    ]
    return NcuLaunches(launches, (*notes, *unit_notes(source.name, unknown)), container.tool_version)


_NEWER: Final = "the report is damaged, or newer than the package: pip install --upgrade ncu-report"
_CHILD: Final = f"import {PACKAGE}, runpy; runpy.run_module('gpuledger.read.ncu.rep_file', run_name='__main__')"
"""The library comes first: that of Nsight Compute 2025.3 crashes where other compiled modules were loaded before it."""


def _from_library(source: Source, container: ReportContainer, every_metric: bool, limits: Limits) -> ChildReply:
    try:
        with tempfile.TemporaryDirectory(prefix="gpuledger-") as folder:
            report, answer = source.path.resolve(), Path(folder, "launches")
            if container.trouble:
                left = container.whole
                copying = tempfile.NamedTemporaryFile(dir=folder, suffix=".ncu-rep", delete=False)  # noqa: SIM115
                with opened(source) as file, copying as copy:
                    while left > 0 and (piece := file.read(min(left, 1 << 20))):
                        left -= copy.write(piece)
                    report = Path(copy.name)
            metrics = "every" if every_metric else "used"
            _ask(source, [report, answer, metrics, str(limits.text_bytes), str(limits.ncu_memory_bytes)], limits)
            with opened(look_at(answer)) as file:
                return msgspec.msgpack.decode(file.read(), type=ChildReply)
    except (OSError, msgspec.MsgspecError) as error:
        raise ToolFailed(f"{source.name}: what {PACKAGE} said of it could not be read: {error}") from None


def _ask(source: Source, arguments: Sequence[str | Path], limits: Limits) -> None:
    """Let the child answer. `-P`: a module that lies in the current folder is not a part of Python."""
    library = f"{source.name}: NVIDIA's {PACKAGE} library"
    try:
        with paused():
            ran = run([sys.executable, "-P", "-c", _CHILD, *arguments], seconds=limits.ncu_seconds)
    except ToolFailed as error:
        raise ToolFailed(f"{library} gave no answer", found=error.claim) from None
    if ran.exit_code < 0:
        raise UnreadableProfile(f"{library} crashed on it (signal {-ran.exit_code})", hint=_NEWER)
    if ran.exit_code != 0:
        raise UnreadableProfile(f"{library} cannot read it", found=f"it says: {ran.last_line}", hint=_NEWER)


def _launches(source: Source, container: ReportContainer, handed: ChildReply) -> tuple[Profiled, ...]:
    """The launches, each with its process where one can be sure."""
    in_order = handed.ranges == 1 and handed.actions == container.launches
    only = set(container.processes)
    launches = []
    for launch in handed.launches:
        process = container.processes[launch.index] if in_order else next(iter(only)) if len(only) == 1 else None
        metrics = {handed.names[number]: value for number, value in launch.metrics.items()}
        texts = {handed.names[number]: value for number, value in launch.texts.items()}
        known = Profiled(
            launch.index,
            launch.name,
            None,
            None,
            metrics,
            texts,
            process=process,
            nvtx=tuple(launch.nvtx),
            advice=tuple(launch.advice),
            file=source.name,
        )
        launches.append(completed(known))
    if not launches:
        raise UnreadableProfile(
            f"{source.name}: no launch of the {count_text(container.launches)} that it announces can be read",
            hint=_NEWER,
        )
    return tuple(launches)


def _losses(source: Source, container: ReportContainer, read: int) -> list[Note]:
    notes = []
    if container.trouble:
        sentence = say(
            "{file}: the report is {trouble}: {count} of its launches can be read, the rest is lost "
            "({whole} of {size} are intact)",
            file=source.name,
            trouble=container.trouble,
            count=count_text(read),
            whole=bytes_text(container.whole),
            size=bytes_text(container.size),
        )
        notes.append(Note(Severity.LOSS, "report-cut-off", sentence))
    lost = max(container.launches - read, 0)
    launches = count_text(container.launches)
    return notes + counted("launches-unreadable", lost, file=source.name, lost=count_text(lost), count=launches)
