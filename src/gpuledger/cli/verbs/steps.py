"""`gpuledger steps`: how long a step takes, and how steps differ."""

from __future__ import annotations

from gpuledger.cli.table_verbs import question
from gpuledger.ledger.device import Device
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.steps import step_sheets
from gpuledger.trace.model import Trace


@question
def steps(trace: Trace, device: Device) -> list[Sheet]:  # noqa: ARG001  all questions take the trace
    """List the steps of PROFILE: usual length, drift, unusual ones and what made them so.

    Every step has its length, the share of it that the GPU was busy, and the number of kernels that began in it.

    Steps are found by torch's ProfilerStep, by a repeated range, by graph launches, or by the period of the kernel
    sequence. They tile the device's time: a step ends when the last work launched in it ends, and the next one begins
    there.

    \b
    Examples:
      gpuledger steps run.sqlite
      gpuledger steps run.sqlite --step-kernel=argmax
    """
    return step_sheets(device)
