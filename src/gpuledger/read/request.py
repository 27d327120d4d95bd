"""What every reader has to do with: which columns are asked for, the files it reads, what it refuses, what it notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import Message
from gpuledger.trace.model import Note, Severity
from gpuledger.trace.tables import Table
from gpuledger.units import bytes_text, count_text

Progress = Callable[[str, int], None]
"""Told now and then: which table is being read, how many of its rows so far."""

WantedColumns = Mapping[Table, frozenset[str]]
"""What to read: columns of ours, by table. Times are always among them."""

GPU_METRICS: Final = "GPU_METRICS"
"""What nsys calls its table of samples, and so do we among the rows of a source, whoever sampled the GPU."""


class Format(NamedTuple):
    """Files that a reader knows: a line of `gpuledger info --formats`."""

    name: str
    made_by: str
    seen: str
    """Versions of what writes it that files were read of."""
    lacks: str
    """What no such file says, however it was recorded."""


_LOSSES: Final = {
    "blocks-damaged": "{count} blocks of the report are damaged; the events in them were left out",
    "events-damaged": "{count} events of the report are damaged and were left out",
    "events-missing": "the report should hold {of} events, and holds {held}",
    "events-begin-end": "{count} events are given by begin and end, which torch does not do; left out",
    "events-unreadable": "{count} events could not be read and were left out",
    "events-untimed": "{count} events have no usable time or duration and were left out or truncated",
    "gpu-not-recorded": "{count} rows of GPU work do not say which GPU they ran on; {gpu} is assumed",
    "graph-nodes-not-recorded": "{count} kernels or copies of CUDA graphs do not say which node they are: gaps between "
    "them look like the host's",
    "gzip-trailing": "{count} bytes after the end of the gzip data are no part of it and were left out",
    "ids-repeated": "{count} of {of} kernels carry the correlation id of another one: which call launched them is not "
    "known, nor why the GPU was idle",
    "json-trailing": "{count} bytes after the list of events are no valid JSON and were left out",
    "kernels-timeless": "{count} of {of} kernels take 0 ns or less: what the GPU did in that time looks idle",
    "keys-repeated": "the JSON gives {keys} more than once, with different values: only one of them was read",
    "launches-lost": "{count} of {of} GPU operations lack the call that launched them, though others on their stream "
    "have theirs: calls are missing from the profile, and why the GPU was idle is not known",
    "launches-not-recorded": "the GPU ran {count} operations, and the profile holds no call that launched any: why it "
    "was idle is not known",
    "launches-unreadable": "{file}: {lost} of {count} launches cannot be read",
    "links-missing": "no row of {table} has a usable {column}; {lost}",
    "mtia": "{count} events of an MTIA accelerator were left out: only GPUs are supported",
    "outside-recording": "{count} GPU operations lie outside the time that the host was recorded in, by up to {time}: "
    "their times cannot be right, nor any sum over the whole profile",
    "planes-not-gpu": "{count} events of {plane} were left out: only GPUs are supported",
    "ranges-gone": "{table} holds no row, and nsys writes none that is empty: ranges, and steps by them, were lost",
    "ranges-unnamed": "{count} of {of} NVTX ranges have no name: they, and steps by them, cannot be told apart",
    "rows-damaged": "{file}: {count} rows are damaged and were left out",
    "rows-dropped": "{count} rows of {table} have no usable {columns} and were left out",
    "rows-twice": "{count} of {of} GPU operations are in the profile twice: counts, and sums of their times, are too "
    "high",
    "samples-lost": "{count} GPU counters were sampled, but GPU_METRICS holds no sample: how well kernels use the GPU "
    "is not known",
    "samples-elsewhere": "{count} samples of GPU counters were taken, none of them while the GPU worked: their times "
    "are wrong, and how well kernels use the GPU is not known",
    "starts-before-launch": "{count} of {of} {what} start before the call that launched them, by up to {time}: "
    "times of the host and the GPU do not fit together, and why the GPU was idle is not known",
    "starts-late": "{count} GPU operations found the GPU idle, and none started within {time} of its launch: times of "
    "the host and the GPU do not fit together, and why the GPU was idle is not known",
    "stream-order": "{count} of {of} GPU operations ran in another order than they were launched in on their stream: "
    "which call launched them is not known, nor why the GPU was idle",
    "stream-overlap": "{count} of {of} GPU operations start before the one ahead of them on their stream has ended, "
    "by up to {time}: how long they take is wrong, and so are sums and idle time",
    "sync-before-end": "{count} of {of} synchronize calls return before the work that they wait for has ended, by up "
    "to {time}: times of the host and the GPU do not fit together, and why the GPU was idle is not known",
    "table-unusable": "{reason}; it was left out",
    "work-not-recorded": "{count} calls put {table} on the GPU, and the profile holds none: their time looks idle",
}
_WARNINGS: Final = {
    "clock-drift-corrected": "the clock of the {what} on GPU {gpu} ran away from the host's by {drift} us "
    "per second, and was off by {time} at first: their times were corrected, by {count} launches and "
    "{syncs} synchronize calls",
    "clock-early-corrected": "the clock of the {what} on GPU {gpu} was {time} early: their times were corrected, by "
    "{count} launches and {syncs} synchronize calls",
    "clock-late-corrected": "the clock of the {what} on GPU {gpu} was {time} late: their times were corrected, by "
    "{count} launches and {syncs} synchronize calls",
    "copy-kind-unknown": "{count} copies are of a kind that the export does not name; NVIDIA's tables omit them",
    "counters-unnamed": "{count} counters of GPU_METRICS have no name in the export: what they measure is not known",
    "events-unknown": "{count} events are of a kind that gpuledger does not know ({kind}) and were left out",
    "events-odd": "{count} events hold malformed values; what could be read was kept",
    "gpus-unknown": "work ran on {count} GPUs that the export does not match to the ones it describes",
    "graphs-opaque": "{count} CUDA graph launches were traced as a whole; their kernels are in none of NVIDIA's tables",
    "metrics-implausible": "{count} samples of GPU counters in percent lie outside 0 to 100: how well kernels use the "
    "GPU is judged without them",
    "names-cut": "{count} names longer than {longest} bytes were truncated",
    "names-missing": "{count} names are missing from the export; their events show the string's number",
    "ranges-open": "{count} NVTX ranges have no end; they are taken to end at the last NVTX event",
    "nsys times-backward": "{count} {table} end before they start; NVIDIA's tables count them as they are",
    "times-of-operators": "GPU times are those of operators, by CUDA events around them, and not of kernels "
    "(torch.autograd.profiler without Kineto); {outer} operators that hold others were left out",
    "times-backward": "{count} {table} end before they start",
    "values-implausible": "{file}: {count} values are larger than any counter can be and were left out",
    "values-repeated": "{file}: {count} values are given twice and differ; the first counts",
    "values-unreadable": "{file}: {count} values are not numbers and were left out",
    "values-unusable": "{count} values in {table} are not usable numbers and count as not recorded",
}
_INFOS: Final = {
    "gpu-figures-not-recorded": "the export does not say {figure} its GPUs have: how well kernels use them is judged "
    "without",
    "gpus-by-place": "the export does not number its GPUs as CUDA does; they are identical, and are taken in order",
    "names-not-utf8": "{count} names are not UTF-8; the invalid bytes are shown as \\xNN",
    "ranges-since-boot": "{count} NVTX ranges that nobody ended had times since the host's start, as nsys 2025.6 "
    "writes them; they count from the recording's start now",
    "units-unknown": "{file}: {count} values in '{unit}' were left out",
}
NOTES: Final = {
    name: (severity, sentence)
    for severity, sentences in ((Severity.LOSS, _LOSSES), (Severity.WARNING, _WARNINGS), (Severity.INFO, _INFOS))
    for name, sentence in sentences.items()
}
"""What readers say of rows and values that they count, by the note's code; nsys's own wording has `nsys` before."""


def counted(name: str, count: int, /, **parts: str) -> list[Note]:
    """The note of NOTES on so many rows or values; none where there are none."""
    severity, template = NOTES[name]
    named = {name: part for name, part in ({"count": count_text(count)} | parts).items() if f"{{{name}}}" in template}
    sentence = Message(template.format(**named), template, named)
    return [Note(severity, name.removeprefix("nsys "), sentence, count)] if count else []


def more_event_bytes(limits: Limits) -> str:
    """The option that lets an event, or a line of text, be longer."""
    return f"--limit=event-bytes={bytes_text(8 * limits.event_bytes).replace(' ', '')}"


def too_many_gpus(name: str, count: int, limit: int) -> UnreadableProfile:
    """The refusal of a profile that names more GPUs than there can be."""
    return UnreadableProfile(
        f"{name}: names {count:,} GPUs, more than {limit:,}", hint=f"if there are so many: --limit=gpus={count}"
    )


def too_many_rows(name: str, table: str, limit: int) -> UnreadableProfile:
    """The refusal of a table that is larger than memory should hold."""
    return UnreadableProfile(
        f"{name}: table {table} has more than {limit:,} rows",
        hint=f"look at a shorter stretch of time, or raise the limit: --limit=rows-per-table={4 * limit}",
    )
