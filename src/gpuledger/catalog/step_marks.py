"""What says that a step has passed: the names that loops and engines give their steps, and the kernels that end one."""

from __future__ import annotations

import re
from typing import Final

PROFILER_STEP: Final = re.compile(r"^ProfilerStep#\d+$")
"""What torch.profiler calls the steps of its schedule."""

_MEASURED: Final = re.compile(r"^bench:")

_STEP: Final = re.compile(
    r"^execute_(?:context_|new_|model|\d|#)"  # vLLM's and SGLang's engines
    r"|(?:^|[^a-z])(?:steps?|iter|iters|iterations?|minibatch|forward_step|train_?batch|decode_?token)(?:$|[^a-z])",
    re.IGNORECASE,
)
_PART: Final = re.compile(
    r"layers?|blocks?|att(?:n|ention)|mlp|ffn|expert|moe|router|norm|embed|head|optimi[sz]er|zero_grad|backward|loss|sampl"
    r"|dispatch|combine|nccl|all_?(?:reduce|gather|to_?all)|reduce_?scatter|broadcast|copy|memcpy|h2d|d2h|data|load",
    re.IGNORECASE,
)

_OPERATOR: Final = re.compile(r"^\w+::|\b(?:op_id|seq)\s*=|Backward\d*$")

_LAYER: Final = re.compile(r"(?:layers?|blocks?)[._ ]?\d+", re.IGNORECASE)

SAMPLING: Final = re.compile(r"arg_?max|sampling|sample_|multinomial|gumbel|top_?k_?top_?p", re.IGNORECASE)
"""Kernels that choose the next token."""

OPTIMIZER: Final = re.compile(r"adam|sgd|lamb_|lion_|adagrad|adafactor|rmsprop|optimizer", re.IGNORECASE)
"""Kernels that update parameters."""


def is_measured_name(range_name: str) -> bool:
    """Whether a range is called what a benchmark measures, as those of `gpuledger bench` are."""
    return bool(_MEASURED.match(range_name))


def is_step_name(range_name: str) -> bool:
    """Whether a range is called a step, by a loop or by an engine."""
    return bool(PROFILER_STEP.match(range_name) or (_STEP.search(range_name) and not _PART.search(range_name)))


def is_operator_name(range_name: str) -> bool:
    """Whether a range is an operator's or a library call's, as `torch.autograd.profiler.emit_nvtx` makes them."""
    return bool(_OPERATOR.search(range_name))


def is_layer_name(range_name: str) -> bool:
    """Whether a range is one layer's of several: `layers.7.forward`, `FSDP::pre_forward (blocks.12.module)`."""
    return bool(_LAYER.search(range_name))


def is_part_name(range_name: str) -> bool:
    """Whether a range is called after a part of a model or of a step, so that it is no step however often it comes."""
    return bool(_PART.search(range_name))
