"""An alignment put together: two sides in; checks with what to do about them, a verdict and notes out."""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.align.checks import (
    COUNTING,
    EXTRA_KERNELS,
    GRAPH,
    KNOWN,
    LATENCY,
    MISSING_KERNELS,
    NOT_MEASURED,
    SHAPE,
    WARN,
    AlignCheck,
    KnownDifferences,
    SideBySide,
    Tier,
    checks,
    short_label,
    worst,
)
from gpuledger.analyse.align.kernel_sequences import INSERTED
from gpuledger.analyse.align.operation_kernels import Isolation
from gpuledger.analyse.align.operation_side import OperationSide, forwards_text
from gpuledger.catalog.kernel_names import EXACT, NONE
from gpuledger.messages import joined, say
from gpuledger.units import count_text, share_text, time_text
from gpuledger.verdicts import FAIL, PASS, UNDECIDED

DRIFT: Final = 0.03  # a change over the run that is worth saying

OTHER_SIZE: Final = 3  # forwards with so many times the other side's kernels are hardly the same operation

_STATES: Final = {FAIL: say("NOT ALIGNED"), UNDECIDED: say("UNDECIDED"), WARN: say("ALIGNED WITH REMARKS")}

ALWAYS, SELDOM = 0.9, 0.5  # shares of forwards that stand still: nearly all, less than half


def notes(sides: SideBySide) -> tuple[str, ...]:
    """What there is to know beside the checks, in sentences, the most important first."""
    mock, e2e = sides.mock, sides.e2e
    named = ((mock, say("mock")), (e2e, say("model")))
    sentences = [sentence for side, which in named for sentence in _chosen(side, which)] + _gaps(mock, e2e)
    for side, which in named:
        if side.drift_share is not None and abs(side.drift_share) >= DRIFT:
            parts = {"which": which, "share": share_text(abs(side.drift_share))}
            longer = say(
                "{which}: forwards in the last quarter of the steps are {share} longer than in the first: "
                "the work changes over the run, as with a growing KV length",
                **parts,
            )
            shorter = say(
                "{which}: forwards in the last quarter of the steps are {share} shorter than in the first: "
                "the work changes over the run",
                **parts,
            )
            sentences.append(longer if side.drift_share > 0 else shorter)
    if mock.gpu_name != e2e.gpu_name and mock.gpu_name and e2e.gpu_name:
        gpus = {"mock": mock.gpu_name, "e2e": e2e.gpu_name}
        sentences.append(say("the GPUs differ: {mock} in the mock, {e2e} in the model", **gpus))
    sentences += _other_size(len(mock.kernels), len(e2e.kernels))
    if moved := sum(row.moved for row in sides.rows):
        sentences.append(
            say("{count} kernels run at another place in the sequence, which no check counts", count=count_text(moved))
        )
    return tuple(sentences)


def _other_size(mock: int, e2e: int) -> list[str]:
    """A forward of one side that is many of the other's is probably not what was meant."""
    if e2e > OTHER_SIZE * mock:
        hint = say("the isolated part may be more than the operation: use a narrower range, or --auto")
    elif mock > OTHER_SIZE * e2e:
        hint = say("the mock's may be more than the operation, or hold it several times: --mock-range=REGEX cuts it")
    else:
        return []
    counts = {"mock": count_text(mock), "e2e": count_text(e2e)}
    return [say("a forward has {mock} kernels in the mock and {e2e} in the model; {hint}", **counts, hint=hint)]


def _chosen(side: OperationSide, which: str) -> list[str]:
    """Which forward stands for the side."""
    if not side.ordered or side.is_timed:
        return []
    counted: list[str] = [forwards_text(side.forwards)]
    if side.steps > 1:
        per_step = f"{side.per_step:.1f}".removesuffix(".0")
        several = say("{count} in each of {steps} steps", count=per_step, steps=count_text(side.steps))
        counted.append(several if side.forwards != side.steps else say("one per step"))
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
    return [joined(say("; "), said)]


def _gaps(mock: OperationSide, e2e: OperationSide) -> list[str]:
    """What lies between the kernels, which no check counts."""
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
        kernel=say("it") if again else short_label(wait.kernel),
        count=count_text(wait.forwards),
        of=count_text(side.alike),
    )
    return say("{wait}, each the first of its step", wait=said) if wait.opens_step else said


_OTHER_KERNEL: Final = say(
    "The mock calls another implementation, or the model fuses what the mock runs separately: build the mock from "
    "the framework's own class, with the model's backend, data type and quantization."
)

_OTHER_TILE: Final = say(
    "Libraries choose the tile by size, alignment and data type: give the mock the model's batch, sequence length, "
    "head counts, tensor-parallel split and data type."
)

_MORE_CALLS: Final = say(
    "The mock calls a kernel more often: move initialization, metadata and input preparation out of its forward, or "
    "batch what it runs one by one, as the model does."
)

_FEWER_CALLS: Final = say(
    "The mock calls a kernel less often: check the number of heads, experts, chunks and micro-batches per forward."
)

_MISSING: Final = say(
    "Something the operation depends on is not set up in the mock: the KV-cache manager, quantization, position "
    "embeddings, a communicator; or the model fuses it in."
)

_EXTRA: Final = say(
    "Look for initialization, input preparation or debugging code inside the mock's forward; if the model fuses it "
    "into another kernel, use the fused path. --mock-range=REGEX leaves out what surrounds the forward."
)

_GRAPH_MOCK: Final = say("Capture the mock's forward in a CUDA graph and time its replay, as the model does.")

_GRAPH_MODEL: Final = say("The model runs without CUDA graphs: time the mock without one, or switch the model's on.")

_GRAPH_PARTLY: Final = say("Capture the same part of the operation in the graph on both sides.")

