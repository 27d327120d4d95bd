"""What there is to know beside the checks: how the operation was found, who stands still, what changes over the run."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.align.operation_side import OperationSide, forwards_text
from gpuledger.analyse.align.side_by_side import SideBySide, called
from gpuledger.messages import joined, say
from gpuledger.units import count_text, share_text, time_text

DRIFT: Final = 0.03
"""A change over the run that is worth saying."""

OTHER_SIZE: Final = 3
"""Forwards with so many times the other side's kernels are hardly the same operation."""

MOCK: Final = say("mock")
MODEL: Final = say("model")

ALWAYS, SELDOM = 0.9, 0.5
"""Shares of forwards that stand still: nearly all, less than half."""


def notes(sides: SideBySide) -> tuple[str, ...]:
    """Sentences, the most important first."""
    sentences = [_chosen(sides.mock, MOCK), _chosen(sides.e2e, MODEL), *_gaps(sides)]
    sentences += [_drift(side, which) for side, which in ((sides.mock, MOCK), (sides.e2e, MODEL))]
    if sides.mock.gpu_name != sides.e2e.gpu_name and sides.mock.gpu_name and sides.e2e.gpu_name:
        sentences.append(
            say(
                "the GPUs differ: {mock} in the mock, {e2e} in the model",
                mock=sides.mock.gpu_name,
                e2e=sides.e2e.gpu_name,
            )
        )
    sentences.append(_sizes(sides))
    moved = sum(row.moved for row in sides.rows)
    if moved:
        sentences.append(
            say("{count} kernels run at another place in the sequence, which no check counts", count=count_text(moved))
        )
    return tuple(sentence for sentence in sentences if sentence)


def _chosen(side: OperationSide, which: str) -> str:
    """Which forward stands for the side."""
    if not side.ordered or side.is_timed:
        return ""
    counted: list[str] = [forwards_text(side.forwards)]
    if side.steps > 1:
        per_step = f"{side.per_step:.1f}".removesuffix(".0")
        counted.append(
            say("{count} in each of {steps} steps", count=per_step, steps=count_text(side.steps))
            if side.forwards != side.steps
            else say("one per step")
        )
    if side.forwards > 1:
        counted.append(say("the first left out"))
    said = [
        say("{which}: {what}", which=which, what=joined(say(", "), counted)),
        say("the one with the median GPU time represents them"),
    ]
    if side.ranks > 1:
        said.append(
            say(
                "of {count} ranks, each layer is taken from the rank that computes longest: the others wait for it",
                count=side.ranks,
            )
        )
    if 1 < side.alike < side.compared:
        said.append(say("{count} run another sequence of kernels", count=count_text(side.compared - side.alike)))
    elif side.compared > 1 and side.alike == 1:
        said.append(say("no two run the same sequence of kernels"))
    return joined(say("; "), said)


def _sizes(sides: SideBySide) -> str:
    """A forward of one side that is many of the other's is probably not what was meant."""
    mock, e2e = len(sides.mock.kernels), len(sides.e2e.kernels)
    if e2e > OTHER_SIZE * mock:
        hint = say("the isolated part may be more than the operation: use a narrower range, or --auto")
    elif mock > OTHER_SIZE * e2e:
        hint = say("the mock's may be more than the operation, or hold it several times: --mock-range=REGEX cuts it")
    else:
        return ""
    return say(
        "a forward has {mock} kernels in the mock and {e2e} in the model; {hint}",
        mock=count_text(mock),
        e2e=count_text(e2e),
        hint=hint,
    )


def _gaps(sides: SideBySide) -> list[str]:
    """What lies between the kernels, which no check counts."""
    mock, e2e = sides.mock, sides.e2e
    if mock.elapsed_ns is None or e2e.elapsed_ns is None:
        return []
    said: list[str] = [
        say(
            "from first start to last end: {mock} in the mock, {e2e} in the model; the checks leave out the gaps "
            "between kernels",
            mock=time_text(mock.elapsed_ns),
            e2e=time_text(e2e.elapsed_ns),
        )
    ]
    if mock.wait is None and e2e.wait is None:
        return said
    same = mock.wait is not None and e2e.wait is not None and mock.wait.kernel == e2e.wait.kernel
    waits = (_wait(mock, say("the mock"), again=False), _wait(e2e, say("the model"), again=same))
    said.append(joined(say("; "), waits))
    often = 0.0 if e2e.wait is None else e2e.wait.forwards / e2e.alike
    if mock.wait is not None and mock.wait.forwards >= ALWAYS * mock.alike and often < SELDOM:
        rest = say("the model's find it ready")
        if e2e.wait is not None and e2e.wait.opens_step:
            rest = say("in the model the first layer of a step does so for the others")
        said.append(
            say(
                "each forward of the mock pays for a first call (a plan, a module, as for a new length); {rest}",
                rest=rest,
            )
        )
    return said


def _wait(side: OperationSide, which: str, *, again: bool) -> str:
    """Before which kernel a side waits; `again`: it has just been named."""
    wait = side.wait
    if wait is None:
        return say("{which} is never idle for 1 ms", which=which)
    said = say(
        "{which} waits {time} before {kernel} in {count} of {of} forwards",
        which=which,
        time=time_text(wait.gap_ns),
        kernel=say("it") if again else called(wait.kernel),
        count=count_text(wait.forwards),
        of=count_text(side.alike),
    )
    return say("{wait}, each the first of its step", wait=said) if wait.opens_step else said


def _drift(side: OperationSide, which: str) -> str:
    if side.drift_share is None or abs(side.drift_share) < DRIFT:
        return ""
    share = share_text(abs(side.drift_share))
    if side.drift_share > 0:
        return say(
            "{which}: forwards in the last quarter of the steps are {share} longer than in the first: "
            "the work changes over the run, as with a growing KV length",
            which=which,
            share=share,
        )
    return say(
        "{which}: forwards in the last quarter of the steps are {share} shorter than in the first: "
        "the work changes over the run",
        which=which,
        share=share,
    )
