"""What names of ranges and kernels say of the program: set-up or a round of work, a phase of a layer, a step's end.

Names that libraries, frameworks and engines give, in; what the range or kernel stands for, out.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from gpuledger.catalog.kernel_families import COMMUNICATION
from gpuledger.catalog.kernel_names import name_matcher, parse
from gpuledger.regex import regex

LIBRARIES: Final = frozenset(
    (
        *("nccl", "rccl", "nvshmem", "ucx", "cublas", "cublaslt", "cudnn", "cufft", "cusparse", "cusolver", "cutensor"),
        *("cccl", "cub", "thrust", "tensorrt", "trt", "dali", "libcudf", "rmm"),
    )
)
"""Domains of NVTX that libraries put their own calls in."""


sounds_like_set_up: Final = name_matcher(
    r"(?:(?<![a-z])(?:init|load|compile|set_?up|warm_?up|tear_?down|shut_?down|finali[sz]e|destroy|abort))"
    r"|Init|Load|Compile|Set_?[Uu]p|Warm_?[Uu]p|Finali[sz]e|Destroy|Abort",
    0,
)
"""Whether it is called as what happens before or after the work is."""


sounds_like_a_round: Final = name_matcher(
    r"(?<![A-Za-z])(?:step|iter|iteration|epoch|batch|measure|bench|request|generate|forward|decode|prefill|layer|train|"
    r"run|main|total)(?![A-Za-z])"
)
"""Whether it is called as what holds one round of all the work is."""


is_dalis: Final = name_matcher(r"^\[(?:DALI|Executor|ThreadPool)\](?! _)", 0)
"""Whether a range is DALI's own: it had no domain for long. `[Executor] _forward_step` is a step of TensorRT-LLM."""


def is_of_library(name: str) -> bool:
    """Whether a range, named with its domain and a colon before it, is a library's own."""
    domain, colon, _ = name.partition(":")
    return bool(colon) and domain.lower() in LIBRARIES


ATTENTION, ROUTER, DISPATCH, EXPERTS, COMBINE = "attention", "router", "dispatch", "expert_gemm", "combine"
SHARED, DENSE, MIXTURE = "shared_expert", "mlp", "moe"
NORM, HEAD, SAMPLING_PHASE = "norm", "lm_head", "sampling"
PHASES: Final = (
    *(ATTENTION, ROUTER, DISPATCH, EXPERTS, SHARED, COMBINE, DENSE, MIXTURE, NORM),
    *(HEAD, SAMPLING_PHASE, COMMUNICATION),
)
"""In the order of a layer; MIXTURE is what lies in a range of the whole mixture and in none of its parts."""

_ALONE, _ENDED = r"(?<![a-z])", r"(?![a-z])"
"""Around a word that stands alone: `moe_dispatch`, `dispatch_single`, but no `AOTDispatcher`."""

_RANGES: Final = tuple(
    (phase, regex(pattern))
    for phase, pattern in (
        # a mixture's parts first: `moe_dispatch`, `experts.combine`, `deep_ep::low_latency_dispatch`
        (SHARED, r"shared_?expert"),
        # Megatron: token_permutation, dispatch_preprocess; SGLang: op_dispatch_a; DeepEP: intranode_dispatch
        (DISPATCH, rf"{_ALONE}dispatch{_ENDED}|token_?dispatch{_ENDED}|(?<!un)permutation|{_ALONE}permute_tokens"),
        (COMBINE, rf"{_ALONE}combine{_ENDED}|token_?combine{_ENDED}|un_?permut"),
        (
            ROUTER,
            rf"router|{_ALONE}(?:route|routing|select_experts|fused_topk|topk){_ENDED}|moe_?gate{_ENDED}|mlp\.gate$",
        ),
        # gpuledger bench: compute_loop, compute_batched_gemm; vLLM: fused_experts; SGLang: run_moe_core
        (
            EXPERTS,
            r"experts?_?gemm|group(?:ed)?_?gemm|experts|run_moe_core|moe_?(?:core|gemm|ffn)|compute_(?:loop|batched|grouped)",
        ),
        (ATTENTION, rf"attn|attention|{_ALONE}(?:mla|mha|gqa|sdpa|dsa){_ENDED}"),
        (DENSE, rf"mlp{_ENDED}|{_ALONE}ffn{_ENDED}|feed_?forward"),
        (MIXTURE, r"moe|mixture"),
        (HEAD, r"lm_?head|compute_logits"),
    )
)
_NORM_RANGE: Final = regex(r"(?:^|\.)(?:norm|ln_(?:\d|f)|(?:input|pre|post|final)\w*norm)$")
"""Norms between parts; those of queries and keys are attention's."""
_NOT_A_RANGE: Final = regex(r"norm|init|build|metadata|prepare|cache_update|triton_")
"""What stands beside a phase, as `input_layernorm` and `prepare_attn`; and compiled kernels, which list operators."""

