"""Samples of a GPU's counters: GPU_METRICS in nsys's numbering in, the columns of our table out.

A row is one counter at one instant. TARGET_INFO_GPU_METRICS names a counter by the type of hardware and its number in
the set that was sampled, which differs between generations; the lowest byte of the type is the GPU.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gpuledger.messages import say
from gpuledger.read.nsys.container import NULL, NsysExport
from gpuledger.read.nsys.finish import Raw
from gpuledger.read.nsys.origin import text_rows
from gpuledger.read.nsys.schema import actual_name
from gpuledger.read.nsys.strings import TextCoder
from gpuledger.trace.columns import by_row
from gpuledger.trace.health import Note, Severity
from gpuledger.trace.keys import group
from gpuledger.units import count_text

MOST_COUNTERS: Final = 100_000
"""GPUs times counters of an export that can be real; of one with more, none has a name."""

_NAMES: Final = "TARGET_INFO_GPU_METRICS"
_GPU_BITS: Final = 0xFF


def metric_columns(export: NsysExport, coder: TextCoder, raw: Raw) -> tuple[Raw, int]:
    """Names in place of numbers, the GPU in place of the type of hardware; and how many counters have no name."""
    if not len(raw["start_ns"]):
        return raw | {"end_ns": raw["start_ns"]}, 0
    hardware_row, hardware = group(raw["hardware"])
    counter_row, counter = group(raw["name"])
    kinds, numbers = raw["hardware"][hardware_row].tolist(), raw["name"][counter_row].tolist()
    if len(kinds) * len(numbers) > MOST_COUNTERS:
        name = np.broadcast_to(np.int64(NULL), len(raw["name"]))
        unnamed = len(numbers)
    else:
        names = _names(export)
        texts = [[names.get((kind, number)) or f"metric {number}" for number in numbers] for kind in kinds]
        unnamed = sum(not any(names.get((kind, number)) for kind in kinds) for number in numbers)
        codes = np.array([[coder.own(text) for text in row] for row in texts], np.int64)
        name = by_row(lambda *place: codes[place], hardware, counter)
    gpu = by_row(lambda ids: np.where(ids == NULL, NULL, ids & _GPU_BITS), raw["hardware"])
    return raw | {"end_ns": raw["start_ns"], "name": name, "hardware": gpu}, unnamed


def lost_samples(export: NsysExport) -> tuple[Note, ...]:
    """Counters that have names, which nsys writes where it samples them, and no sample."""
    samples = actual_name("GPU_METRICS", export.tables)
    counters = 0 if samples is not None and export.count(samples) else len(set(_names(export).values()))
    if not counters:
        return ()
    sentence = say(
        "{count} GPU counters were sampled, but GPU_METRICS holds no sample: how well kernels use the GPU is not known",
        count=count_text(counters),
    )
    return (Note(Severity.LOSS, "samples-lost", sentence, counters),)


def _names(export: NsysExport) -> dict[tuple[int, int], str]:
    """The name of each counter; NULL stands for the hardware where the samples do not say it."""
    if not export.tables.get(_NAMES, frozenset()) >= {"metricId", "metricName", "typeId"}:
        return {}
    rows = text_rows(export, _NAMES, ("metricName",), integers=("typeId", "metricId"))
    listed = {(row["typeId"], row["metricId"]): row["metricName"] for row in rows}
    return {(NULL, metric): name for (_, metric), name in listed.items()} | listed
