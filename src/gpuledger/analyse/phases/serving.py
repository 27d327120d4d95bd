"""The serving ledger: steps whose names say their batch in; tokens, what each costs, and idle time between steps out.

A step's GPU time is from the start of the first work launched in its range, on the stream that does most, to the end of
the last; up to the next step's there is a bubble, in which the GPU is idle or does what no step launched. What
the GPU computes in a step is fitted as a sum of what its batch costs: a base, and so much for each token and request of
prefill and of decode, none of them negative. For how long the host lets it wait inside a step no batch says: as long as
in steps that compute alike. How good both together are, steps say that the fit had not seen.

Tokens per second are those of the steps over the time from the first step's start to the last one's end. A request that
decodes gets a token from every step that decodes, so the time from one such step's end to the next is what a user waits
for it. When requests arrived no engine writes down: time to first token is that of the step which reads the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from gpuledger.catalog.batches import UNKNOWN, Batch, batch_of, scheduler_part
from gpuledger.ledger.activity import GRAPH_FAMILY, Activities
from gpuledger.ledger.device import Device
from gpuledger.ledger.launched_in import launching_range, main_process
from gpuledger.ledger.ranges import spans_of_time, thread
from gpuledger.messages import say
from gpuledger.rows import Gpu, Label, Row, Unit
from gpuledger.trace import sweep
from gpuledger.trace.keys import Positions, RowsByKey, group
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.spans import Ints, Spans, covered, difference, furthest, intersection, parents, total, union
from gpuledger.trace.statistics import median
from gpuledger.trace.tables import Rows, Table

Floats = NDArray[np.float64]

_FOLDS: Final = 5
FEWEST_STEPS: Final = 20
"""Of fewer steps no cost is fitted."""
_ROUNDS: Final = 5
BASE: Final = say("step")
WAITS: Final = say("idle inside a step")
_ALIKE: Final = 5
"""So many steps of a kind that compute alike say how long the GPU waits in one."""
_USUAL: Final = 3.0
"""Steps that are off by more than so many times the median count less in the fit: a first call, a hiccup."""


class ServingRow(Row, frozen=True):
    """What serving costs on one GPU, over the time from the first step's start to the last one's end."""

    gpu: Gpu
    engine: Annotated[str, Label(say("Engine"))]
    steps: Annotated[int, Label(say("Steps"), Unit.COUNT)]
    window_ns: Annotated[int, Label(say("Time"), Unit.NS)]
    prefill_tokens: Annotated[int | None, Label(say("Prefill tokens"), Unit.COUNT)]
    decode_tokens: Annotated[int, Label(say("Decode tokens"), Unit.COUNT)]
    prefill_tokens_per_s: Annotated[float | None, Label(say("Prefill tokens/s"), Unit.MEAN)]
    decode_tokens_per_s: Annotated[float, Label(say("Decode tokens/s"), Unit.MEAN)]
    token_median_ns: Annotated[
        int | None,
        Label(say("Time per output token"), Unit.NS, meaning="from one token of a request to its next: the median"),
    ]
    token_p99_ns: Annotated[int | None, Label("P99", Unit.NS, meaning="what 1 % of tokens take longer than")]
    first_token_ns: Annotated[
        int | None,
        Label(
            say("Time to first token, at least"),
            Unit.NS,
            meaning="from the start of a step that reads prompts, or their last parts, to its end: median of requests",
        ),
    ]
    idle_between_ns: Annotated[int, Label(say("Idle between steps"), Unit.NS)]
    idle_inside_ns: Annotated[int, Label(say("Idle inside steps"), Unit.NS)]
    padding_rows: Annotated[
        int | None, Label(say("Rows of padding"), Unit.COUNT, meaning="rows of decode that only fill up graphs")
    ]
    graph_rows: Annotated[int | None, Label(say("Rows in graphs"), Unit.COUNT, meaning="that decode computes")]
    fit_r2: Annotated[float | None, Label("R²", Unit.RATIO, meaning="of the fit of what the GPU computes in a step")]
    fit_error_share: Annotated[
        float | None,
        Label(say("Error of unseen steps"), Unit.SHARE, meaning="median, of whole steps that the fit had not seen"),
    ]
    million_price: Annotated[float | None, Label(say("Price of a million decode tokens"), Unit.RATIO)]


class BatchKindRow(Row, frozen=True):
    """The steps that read prompts, those that decode, or those that do both."""

    gpu: Gpu
    kind: Annotated[str, Label(say("Phase"))]
    steps: Annotated[int, Label(say("Steps"), Unit.COUNT)]
    prefill_tokens: Annotated[int | None, Label(say("Prefill tokens"), Unit.COUNT)]
    decode_tokens: Annotated[int, Label(say("Decode tokens"), Unit.COUNT)]
    median_ns: Annotated[int, Label(say("Median"), Unit.NS)]
    total_ns: Annotated[int, Label(say("Total"), Unit.NS)]
    share: Annotated[float, Label(say("of the window"), Unit.SHARE)]
    idle_inside_ns: Annotated[int, Label(say("Idle inside"), Unit.NS, meaning="median of the steps")]
    error_share: Annotated[
        float | None, Label(say("Error of the fit"), Unit.SHARE, meaning="median, of steps that it had not seen")
    ]


class BatchCostRow(Row, frozen=True):
    """One term of the fit: what a step costs for each of these."""

    gpu: Gpu
    term: Annotated[str, Label(say("For each"))]
    each_ns: Annotated[float, Label(say("Time"), Unit.MEAN_NS)]
    share: Annotated[float, Label(say("of the steps"), Unit.SHARE, meaning="of the time of all steps")]


class BetweenStepsRow(Row, frozen=True):
    """What the host did while the GPU was idle between steps."""

    gpu: Gpu
    doing: Annotated[str, Label(say("Host"))]
    time_ns: Annotated[int, Label(say("Time"), Unit.NS, is_summed=True)]
    per_step_ns: Annotated[int, Label(say("Per step"), Unit.NS, is_summed=True)]
    share: Annotated[float, Label(say("of the window"), Unit.SHARE, is_summed=True)]


class BatchRow(Row, frozen=True):
    """One step of an engine, and its batch. It starts with its first work on the GPU."""

    gpu: Gpu
    step: Annotated[int, Label(say("Step"), Unit.ID)]
    start_ns: Annotated[int, Label(say("Start"), Unit.INSTANT_NS)]
    end_ns: Annotated[int, Label(say("End"), Unit.INSTANT_NS)]
    length_ns: Annotated[int, Label(say("Length"), Unit.NS)]
    prefill_requests: Annotated[int, Label(say("Prefill requests"), Unit.COUNT)]
    prefill_tokens: Annotated[int | None, Label(say("Prefill tokens"), Unit.COUNT)]
    decode_requests: Annotated[int, Label(say("Decode requests"), Unit.COUNT)]
    decode_tokens: Annotated[int, Label(say("Decode tokens"), Unit.COUNT)]
    graph_rows: Annotated[
        int | None,
        Label(say("Rows in graphs"), Unit.COUNT, meaning="that decode computes, padding included"),
    ]
    idle_ns: Annotated[int, Label(say("Idle before"), Unit.NS)]
    idle_inside_ns: Annotated[int, Label(say("Idle inside"), Unit.NS)]
    predicted_ns: Annotated[int | None, Label(say("Predicted"), Unit.NS, meaning="by the fit, made of other steps")]


class StepModel(Struct, frozen=True):
    """What a step costs by its batch, and how far that holds."""

    costs: tuple[BatchCostRow, ...]
    r2: float  # of what the GPU computes
    error: float  # the median error of whole steps that the fit had not seen, as a share of their time


class Serving(Struct, frozen=True):
    """The serving ledger of one GPU."""

    figures: ServingRow
    kinds: tuple[BatchKindRow, ...]
    model: StepModel | NotMeasured
    between: tuple[BetweenStepsRow, ...]
    """The longest first."""
    steps: tuple[BatchRow, ...]
    gpu_hour_price: float | None = None

    @property
    def costs(self) -> tuple[BatchCostRow, ...]:
        """What a step costs by its batch; none where that was not fitted."""
        return () if isinstance(self.model, NotMeasured) else self.model.costs

    @property
    def guesses(self) -> bool:
        """Whether several tokens are computed for a request in one step, of which the engine may drop some."""
        return any(step.decode_tokens > step.decode_requests for step in self.steps)


_NO_BATCHES: Final = say(
    "no range around GPU work says the batch of a step, as execute_context_1(512)_generation_8(8) and step[DECODE bs=8]"
    " do; torch.profiler records those of vLLM and SGLang, nsys needs --trace=nvtx"
)


def serving(trace: Trace, device: Device, gpu_hour_price: float | None = None) -> Serving | NotMeasured:
    """What serving costs on one GPU; not measured where no step of the window says its batch."""
    own = device.work.of(device.gpu)
    found = _batched_steps(trace, device, own)
    if found is None:
        return NotMeasured(_NO_BATCHES)
    engine, ranges, batches, member = found
    starts, ends = _gpu_times(own, member, len(batches))
    stretches = device.ledger.busy.stretches
    inside = np.flatnonzero((starts >= stretches.start_ns[0]) & (ends <= stretches.end_ns[-1]))
    if not len(inside):
        return NotMeasured(_NO_BATCHES)
    inside = inside[np.argsort(starts[inside], kind="stable")]
    start, end, chosen = starts[inside], ends[inside], [batches[position] for position in inside.tolist()]
    before = np.append(start[0], furthest(end)[:-1])
    idle = covered(device.ledger.busy.idle, np.minimum(before, start), start)
    padded = _padded(trace, own, member, batches)[inside]
    waits = covered(device.ledger.busy.idle, start, end)
    model, predicted = _model(device.gpu, chosen, padded, end - start, waits)
    columns = (start, end, padded, idle, waits, np.rint(predicted).astype(np.int64))
    steps = tuple(
        BatchRow(
            gpu=device.gpu,
            step=number,
            start_ns=begun - device.zero_ns,
            end_ns=ended - device.zero_ns,
            length_ns=ended - begun,
            prefill_requests=batch.prefill_requests,
            prefill_tokens=_known(batch.prefill_tokens),
            decode_requests=batch.decode_requests,
            decode_tokens=batch.decode_tokens,
            graph_rows=_known(rows),
            idle_ns=lost,
            idle_inside_ns=waited,
            predicted_ns=_known(guess),
        )
        for number, (batch, (begun, ended, rows, lost, waited, guess)) in enumerate(
            zip(chosen, zip(*(column.tolist() for column in columns), strict=True), strict=True)
        )
    )
    opened = (np.minimum(ranges["start_ns"][inside], start) - device.zero_ns).tolist()
    reading = [(step.end_ns - begun, step.prefill_requests) for step, begun in zip(steps, opened, strict=True)]
    between = intersection(device.ledger.busy.idle, union(np.minimum(before, start), start))
    window_ns = int(furthest(end)[-1] - start[0])
    read, written = _tokens_read(steps), sum(step.decode_tokens for step in steps)
    usual_ns, slow_ns = _token_times(steps) or (None, None)
    in_graphs = [(step.graph_rows, step.decode_requests) for step in steps if step.graph_rows]
    has_price, fit = gpu_hour_price is not None and written, None if isinstance(model, NotMeasured) else model
    return Serving(
        figures=ServingRow(
            gpu=device.gpu,
            engine=engine,
            steps=len(steps),
            window_ns=window_ns,
            prefill_tokens=read,
            decode_tokens=written,
            prefill_tokens_per_s=None if read is None else read / window_ns * 1e9,
            decode_tokens_per_s=written / window_ns * 1e9,
            token_median_ns=usual_ns,
            token_p99_ns=slow_ns,
            first_token_ns=next(iter(_weighted(reading, 0.5)), None),
            idle_between_ns=sum(step.idle_ns for step in steps),
            idle_inside_ns=sum(step.idle_inside_ns for step in steps),
            padding_rows=sum(rows - requests for rows, requests in in_graphs) if in_graphs else None,
            graph_rows=sum(rows for rows, _ in in_graphs) if in_graphs else None,
            fit_r2=None if fit is None else fit.r2,
            fit_error_share=None if fit is None else fit.error,
            million_price=(gpu_hour_price or 0) * window_ns / 3600e9 / written * 1e6 if has_price else None,
        ),
        kinds=_kinds(device.gpu, steps, window_ns),
        model=model,
        between=tuple(
            BetweenStepsRow(device.gpu, doing, time, time // len(steps), time / window_ns)
            for doing, time in _host_between(trace, device, ranges.at(inside), between)
        ),
        steps=steps,
        gpu_hour_price=gpu_hour_price,
    )


def _known(value: int) -> int | None:
    return None if value == UNKNOWN else value


def _tokens_read(steps: Sequence[BatchRow]) -> int | None:
    """None where the name of any step does not say it."""
    tokens = [step.prefill_tokens for step in steps if step.prefill_tokens is not None]
    return sum(tokens) if len(tokens) == len(steps) else None


def _gpu_times(own: Activities, member: Positions, count: int) -> tuple[Ints, Ints]:
    """When each step begins and ends on the GPU: on the stream that does most, as others run ahead while it waits."""
    held = np.flatnonzero(member >= 0)
    by_stream = RowsByKey.of(own.stream[held])
    main, _ = max(by_stream, key=lambda entry: int((own.end_ns - own.start_ns)[held[entry[1]]].sum()))
    far = np.iinfo(np.int64).max
    starts = sweep.fold("least", np.where(own.stream == main, member, -1), own.start_ns, np.full(count, far))
    anywhere = sweep.fold("least", member, own.start_ns, np.full(count, far))
    return np.where(starts == far, anywhere, starts), sweep.fold("most", member, own.end_ns, np.full(count, -far))


def _batched_steps(trace: Trace, device: Device, own: Activities) -> tuple[str, Rows, list[Batch], Positions] | None:
    """The engine; ranges that are called after a batch and launched something, their batches; which holds which work.

    Where an engine writes two such ranges for a step, one in the other, the one that says more counts.
    """
    ranges = spans_of_time(trace)
    ranges = ranges.where(ranges["pid"] == main_process(own)) if len(own) else ranges
    known = trace.strings.each(ranges.codes("name"), lambda name: batch_of(name) is not None, np.bool_)
    ranges = ranges.where(known)
    ranges = ranges.at(np.lexsort((-ranges["end_ns"], ranges["start_ns"])))
    said = [batch for name in ranges.texts("name") if (batch := batch_of(name or "")) is not None]
    details = np.array([batch.context_tokens != UNKNOWN for batch in said])
    best: tuple[int, Rows, list[Batch], Positions] | None = None
    for _detail, rows in RowsByKey.of(details) if len(said) else ():
        of_detail = launching_range(own, device.host, ranges.at(rows))
        used = np.unique(of_detail[of_detail >= 0])
        if len(used) and (best is None or len(used) * 10 >= best[0] * 9):
            number = np.full(len(rows) + 1, -1)  # -1 stays -1: it is the last
            number[used] = np.arange(len(used))
            best = len(used), ranges.at(rows[used]), [said[row] for row in rows[used].tolist()], number[of_detail]
    if best is None:
        return None
    # SGLang is also made to write what vLLM writes
    return next((batch.engine for batch in said if batch.engine != "vLLM"), "vLLM"), *best[1:]


def _padded(trace: Trace, own: Activities, member: Positions, batches: list[Batch]) -> Ints:
    """The rows that decode computes in each step: as its name says, else the largest batch seen with its graph."""
    padded = np.array([batch.padded for batch in batches])
    decodes = np.array([batch.decode_requests * (not batch.prefill_requests) for batch in batches])
    graph, row, kernels, graphs = np.full(len(own), -1), own.row, trace[Table.KERNELS], trace[Table.GRAPHS]
    whole = own.family == own.families.index(GRAPH_FAMILY)
    graph[whole] = graphs["graph_exec"][row[whole]]
    nodes = (own.graph_node >= 0) & (own.family >= 0) & ~whole
    graph[nodes] = kernels["graph"][row[nodes]]
    of_step = sweep.fold("most", member, graph, np.full(len(batches), -1))
    seen = np.flatnonzero((of_step >= 0) & (padded < 0) & (decodes > 0))
    if len(seen):
        _, number = group(of_step[seen])
        padded[seen] = sweep.fold("most", number, decodes[seen], np.zeros(len(seen), np.int64))[number]
    return padded


def _model(
    gpu: int, batches: list[Batch], padded: Ints, length: Ints, waits: Ints
) -> tuple[StepModel | NotMeasured, Floats]:
    """The fit, and what it says of each step when made without it; UNKNOWN where there is none."""
    terms, work = _terms(batches, padded), length - waits
    said = np.array([batch.prefill_tokens != UNKNOWN for batch in batches]) & (work > 0)
    names, design = list(terms), np.column_stack(list(terms.values()))
    distinct_batches, predicted = len(set(map(tuple, design[said].tolist()))), np.full(len(length), float(UNKNOWN))
    if (count := int(said.sum())) < FEWEST_STEPS:
        few = say("{count} steps say their batch; a fit needs {needed}", count=count, needed=FEWEST_STEPS)
        return NotMeasured(few), predicted
    if distinct_batches <= len(names) + 1:
        alike = say("the steps do not vary enough: {count} different batches", count=distinct_batches)
        return NotMeasured(alike), predicted
    kinds = np.array([2 * (batch.prefill_requests > 0) + (batch.decode_requests > 0) for batch in batches])
    for fold in range(_FOLDS):
        held_out = said & (np.arange(len(length)) % _FOLDS == fold)
        seen = said & ~held_out
        predicted[held_out] = design[held_out] @ _fitted(design[seen], work[seen])
        for kind in np.unique(kinds[held_out]):
            asked, like = held_out & (kinds == kind), seen & (kinds == kind)
            like = like if like.any() else seen
            predicted[asked] += _waits_alike(predicted[asked], work[like], waits[like])
    fitted, computed, taken = _fitted(design[said], work[said]), work[said], length[said]
    off = computed - design[said] @ fitted
    spread = float(((computed - computed.mean()) ** 2).sum())
    each = dict(zip(names, fitted.tolist(), strict=True))
    shares = {name: float((terms[name][said] * cost).sum() / taken.sum()) for name, cost in each.items()}
    each[WAITS], shares[WAITS] = float(waits[said].mean()), float(waits[said].sum() / taken.sum())
    costs = tuple(BatchCostRow(gpu, name, cost, shares[name]) for name, cost in each.items() if cost)
    error = median(np.abs(predicted[said] - taken) / taken)
    return StepModel(costs, 1 - float((off**2).sum()) / spread if spread else 1.0, error), predicted


def _waits_alike(asked: Floats, work: Ints, waits: Ints) -> Floats:
    """How long the GPU waits in steps that compute so long: the median of those that come closest."""
    order = np.argsort(work, kind="stable")
    count = min(_ALIKE, len(work))
    first = np.clip(np.searchsorted(work[order], asked) - count // 2, 0, len(work) - count)
    waited: Floats = np.median(waits[order][first[:, None] + np.arange(count)], axis=1)
    return waited


def _terms(batches: list[Batch], padded: Ints) -> dict[str, Floats]:
    """What a step may cost something for, by step; only what varies, and not twice."""

    def column(name: str) -> Floats:
        return np.array([getattr(batch, name) for batch in batches], np.float64)

    prefill, decode = column("prefill_tokens"), column("decode_tokens")
    candidates = {
        BASE: np.ones(len(batches)),
        say("prefill token"): prefill,
        say("decode token"): decode,
        say("step with prefill"): (prefill > 0).astype(np.float64),
        say("prefill request"): column("prefill_requests"),
        say("decode request"): column("decode_requests"),
        say("row of the graph"): np.where(padded > 0, padded, decode),
        say("token of context"): column("context_tokens"),
        say("pair of tokens in prefill's attention"): column("pairs"),
    }
    kept: dict[str, Floats] = {}
    for name, values in candidates.items():
        columns = np.column_stack([each / max(each.max(), 1.0) for each in (*kept.values(), values)])
        if (values >= 0).all() and np.linalg.matrix_rank(columns, 1e-6) > len(kept):
            kept[name] = values
    return kept


def _fitted(design: Floats, length: Ints) -> Floats:
    """What each term costs: least squares of relative errors, none negative, unusual steps counted less."""
    scale: Floats = np.maximum(design.max(axis=0), 1.0) / median(length)
    relative, weight, costs = design / length[:, None] / scale, np.ones(len(length)), np.zeros(design.shape[1])
    for _ in range(_ROUNDS):
        costs = non_negative(relative * weight[:, None], weight)
        off = np.abs(1 - relative @ costs)
        usual = max(_USUAL * median(off), 1e-9)
        weight = np.sqrt(np.minimum(1.0, usual / np.maximum(off, 1e-12)))
    return costs / scale


def non_negative(design: Floats, wanted: Floats) -> Floats:
    """Least squares without negative coefficients: the most negative is taken out until there is none."""
    costs, used = np.zeros(design.shape[1]), np.ones(design.shape[1], np.bool_)
    while used.any():
        costs[:] = 0
        costs[used] = np.linalg.lstsq(design[:, used], wanted, rcond=None)[0]
        if (costs >= 0).all():
            return costs
        used[costs.argmin()] = False
    return np.zeros_like(costs)


def _host_between(trace: Trace, device: Device, steps: Rows, idle: Spans) -> tuple[tuple[str, int], ...]:
    """What the thread of the engine did meanwhile: parts of an engine by their names, the rest by cause."""
    numbers = thread(steps)
    engine = max(RowsByKey.of(numbers), key=lambda entry: len(entry[1]))[0]
    ranges = trace[Table.RANGES]
    ranges = ranges.where((thread(ranges) == engine) & (ranges["end_ns"] > ranges["start_ns"]))
    parts: list[str] = ["", *dict.fromkeys(map(scheduler_part, filter(None, ranges.texts("name"))))]
    part = trace.strings.each(ranges.codes("name"), lambda name: parts.index(scheduler_part(name)), np.int8)
    ranges, part = ranges.where(part > 0), part[part > 0]
    start, end = ranges["start_ns"], ranges["end_ns"]
    held = covered(idle, start, end)
    inside, around = held.copy(), parents(start, end, np.zeros(len(start), np.int64))
    np.subtract.at(inside, around[around >= 0], held[around >= 0])
    sums = sweep.sums(part.astype(np.intp), inside, len(parts)).tolist()
    doing: dict[str, int] = {_PARTS.get(name, name): time for name, time in zip(parts[1:], sums[1:], strict=True)}
    rest = difference(idle, union(start, end))
    number = np.flatnonzero(device.host.threads == engine)
    if len(number) and len(rest):
        for cause, time in device.host.thread(int(number[0])).split(rest.start_ns, rest.end_ns).items():
            doing[cause.label] = doing.get(cause.label, 0) + int(time.sum())
    elif len(rest):
        doing[say("not recorded")] = total(rest)
    return tuple(sorted(((name, time) for name, time in doing.items() if time > 0), key=lambda entry: -entry[1]))


_PARTS: Final = {
    "detokenizing": say("detokenizing"),
    "sampling": say("sampling"),
    "scheduling": say("scheduling"),
    "preparing inputs": say("preparing inputs"),
}
"""Parts of an engine, as `scheduler_part` calls them, in words that can be translated."""

KINDS: Final = ("prefill", "decode", say("mixed"))


def _kinds(gpu: int, steps: tuple[BatchRow, ...], window_ns: int) -> tuple[BatchKindRow, ...]:
    kinds = []
    for reads, writes, kind in ((True, False, KINDS[0]), (False, True, KINDS[1]), (True, True, KINDS[2])):
        of_kind = [step for step in steps if (step.prefill_requests > 0, step.decode_requests > 0) == (reads, writes)]
        if of_kind:
            lengths = np.array([step.length_ns for step in of_kind])
            off = [abs(step.predicted_ns / step.length_ns - 1) for step in of_kind if step.predicted_ns is not None]
            kinds.append(
                BatchKindRow(
                    gpu=gpu,
                    kind=kind,
                    steps=len(of_kind),
                    prefill_tokens=_tokens_read(of_kind),
                    decode_tokens=sum(step.decode_tokens for step in of_kind),
                    median_ns=round(median(lengths)),
                    total_ns=int(lengths.sum()),
                    share=int(lengths.sum()) / window_ns,
                    idle_inside_ns=round(median(np.array([step.idle_inside_ns for step in of_kind]))),
                    error_share=median(np.array(off)) if off else None,
                )
            )
    return tuple(kinds)


def _weighted(waits: list[tuple[int, int]], *shares: float) -> list[int]:
    """Of times and how often each counts, what so large a share is not above; empty where nothing counts."""
    times, counts = np.array(sorted(wait for wait in waits if wait[1] > 0) or [(0, 0)], np.int64).T
    up_to = np.cumsum(counts)
    return [int(times[np.searchsorted(up_to, share * up_to[-1])]) for share in shares] if up_to[-1] else []


def _token_times(steps: tuple[BatchRow, ...]) -> tuple[int, int] | None:
    """From token to token: those that decode on since the last step that did, those that join since their prompt's."""
    waits, read = list[tuple[int, int]](), list[tuple[int, int]]()
    last_ns, decoding = 0, 0
    for step in steps:
        if step.decode_requests > 0:
            waits.append((step.end_ns - last_ns, min(step.decode_requests, decoding)))
            joining = max(step.decode_requests - decoding, 0)
            for ended, requests in reversed(read):  # the last that read: of a prompt in parts, the last part
                waits.append((step.end_ns - ended, min(requests, joining)))
                joining -= min(requests, joining)
            last_ns, decoding, read = step.end_ns, step.decode_requests, []
        read.append((step.end_ns, step.prefill_requests))
    usual = _weighted(waits, 0.5, 0.99)
    return (usual[0], usual[1]) if usual else None