_MODULE: Final = regex(r"^nn\.Module: (?P<kind>\w+?)_(?P<instance>\d+)$")
_LAYER: Final = regex(r"(?:^|[^a-z])(?:layers?|blocks?|h)[._ \[#]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LAYER_MODULE: Final = regex(r"(?:Layer|Block)$")

_KERNELS: Final = (
    (COMBINE, regex(r"combine(?!d)|un_?permute|_ep_gather|post_reorder|finalize_?moe|moe_?finalize|moe_sum")),
    (DISPATCH, regex(r"dispatch|permute|mm_ids|expand_?input_?rows|_ep_scatter|pre_reorder|src2dst|seg_indptr")),
    (ROUTER, regex(r"top_?k|gating|rout|moe_align|count_and_sort|bitmatrix|expert_?(?:count|histogram)")),
)
chooses_token: Final = name_matcher(
    r"arg_?max(?!Ops<(?:unsigned |signed )?(?:int|long|short|char|bool)\b)|sampling|sample_|multinomial|gumbel"
    r"|top_?k_?top_?p",
    words=("argmax", "arg_max", "sampl", "multinomial", "gumbel", "top"),
)
"""Whether a kernel chooses the next token; no integer is a logit."""
_RESIZES: Final = regex(r"(?:up|down|grid)_?sampl", re.IGNORECASE)  # images, not tokens
_OF_EXPERTS: Final = regex(r"group(?:ed)?_?gemm|m_?grouped|grouped_mm|group_?wise.*gemm")
_OF_GROUPS: Final = regex(r"GroupProblemShape")  # of CUTLASS, among the arguments of a `device_kernel`


@lru_cache(maxsize=65536)
def phase_of_range(name: str) -> str:
    """The phase that a range, an operator or a module is called after, without ids; empty where it is none."""
    module = _MODULE.match(name)
    # `Qwen3MoeAttention` -> `qwen3_moe_attention`
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", module["kind"]).lower() if module else name.lower()
    if _NORM_RANGE.search(text):
        return NORM
    if _NOT_A_RANGE.search(text):
        return ""
    return next((phase for phase, pattern in _RANGES if pattern.search(text)), "")


@lru_cache(maxsize=65536)
def layer_of_range(name: str) -> int:
    """The number of the layer that a range stands for; -1 where it is none's."""
    if (module := _MODULE.match(name)) is not None:
        return int(module["instance"][:9]) if _LAYER_MODULE.search(module["kind"]) else -1
    match = _LAYER.search(name)
    return int(match[1]) if match else -1


is_unfused_norm: Final = name_matcher(r"rsqrt", words=("rsqrt",))
"""Whether a kernel is the part of an RMS norm, made of elementwise kernels, that no other work has."""

is_sum_of_product: Final = name_matcher(r"split_?k_?reduce|mul_mat\w*_fixup", words=("splitk", "split_k", "fixup"))
"""Whether a kernel only sums up the parts of a GEMM that ran before it."""

plans_attention: Final = name_matcher(r"prepare_varlen_num_blocks", words=("prepare_varlen",))
"""Whether a kernel only counts blocks for attention: FlashAttention 3, in vLLM once for all layers of a step."""

is_matrix_vector: Final = name_matcher(r"gemv|mul_mat_vec", words=("gemv", "mul_mat_vec"))
"""Whether a kernel multiplies a matrix with a vector, or with a few: cuBLAS, llama.cpp, candle."""

is_backward: Final = name_matcher(r"bwd|backward", words=("bwd", "backward"))
"""Whether a kernel is called after a backward pass."""


def phase_of_kernel(name: str, family: str) -> str:
    """The phase that a kernel of a family tells by its own name; empty where it may be of any."""
    if family == "attention":
        return ATTENTION
    if chooses_token(name) and not _RESIZES.search(name):
        return SAMPLING_PHASE
    if family not in (COMMUNICATION, "moe", "gemm"):
        return ""
    text = parse(name).qualified.lower()
    if family == "gemm":
        return EXPERTS if _OF_EXPERTS.search(text) or _OF_GROUPS.search(name) else ""
    phase = next((phase for phase, pattern in _KERNELS if pattern.search(text)), "")
    if family == COMMUNICATION:
        return phase if phase in (DISPATCH, COMBINE) else COMMUNICATION
    return phase or EXPERTS


PROFILER_STEP: Final = regex(r"^ProfilerStep#\d+$")
"""What torch.profiler calls the steps of its schedule."""


_STEP: Final = regex(
    r"^execute_(?:context_|new_|model|\d|#)"  # vLLM's and SGLang's engines
    r"|(?:^|[^a-z])(?:steps?|iter|iters|iterations?|minibatch|forward_step|train_?batch|decode_?token)(?:$|[^a-z])",
    re.IGNORECASE,
)


_OPTIMIZERS: Final = ("adam", "sgd", "lamb_", "lion_", "adagrad", "adafactor", "rmsprop", "optimizer")
updates_parameters: Final = name_matcher("|".join(_OPTIMIZERS), words=_OPTIMIZERS)
"""Whether a kernel is an optimizer's."""


is_part_name: Final = name_matcher(
    r"layers?|blocks?|att(?:n|ention)|mlp|ffn|expert|moe|router|norm|embed|head|optimi[sz]er|zero_grad|backward|loss|sampl"
    r"|dispatch|combine|nccl|all_?(?:reduce|gather|to_?all)|reduce_?scatter|broadcast|copy|memcpy|h2d|d2h|data|load"
)
"""Whether a range is called after a part of a model or of a step, so that it is no step however often it comes."""


def is_step_name(range_name: str) -> bool:
    """Whether a range is called a step, by a loop or by an engine."""
    return bool(PROFILER_STEP.match(range_name) or (_STEP.search(range_name) and not is_part_name(range_name)))


is_measured_name: Final = name_matcher(r"^bench:", 0)
"""Whether a range is called what a benchmark measures, as those of `gpuledger bench` are."""


def is_marked_step(range_name: str) -> bool:
    """Whether a range is a step by its name, whoever gave it: a profiler, a loop, an engine or a benchmark."""
    return is_step_name(range_name) or is_measured_name(range_name)


is_operator_name: Final = name_matcher(r"^\w+::|\b(?:op_id|seq)\s*=|Backward\d*$", 0)
"""Whether a range is an operator's or a library call's, as `torch.autograd.profiler.emit_nvtx` makes them."""

is_layer_name: Final = name_matcher(r"(?:layers?|blocks?)[._ ]?\d+")
"""Whether a range is one layer's of several: `layers.7.forward`, `FSDP::pre_forward (blocks.12.module)`."""
