"""A side from what `gpuledger time` measured: each sample is a step, and the call the one thing that runs in it.

Of two that were timed in turns, what changed for both from round to round is taken out: the first is told by its usual
call, and the second by that and the difference of each round.
"""

from __future__ import annotations

import msgspec

from gpuledger.analyse.diff.run_side import NO_SHAPE, STEP, RunKernel, RunSide
from gpuledger.analyse.timed_operations import CALL, TimedOperation
from gpuledger.ledger.lines import UNCLASSIFIED


def side_of_timing(timed: TimedOperation, name: str) -> RunSide:
    """The calls of one operation, in comparable form."""
    lengths = tuple(round(sample) for sample in timed.samples_ns)
    call = RunKernel(CALL, CALL, NO_SHAPE, NO_SHAPE, (), UNCLASSIFIED.family, len(lengths), sum(lengths))
    return RunSide(
        name=name,
        tool="gpuledger time",
        whole=STEP,
        source="timed calls",
        run_steps=(len(lengths),),
        length_ns=lengths,
        gpu_name=timed.device_name,
        lines=(UNCLASSIFIED,),
        books_ns=tuple((length,) for length in lengths),
        kernels=(call,),
    )


def sides_of_pair(first: TimedOperation, second: TimedOperation) -> tuple[RunSide, RunSide]:
    """Both operations of a pair; as many samples of each."""
    usual_ns = first.median_ns
    rounds = zip(first.samples_ns, second.samples_ns, strict=True)
    after = tuple(max(usual_ns + other_ns - one_ns, 0.0) for one_ns, other_ns in rounds)
    before = (usual_ns,) * len(after)
    return (
        side_of_timing(msgspec.structs.replace(first, samples_ns=before), first.operation),
        side_of_timing(msgspec.structs.replace(second, samples_ns=after), second.operation),
    )
