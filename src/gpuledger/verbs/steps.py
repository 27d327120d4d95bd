"""How long steps take, and how they differ."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Unpack

from gpuledger.verbs.definition import Option, Profile, ProfileOptions

if TYPE_CHECKING:
    from gpuledger.present.views.steps import StepsAnswer


def _price(text: str) -> float:
    price = float(text)
    if not 0 < price < math.inf:
        raise ValueError(f"'{text}' is no price of an hour; write 3.5")
    return price


def steps(
    profile: Profile,
    *,
    gpu_hour_price: Annotated[
        float | None,
        Option(
            "What an hour of this GPU costs, in any currency: also show what a million decode tokens cost.",
            metavar="PRICE",
            parse=_price,
        ),
    ] = None,
    **asked: Unpack[ProfileOptions],
) -> StepsAnswer:
    """List the steps of PROFILE: usual length, drift, unusual ones, and what serving costs by batch.

    Every step has its length, the share of it that the GPU was busy, and the number of kernels that began in it.

    Steps are found by torch's ProfilerStep, by a repeated range, by graph launches, or inferred from repeating
    kernels. They tile the device's time: a step ends when the last work launched in it ends, and the next one
    begins there. Where GPU metrics were sampled, each step also has its means of them and of the clock.

    vLLM, SGLang, TensorRT-LLM, ATOM and `gpuledger bench serve` write the batch of each step into its range
    (execute_context_9(8155)_generation_37(37), step[DECODE bs=64], decode[bs=117/128 tok=117]). From these: tokens a
    second, and the time of a step fitted as a base and so much for each prefill token, decode token and request, with
    the error on steps that the fit had not seen. Between steps, what the host did while the GPU was idle: scheduling,
    sampling, detokenizing. Time to first token does not count queues, which engines do not record.

    \b
    Examples:
      gpuledger steps run.sqlite
      gpuledger steps run.sqlite --step-kernel=argmax
      gpuledger steps server.json.gz --gpu-hour-price=3.5
      gpuledger steps run.sqlite --format=json | jq '.by_gpu[0].median_ns'
    """
    from gpuledger.present.views.steps import steps_answer
    from gpuledger.verbs.profiles import WHERE_SAMPLED, read_devices

    return steps_answer(*read_devices(profile, where_sampled=WHERE_SAMPLED, **asked), gpu_hour_price)
