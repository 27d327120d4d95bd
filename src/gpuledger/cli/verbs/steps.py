"""`gpuledger steps`: how long a step takes, and how steps differ."""

from __future__ import annotations

from functools import partial

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.views.questions import steps_of
from gpuledger.present.views.tables import TableAnswer
from gpuledger.trace.model import Trace


@partial(question, reads_samples=True)
def steps(trace: Trace, device: Device) -> TableAnswer:
    """List the steps of PROFILE: usual length, drift, unusual ones and what made them so.

    Every step has its length, the share of it that the GPU was busy, and the number of kernels that began in it.

    Steps are found by torch's ProfilerStep, by a repeated range, by graph launches, or inferred from repeating
    kernels. They tile the device's time: a step ends when the last work launched in it ends, and the next one
    begins there. Where GPU metrics were sampled, each step also has its means of them and of the clock.

    \b
    Examples:
      gpuledger steps run.sqlite
      gpuledger steps run.sqlite --step-kernel=argmax
    """
    return steps_of(trace, device)
