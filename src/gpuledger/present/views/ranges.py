"""Where time goes by range, and what the phases of a layer cost: host and GPU time, idle time inside and between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from gpuledger.analyse.diff.run_side import RangeRole, RunSide, range_shares
from gpuledger.analyse.phases.phase_costs import PhaseCosts, PhaseGapRow, PhaseLayerRow, PhaseRow
from gpuledger.analyse.ranges.range_tree import RangeRow, RangeTree
from gpuledger.analyse.ranks.phase_waits import NO_COMMUNICATION, PhaseWaitRow
from gpuledger.catalog.kernel_names import cut_label
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.views.answer import Answer, health_rows, note_sentences
from gpuledger.present.views.words import NAMED, names_with_shares
from gpuledger.rows import Label, Row, Unit, labels_of
from gpuledger.trace.model import Note, NotMeasured, Trace
from gpuledger.units import count_text, share_text, time_text

MOST_RANGES: Final = 50_000
"""So many paths of names are listed: 10 MB of JSON. `query` has every range."""

_UNTOLD: Final = say(
    "Most GPU work is in no phase: neither its range nor its kernel name shows one. Work in a "
    "CUDA graph has no ranges: record a run without the graph, or define phases with --phase "
    "NAME=REGEX."
)


NO_PHASES: Final = NotMeasured(
    say("no range or kernel is named after a phase of a layer; --phase NAME=REGEX defines one")
)
FEW_PHASES: Final = NotMeasured(say("phases hold little of the GPU work; --phase NAME=REGEX defines one"))
Waits = tuple[PhaseWaitRow, ...] | NotMeasured


class PrintedRangeRow(Row, frozen=True):
    """The ranges of one name in a table that `nsys stats` printed."""

    range: Annotated[str, Label(say("Range"))]
    instances: Annotated[int, Label(say("Instances"), Unit.COUNT)]
    host_ns: Annotated[int, Label(say("Host"), Unit.NS)]
    share: Annotated[float | None, Label(say("Share"), Unit.SHARE, meaning="of `whole_ns`; null: not counted in it")]
    role: Annotated[RangeRole, Label(say("Role"), detail=1)]


class RangesAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.ranges/1"):
    """Ranges of the whole window as a tree: parents before children, the most GPU time first. Phases are of the steady
    steps, and sum to them with idle time and other work.
    """

    has_steps: bool
    left_out_ranges: int = 0
    """Paths of names that are not in `ranges`: those with the least GPU time, where there are very many."""
    left_out_gpu_ns: int = 0
    """Their GPU time, without the ranges inside."""
    whole_ns: int | None = None
    """Of printed tables: the time of the program's own ranges, which shares are of."""
    ranges: Annotated[tuple[RangeRow, ...], Label(say("Ranges"))] = ()
    printed: Annotated[
        tuple[PrintedRangeRow, ...],
        Label(say("Ranges, as `nsys stats` printed them (shares of the program's own, setup left out)")),
    ] = ()
    phases: Annotated[tuple[PhaseRow, ...], Label(say("Phases"))] = ()
    phase_gaps: Annotated[tuple[PhaseGapRow, ...], Label(say("Inside and between phases"))] = ()
    phase_layers: Annotated[tuple[PhaseLayerRow, ...], Label(say("Phases by layer"))] = ()
    phase_waits: Annotated[tuple[PhaseWaitRow, ...], Label(say("Waiting for other ranks vs transfer"))] = ()
    """Tables that a GPU has no rows in, and why."""

    def title(self, table: str) -> str:
        title = super().title(table)
        if table == "ranges" and any(row.is_sampled for row in self.ranges):
            return say("{title} (share of peak while their kernels ran, from samples)", title=title)
        if not self.has_steps or table in ("ranges", "printed"):
            return title
        if table == "phase_layers":
            return say("{title}, mean of the steady steps", title=title)
        return say("{title}, steady steps", title=title)


def ranges_answer(
    name: str,
    trace: Trace,
    devices: Sequence[Device],
    trees: Sequence[RangeTree],
    phases: Sequence[tuple[PhaseCosts, Waits]],
) -> RangesAnswer:
    """The ranges of every GPU, and the phases of those for which they are told."""
    costs = [costs for costs, _ in phases]
    told = {part.gpu for part in costs}
    reasons = [
        (part.gpu, table, result.reason)
        for part, waits in phases
        for table, result in (
            ("phases", part.phases or NO_PHASES),
            ("phase_layers", part.layers),
            ("phase_waits", waits),
        )
        if isinstance(result, NotMeasured)
    ]
    rows, left = _listed(trees)
    left_gpu_ns = sum(row.own_gpu_ns for row in left)
    return RangesAnswer(
        profile=name,
        zero_ns=devices[0].zero_ns,
        sentences=(
            *(sentence for tree in trees for sentence in _range_sentences(tree)),
            *([_left_sentence(len(left), left_gpu_ns)] if left else []),
            *map(_phases_sentence, costs),
            *([_UNTOLD] if any(part.phases and not part.tell_the_most for part in costs) else []),
            *(
                say(
                    "GPU {gpu}: {what}: not measured: {reason}.",
                    gpu=gpu,
                    what=labels_of(RangesAnswer)[table].text,
                    reason=reason,
                )
                for gpu, table, reason in reasons
                if reason != NO_COMMUNICATION.reason
            ),
            *note_sentences(trace.health),
        ),
        health=health_rows(trace.health),
        has_steps=any(device.steps is not None for device in devices),
        left_out_ranges=len(left),
        left_out_gpu_ns=left_gpu_ns,
        ranges=rows,
        phases=tuple(row for part in costs for row in part.rows),
        phase_gaps=tuple(row for part in costs for row in part.between),
        phase_layers=tuple(row for part in costs if isinstance(part.layers, tuple) for row in part.layers),
        phase_waits=tuple(row for _, waits in phases if isinstance(waits, tuple) for row in waits),
        not_measured={
            **({} if all(device.gpu in told for device in devices) else {"phases": FEW_PHASES.reason}),
            **{table: reason for _, table, reason in reasons},
        },
    )


