"""What the readers of Nsight Compute share: metrics and texts of one launch in, `Profiled` out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuledger.catalog.ncu_metrics import is_used
from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.messages import say
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.kernel_report import Advice, Dim3, Profiled
from gpuledger.units import count_text

_LINK_FIRST: Final = re.compile(r"@url:([^:@]*):[^@]*@")
_LINK_LAST: Final = re.compile(r"@(?:section|sass|source):(?:[^@]*:)?([^:@]*)@")
_ADDRESS: Final = re.compile(r"\s*\(https?://[^\s)]*\)|\s*\bhttps?://\S+")
_OF_NO_USE: Final = re.compile(r"^breakdown:|^pmsampling:|Triage|pcsamp")


@dataclass(frozen=True, slots=True)
class NcuLaunches:
    """What one file held."""

    launches: tuple[Profiled, ...]
    health: tuple[Note, ...] = ()
    tool_version: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchIdentity:
    """What a report says of a launch besides its metrics. None: it does not say."""

    name: str
    grid: Dim3 | None = None
    block: Dim3 | None = None
    context: int | None = None
    stream: int | None = None
    device: int | None = None
    process: int | None = None
    capability: tuple[int, int] | None = None


def is_wanted(metric: str, every_metric: bool) -> bool:
    """Whether a metric is read: those that an analysis may look at, or all that mean one number."""
    return (every_metric or is_used(metric)) and not _OF_NO_USE.search(metric)


def profiled(
    order: int,
    who: LaunchIdentity,
    metrics: Mapping[str, float],
    *,
    file: str,
    texts: Mapping[str, str] | None = None,
    nvtx: tuple[str, ...] = (),
    advice: tuple[Advice, ...] = (),
) -> Profiled:
    """A launch; what `who` does not say is taken from its metrics where they do."""
    return Profiled(
        order=order,
        name=who.name,
        grid=who.grid or _size(metrics, "grid"),
        block=who.block or _size(metrics, "block"),
        metrics=metrics,
        texts=texts or {},
        context=_first(who.context, _whole(metrics, "launch__context_id")),
        stream=_first(who.stream, _whole(metrics, "launch__stream_id")),
        device=_first(
            who.device, _whole(metrics, "launch__device_id"), _whole(metrics, "device__attribute_device_index")
        ),
        process=who.process,
        compute_capability=who.capability or _capability(metrics),
        nvtx=nvtx,
        advice=advice,
        file=file,
    )


def plain(message: str) -> str:
    """A rule's message without its links: `@url:Guide:https://…@` and `Guide (https://…)` become `Guide`."""
    return _ADDRESS.sub("", _LINK_LAST.sub(r"\1", _LINK_FIRST.sub(r"\1", message))).strip()


def shown(text: str) -> str:
    """Text out of a file as it may stand in a sentence of ours: short, and nothing that a terminal obeys."""
    return "".join(letter if letter.isprintable() else "." for letter in text[:200])


def unit_refused(file: str, metric: str, unit: str) -> GpuledgerError:
    """The refusal of a file that gives a number we need in a unit that we do not know."""
    return UnreadableProfile(
        f"{file}: {shown(metric)} is given in '{shown(unit)}', a unit that gpuledger does not know",
        hint="print the values in base units: `ncu --import FILE --csv --page raw --print-units base`",
    )


def implausible_notes(file: str, count: int) -> list[Note]:
    """What is said of values that no counter can have."""
    if not count:
        return []
    sentence = say(
        "{file}: {count} values are larger than any counter can be and were left out",
        file=file,
        count=count_text(count),
    )
    return [Note(Severity.WARNING, "values-implausible", sentence, count)]


def unit_notes(file: str, unknown: Mapping[str, int]) -> list[Note]:
    """Says which units are not known, for numbers that nothing depends on."""
    return [
        Note(
            Severity.INFO,
            "units-unknown",
            say(
                "{file}: {count} values in '{unit}' were left out",
                file=file,
                count=count_text(count),
                unit=shown(unit),
            ),
            count,
        )
        for unit, count in sorted(unknown.items())
    ]


def _size(metrics: Mapping[str, float], what: str) -> Dim3 | None:
    x, y, z = (_whole(metrics, f"launch__{what}_dim_{axis}") for axis in "xyz")
    return None if x is None or y is None or z is None or min(x, y, z) < 1 else (x, y, z)


def _capability(metrics: Mapping[str, float]) -> tuple[int, int] | None:
    major, minor = (_whole(metrics, f"device__attribute_compute_capability_{each}") for each in ("major", "minor"))
    return None if major is None or minor is None else (major, minor)


def _whole(metrics: Mapping[str, float], name: str) -> int | None:
    value = metrics.get(name)
    return None if value is None or value != int(value) else int(value)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
