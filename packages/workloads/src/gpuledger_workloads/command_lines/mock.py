"""The options of `gpuledger bench mock`."""

from __future__ import annotations

import argparse

from gpuledger_workloads.common.program import at_least, program
from gpuledger_workloads.decoder.size import size_options

PARTS = ("attention", "mlp", "layer")

DESCRIPTION = """\
One part of the decoder alone, on the input that it has inside of the model.

  attention     norm, projections, rotary embedding, attention over the cache, sum
  mlp           norm, MLP or experts, sum
  layer         both

Prints the time of one forward. The output is checked against what the part gave inside of the model. Give the same
sizes and the same --steps as for `bench decode`: the cache's length depends on them.

examples:
  gpuledger bench mock --part=attention
  gpuledger capture nsys -o mock -- gpuledger bench mock --part=mlp --cuda-profiler
  gpuledger align mock.sqlite model.sqlite --range=attention --mock-range=attention"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = program("mock", DESCRIPTION, iters=20, warmup=5)
    made.add_argument("--part", choices=PARTS, default="attention", help="default attention")
    made.add_argument("--steps", type=at_least(1), default=20, metavar="N", help="of the model to mock; default 20")
    size_options(made, "layers")
    return made
