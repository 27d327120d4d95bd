"""Parts of sentences and titles that several answers share: times per step, counts per step, the steady steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuledger.ledger.device import Device
from gpuledger.messages import Message, joined, say
from gpuledger.units import count_text, share_text, time_text

Sentences = tuple[Message, ...]

WORTH_DOING: Final = 0.01
"""From this share of the step on, something is worth a sentence about what to do."""

NAMED: Final = 3
"""So many of the largest parts are named in a sentence."""


def names_with_shares(named: Iterable[tuple[str, int]], whole_ns: int) -> Message:
    """Names, each with its share of a time."""
    shares = [say("{name} {share}", name=name, share=share_text(time_ns / whole_ns)) for name, time_ns in named]
    return joined(say(", "), shares)


def steady_title(device: Device, title: str) -> str:
    """The title of a table about the steady steps; about the window, where there are none."""
    return title if device.steps is None else say("{title}, steady steps", title=title)


def none_sentence(device: Device, what: Message | str) -> Message:
    """That there is none of something, in the steady steps where there are any."""
    said = say("GPU {gpu}: no {what}.", gpu=device.gpu, what=what)
    return said if device.steps is None else say("GPU {gpu}: no {what} in the steady steps.", gpu=device.gpu, what=what)


def step_time_text(device: Device, time_ns: int) -> str:
    """A time of all steady steps, for one of them; in all, where there are no steps."""
    time = time_text(time_ns // device.step_count)
    return time if device.steps is None else say("{time} per step", time=time)


def step_count_text(device: Device, count: int, one: Message, many: Message) -> Message:
    """A count a step where it is the same in all, else over all steps: there is no part of a call."""
    steps = device.step_count
    if device.steps is None or count % steps:
        told = say("{count} {what}", count=count_text(count), what=one if count == 1 else many)
        return told if device.steps is None else say("{told} in {steps} steps", told=told, steps=count_text(steps))
    return say("{count} {what} per step", count=count_text(count // steps), what=one if count == steps else many)


def largest_line_sentence(device: Device) -> Message:
    """The line with the most time, and the verb that looks into it."""
    line, time_ns = max(device.shown_ns.items(), key=lambda entry: entry[1])
    return say(
        "Largest line: {line}, {share}; for details run `gpuledger {verb}`.",
        line=line.label,
        share=share_text(time_ns / max(device.steady_ns, 1)),
        verb="gaps" if line.is_idle else "kernels" if line.is_compute else "gaps",
    )


def gaps_text(count: int) -> Message:
    """How many gaps there are."""
    return say("one gap") if count == 1 else say("{count} gaps", count=count_text(count))