_SHAPE: Final = say(
    "The grid follows the sizes of the input: give the mock the model's batch, sequence and KV length and head counts."
)

_OTHER_GPU: Final = say("The two profiles are of different GPUs: record both on the same one.")

_FASTER: Final = say(
    "The kernels have the same launch shape and take less time. Most likely the mock, which repeats one layer, finds "
    "weights and inputs still in the GPU's cache, while in the model other layers run in between: rotate over "
    "several copies of the weights, or flush the cache between forwards. Otherwise compare the KV length, data types "
    "and clocks."
)

_SLOWER: Final = say(
    "The kernels have the same launch shape and take more time: compare the KV length, data layout and clocks, and "
    "look for other work on the GPU at the same time."
)

_OTHER_INPUT: Final = say(
    "The launch shapes differ, so the inputs differ: align these first, then compare times again."
)

_INPUT_UNKNOWN: Final = say(
    "Launch shapes are unknown here, so compare the inputs first: batch, sequence and KV length, data types. "
    "Profiles have them; tables do not."
)

_NOT_REPLAYED: Final = say("The model replays a CUDA graph: time the mock's replay too.")


def remedy(check: AlignCheck, sides: SideBySide, checks: tuple[AlignCheck, ...]) -> str:
    """What to do about one check that does not pass, from what is usually wrong with a mock."""
    match check.check:
        case "names":
            return _OTHER_KERNEL if sides.rows_at(NONE) or not sides.rows_at(EXACT) else _OTHER_TILE
        case "counts":
            return _MORE_CALLS if sides.rows_at(INSERTED) else _FEWER_CALLS
        case "graph":
            mock, e2e = ({bool(kernel.in_graph) for kernel in side.kernels} for side in (sides.mock, sides.e2e))
            if len(mock) > 1 or len(e2e) > 1:
                return _GRAPH_PARTLY
            return _GRAPH_MOCK if e2e == {True} else _GRAPH_MODEL
        case "latency":
            return _of_latency(sides, checks)
    return {MISSING_KERNELS: _MISSING, EXTRA_KERNELS: _EXTRA, SHAPE: _SHAPE}[check.check]


def _of_latency(sides: SideBySide, checks: tuple[AlignCheck, ...]) -> str:
    """The first reason that the profiles give; else what is left."""
    found = {check.check: check for check in checks}
    if sides.mock.gpu_name != sides.e2e.gpu_name:
        return _OTHER_GPU
    if found[SHAPE].verdict in (WARN, NOT_MEASURED):
        return _OTHER_INPUT if found[SHAPE].verdict == WARN else _INPUT_UNKNOWN
    ratio = found[LATENCY].figures["ratio"]
    slower = isinstance(ratio, float) and ratio > 1
    if slower and found[GRAPH].verdict == WARN and all(kernel.in_graph for kernel in sides.e2e.kernels):
        return _NOT_REPLAYED
    return _SLOWER if slower else _FASTER


class Alignment(Struct, frozen=True):
    """What is to be said of a mock."""

    sides: SideBySide
    isolation: Isolation
    checks: tuple[AlignCheck, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The worst of the checks': what is known or cannot be measured is no reason not to pass."""
        said = worst(check.verdict for check in self.checks)
        return said if said in COUNTING else PASS

    @property
    def conclusion(self) -> str:
        """One sentence: the verdict in words, and what weighs most."""
        counting = [check for check in self.checks if check.verdict in COUNTING]
        if counting:
            first = next(check for check in counting if check.verdict == self.verdict)
            others = [check.check.label for check in counting if check is not first]
            also = say("; see also {checks}", checks=_listed(others)) if others else ""
            return say("{state}: {evidence}{also}.", state=_STATES[self.verdict], evidence=first.evidence[0], also=also)
        known, untold = (
            [check.check.label for check in self.checks if check.verdict == kind] for kind in (KNOWN, NOT_MEASURED)
        )
        accepted = say("; known: {checks}", checks=_listed(known)) if known else ""
        but = joined("", (accepted, say("; {checks} could not be checked", checks=_listed(untold)) if untold else ""))
        ratio = next(check.figures["ratio"] for check in self.checks if check.check == LATENCY)
        if not isinstance(ratio, float):
            return say("ALIGNED: the mock runs what the model runs{but}.", but=but)
        times = f"{ratio:.2f}"
        if self.sides.mock.is_timed:
            return say("ALIGNED IN TIME: a call of the mock takes {ratio}x the model's{but}.", ratio=times, but=but)
        return say("ALIGNED: the mock runs what the model runs, in {ratio}x its time{but}.", ratio=times, but=but)


def alignment(
    mock: OperationSide, e2e: OperationSide, isolation: Isolation, tier: Tier, known: KnownDifferences
) -> Alignment:
    """Check a mock."""
    sides = SideBySide.of(mock, e2e)
    plain = checks(sides, tier, known)
    checked = tuple(
        replace(check, remedy=remedy(check, sides, plain)) if check.verdict in (WARN, FAIL) else check
        for check in plain
    )
    accepted = [item for check in checked for item in check.accepted]
    used = [item.difference for item in accepted]
    explained = [
        say("known: {sentence} ({reason})", sentence=item.sentence, reason=item.difference.reason) for item in accepted
    ]
    unused = [
        say("known difference no longer present: {difference}", difference=str(difference))
        for difference in known.differences
        if difference not in used
    ]
    return Alignment(sides, isolation, checked, (*explained, *notes(sides), *mock.notes, *e2e.notes, *unused))


def _listed(titles: list[str]) -> str:
    if len(titles) < 2:
        return joined("", titles)
    return joined(say(" and "), (joined(say(", "), titles[:-1]), titles[-1]))
