"""The steps of each GPU: how long they take, how they differ, and what those of a server cost by their batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from gpuledger.analyse.phases.serving import (
    BASE,
    WAITS,
    BatchCostRow,
    BatchKindRow,
    BatchRow,
    BetweenStepsRow,
    Serving,
    ServingRow,
    StepModel,
    serving,
)
from gpuledger.analyse.phases.step_summary import (
    LevelRow,
    PrefillRow,
    StepRow,
    UnusualStepRow,
    UsualStepRow,
    level_rows,
    phase_times,
    step_books,
    unusual_steps,
    usual_step,
)
from gpuledger.analyse.utilization.use_rows import MeanUseRow, step_uses
from gpuledger.answers.one_gpu import sampled_use
from gpuledger.ledger.device import Device
from gpuledger.ledger.step_variation import Variation, variation
from gpuledger.messages import Message, joined, say
from gpuledger.present.views.answer import Answer, health_rows, note_sentences, reasons
from gpuledger.present.views.words import largest_line_sentence
from gpuledger.rows import Label, Row, labels_of
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.units import count_text, precise_time_text, share_text, three_figures, time_text

_TOLD: Final = 0.005
"""What makes up less of the steps is in the table alone."""
_WAITS: Final = 0.02
"""From this share of the window on, idle time inside steps is worth a sentence."""
_PADS: Final = 0.05
"""From this share of rows on, padding is worth a sentence."""


class StepsAnswer(Answer, frozen=True, kw_only=True, tag="gpuledger.steps/1"):
    """The steps of each GPU; the first tables are there where steps say their batch, as those of a server do."""

    sample_period_ns: int | None
    """From one sample of the GPU to the next; null: it was not sampled."""
    serving: Annotated[tuple[ServingRow, ...], Label(say("Serving"))]
    batch_kinds: Annotated[tuple[BatchKindRow, ...], Label(say("Steps by what they compute"))]
    batch_costs: Annotated[tuple[BatchCostRow, ...], Label(say("What a step costs by its batch"))]
    between_steps: Annotated[
        tuple[BetweenStepsRow, ...], Label(say("What the host did while the GPU was idle between steps"))
    ]
    batches: Annotated[tuple[BatchRow, ...], Label(say("Every step and its batch"))]
    by_gpu: Annotated[tuple[UsualStepRow, ...], Label(say("Steps"))]
    levels: Annotated[tuple[LevelRow, ...], Label(say("What repeats"))]
    phases: Annotated[tuple[PrefillRow, ...], Label(say("Prefill and decode"))]
    unusual: Annotated[tuple[UnusualStepRow, ...], Label(say("Unusual steps"))]
    steps: Annotated[tuple[StepRow, ...], Label(say("Every step"))]
    use: Annotated[tuple[MeanUseRow, ...], Label(say("GPU utilization by step"))]

    def title(self, table: str) -> str:
        if table != "use" or self.sample_period_ns is None:
            return super().title(table)
        return say(
            "GPU utilization by step, from samples every {period}, idle time included",
            period=time_text(self.sample_period_ns),
        )

    def shown(self) -> list[str]:
        """Sentences say what is in the row of serving, and steps are listed once."""
        return [name for name in super().shown() if name not in ("serving", "batches")]


def steps_answer(
    name: str, trace: Trace, devices: Sequence[Device], gpu_hour_price: float | None = None
) -> StepsAnswer:
    """How long a step takes, how steps differ, and what serving costs where they say their batch."""
    served = [serving(trace, device, gpu_hour_price) for device in devices]
    known = [of_gpu for of_gpu in served if isinstance(of_gpu, Serving)]
    variations = [variation(device) for device in devices]
    varied = [(device, steps) for device, steps in zip(devices, variations, strict=True) if steps is not None]
    sampled = [(device, use) for device, _ in varied if (use := sampled_use(trace, device)) is not None]
    return StepsAnswer(
        profile=name,
        zero_ns=devices[0].zero_ns,
        sentences=(
            *(line for of_gpu in zip(devices, served, variations, strict=True) for line in _sentences(*of_gpu)),
            *note_sentences(trace.health),
        ),
        not_measured=reasons(serving=served, batch_costs=[of_gpu.model for of_gpu in known]),
        health=health_rows(trace.health),
        sample_period_ns=next((kernels.period_ns for _, (kernels, _) in sampled), None),
        serving=tuple(of_gpu.figures for of_gpu in known),
        batch_kinds=tuple(row for of_gpu in known for row in of_gpu.kinds),
        batch_costs=tuple(row for of_gpu in known for row in of_gpu.costs),
        between_steps=tuple(row for of_gpu in known for row in of_gpu.between),
        batches=tuple(row for of_gpu in known for row in of_gpu.steps),
        by_gpu=tuple(usual_step(device, steps) for device, steps in varied),
        levels=tuple(row for device in devices for row in level_rows(device)),
        phases=tuple(row for device, steps in varied for row in phase_times(device, steps)),
        unusual=tuple(row for device, steps in varied for row in unusual_steps(device, steps)),
        steps=tuple(row for device, steps in varied for row in step_books(device, steps)),
        use=tuple(row for device, (_, stretches) in sampled for row in step_uses(device, stretches)),
    )


def batch_tables(serving: Serving) -> list[tuple[str, str, type[Row], tuple[Row, ...]]]:
    """The tables about steps by their batch for a page: each by name, with its title and its rows."""
    labels = labels_of(StepsAnswer)
    tables: tuple[tuple[str, type[Row], tuple[Row, ...]], ...] = (
        ("batch_kinds", BatchKindRow, serving.kinds),
        ("batch_costs", BatchCostRow, serving.costs),
        ("between_steps", BetweenStepsRow, serving.between),
    )
    return [(name, labels[name].text, kind, rows) for name, kind, rows in tables]


def _sentences(device: Device, served: Serving | NotMeasured, steps: Variation | None) -> Iterator[Message]:
    if isinstance(served, Serving):
        yield from serving_sentences(served)
    yield from _step_sentences(device, steps)


def _step_sentences(device: Device, steps: Variation | None) -> Sequence[Message]:
    """How long a step takes, how steady that is, and what most of it is."""
    if steps is None:
        missing = say("GPU {gpu}: no steps found in {window}.", gpu=device.gpu, window=time_text(device.steady_ns))
        return missing, say("Fix: define the step with --step-range=REGEX or --step-kernel=REGEX.")
    busy_ns = sum(time for line, time in device.line_ns.items() if not line.is_idle)
    figures = {
        "gpu": device.gpu,
        "median": time_text(steps.median_ns),
        "busy": share_text(busy_ns / max(device.steady_ns, 1)),
        "source": steps.steps.source,
    }
    sentences = [say("GPU {gpu}: one step of {median}, GPU busy {busy} ({source}).", **figures)]
    if device.step_count > 1:
        sentences = [
            say(
                "GPU {gpu}: {count} steps of {median} (median; P10 {low}, P90 {high}), GPU busy {busy} ({source}).",
                **figures,
                count=count_text(device.step_count),
                low=time_text(steps.p10_ns),
                high=time_text(steps.p90_ns),
            )
        ]
    if steps.outliers:
        worst = max(steps.outliers, key=lambda outlier: outlier.length_ns)
        sentences.append(
            say(
                "Unusual steps: {count}. The longest, step {step}, takes {length}: {excess} more {line} than usual.",
                count=count_text(len(steps.outliers)),
                step=worst.step,
                length=time_text(worst.length_ns),
                excess=time_text(worst.excess_ns),
                line=worst.line.label,
            )
        )
    if steps.periodic is not None:
        sentences.append(
            say(
                "Every {count} steps one takes {time} longer.",
                count=count_text(steps.periodic.every),
                time=time_text(steps.periodic.more_ns // len(steps.periodic.steps)),
            )
        )
    if steps.drifts and steps.drift is not None:
        sentences.append(
            say(
                "Steps drift: {early} in the first third, {late} in the last, most of it {line}.",
                early=time_text(steps.drift.early_ns),
                late=time_text(steps.drift.late_ns),
                line=steps.drift.line.label,
            )
        )
    return [*sentences, largest_line_sentence(device)]


def serving_sentences(serving: Serving) -> list[Message]:
    """What serving costs on one GPU."""
    figures = serving.figures
    sentences = [*headline_sentences(serving), _between_sentence(serving)]
    if figures.padding_rows is not None and figures.graph_rows and figures.padding_rows >= _PADS * figures.graph_rows:
        sentences.append(
            say(
                "Of {rows} rows that decode computed in graphs, {share} are padding.",
                share=share_text(figures.padding_rows / figures.graph_rows),
                rows=count_text(figures.graph_rows),
            )
        )
    if serving.guesses:
        sentences.append(say("Steps compute several tokens for a request; how many the engine kept is not recorded."))
    if figures.million_price is not None:
        sentences.append(
            say(
                "At {price} an hour for this GPU, a million decode tokens cost {cost}, their prefill included.",
                price=three_figures(serving.gpu_hour_price or 0),
                cost=three_figures(figures.million_price),
            )
        )
    return sentences


def headline_sentences(serving: Serving) -> list[Message]:
    """Tokens a second, what a user waits, and what a step costs."""
    return [
        _throughput_sentence(serving.figures),
        *_latency_sentences(serving.figures),
        _cost_sentence(serving.model),
        *_waits_sentences(serving),
    ]


def _throughput_sentence(figures: ServingRow) -> Message:
    rates = [say("{rate} decode tokens/s", rate=count_text(round(figures.decode_tokens_per_s)))]
    if figures.prefill_tokens_per_s is not None:
        rates.append(say("{rate} prefill tokens/s", rate=count_text(round(figures.prefill_tokens_per_s))))
    return say(
        "GPU {gpu}: {count} steps of {engine} in {time}: {rates}.",
        gpu=figures.gpu,
        count=count_text(figures.steps),
        engine=figures.engine,
        time=time_text(figures.window_ns),
        rates=joined(", ", rates),
    )


def _latency_sentences(figures: ServingRow) -> list[Message]:
    told: list[Message] = []
    if figures.token_median_ns is not None and figures.token_p99_ns is not None:
        usual, slow = time_text(figures.token_median_ns), time_text(figures.token_p99_ns)
        told.append(say("Time per output token: {usual} (median; P99 {slow}).", usual=usual, slow=slow))
    if figures.first_token_ns is not None:
        first = time_text(figures.first_token_ns)
        told.append(say("Time to first token: at least {time} (median), as queues are not recorded.", time=first))
    return told


def _cost_sentence(model: StepModel | NotMeasured) -> Message:
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


def _waits_sentences(serving: Serving) -> list[Message]:
    """Which kind of step lets the GPU wait inside it."""
    figures = serving.figures
    if figures.idle_inside_ns < _WAITS * figures.window_ns:
        return []
    worst = max(serving.kinds, key=lambda kind: kind.idle_inside_ns)
    share, time = share_text(figures.idle_inside_ns / figures.window_ns), time_text(worst.idle_inside_ns)
    return [
        say(
            "Inside steps the GPU is idle {share} of the time, longest in {kind} steps ({time}, median).",
            share=share,
            kind=worst.kind,
            time=time,
        )
    ]


def _between_sentence(serving: Serving) -> Message:
    if not serving.between:
        return say("Between steps the GPU is never idle.")
    figures, most = serving.figures, serving.between[0]
    return say(
        "Between steps the GPU is idle {share} of the time ({each} per step), mostly in {doing} ({part}).",
        share=share_text(figures.idle_between_ns / figures.window_ns),
        each=time_text(figures.idle_between_ns // figures.steps),
        doing=most.doing,
        part=share_text(most.time_ns / figures.idle_between_ns),
    )