def printed_ranges_answer(name: str, side: RunSide, notes: Sequence[Note]) -> RangesAnswer:
    """The ranges of tables that `nsys stats` printed, with their shares of the program's own, set-up left out."""
    shares = range_shares(side)
    return RangesAnswer(
        profile=name,
        sentences=(
            say("Ranges of the program take {time} in all, setup left out.", time=time_text(shares.whole_ns)),
            *note_sentences(notes),
        ),
        health=health_rows(notes),
        has_steps=False,
        whole_ns=shares.whole_ns,
        printed=tuple(
            PrintedRangeRow(
                range=printed.name,
                instances=printed.instances,
                host_ns=printed.host_ns,
                share=shares.share(printed),
                role=shares.roles[printed.name],
            )
            for printed in side.ranges or ()
        ),
    )


def _listed(trees: Sequence[RangeTree]) -> tuple[tuple[RangeRow, ...], list[RangeRow]]:
    """The rows of each GPU, what was launched in no range last; and of very many those that are left out."""
    kept, left = list[RangeRow](), list[RangeRow]()
    for tree in trees:
        nodes = tree.nodes
        by_time = sorted(
            range(len(nodes)), key=lambda at: (-nodes[at].gpu_ns, -(nodes[at].host_ns or 0), nodes[at].depth)
        )
        kept += (nodes[position] for position in sorted(by_time[:MOST_RANGES]))
        kept.append(tree.outside)
        left += (nodes[position] for position in by_time[MOST_RANGES:])
    return tuple(kept), left


def _left_sentence(ranges: int, gpu_ns: int) -> Message:
    return say(
        "{count} more ranges, which launched {time} of GPU time themselves, are not listed; `gpuledger query` has all.",
        count=count_text(ranges),
        time=time_text(gpu_ns),
    )


def _range_sentences(tree: RangeTree) -> Iterator[Message]:
    """Which ranges launch the most GPU time."""
    own: Counter[str] = Counter()
    for node in tree.nodes:
        own[node.range or ""] += node.own_gpu_ns
    inside_ns = sum(own.values())
    whole_ns = inside_ns + tree.outside.gpu_ns
    if not tree.nodes:
        yield say("GPU {gpu}: no ranges were recorded.", gpu=tree.gpu)
        yield say("Fix: mark the program with NVTX ranges (`nvtxRangePush`, `nvtx.annotate`), and record again.")
    elif not whole_ns:
        yield say("GPU {gpu}: no GPU work in the window.", gpu=tree.gpu)
    elif not inside_ns:
        yield say("GPU {gpu}: no GPU work was launched in a range.", gpu=tree.gpu)
    else:
        largest = [(cut_label(name), time_ns) for name, time_ns in own.most_common(NAMED) if time_ns]
        yield say(
            "GPU {gpu}: {share} of {time} of GPU time was launched inside ranges, most of it in "
            "{largest} (excluding nested ranges).",
            gpu=tree.gpu,
            share=share_text(inside_ns / whole_ns),
            time=time_text(whole_ns),
            largest=names_with_shares(largest, whole_ns),
        )


def _phases_sentence(costs: PhaseCosts) -> Message:
    """What a step takes, what of it is in phases, and where the GPU is idle the longest."""
    steps = costs.steps or 1
    told = say(
        "GPU {gpu}: of {whole} {unit}, phases take {busy}, other work {other}, idle {idle}",
        gpu=costs.gpu,
        whole=time_text(round(costs.whole_ns / steps)),
        unit=say("in the window") if costs.steps is None else say("per step"),
        busy=share_text(sum(cost.time_ns for cost in costs.phases) / costs.whole_ns),
        other=share_text(costs.other_ns / costs.whole_ns),
        idle=share_text(costs.idle_ns / costs.whole_ns),
    )
    worst = max(costs.between, key=lambda place: place.idle_ns, default=None)
    if worst is None or not worst.idle_ns:
        return say("{told}.", told=told)
    where = say(
        "between {before} and {after}", before=worst.before or say("(start)"), after=worst.after or say("(end)")
    )
    if worst.is_inside:
        where = say("inside {phase}", phase=worst.before)
    return say("{told}, mostly {where} ({time}).", told=told, where=where, time=time_text(round(worst.idle_ns / steps)))
