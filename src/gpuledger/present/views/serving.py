"""The serving ledger as sentences and tables: tokens a second, what a step costs by its batch, bubbles."""

from __future__ import annotations

from operator import itemgetter

from gpuledger.analyse.serving import BASE, WAITS, Serving
from gpuledger.catalog.batches import UNKNOWN
from gpuledger.messages import Message, joined, say
from gpuledger.present.sheet import Column, Sheet, Unit, share_column
from gpuledger.present.terms import TOTAL
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import NotMeasured
from gpuledger.units import count_text, precise_time_text, share_text, three_figures, time_text

_PARTS = {
    "detokenizing": say("detokenizing"),
    "sampling": say("sampling"),
    "scheduling": say("scheduling"),
    "preparing inputs": say("preparing inputs"),
}
_TOLD = 0.005
"""What makes up less of the steps is in the table alone."""
_WAITS = 0.02
"""From this share of the window on, idle time inside steps is worth a sentence."""
_PADS = 0.05
"""From this share of rows on, padding is worth a sentence."""


def serving_tables(answer: Serving | NotMeasured) -> TableAnswer:
    """What serving costs on one GPU."""
    if isinstance(answer, NotMeasured):
        return TableAnswer((say("Not measured: {what}.", what=answer.reason),), ())
    sentences = [*headline_sentences(answer), _between_sentence(answer)]
    padding = answer.padding
    if padding is not None and padding[0] >= _PADS * padding[1]:
        figures = {"share": share_text(padding[0] / padding[1]), "rows": count_text(padding[1])}
        sentences.append(say("Of {rows} rows that decode computed in graphs, {share} are padding.", **figures))
    if answer.guesses:
        sentences.append(say("Steps compute several tokens for a request; how many the engine kept is not recorded."))
    price = _price_sentence(answer)
    shown = (_kinds_sheet(answer), _costs_sheet(answer), _between_sheet(answer))
    return TableAnswer(
        (*sentences, *([price] if price else [])), (_figures_sheet(answer), *shown, _steps_sheet(answer)), shown
    )


def headline_sentences(answer: Serving) -> list[Message]:
    """Tokens a second, what a user waits, and what a step costs."""
    return [
        _throughput_sentence(answer),
        *_latency_sentences(answer),
        _cost_sentence(answer),
        *_waits_sentences(answer),
    ]


def _throughput_sentence(answer: Serving) -> Message:
    rates = [say("{rate} decode tokens/s", rate=count_text(round(answer.per_second(answer.decode_tokens))))]
    if answer.prefill_tokens is not None:
        prefill = count_text(round(answer.per_second(answer.prefill_tokens)))
        rates.append(say("{rate} prefill tokens/s", rate=prefill))
    return say(
        "GPU {gpu}: {count} steps of {engine} in {time}: {rates}.",
        gpu=answer.gpu,
        count=count_text(len(answer.steps)),
        engine=answer.engine,
        time=time_text(answer.window_ns),
        rates=joined(", ", rates),
    )


def _latency_sentences(answer: Serving) -> list[Message]:
    told: list[Message] = []
    if answer.token_ns is not None:
        usual, slow = map(time_text, answer.token_ns)
        told.append(say("Time per output token: {usual} (median; P99 {slow}).", usual=usual, slow=slow))
    if answer.first_token_ns is not None:
        first = time_text(answer.first_token_ns)
        told.append(say("Time to first token: at least {time} (median), as queues are not recorded.", time=first))
    return told


def _cost_sentence(answer: Serving) -> Message:
    model = answer.model
    if isinstance(model, NotMeasured):
        return say("What a step costs by its batch: not fitted, {reason}.", reason=model.reason)
    terms = [
        say("{time} per {term}", time=precise_time_text(cost.each_ns), term=cost.term)
        if number or cost.term != BASE
        else precise_time_text(cost.each_ns)
        for number, cost in enumerate(model.costs)
        if cost.share >= _TOLD and cost.term != WAITS
    ]
    return say(
        "A step takes {terms} of GPU time (R² {r2}); of whole steps that the fit had not seen, half are within"
        " {error}.",
        terms=joined(" + ", terms),
        r2=f"{model.r2:.3f}",
        error=share_text(model.error),
    )


