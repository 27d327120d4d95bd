"""An Nsight Compute report (.ncu-rep) in, its launches out, by way of NVIDIA's own `ncu_report` library.

The format is NVIDIA's and not documented; the library knows it and says nothing about what is missing. So its answer
is compared with what the container announces (`ncu_blocks`), and of a cut report it is given the whole blocks only.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from gpuledger.catalog.ncu_metrics import is_used
from gpuledger.errors import GpuledgerError, MissingPackage, NothingRecorded, ToolFailed, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.ncu.blocks import ReportContainer, copy_whole, walk
from gpuledger.read.ncu.launch import (
    LaunchIdentity,
    NcuLaunches,
    implausible_notes,
    profiled,
    unit_notes,
    unit_refused,
)
from gpuledger.read.ncu.library import PACKAGE, ChildReply
from gpuledger.read.request import Progress
from gpuledger.read.source import Source, look_at, opened
from gpuledger.system.processes import Ran, run
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.kernel_report import Profiled
from gpuledger.units import bytes_text, count_text


def read_report(source: Source, every_metric: bool, limits: Limits, progress: Progress) -> NcuLaunches:
    """Read a report that may be cut."""
    container = walk(source, limits)
    if container.trouble and not container.launches:
        raise UnreadableProfile(
            f"{source.name}: the report of Nsight Compute is {container.trouble}, and no launch of it can be read",
            found=_whole_text(container),
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
    notes = [*_losses(source, container, len(launches))]
    unknown: Counter[str] = Counter()
    for number, count in handed.unknown_units.items():
        unknown[handed.units[number]] += count
    return NcuLaunches(
        launches,
        (*notes, *implausible_notes(source.name, handed.implausible), *unit_notes(source.name, unknown)),
        container.tool_version,
    )


_CHILD: Final = f"import {PACKAGE}, runpy; runpy.run_module('gpuledger.read.ncu.library', run_name='__main__')"
"""The library comes first: that of Nsight Compute 2025.3 crashes where other compiled modules were loaded before it."""


def _from_library(source: Source, container: ReportContainer, every_metric: bool, limits: Limits) -> ChildReply:
    """What the library makes of the whole blocks of a report."""
    try:
        with tempfile.TemporaryDirectory(prefix="gpuledger-") as folder:
            report, answer = source.path.resolve(), Path(folder, "launches")
            if container.trouble:
                with tempfile.NamedTemporaryFile(dir=folder, suffix=".ncu-rep", delete=False) as copy:
                    copy_whole(source, container, copy.file)
                    report = Path(copy.name)
            metrics = "every" if every_metric else "used"
            bounds = (str(limits.text_bytes), str(limits.ncu_memory_bytes))
            _ask(source, [report, answer, metrics, *bounds], limits)
            with opened(look_at(answer)) as file:
                return msgspec.msgpack.decode(file.read(), type=ChildReply)
    except (OSError, msgspec.MsgspecError) as error:
        raise ToolFailed(f"{source.name}: what {PACKAGE} said of it could not be read: {error}") from None


def _ask(source: Source, arguments: Sequence[str | Path], limits: Limits) -> None:
    """Let the child answer. `-P`: a module that lies in the current folder is not a part of Python."""
    try:
        ran = run([sys.executable, "-P", "-c", _CHILD, *arguments], seconds=limits.ncu_seconds)
    except ToolFailed as error:
        raise ToolFailed(f"{source.name}: NVIDIA's {PACKAGE} library gave no answer", found=error.claim) from None
    if ran.exit_code != 0:
        raise _refused(source, ran)


def _refused(source: Source, ran: Ran) -> GpuledgerError:
    if ran.exit_code < 0:
        return UnreadableProfile(
            f"{source.name}: NVIDIA's {PACKAGE} library crashed on it (signal {-ran.exit_code})",
            hint="the report is damaged, or newer than the package: pip install --upgrade ncu-report",
        )
    return UnreadableProfile(
        f"{source.name}: NVIDIA's {PACKAGE} library cannot read it",
        found=f"it says: {ran.last_line}",
        hint="the report is damaged, or newer than the package: pip install --upgrade ncu-report",
    )


def _launches(source: Source, container: ReportContainer, handed: ChildReply) -> tuple[Profiled, ...]:
    """The launches, each with its process where one can be sure."""
    in_order = handed.ranges == 1 and handed.actions == container.launches
    only = set(container.processes)
    found = []
    for each in handed.launches:
        process = container.processes[each.index] if in_order else next(iter(only)) if len(only) == 1 else None
        metrics = {handed.names[number]: value for number, value in each.metrics.items()}
        texts = {handed.names[number]: value for number, value in each.texts.items()}
        launch = profiled(each.index, LaunchIdentity(each.name, process=process), metrics, file=source.name)
        found.append(replace(launch, texts=texts, nvtx=tuple(each.nvtx), advice=tuple(each.advice)))
    if not found:
        raise UnreadableProfile(
            f"{source.name}: no launch of the {count_text(container.launches)} that it announces can be read",
            hint="the report is damaged, or newer than the package: pip install --upgrade ncu-report",
        )
    return tuple(found)


def _losses(source: Source, container: ReportContainer, read: int) -> list[Note]:
    found = []
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
        found.append(Note(Severity.LOSS, "report-cut-off", sentence))
    if lost := max(container.launches - read, 0):
        sentence = say(
            "{file}: {lost} of {count} launches cannot be read",
            file=source.name,
            lost=count_text(lost),
            count=count_text(container.launches),
        )
        found.append(Note(Severity.LOSS, "launches-unreadable", sentence, lost))
    return found


def _whole_text(container: ReportContainer) -> str:
    return f"{bytes_text(container.whole)} of {bytes_text(container.size)} are whole"
