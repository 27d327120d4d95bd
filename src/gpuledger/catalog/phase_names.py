"""Phases of a layer by name: what a range or a kernel is called in, the part of a layer that it stands for out.

A layer of a mixture of experts attends, routes, sends tokens to their experts, multiplies, and sends them back. Ranges
are NVTX ranges, operators and modules as vLLM, SGLang, Megatron, DeepEP and `gpuledger bench` name them. Kernels are
known by their function's own name; most say nothing (a GEMM may be anybody's).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from gpuledger.catalog.kernel_families import COMMUNICATION
from gpuledger.catalog.kernel_names import parse
from gpuledger.catalog.name_likeness import unnumbered

ATTENTION, ROUTER, DISPATCH, EXPERTS, COMBINE = "attention", "router", "dispatch", "expert_gemm", "combine"
SHARED, DENSE, MIXTURE = "shared_expert", "mlp", "moe"
PHASES: Final = (ATTENTION, ROUTER, DISPATCH, EXPERTS, SHARED, COMBINE, DENSE, MIXTURE, COMMUNICATION)
"""In the order of a layer; MIXTURE is what lies in a range of the whole mixture and in none of its parts."""

_ALONE, _ENDED = r"(?<![a-z])", r"(?![a-z])"
"""Around a word that stands alone: `moe_dispatch`, `dispatch_single`, but no `AOTDispatcher`."""

_RANGES: Final = tuple(
    (phase, re.compile(pattern))
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
    )
)
_NOT_A_RANGE: Final = re.compile(r"norm|init|build|metadata|prepare|cache_update|triton_")
"""What stands beside a phase, as `input_layernorm` and `prepare_attn`; and compiled kernels, which list operators."""

_MODULE: Final = re.compile(r"^nn\.Module: (?P<kind>\w+?)_(?P<instance>\d+)$")
_LAYER: Final = re.compile(r"(?:^|[^a-z])(?:layers?|blocks?|h)[._ \[#]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LAYER_MODULE: Final = re.compile(r"(?:Layer|Block)$")

_KERNELS: Final = (
    (COMBINE, re.compile(r"combine(?!d)|un_?permute|_ep_gather|post_reorder|finalize_?moe|moe_?finalize|moe_sum")),
    (DISPATCH, re.compile(r"dispatch|permute|expand_?input_?rows|_ep_scatter|pre_reorder|src2dst|seg_indptr")),
    (ROUTER, re.compile(r"top_?k|gating|rout|moe_align|count_and_sort|bitmatrix|expert_?(?:count|histogram)")),
)
_OF_EXPERTS: Final = re.compile(r"group(?:ed)?_?gemm|m_?grouped|grouped_mm|group_?wise.*gemm")


def phase_of_range(name: str) -> str:
    """The phase that a range, an operator or a module is called after; empty where it is none."""
    return _phase_of_unnumbered(unnumbered(name))  # ids make every name another


@lru_cache(maxsize=65536)
def _phase_of_unnumbered(name: str) -> str:
    module = _MODULE.match(name)
    text = _camel_apart(module["kind"]) if module else name.lower()
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


def phase_of_kernel(name: str, family: str) -> str:
    """The phase that a kernel of a family tells by its own name; empty where it may be of any."""
    if family == "attention":
        return ATTENTION
    if family not in (COMMUNICATION, "moe", "gemm"):
        return ""
    text = parse(name).qualified.lower()
    if family == "gemm":
        return EXPERTS if _OF_EXPERTS.search(text) else ""
    told = next((phase for phase, pattern in _KERNELS if pattern.search(text)), "")
    if family == COMMUNICATION:
        return told if told in (DISPATCH, COMBINE) else COMMUNICATION
    return told or EXPERTS


def _camel_apart(name: str) -> str:
    """`Qwen3MoeAttention` -> `qwen3_moe_attention`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