def _waits_sentences(answer: Serving) -> list[Message]:
    """Which kind of step lets the GPU wait inside it."""
    if answer.waits_ns < _WAITS * answer.window_ns:
        return []
    worst = max(answer.kinds, key=lambda kind: kind.waits_ns)
    share, time = share_text(answer.waits_ns / answer.window_ns), time_text(worst.waits_ns)
    return [
        say(
            "Inside steps the GPU is idle {share} of the time, longest in {kind} steps ({time}, median).",
            share=share,
            kind=worst.kind,
            time=time,
        )
    ]


def _between_sentence(answer: Serving) -> Message:
    share, each = share_text(answer.idle_ns / answer.window_ns), time_text(answer.idle_ns // len(answer.steps))
    if not answer.between:
        return say("Between steps the GPU is never idle.")
    return say(
        "Between steps the GPU is idle {share} of the time ({each} per step), mostly in {doing} ({part}).",
        share=share,
        each=each,
        doing=_host_words(answer.between[0]),
        part=share_text(answer.between[0][1] / answer.idle_ns),
    )


def _host_words(part: tuple[str, int]) -> str:
    return _PARTS.get(part[0], part[0])


def _price_sentence(answer: Serving) -> Message | None:
    price = answer.price_of_million(answer.decode_tokens)
    if price is None:
        return None
    return say(
        "At {price} an hour for this GPU, a million decode tokens cost {cost}, their prefill included.",
        price=three_figures(answer.gpu_hour_price or 0),
        cost=three_figures(price),
    )


def _figures_sheet(answer: Serving) -> Sheet:
    """One row, for programs."""
    token, prefill = answer.token_ns or (None, None), answer.prefill_tokens
    model = None if isinstance(answer.model, NotMeasured) else answer.model
    padding, decode = answer.padding or (None, None), answer.decode_tokens
    prefill_rate = None if prefill is None else answer.per_second(prefill)
    figures = (
        ("engine", say("Engine"), Unit.TEXT, answer.engine),
        ("steps", say("Steps"), Unit.COUNT, len(answer.steps)),
        ("window_ns", say("Time"), Unit.NS, answer.window_ns),
        ("prefill_tokens", say("Prefill tokens"), Unit.COUNT, prefill),
        ("decode_tokens", say("Decode tokens"), Unit.COUNT, decode),
        ("prefill_tokens_per_s", say("Prefill tokens/s"), Unit.MEAN, prefill_rate),
        ("decode_tokens_per_s", say("Decode tokens/s"), Unit.MEAN, answer.per_second(decode)),
        ("token_median_ns", say("Time per output token"), Unit.NS, token[0]),
        ("token_p99_ns", "P99", Unit.NS, token[1]),
        ("first_token_ns", say("Time to first token, at least"), Unit.NS, answer.first_token_ns),
        ("idle_between_ns", say("Idle between steps"), Unit.NS, answer.idle_ns),
        ("idle_inside_ns", say("Idle inside steps"), Unit.NS, answer.waits_ns),
        ("padding_rows", say("Rows of padding"), Unit.COUNT, padding[0]),
        ("graph_rows", say("Rows in graphs"), Unit.COUNT, padding[1]),
        ("fit_r2", "R²", Unit.RATIO, model and model.r2),
        ("fit_error_percent", say("Error of unseen steps"), Unit.SHARE_PERCENT, model and 100 * model.error),
        ("decode_million_price", say("Price of a million decode tokens"), Unit.RATIO, answer.price_of_million(decode)),
    )
    columns = [Column(key, name, unit) for key, name, unit, _ in figures]
    row = {key: value for key, _, _, value in figures}
    return Sheet.of(f"serving_gpu{answer.gpu}", say("Serving, GPU {gpu}", gpu=answer.gpu), columns, [row])


def _kinds_sheet(answer: Serving) -> Sheet:
    columns = (
        Column("kind", say("Phase"), Unit.TEXT),
        Column("steps", say("Steps"), Unit.COUNT),
        Column("prefill_tokens", say("Prefill tokens"), Unit.COUNT),
        Column("decode_tokens", say("Decode tokens"), Unit.COUNT),
        Column("median_ns", say("Median"), Unit.NS),
        Column("total_ns", say("Total"), Unit.NS),
        share_column("share_percent", say("of the window"), "total_ns", answer.window_ns),
        Column("idle_inside_ns", say("Idle inside"), Unit.NS, "waits_ns"),
        share_column("error_percent", say("Error of the fit"), "error"),
    )
    title = say("Steps by what they compute, GPU {gpu}", gpu=answer.gpu)
    return Sheet.of(f"serving_kinds_gpu{answer.gpu}", title, columns, answer.kinds)


def _costs_sheet(answer: Serving) -> Sheet:
    model = answer.model
    return Sheet.of(
        f"serving_costs_gpu{answer.gpu}",
        say("What a step costs by its batch, GPU {gpu}", gpu=answer.gpu),
        (
            Column("term", say("For each"), Unit.TEXT),
            Column("each_ns", say("Time"), Unit.MEAN_NS),
            share_column("share_percent", say("of the steps"), "share"),
        ),
        () if isinstance(model, NotMeasured) else model.costs,
        why_empty=model.reason if isinstance(model, NotMeasured) else "",
    )


def _between_sheet(answer: Serving) -> Sheet:
    whole = answer.idle_ns
    return Sheet.of(
        f"serving_between_gpu{answer.gpu}",
        say("What the host did while the GPU was idle between steps, GPU {gpu}", gpu=answer.gpu),
        (
            Column("doing", say("Host"), Unit.TEXT, _host_words),
            Column("time_ns", say("Time"), Unit.NS, itemgetter(1)),
            Column("per_step_ns", say("Per step"), Unit.NS, lambda part: part[1] // len(answer.steps)),
            share_column("share_percent", say("of the window"), itemgetter(1), answer.window_ns),
        ),
        answer.between,
        foot=({"doing": TOTAL, "time_ns": whole, "per_step_ns": whole // len(answer.steps)},) if whole else (),
    )


def _steps_sheet(answer: Serving) -> Sheet:
    def known(value: int) -> int | None:
        return None if value == UNKNOWN else value

    columns = (
        Column("step", say("Step"), Unit.ID),
        Column("start_ns", say("Start"), Unit.INSTANT_NS, lambda step: step.start_ns - answer.zero_ns),
        Column("end_ns", say("End"), Unit.INSTANT_NS, lambda step: step.end_ns - answer.zero_ns),
        Column("length_ns", say("Length"), Unit.NS),
        Column("prefill_requests", say("Prefill requests"), Unit.COUNT, "batch.prefill_requests"),
        Column("prefill_tokens", say("Prefill tokens"), Unit.COUNT, lambda step: known(step.batch.prefill_tokens)),
        Column("decode_requests", say("Decode requests"), Unit.COUNT, "batch.decode_requests"),
        Column("decode_tokens", say("Decode tokens"), Unit.COUNT, "batch.decode_tokens"),
        Column("graph_rows", say("Rows in graphs"), Unit.COUNT, lambda step: known(step.padded)),
        Column("idle_ns", say("Idle before"), Unit.NS),
        Column("idle_inside_ns", say("Idle inside"), Unit.NS, "waits_ns"),
        Column("predicted_ns", say("Predicted"), Unit.NS),
    )
    title = say("Every step and its batch, GPU {gpu}", gpu=answer.gpu)
    return Sheet.of(f"serving_steps_gpu{answer.gpu}", title, columns, answer.steps)
