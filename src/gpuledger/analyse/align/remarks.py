"""What there is to know beside the checks: how the operation was found, who stands still, what changes over the run."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.align.operation_side import OperationSide
from gpuledger.analyse.align.side_by_side import SideBySide, called
from gpuledger.units import count_text, share_text, time_text

DRIFT: Final = 0.03
"""A change over the run that is worth saying."""

OTHER_SIZE: Final = 3
"""Forwards with so many times the other side's kernels are hardly the same operation."""

ALWAYS, SELDOM = 0.9, 0.5
"""Shares of forwards that stand still: nearly all, less than half."""


def notes(sides: SideBySide) -> tuple[str, ...]:
    """Sentences, the most important first."""
    sentences = [_chosen(sides.mock, "mock"), _chosen(sides.e2e, "model"), *_gaps(sides)]
    sentences += [_drift(side, which) for side, which in ((sides.mock, "mock"), (sides.e2e, "model"))]
    if sides.mock.gpu_name != sides.e2e.gpu_name and sides.mock.gpu_name and sides.e2e.gpu_name:
        sentences.append(f"the GPUs differ: {sides.mock.gpu_name} in the mock, {sides.e2e.gpu_name} in the model")
    sentences.append(_sizes(sides))
    moved = sum(row.moved for row in sides.rows)
    if moved:
        sentences.append(f"{count_text(moved)} kernels run at another place of the sequence, which no check counts")
    return tuple(sentence for sentence in sentences if sentence)


def _chosen(side: OperationSide, which: str) -> str:
    """Which forward stands for the side."""
    if not side.ordered or side.is_timed:
        return ""
    per = ""
    if side.steps > 1:
        per_step = f"{side.per_step:.1f}".removesuffix(".0")
        per = (
            f", {per_step} in each of {count_text(side.steps)} steps" if side.forwards != side.steps else ", one a step"
        )
    first = ", the first left out" if side.forwards > 1 else ""
    said = f"{which}: {_forwards(side.forwards)}{per}{first}; the one with the median GPU time stands for them"
    if side.ranks > 1:
        said += f"; of {side.ranks} ranks, each counts where it computes the longest: the others wait for it"
    if 1 < side.alike < side.compared:
        said += f"; {count_text(side.compared - side.alike)} run another sequence of kernels"
    elif side.compared > 1 and side.alike == 1:
        said += "; no two run the same sequence of kernels"
    return said


def _sizes(sides: SideBySide) -> str:
    """A forward of one side that is many of the other's is probably not what was meant."""
    mock, e2e = len(sides.mock.kernels), len(sides.e2e.kernels)
    if e2e > OTHER_SIZE * mock:
        hint = "what was isolated may be more than the operation: take a narrower range, or --auto"
    elif mock > OTHER_SIZE * e2e:
        hint = "the mock's may be more than the operation, or hold it several times: --mock-range=REGEX cuts it"
    else:
        return ""
    return f"a forward has {count_text(mock)} kernels in the mock and {count_text(e2e)} in the model; {hint}"


def _forwards(count: int) -> str:
    return f"{count_text(count)} forward{'' if count == 1 else 's'}"


def _gaps(sides: SideBySide) -> list[str]:
    """What lies between the kernels, which no check counts."""
    mock, e2e = sides.mock, sides.e2e
    if mock.elapsed_ns is None or e2e.elapsed_ns is None:
        return []
    both = f"{time_text(mock.elapsed_ns)} in the mock, {time_text(e2e.elapsed_ns)} in the model"
    said = [f"from first start to last end: {both}; the checks leave out the gaps between kernels"]
    if mock.wait is None and e2e.wait is None:
        return said
    ours, theirs = (_wait(side, which) for side, which in ((mock, "mock"), (e2e, "model")))
    if mock.wait is not None and e2e.wait is not None and mock.wait.kernel == e2e.wait.kernel:
        theirs = theirs.replace(called(e2e.wait.kernel), "it")
    said.append(f"{ours}; {theirs}")
    often = 0.0 if e2e.wait is None else e2e.wait.forwards / e2e.alike
    if mock.wait is not None and mock.wait.forwards >= ALWAYS * mock.alike and often < SELDOM:
        rest = "the model's find it ready"
        if e2e.wait is not None and e2e.wait.opens_step:
            rest = "in the model the first layer of a step does so for the others"
        said.append(f"each forward of the mock pays for a first call (a plan, a module, as for a new length); {rest}")
    return said


def _wait(side: OperationSide, which: str) -> str:
    wait = side.wait
    if wait is None:
        return f"the {which} never stands still for 1 ms"
    often = f"{count_text(wait.forwards)} of {count_text(side.alike)} forwards"
    where = ", each the first of its step" if wait.opens_step else ""
    return f"the {which} waits {time_text(wait.gap_ns)} before {called(wait.kernel)} in {often}{where}"


def _drift(side: OperationSide, which: str) -> str:
    if side.drift_share is None or abs(side.drift_share) < DRIFT:
        return ""
    more, why = ("longer", ", as with a growing KV length") if side.drift_share > 0 else ("shorter", "")
    return (
        f"{which}: forwards of the last quarter of the steps take {share_text(abs(side.drift_share))} {more} than in "
        f"the first: the work changes over the run{why}"
    )
