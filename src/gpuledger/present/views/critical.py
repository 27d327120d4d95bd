"""The critical path in sentences: what it consists of, and what would not make it shorter."""

from __future__ import annotations

from typing import Final

from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.messages import Message, joined, say
from gpuledger.replay.path_summary import OffPathRow, PathSide, PathSummary
from gpuledger.units import count_text, share_text, time_text

_NAMED: Final = 3
"""So many of the largest parts are named in the sentence."""


def path_sentence(summary: PathSummary) -> Message:
    """What the step's length is due to: the side with the most time and its largest parts, then the other sides."""
    share = {side: summary.side_share(side) for side in PathSide}
    largest, *others = sorted(filter(share.get, PathSide), key=lambda side: -share[side])
    parts = [
        say("{part} {time}", part=part.part.label, time=time_text(round(part.time_ns)))
        for part in summary.parts
        if part.side == largest
    ]
    first = say(
        "GPU {gpu}: of {whole} {unit}, the critical path is {share} {side}: {parts}",
        gpu=summary.gpu,
        whole=time_text(round(summary.step_ns)),
        unit=say("in the window") if summary.steps is None else say("per step"),
        share=share_text(share[largest]),
        side=largest.label,
        parts=joined(say(", "), parts[:_NAMED]),
    )
    if not others:
        return say("{told}.", told=first)
    rest = [say("{side} {share}", side=side.label, share=share_text(share[side])) for side in others]
    return say("{told}; {others}.", told=first, others=joined(say(", "), rest))


def path_sentences(summary: PathSummary) -> list[Message]:
    """What the path consists of, and of which steps it is where that is not all of them."""
    if summary.steady_steps is None:
        return [path_sentence(summary)]
    of_steps = say(
        "GPU {gpu}: the path is that of {count} of the {all} steady steps, from the middle of the run.",
        gpu=summary.gpu,
        count=count_text(summary.steps or 0),
        all=count_text(summary.steady_steps),
    )
    return [path_sentence(summary), of_steps]


def path_remarks(summary: PathSummary) -> list[Message]:
    """What the tables do not say themselves: what waits cost, and what it buys to make other kernels faster."""
    remarks, gpu = [], summary.gpu
    if waits := [call for call in summary.calls if call.waits]:
        named = [say("{count} x {call}", count=count_text(call.waits), call=call.name) for call in waits]
        remarks.append(
            say(
                "GPU {gpu}: the path passes through {waits} to the work they waited for. A wait itself takes "
                "little of the path: it costs the framework overhead and the launch latency after it. "
                "`gpuledger report` has the saving of removing it.",
                gpu=gpu,
                waits=joined(say(", "), named),
            )
        )
    if not summary.off_path:
        remarks.append(say("GPU {gpu}: no significant kernel runs off the path.", gpu=gpu))
    if saves_nothing := [kernel for kernel in summary.off_path if not kernel.saving_ns]:
        kernels = joined(say(", "), [_slack_text(kernel) for kernel in saves_nothing[:_NAMED]])
        nothing = say("GPU {gpu}: making these kernels faster saves nothing: {kernels}.", gpu=gpu, kernels=kernels)
        remarks.append(nothing)
    return remarks


def _slack_text(kernel: OffPathRow) -> Message:
    name = kernel.name if isinstance(kernel.name, Message) else cut_label(label(kernel.name))
    if kernel.slack_ns is None:
        return say("{kernel} (nothing waits for it)", kernel=name)
    return say("{kernel} ({slack} of slack)", kernel=name, slack=time_text(kernel.slack_ns))
