"""Amounts, counts and places in the words of a finding: what is per step is said so, and no count is a fraction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.catalog.kernel_names import cut_label
from gpuledger.findings.finding import MAX_EXAMPLES, Evidence
from gpuledger.ledger.activity import short_function_name
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.trace.tables import Rows
from gpuledger.units import count_text, time_text

_INNERMOST: Final = 4  # ranges of a path told; the evidence's data has all
_IN_CLAIM: Final = 2  # and so many in a claim
_LONGEST_NAME: Final = 100
MIN_ROUNDED_PER_STEP: Final = (
    10  # from so many a step on, the mean is told as a whole number, though steps may differ by a few
)


def per_step(device: Device, time: int) -> str:
    """A time in words, for one step where there are steps."""
    text = time_text(time // device.step_count)
    return text if device.steps is None else say("{time} per step", time=text)


def path_text(path: Sequence[str]) -> str:
    """A path of ranges in words, the innermost of a long one; what calls itself by its own name counts once."""
    names = [name for name, around in zip(path, (None, *path), strict=False) if name != around]
    shown = [short_text(name) for name in names[-_INNERMOST:]]
    return " > ".join(("…", *shown) if len(names) > _INNERMOST else shown)


def path_in_claim(path: Sequence[str]) -> str:
    """A path of ranges in a claim, which is short."""
    return path_text(path[-_IN_CLAIM:])


def short_text(name: str) -> str:
    """A name in words; a program may give one of any length."""
    return cut_label(name, _LONGEST_NAME)


def occurrences_text(device: Device, count: int) -> Message:
    """How often something happens: never a fraction."""
    return _in_steps(
        device, count, lambda number: say("once") if number == 1 else say("{count} times", count=count_text(number))
    )


def count_words(device: Device, count: int, one: Message, several: Message) -> Message:
    """How many of something there are: never a fraction."""

    def amount(number: int) -> Message:
        return say("{count} {what}", count=count_text(number), what=one if number == 1 else several)

    return _in_steps(device, count, amount)


def _in_steps(device: Device, count: int, amount: Callable[[int], Message]) -> Message:
    """For each step where that says it: as many in each, or so many that a part of one is no matter; else in all."""
    steps = device.step_count
    if device.steps is None:
        return amount(count)
    if count % steps == 0 or count >= MIN_ROUNDED_PER_STEP * steps:
        return say("{amount} per step", amount=amount(round(count / steps)))
    return say("{amount} in {steps} steps", amount=amount(count), steps=count_text(steps))


def call_name(calls: Rows, row: int) -> str:
    """The function that a call is of, without its version."""
    return short_function_name(calls.strings.text(int(calls.codes("name")[row])) or "")


def call_evidence(calls: Rows, row: int, sentence: str, **more: Any) -> Evidence:
    """A sentence whose example is one call."""
    return Evidence(
        sentence,
        Span(int(calls["start_ns"][row]), int(calls["end_ns"][row])),
        int(calls["pid"][row]),
        int(calls.stored("tid")[row]),
        call=call_name(calls, row),
        **more,
    )


def kernel_evidence(
    sentence: str, kernels: Rows, chosen: NDArray[np.bool_], share: float | None = None, of: str = ""
) -> Evidence:
    """A sentence about the chosen kernels, the longest of them as the example."""
    count = int(np.count_nonzero(chosen))
    length = kernels.duration_ns
    length[~chosen] = np.iinfo(np.int64).min + 1
    rows = kernels.at(largest(length, min(count, MAX_EXAMPLES)))
    return Evidence(
        sentence,
        span=Span(int(rows["start_ns"][0]), int(rows["end_ns"][0])),
        pid=int(rows["pid"][0]),
        kernel=rows.texts("name")[0] or "",
        correlations=tuple(rows["correlation"].tolist()),
        count=count,
        share=share,
        of=of,
    )
