"""Kernel families: a kernel's name in, the kind of work it does out.

The name is the whole demangled name as a profiler prints it. Most of its words are not about the work: a parameter is a
`CopyParams`, a template argument a `LoadWithCast`, a namespace `fbgemm_gpu`. So only the function's own name is read,
with its namespaces; the template arguments are read first where the function is a mere carrier of what they name, as
`elementwise_kernel<... silu_kernel ...>` is. A family is a guess from a name; `other` says that there was none.

To try every pattern on every name would take long. So each pattern is taken apart into alternatives, each with words
that it cannot match without, and only those are tried whose words the name has.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

from gpuledger.regex import LOOKED_AT, NamePattern

_LOOK: Final = re.compile(r"\(\?<?[=!](?:[^()]|\([^()]*\))*\)")
_GROUP: Final = re.compile(r"\(\?:([^()]*)\)([?*+]|\{[^}]*\})?")
"""One that holds no other, and how often it comes."""
_NO_LETTERS: Final = re.compile(r"\\[wdsb]|\[[^\]\\]+\]|[a-z](?=[?*]|\{0?,)")
"""What stands for several letters, and a letter that may be missing."""
_MAY_BE_MISSING: Final = re.compile(r"[?*]|\{0?,.*")


class Alternative(Struct, frozen=True):
    """One alternative of a pattern. Every text that it matches holds one of the anchors, in lower case a to z."""

    pattern: str
    anchors: frozenset[str]


def alternatives(pattern: str, common: frozenset[str] = frozenset()) -> Iterator[Alternative]:
    """The alternatives that a pattern is made of, at its top. Words in `common` are anchors only for want of others."""
    branches, depth = [""], 0
    for letter in pattern:
        depth += (letter == "(") - (letter == ")")
        if letter == "|" and depth == 0:
            branches.append("")
        else:
            branches[-1] += letter
    for branch in branches:
        anchors = set[str]()
        for spelled in _without_groups(_NO_LETTERS.sub(" ", _LOOK.sub(" ", branch))):
            if set(spelled) & set("().\\"):
                raise ValueError(f"{pattern}: cannot be read: {spelled}")
            runs = [run for run in re.findall("[a-z]+", spelled) if len(run) > 1]
            if not runs:
                raise ValueError(f"{pattern}: an alternative without a word that it must find")
            anchors.add(max(runs, key=lambda run: 1 if run in common else len(run)))
        yield Alternative(branch, frozenset(anchors))


def _without_groups(pattern: str) -> Iterator[str]:
    """A pattern spelled out, once for each branch of its groups; what may be missing, or comes again, parts words."""
    if (group := _GROUP.search(pattern)) is None:
        yield pattern
        return
    is_optional = group[2] is not None and _MAY_BE_MISSING.fullmatch(group[2]) is not None
    for branch in ("",) if is_optional else group[1].split("|"):
        yield from _without_groups(
            f"{pattern[: group.start()]}{branch}{' ' if group[2] else ''}{pattern[group.end() :]}"
        )


Table: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]

OTHER: Final = "other"
COMMUNICATION: Final = "communication"

FAMILIES: Final[Table] = tuple(
    {
        COMMUNICATION: (
            # NCCL old and new, RCCL, MSCCL, NVSHMEM (whose own are barrier_on_stream_kernel_threadgroup and the like)
            r"nccl|rccl|msccl|nvshmem|rocshmem|_on_stream_kernel",
            # collectives by name: PyTorch's symmetric memory, TensorRT-LLM, FlashInfer, SGLang; not `smallReduce`
            r"(?<!sm)all_?reduce|(?<!sm)all_?gather|reduce_?scatter|all_?to_?all|send_?recv",
            r"multimem_|(?:one|two)_?shot|lamport|mnnvl|userbuffers|moe_?a2a|symm_mem",
            # custom all-reduce of vLLM, SGLang and aiter
            r"cross_device_|quick_?reduce",
            # DeepEP; its kernels are called plain `dispatch` and `combine`
            r"deep_?ep|(?:inter|intra)node(?:_ll)?::|notify_dispatch|cached_notify",
        ),
        "moe": (
            # vLLM, SGLang, TensorRT-LLM, aiter: fused_moe_kernel, moe_align_block_size, topkGatingSoftmax, grouped_topk
            r"moe|expert|top_?k_?(?:gating|softmax|sigmoid)|grouped_topk|topk_with_k2|expand_?input_?rows|(?:un)?permute_tokens",
            # SGLang's expert parallelism
            r"_ep_(?:scatter|gather)|(?:pre|post)_reorder|src2dst|seg_indptr",
            # triton_kernels (gpt-oss): matrix products that gather and scatter by expert, and their routing
            r"matmul_ogs|_finalize_matmul|_routing_|bitmatrix|^_topk_(?:for|back)ward",
            # llama.cpp: sorts tokens by expert, adds an expert's bias
            r"mm_ids_helper|(?<![a-z])add_id(?![a-z])",
        ),
        "rope": (
            # vLLM, FlashInfer, TransformerEngine, llama.cpp; before norm and attention: rope_norm, applyMLARope
            r"rotary|(?<!p)rope(?![rl])",
        ),
        "norm": (
            # layer, RMS, batch, group: PyTorch, apex, vLLM, aiter, CK, TransformerEngine.
            # Not `renorm` (sampling, routing), `normal` (random numbers), NormTwoOps and LpNormFunctor (reductions)
            r"(?<!(?<!p)re)norm(?!al(?!i)|functor|ops|two)",
            # PyTorch's and apex's halves of a layer norm, cuDNN's batch norm, candle's
            r"gammabeta|row_?wise_?moments|(?<![a-z])rms_[bf]\d|(?<![a-z])ln_(?:fwd|bwd)|(?<![a-z])bn_(?:fw|bw)",
        ),
        "attention": (
            # FlashAttention 2 and 3, FlashMLA, PyTorch's copy, Triton's; not FlashInfer's namespace, not cache writers
            r"(?<!cache_)flash(?!_?infer)",
            # xFormers, cuDNN, CK, TensorRT-LLM (fmhaSm100a, mmha, xqa's kernel_mha), vLLM, DeepSeek's sparse indexer
            r"mha|sdpa|attention|attn|xqa|mqa_logits|(?<![a-z])pa_(?:fwd|decode|prefill)",
            # SageAttention: sage_fwd, qk_int_sv_f16_attn_kernel
            r"(?<![a-z])sage_|qk_int",
            # FlashInfer
            r"(?:batch|single)_?(?:decode|prefill)|(?:decode|prefill)_?with|merge_?states?|batchmla|pod_?with",
            # MLA; concat_and_cache_mla and set_mla_kv_buffer write a cache
            r"(?<!cache_)(?<!set_)(?<!concat_)(?<![a-z])mla(?![a-z])|flashmla|mla(?:decode|prefill|kernel)",
            # Triton: the flash tutorial's, SGLang's and vLLM's decode stages
            r"^_(?:fwd|bwd)_(?:(?:grouped_)?kernel|preprocess)",
            # linear attention (fla, RWKV) and state-space mixers (mamba): they stand where attention does
            r"gated_delta|delta_rule|gdn_|fused_recurrent|chunk_(?:fwd|bwd|scan|state|cumsum)|selective_(?:scan|state)|ssd_|ssm_scan|wkv|retention",
        ),
        "convolution": (
            # cuDNN, cutlass, PyTorch; not `convert` and `NumericArrayConverter`
            r"conv(?!er)|winograd|wgrad|dgrad|fprop|im2col|col2im|vol2col|col2vol|fft2d|flip_filter|implicit_?gemm",
            r"(?:^|_)(?:[a-z]\d*)?cudnn_(?!generated|ops)|cask_cudnn|cudnn(?:_cnn)?::cnn::",
            # MIOpen
            r"miopensp3|igemm_(?:fwd|bwd|wrw)|gridwise_generic|im2d2col|col2im2d",
            # cuDNN's convolutions by Fourier transform
            r"(?<![a-z])fft1d_[rc]2[rc]",
        ),
        "gemm": (
            # cuBLAS and its helpers, cutlass, DeepGEMM, MAGMA, trtllm-gen (bmm_); not what merely lives in a namespace
            # fbgemm_gpu, deep_gemm or cutlass_kernels, or feeds DeepGEMM
            r"(?<!fb)(?<!deep_)gemm(?!::)|gemv|nvjet|xmma|wgmma|cublas|cutlass(?!::\w+_t\b|_kernels::)|matmul|bmk_bnk",
            r"split_?k(?!v|ernel)",
            r"(?<![a-z])(?:add|b|ba|scaled_)?mm(?![a-z])|epilogue::impl|(?<![a-z])mma_",
            # quantised weights: Marlin, AWQ, GPTQ, Machete, ExLlama, llama.cpp
            r"marlin|awq|gptq|machete|exllama|bitsandbytes|mul_mat|(?<!quantize_)(?<![a-z])mmv?q(?![a-z])|batched_ptrs",
            # AMD: Tensile, rocBLAS, hipBLASLt, vLLM's skinny products
            r"cijk_|tensile|rocblas|hipblas|wvsplit|llmm1",
        ),
        "sampling": (
            # FlashInfer (TopPSamplingFromProb, TopKRenormProb), vLLM, SGLang, random numbers; not grid_sampler
            r"(?<!grid_)(?<!up)(?<!down)sampl|arg_?max|multinomial|renorm_?prob|mask_?logits|rejection|speculative",
            r"philox|bernoulli|random|curand|rocrand|normal_and_transform|uniform|normal_kernel|randperm|exponential_kernel",
            r"penalt|top_?k_?top_?p|temperature|min_p(?![a-z])|token_?bitmask",
        ),
        "softmax": (
            # PyTorch, cuDNN, Triton; fused losses are a softmax with a sum
            r"soft_?max|cross_?entropy|logsumexp",
        ),
        "sort": (
            # PyTorch, CUB, thrust, rocPRIM
            r"sort|top_?k|radix|bitonic|kth_?value|merge_?path",
        ),
        "gather-scatter": (
            # PyTorch: indexSelectSmallIndex, index_elementwise_kernel, vectorized_gather_kernel; not `_with_index`
            r"gather|scatter|(?<!with_)ind(?:ex(?!ed)|ices)|nonzero|masked_select|take_|(?<![a-z])put_",
            # embeddings: PyTorch, FBGEMM, torchrec; look-ups of engines and of llama.cpp
            r"embedding|_embs|fbgemm_gpu::|lookup|look_up|[gs]et_rows|future_token|compute_grad_weight|segment_offsets",
            # reading at computed places
            r"upsampl|interpolat|grid_?sampl|roi_?(?:align|pool)|deform",
            # candle: index_select, index_add, scatter_add
            r"^(?:is|ia|sa)_[iu]\d",
            # CUB's compaction
            r"deviceselect|devicecompact|devicepartition|partition_impl|compact_init|slot_mapping",
        ),
        "activation": (
            # PyTorch, vLLM, SGLang, FlashInfer, TensorRT-LLM (doGatedActivation), Liger
            r"silu|gelu|relu|selu|celu|(?<![a-z])elu|sigmoid|swi_?glu|geglu|(?<![a-z])glu|act_and_mul|do(?:gated)?activation",
            r"(?<![a-z])tanh|mish|xielu|soft_?cap|soft_?plus|hard_?swish|hard_?tanh|threshold_kernel|activation",
        ),
        "reduction": (
            # PyTorch, CUB, thrust, rocPRIM, XLA
            r"reduc|sum(?![a-z])|sum_?kernel|mean|scan|cumsum|cumprod|histogram|bincount|welford|dot_kernel",
            r"amax|amin|fast_m(?:ax|in)|norm(?:functor|ops|two)|run_?length|count_nonzero",
            # losses and pooling: sums and maxima over a window
            r"loss|nllcriterion|(?:max|avg|average|adaptive)_?pool|pool2d|pooling",
        ),
        "memset": (
            # CUDA's and HIP's own
            r"memset|rocclr_fillbuffer|zero_?(?:buffer|out)|settensor\dd",
        ),
        "copy": (
            # PyTorch, cuDNN's layouts, HIP's own, llama.cpp
            # DALI: cuts and scales images, and brings them into another layout
            r"(?<![a-z])dali::",
            r"copy|cpy|transpos|permut|concat|cat_?arr|(?<![a-z])cat(?![a-z])|nchwto|nhwcto|im2row|swap_blocks",
            r"fill|const_set|(?<![a-z])pad(?![a-z])|padding|(?<![a-z])(?:zeros|ones|flip|roll|repeat)(?![a-z])",
            # changes of type, quantising among them: vLLM, TensorRT-LLM, TransformerEngine; not gpu_kernel_impl_nocast
            r"(?<![a-z])cast(?![a-z])|(?<!broad)cast_?kernel|type_?cast|convert|to_dtype|to_dense|quant",
            # writers of the key-value cache: reshape_and_cache, store_kvcache, concat_and_cache_mla
            r"_and_cache|kv_?cache|kv_?buffer|kv_?pool",
        ),
        "elementwise": (
            # PyTorch, Triton, XLA, TensorFlow, TensorRT; Julia's dots
            r"broadcast_kernel|element_?wise|point_?wise|loop_\w{0,40}fusion|wrapped_|eigenmetakernel|generatednative|parallel_?for|for_each",
            # optimizers: PyTorch's foreach and fused ones, apex
            r"multi_?tensor|adam|sgd|lamb(?!da)|adagrad|rmsprop|lion_",
            r"dropout|bias|residual|triu|tril|arange|where|clamp|bin_bcast|scale_?(?:packed|f32|kernel)|compute_position|update_scale",
            # cuBLAS; a kernel that somebody called `add` or `mul` may be a product, or anything
            r"(?<![a-z])(?:axpy|scal)(?![a-z])",
            # nvFuser: CudaCodeGen::kernel1, and later by what it fused
            r"cudacodegen::|nvfuser",
            # llama.cpp: what its carriers name, where that says nothing; candle: badd_f32, uneg_bf16, affine_f16
            r"unary_(?:gated_)?op|(?<![a-z])acc_f32|diag_(?:mask|kernel)",
            r"^(?:b(?:add|sub|mul|div|maximum|minimum)|affine)_[bfiu]\d?|^u(?:abs|ceil|cos|erf|exp|floor|log|neg|recip|round|sign|sin|sqr|sqrt|powf)_[bf]",
            # MIOpen; CuPy, which names its kernels by what they compute, and where nothing above knew it
            r"subtensorop|(?<![a-z])cupy_",
        ),
    }.items()
)
"""First match wins. The patterns are searched without regard to case, in the parts of the name that `family` reads."""

_MOVES: Final = "_to_copy|copy|clone|cat|transpose|permute|t|view|fill|zeros|ones|full|constant_pad_nd"
INDUCTOR: Final[Table] = (
    # triton_poi_fused_add_moe_forward_0 lists the operators around what was fused, custom ones among them: the prefix
    # says what kind of loop it is, and only operators that Inductor itself lowers say more.
    ("attention", (r"^triton_(?:tem|flex)\w{0,200}attention",)),
    ("convolution", (r"^triton_tem\w{0,200}convolution|^triton_convolution",)),
    ("gemm", (r"^triton_tem_|^triton_(?:add|b|ba|scaled_)?mm",)),
    ("norm", (r"^triton_(?:red|per)_\w{0,200}(?:(?:layer|batch|group|rms)_norm|(?:mean|var)\w{0,60}rsqrt)",)),
    ("softmax", (r"^triton_(?:red|per)_\w{0,200}(?:softmax|logsumexp)",)),
    ("sampling", (r"^triton_(?:red|per)_\w{0,200}argmax",)),
    ("reduction", (r"^triton_(?:red|per|split_scan)_",)),
    ("gather-scatter", (r"^triton_poi_fused_(?:embedding|index|index_select|index_put|gather)_\d+",)),
    ("activation", (r"^triton_(?:poi|for)_\w{0,200}_(?:silu|gelu|relu|sigmoid|tanh)(?:_|$)",)),
    ("copy", (rf"^triton_poi_fused_(?:_?(?:{_MOVES})_){{1,8}}\d",)),
    ("elementwise", (r"^triton_(?:poi|for)_",)),
)
"""What `torch.compile` makes, by the names it gives. First match wins; what matches none is looked up in FAMILIES."""

CARRIERS: Final[tuple[str, ...]] = (
    # PyTorch: pointwise, reductions, foreach, random numbers
    r"(?:vectorized_|unrolled_|legacy_)?(?:templated_)?elementwise_kernel(?:_with_index|_manual_unroll|_helper)?",
    r"reduce_kernel|multi_tensor_apply_kernel|distribution_(?:elementwise_grid_stride|nullary)_kernel",
    # cutlass, CuTe, CK
    r"device_kernel|kernel2?|kentry|global_?kernel|kernel_?entry",
    # llama.cpp
    r"unary_(?:gated_)?op_kernel",
    # thrust, CUB, rocPRIM, TensorFlow
    r"_kernel_agent|static_kernel|dynamic_kernel|trampoline_kernel|eigenmetakernel",
)
"""Functions that do what their template arguments name."""


_SAYS_NOTHING: Final = frozenset(("kernel", "triton"))
"""Words that stand in names of every family."""


class _Searched:
    """A table made to be searched. The words of a text say which patterns can match at all; few are tried."""

    def __init__(self, table: Table) -> None:
        self._alternatives: list[tuple[str, str]] = []
        self._by_start: dict[str, list[tuple[str, int]]] = {}
        for name, pattern in ((name, pattern) for name, patterns in table for pattern in patterns):
            for alternative in alternatives(pattern, _SAYS_NOTHING):
                for anchor in alternative.anchors:
                    self._by_start.setdefault(anchor[:2], []).append((anchor, len(self._alternatives)))
                self._alternatives.append((name, alternative.pattern))
        self._of_word = lru_cache(maxsize=65536)(self._numbers)
        # a profile's kernels need few of the patterns, and to compile all takes as long as to read a small profile
        self._pattern = lru_cache(maxsize=None)(lambda number: re.compile(self._alternatives[number][1]))

    def first(self, text: str) -> str:
        """The first family with a match in `text`, which is folded; an empty text if there is none."""
        text = text[:_READ_CHARS]
        numbers = set[int]()
        for word in set(text.encode("ascii", "replace").translate(_APART).split()):
            numbers.update(self._of_word(word))
        for number in sorted(numbers):
            if self._pattern(number).search(text):
                return self._alternatives[number][0]
        return ""

    def _numbers(self, letters: bytes) -> tuple[int, ...]:
        word = letters.decode("ascii")
        return tuple(
            number
            for position in range(len(word) - 1)
            for anchor, number in self._by_start.get(word[position : position + 2], ())
            if word.startswith(anchor, position)
        )


_APART: Final = bytes(letter if chr(letter) in string.ascii_lowercase else ord(" ") for letter in range(256))
"""Leaves of a folded text its words."""
_READ_CHARS: Final = 8192
"""How much of a part is searched: the longest real name seen has 3,009 characters, a hostile one may have any."""
_FAMILIES: Final = cache(lambda: _Searched(FAMILIES))
_INDUCTOR: Final = cache(lambda: _Searched(INDUCTOR))
_CARRIER: Final = re.compile("|".join(CARRIERS))
_ANONYMOUS: Final = re.compile(r"<unnamed>|\(anonymous namespace\)|\{anonymous\}|\(anonymous\)")
_BRACKET: Final = re.compile(r"([<>()\[\]{}])")
_CLOSES: Final = {")": "(", ">": "<", "]": "[", "}": "{"}
_FOLDED: Final = str.maketrans(string.ascii_uppercase + "\u0130\u0131\u017f\u212a", string.ascii_lowercase + "iisk")
"""What regular expressions take for the same letter without regard to case."""


@lru_cache(maxsize=65536)
def family(name: str, extra: tuple[tuple[str, str], ...] = ()) -> str:
    """What kind of work a kernel does; `other` where nothing matches.

    `extra` are pairs of a family and a regular expression, tried first and in order, on the whole name and without
    regard to case; a family of the user's own is fine. An expression that is none raises `re.error`.
    """
    name = name[:LOOKED_AT]
    for user_family, pattern in _compile(extra):
        if pattern.search(name):
            return user_family
    if name.startswith("triton_") and (known := _INDUCTOR().first(_fold(name))):
        return known
    function, arguments = _parts(name)
    folded = _fold(function)
    if not (words := folded.split()):
        return _FAMILIES().first(_fold(name)) or OTHER  # `[CUDA memset]` is all bracket
    if _CARRIER.fullmatch(words[-1].rpartition("::")[2]) and (known := _FAMILIES().first(_fold(arguments))):
        return known
    return _FAMILIES().first(folded) or OTHER


@lru_cache(maxsize=64)
def _compile(extra: tuple[tuple[str, str], ...]) -> tuple[tuple[str, NamePattern], ...]:
    return tuple((name, NamePattern(pattern, re.IGNORECASE)) for name, pattern in extra)


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_FOLDED)


def _parts(name: str) -> tuple[str, str]:
    """A kernel's function, with namespaces and return type but no brackets, and all that its template arguments say.

    One pass, so that a name of any length and any brackets costs no more than it is long. (`kernel_names.parse` also
    brings the arguments into a canonical form, which this has no use for.) What is in no brackets at all is the
    function; a round bracket outside all others opens the parameters and ends the name.
    """
    if "anonymous" in name or "<unnamed>" in name:
        name = _ANONYMOUS.sub("anonymous", name)
    pieces = _BRACKET.split(name)  # texts, with a bracket between each two
    function: list[str] = []
    arguments: list[str] = []
    open_brackets: list[str] = []
    start = 0
    for index in range(1, len(pieces), 2):
        bracket = pieces[index]
        if bracket not in _CLOSES:
            if not open_brackets:
                function.append("".join(pieces[start:index]))
                if bracket == "(":
                    return "".join(function), " ".join(arguments)
                start = index + 1
            open_brackets.append(bracket)
        elif open_brackets and open_brackets[-1] == _CLOSES[bracket]:  # a stray one, as in `(8)>(0)`, closes nothing
            if bracket == ">" and pieces[index - 1].endswith("-"):  # an arrow
                continue
            open_brackets.pop()
            if not open_brackets:
                arguments.append("".join(pieces[start:index]))
                start = index + 1
    (arguments if open_brackets else function).append("".join(pieces[start:]))
    return "".join(function), " ".join(arguments)
