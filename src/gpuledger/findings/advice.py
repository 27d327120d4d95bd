"""What to change first, in one line, for each code: words that hold for every program, and those of its framework.

Whoever adds a rule gives it words for all; a framework is listed where its own API says it better. Nothing here names
another framework's API: `tests/findings/test_advice.py` looks at all of it, and at what is said of every profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from gpuledger.catalog.compilers import Compiler
from gpuledger.catalog.frameworks import BASE, Framework
from gpuledger.findings.finding import Finding
from gpuledger.messages import Message, say


class FixWords(Message):
    """Words for all that know better ones for some."""

    special: Mapping[Framework, Message] = {}

    @classmethod
    def of(cls, general: Message, special: Mapping[Framework, Message]) -> FixWords:
        advice = cls(str(general), general.template, general.parts)
        advice.special = special
        return advice

    def words(self, framework: Framework) -> Message:
        """A framework's own, else those of what it is built on, else those that hold for all."""
        for speaker in (framework, BASE.get(framework, Framework.ANY)):
            if speaker in self.special:
                return self.special[speaker]
        return Message(str(self), self.template, self.parts)


def in_words_of(framework: Framework, finding: Finding) -> Finding:
    """The finding with the fix, also where it stands as evidence, as users of the framework write it."""
    general = finding.fix
    if not isinstance(general, FixWords):
        return finding
    fix = general.words(framework)
    evidence = tuple(replace(piece, sentence=fix) if piece.sentence is general else piece for piece in finding.evidence)
    return replace(finding, fix=fix, evidence=evidence)


# the host

HOST_LOAD: Final = FixWords.of(
    say("keep shapes stable, and run everything once before the measured steps"),
    {
        Framework.TORCH: say("keep shapes stable (pad to buckets), and run every shape once before the measured steps"),
        Framework.JAX: say(
            "keep shapes static, as each new one compiles; keep what was compiled (`jax_compilation_cache_dir`)"
        ),
        Framework.TENSORFLOW: say("give `tf.function` an `input_signature`, so that it is traced once"),
        Framework.TENSORRT: say("run each optimization profile once before the measured steps"),
        Framework.NUMBA: say("compile before the loop: give `@cuda.jit` a signature, or call each kernel once"),
        Framework.JULIA: say("call every function once with these types before the measured steps"),
        Framework.CUPY: say("call every kernel once before the measured steps: CuPy compiles at the first call"),
        Framework.CUDA: say(
            "launch every kernel once before the measured steps, or load all at start (`CUDA_MODULE_LOADING=EAGER`)"
        ),
    },
)
RECOMPILE: Final[Mapping[Compiler, tuple[Message, Message]]] = {
    Compiler.TORCH: (
        say("torch.compile compiles again"),
        say(
            "`TORCH_LOGS=recompiles` names the guard that fails: mark that dimension dynamic "
            "(`torch._dynamo.mark_dynamic`), or keep shapes, dtypes and numbers of the arguments the same"
        ),
    ),
    Compiler.TRITON: (
        say("Triton compiles a kernel again"),
        say("keep shapes and `tl.constexpr` arguments the same, or mark what varies dynamic (`do_not_specialize`)"),
    ),
    Compiler.CUDA_GRAPHS: (
        say("a CUDA graph is recorded again"),
        say("record a graph once per shape, copy inputs into its buffers, and replay it"),
    ),
    Compiler.XLA: (
        say("XLA compiles again"),
        say("pad shapes to a few sizes, and pass what varies as an array: `jax_log_compiles` names the function"),
    ),
    Compiler.OTHER: (
        say("code is compiled again"),
        say("keep the types and shapes that code is compiled for the same, or compile before the loop"),
    ),
}
"""What the host does while it compiles, and what to do about it."""
ALLOCATED_ONCE: Final = say("nothing, where the program runs for long: it is paid once; else allocate, or pin, less")

HOST_ALLOC: Final = FixWords.of(
    say("allocate once at start-up; allocate, free and pin nothing in the loop"),
    {
        Framework.TORCH: say("allocate once at start-up; no `cudaMalloc`, `empty_cache()` or pinning in the loop"),
        Framework.JAX: say(
            "donate inputs that are not needed again (`donate_argnums`), and leave `XLA_PYTHON_CLIENT_PREALLOCATE` on"
        ),
        Framework.TENSORFLOW: say("leave `set_memory_growth` off, so that memory is allocated once"),
        Framework.CUPY: say("keep CuPy's memory pool, without `free_all_blocks()` in the loop; give results an `out=`"),
        Framework.NUMBA: say("make arrays once with `cuda.device_array`, and pass these to kernels, not NumPy arrays"),
        Framework.JULIA: say("allocate before the loop and write in place (`.=`, `mul!`); no `CUDA.reclaim()` in it"),
        Framework.OPENACC: say("put one `acc data` region around the loop: entering a region allocates its arrays"),
        Framework.OPENMP: say("put one `target data` region around the loop: each `map` allocates its arrays"),
        Framework.CUDA: say("allocate before the loop, or from a pool with `cudaMallocAsync`"),
        Framework.HIP: say("allocate before the loop, or from a pool with `hipMallocAsync`"),
    },
)
HOST_SYNC: Final = FixWords.of(
    say("do not read results back or wait for the GPU in the step; read one step later"),
    {
        Framework.TORCH: say(
            "do not read results back in the step: no `.item()`, `.cpu()` or `nonzero`; read one step later"
        ),
        Framework.VLLM: say("schedule the next step while this one runs: `--async-scheduling`"),
        Framework.SGLANG: say("leave the overlap scheduler on (no `--disable-overlap-schedule`)"),
        Framework.JAX: say("no `float(x)`, `np.asarray(x)` or `block_until_ready()` in the step; read one step later"),
        Framework.TENSORFLOW: say("no `.numpy()` in the step, which belongs into one `tf.function`"),
        Framework.TENSORRT: say("queue the next `enqueueV3` before waiting for this one: two contexts, two streams"),
        Framework.CUPY: say("no `.get()`, `cupy.asnumpy` or `float(x)` in the step; read one step later"),
        Framework.NUMBA: say("no `copy_to_host()` or `cuda.synchronize()` in the step; read one step later"),
        Framework.JULIA: say("no `Array(x)`, `CUDA.@sync` or scalar indexing in the step; read one step later"),
        Framework.OPENACC: say("`async` on regions and updates, with one `acc wait` at the end: without it each waits"),
        Framework.OPENMP: say("`nowait` on target regions, with `depend` between them: without it each waits"),
        Framework.CUDA: say(
            "no `cudaDeviceSynchronize` or blocking `cudaMemcpy` in the step; wait for an event one step later"
        ),
        Framework.HIP: say(
            "no `hipDeviceSynchronize` or blocking `hipMemcpy` in the step; wait for an event one step later"
        ),
    },
)
UPLOADED: Final = FixWords.of(
    say(
        "make what is copied to the GPU there, or copy it once before the loop; else from pinned memory, asynchronously"
    ),
    {
        Framework.TORCH: say(
            "make what is copied to the GPU there (`device='cuda'`), or copy it once before the loop; else copy it "
            "from pinned memory with `non_blocking=True`"
        ),
        Framework.JAX: say("make inputs inside the jitted step, or `jax.device_put` them one step ahead"),
        Framework.TENSORFLOW: say("`prefetch_to_device` at the end of the `tf.data` pipeline"),
        Framework.CUPY: say(
            "make arrays with CuPy, or copy them once before the loop; else `set` them from pinned memory"
        ),
        Framework.NUMBA: say(
            "`cuda.to_device` once before the loop: a NumPy argument is copied there and back each time"
        ),
        Framework.JULIA: say("make arrays with `CUDA.zeros` or `CuArray` once before the loop"),
        Framework.OPENACC: say("put one `acc data` region around the loop, and `present` on the loops in it"),
        Framework.OPENMP: say("put one `target data` region around the loop, so that arrays stay on the device"),
        Framework.CUDA: say("copy it once before the loop; else `cudaMemcpyAsync` from `cudaMallocHost` memory"),
        Framework.HIP: say("copy it once before the loop; else `hipMemcpyAsync` from `hipHostMalloc` memory"),
    },
)
"""Where the host waits for copies to the device."""

HOST_COPY: Final = FixWords.of(
    say("pack the small copies into one"),
    {
        Framework.TORCH: say("replace the loop of small copies by one tensor operation, or pack them into one copy"),
        Framework.OPENACC: say("update whole arrays once (`acc update`), not elements or sections in a loop"),
        Framework.OPENMP: say("update whole arrays once (`target update`), not elements or sections in a loop"),
        Framework.JULIA: say("copy whole arrays: `CUDA.allowscalar(false)` finds what goes element by element"),
    },
)
LAUNCH_BOUND: Final = FixWords.of(
    say("capture the step in a graph and replay it, or launch fewer, larger kernels"),
    {
        Framework.TORCH: say(
            "replay the step as a CUDA graph, or compile it (`torch.compile(mode='reduce-overhead')`)"
        ),
        Framework.COMPILED: say(
            "`torch.compile(mode='reduce-overhead')` replays it as a CUDA graph; `TORCH_LOGS=cudagraphs,graph_breaks` "
            "says what prevents that"
        ),
        Framework.VLLM: say("leave CUDA graphs on (no `--enforce-eager`), captured for the batch sizes that occur"),
        Framework.SGLANG: say("leave CUDA graphs on (no `--disable-cuda-graph`), up to `--cuda-graph-max-bs`"),
        Framework.JAX: say("put the whole step into one `jax.jit`, and loops into `jax.lax.scan`"),
        Framework.TENSORFLOW: say("put the whole step into one `tf.function(jit_compile=True)`"),
        Framework.TENSORRT: say("capture `enqueueV3` in a CUDA graph (`trtexec --useCudaGraph`)"),
        Framework.LLAMA: say("build with `GGML_CUDA_GRAPHS=ON`, and decode more sequences at a time"),
        Framework.CUPY: say("fuse operations with `@cupy.fuse` or an `ElementwiseKernel`, so that fewer are launched"),
        Framework.NUMBA: say(
            "let one kernel do the work of several: each launch from Python costs tens of microseconds"
        ),
        Framework.JULIA: say(
            "fuse broadcasts (`@.`), so that fewer kernels are launched, or replay with `CUDA.@captured`"
        ),
        Framework.OPENACC: say("join loops into fewer `parallel` regions, and queue them with `async`"),
        Framework.OPENMP: say("join loops into fewer `target` regions, and queue them with `nowait`"),
        Framework.CUDA: say(
            "capture the step (`cudaStreamBeginCapture`) and replay it as a CUDA graph, or launch fewer, larger kernels"
        ),
        Framework.HIP: say(
            "capture the step (`hipStreamBeginCapture`) and replay it as a graph, or launch fewer, larger kernels"
        ),
    },
)

CAPTURED_ANEW: Final = say("capture each graph once, before the steps, and keep it; a benchmark times launches alone")

STEP_PERIODIC: Final = FixWords.of(
    say("do it beside the steps, or less often: copies on a stream of their own, files by another thread"),
    {
        Framework.TORCH: say(
            "do it beside the steps (`torch.distributed.checkpoint.async_save`), or less often; log values a step "
            "later, copied with `non_blocking=True`"
        ),
        Framework.JAX: say(
            "do it beside the steps (Orbax's `AsyncCheckpointer`), or less often; read values to log a step later"
        ),
        Framework.TENSORFLOW: say(
            "do it beside the steps (`tf.train.CheckpointOptions` with `enable_async`), or less often"
        ),
        Framework.CUDA: say(
            "do it beside the steps, or less often: `cudaMemcpyAsync` to pinned memory on a stream of its own, files "
            "by another thread"
        ),
        Framework.HIP: say(
            "do it beside the steps, or less often: `hipMemcpyAsync` to pinned memory on a stream of its own, files "
            "by another thread"
        ),
    },
)

# copies

COPY_PAGEABLE: Final = FixWords.of(
    say("copy from and to pinned memory, and reuse the buffers"),
    {
        Framework.TORCH: say("copy from and to pinned memory (`pin_memory=True`), and reuse the buffers"),
        Framework.JAX: say("`jax.device_put` the next inputs while this step runs; fewer, larger arrays"),
        Framework.TENSORFLOW: say("`prefetch_to_device` at the end of the `tf.data` pipeline"),
        Framework.CUPY: say("copy from and to `cupyx.empty_pinned` arrays, and reuse them"),
        Framework.NUMBA: say("copy from and to `cuda.pinned_array` arrays, and reuse them"),
        Framework.JULIA: say("pin the host's arrays once (`CUDA.pin`), and reuse them"),
        Framework.OPENACC: say("have the compiler pin host arrays (`-gpu=pinned` of nvc and nvfortran)"),
        Framework.CUDA: say("allocate host buffers with `cudaMallocHost` (or `cudaHostRegister` them), and reuse them"),
        Framework.HIP: say("allocate host buffers with `hipHostMalloc` (or `hipHostRegister` them), and reuse them"),
    },
)
UNIFIED_MEMORY: Final = FixWords.of(
    say("prefetch pages before they are touched, or use plain device memory"),
    {
        Framework.OPENACC: say("data regions instead of managed memory (`-gpu=managed`, `-stdpar`)"),
        Framework.OPENMP: say("`map` clauses instead of unified shared memory"),
        Framework.JULIA: say("arrays in device memory (`CUDA.DeviceMemory`), not unified"),
        Framework.CUPY: say("CuPy's default memory pool instead of `malloc_managed`"),
        Framework.NUMBA: say("`cuda.device_array` instead of `cuda.managed_array`"),
        Framework.CUDA: say("`cudaMemPrefetchAsync` before the kernels, or `cudaMalloc` with explicit copies"),
        Framework.HIP: say("`hipMemPrefetchAsync` before the kernels, or `hipMalloc` with explicit copies"),
    },
)

# kernels and their launches

CAST: Final = FixWords.of(
    say("keep data in one type; convert once, not in each step"),
    {
        Framework.TORCH: say("keep weights and activations in one type; convert weights once, not in each step"),
    },
)
TINY_KERNELS: Final = FixWords.of(
    say("fuse them, batch them, or capture the step in a graph"),
    {
        Framework.TORCH: say("fuse them, batch them, or capture the step in a CUDA graph"),
        Framework.TENSORRT: say("capture `enqueueV3` in a CUDA graph (`trtexec --useCudaGraph`)"),
        Framework.JAX: say("put more into one `jax.jit`, which fuses it, or batch with `jax.vmap`"),
        Framework.CUPY: say("fuse them with `@cupy.fuse` or an `ElementwiseKernel`, or batch them"),
        Framework.JULIA: say("fuse them into one broadcast (`@.`) or one kernel, or batch them"),
        Framework.OPENACC: say("join the loops into one region, or `collapse` them"),
        Framework.OPENMP: say("join the loops into one `target` region, or `collapse` them"),
    },
)
KERNEL_LOOP: Final = FixWords.of(
    say("one kernel for all of them: pass their addresses and sizes as an array"),
    {
        Framework.TORCH: say("use the fused or foreach form: one kernel for all tensors"),
        Framework.JAX: say("`jax.vmap` or `jax.lax.scan` over stacked arrays, instead of a loop in Python"),
        Framework.TENSORFLOW: say("stack the tensors and call the operation once, inside one `tf.function`"),
        Framework.CUPY: say("stack the arrays, and call the operation once for all"),
        Framework.JULIA: say("stack the arrays, and broadcast once over all"),
        Framework.NUMBA: say("stack the arrays, and launch one kernel with an index more"),
        Framework.OPENACC: say("take the loop around the region into it (`collapse`)"),
        Framework.OPENMP: say("take the loop around the region into it (`collapse`)"),
    },
)

# a GPU that is busy with the wrong work

FP32: Final = FixWords.of(
    say("matrix products on inputs of 16 bits, or TF32 where the library has it"),
    {
        Framework.TORCH: say("`model.to(torch.bfloat16)`, or `torch.set_float32_matmul_precision('high')` for TF32"),
        Framework.VLLM: say("serve in 16 bits: `--dtype=bfloat16`"),
        Framework.SGLANG: say("serve in 16 bits: `--dtype=bfloat16`"),
        Framework.JAX: say(
            "parameters and inputs in `jnp.bfloat16`, or `jax_default_matmul_precision='tensorfloat32'`"
        ),
        Framework.TENSORFLOW: say("`tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')`"),
        Framework.TENSORRT: say("build the engine with `--bf16` or `--fp16`"),
        Framework.LLAMA: say("a model in 16 bits or quantized (`llama-quantize`)"),
        Framework.CUPY: say("`CUPY_TF32=1`, or inputs as `float16`"),
        Framework.JULIA: say("`CUDA.math_mode!(CUDA.FAST_MATH)` for TF32, or inputs as `Float16`"),
        Framework.CUDA: say("`cublasGemmEx` with 16-bit inputs, or `CUBLAS_COMPUTE_32F_FAST_TF32`"),
        Framework.HIP: say("`hipblasGemmEx` with 16-bit inputs"),
    },
)
FP32_WEIGHTS: Final = FixWords.of(
    say("weights of 16 bits; TF32 would read as many bytes as FP32"),
    {
        Framework.TORCH: say("`model.to(torch.bfloat16)`; TF32 would read as many bytes as FP32"),
        Framework.VLLM: say("serve in 16 bits: `--dtype=bfloat16`"),
        Framework.SGLANG: say("serve in 16 bits: `--dtype=bfloat16`"),
    },
)

FP32_TO_HALF: Final = FixWords.of(
    say("matrix products on half-precision inputs, which this GPU's tensor cores take"),
    {
        Framework.TORCH: say("`model.half()`, or `torch.autocast('cuda', torch.float16)` with a `GradScaler`"),
        Framework.VLLM: say("serve in half precision: `--dtype=half`"),
        Framework.SGLANG: say("serve in half precision: `--dtype=half`"),
        Framework.JAX: say("parameters and inputs in `jnp.float16`"),
        Framework.TENSORFLOW: say("`tf.keras.mixed_precision.set_global_policy('mixed_float16')`"),
        Framework.TENSORRT: say("build the engine with `--fp16`"),
        Framework.LLAMA: say("a model in F16, or quantized (`llama-quantize`)"),
        Framework.CUPY: say("inputs as `float16`"),
        Framework.JULIA: say("inputs as `Float16`"),
        Framework.CUDA: say("`cublasGemmEx` with `CUDA_R_16F` inputs and `CUBLAS_COMPUTE_32F`"),
    },
)
"""Of a GPU that has tensor cores, but neither bfloat16 nor TF32, or is not known to."""

TF32: Final = FixWords.of(
    say("matrix products on inputs of 16 bits"),
    {
        Framework.TORCH: say("`model.to(torch.bfloat16)`, or `torch.autocast('cuda', torch.bfloat16)` for training"),
        Framework.VLLM: say("serve in 16 bits: `--dtype=bfloat16`"),
        Framework.SGLANG: say("serve in 16 bits: `--dtype=bfloat16`"),
        Framework.JAX: say("parameters and inputs in `jnp.bfloat16`"),
        Framework.TENSORFLOW: say("`tf.keras.mixed_precision.set_global_policy('mixed_bfloat16')`"),
        Framework.TENSORRT: say("build the engine with `--bf16` or `--fp16`"),
        Framework.CUPY: say("inputs as `float16`"),
        Framework.JULIA: say("inputs as `Float16`"),
        Framework.CUDA: say("`cublasGemmEx` with 16-bit inputs"),
        Framework.HIP: say("`hipblasGemmEx` with 16-bit inputs"),
    },
)
FP64: Final = FixWords.of(
    say("single precision, in constants too"),
    {
        Framework.TORCH: say(
            "NumPy defaults to float64: `astype(np.float32)` before `torch.from_numpy`, and no `.double()`"
        ),
        Framework.JAX: say("leave `jax_enable_x64` off, and cast NumPy arrays to float32"),
        Framework.TENSORFLOW: say("NumPy defaults to float64: cast arrays to float32 before they become tensors"),
        Framework.CUPY: say("CuPy defaults to float64, as NumPy does: `dtype=cupy.float32`"),
        Framework.NUMBA: say("arrays as `np.float32`, and constants as `np.float32(1)`: Python's floats are double"),
        Framework.JULIA: say("`Float32` arrays, and constants as `1f0`"),
        Framework.OPENACC: say("single precision (`float`, `real(4)`), and constants as `1.0f` or `1.0_4`"),
        Framework.OPENMP: say("single precision (`float`, `real(4)`), and constants as `1.0f` or `1.0_4`"),
        Framework.CUDA: say("float instead of double, and constants as `1.0f`"),
        Framework.HIP: say("float instead of double, and constants as `1.0f`"),
    },
)
ATTENTION: Final = FixWords.of(
    say("a FlashAttention kernel, or the library's fused attention"),
    {
        Framework.TORCH: say("`F.scaled_dot_product_attention`, or `attn_implementation='sdpa'` in transformers"),
        Framework.JAX: say("`jax.nn.dot_product_attention(implementation='cudnn')`"),
        Framework.LLAMA: say("run with `--flash-attn`"),
        Framework.CUDA: say("a FlashAttention kernel, or cuDNN's fused attention"),
    },
)
LAYOUT: Final = FixWords.of(
    say("one layout throughout: channels last, where matrix units want it"),
    {
        Framework.TORCH: say("model and inputs `.to(memory_format=torch.channels_last)`"),
        Framework.JAX: say("NHWC in `dimension_numbers` of `lax.conv_general_dilated`"),
        Framework.TENSORFLOW: say("`data_format='channels_last'` throughout"),
        Framework.TENSORRT: say("give inputs and outputs the format that the engine's layers use (`--inputIOFormats`)"),
        Framework.CUDA: say("`CUDNN_TENSOR_NHWC` for tensors and filters throughout"),
    },
)
DEVICE_COPY: Final = FixWords.of(
    say("write results where they are read"),
    {
        Framework.TORCH: say("views instead of `.contiguous()` and `torch.cat`; write into preallocated buffers"),
        Framework.JAX: say("`jax.lax.dynamic_update_slice` with donated buffers (`donate_argnums`)"),
        Framework.CUPY: say("views instead of `concatenate` and `ascontiguousarray`; results into an `out=`"),
        Framework.JULIA: say("`@views` instead of slices and `cat`, which copy"),
    },
)
FULL_SORT: Final = FixWords.of(
    say("a selection of the few largest, or a sort of fewer values"),
    {
        Framework.TORCH: say(
            "`torch.topk` for the few largest, `torch.bincount` to count; a sampler without a sort for top-p"
        ),
        Framework.JAX: say("`jax.lax.top_k`, or `jax.lax.approx_max_k`, for the few largest"),
        Framework.TENSORFLOW: say("`tf.math.top_k` for the few largest"),
        Framework.CUPY: say("`cupy.argpartition` for the few largest"),
        Framework.CUDA: say("a selection of the few largest (RAFT's `select_k`), or a sort of fewer values"),
    },
)
UNFUSED_CHAIN: Final = FixWords.of(
    say("one kernel that keeps intermediates in registers"),
    {
        Framework.TORCH: say("`torch.compile`, or one operator for it: `F.rms_norm`, `F.layer_norm`, `F.gelu`"),
        Framework.COMPILED: say(
            "bring them into the compiled region (`TORCH_LOGS=graph_breaks` says what ends it), or use one operator "
            "for it: `F.rms_norm`, `F.layer_norm`, `F.gelu`"
        ),
        Framework.JAX: say("call it inside one `jax.jit`, which fuses it"),
        Framework.TENSORFLOW: say("call it inside one `tf.function(jit_compile=True)`, which fuses it"),
        Framework.CUPY: say("`@cupy.fuse`, or one `cupy.ElementwiseKernel` for all of it"),
        Framework.JULIA: say("one broadcast (`@.`) for all of it"),
        Framework.OPENACC: say("one loop for all of it"),
        Framework.OPENMP: say("one loop for all of it"),
    },
)
OPTIMIZER: Final = FixWords.of(
    say("one kernel for all passes over a parameter"),
    {Framework.TORCH: say("`torch.optim.AdamW(..., fused=True)`")},
)
GEMM_LOOP: Final = FixWords.of(
    say("one batched or grouped matrix product"),
    {
        Framework.TORCH: say("`torch.bmm`, or `torch._grouped_mm` where sizes differ"),
        Framework.JAX: say("`jax.vmap` over the loop, or `jax.lax.ragged_dot` where sizes differ"),
        Framework.TENSORFLOW: say("stack the matrices: `tf.matmul` multiplies all of a batch at once"),
        Framework.CUPY: say("stack the matrices: `cupy.matmul` multiplies all of a batch at once"),
        Framework.JULIA: say("`CUBLAS.gemm_strided_batched!`, or NNlib's `batched_mul`"),
        Framework.CUDA: say("`cublasGemmStridedBatchedEx`, or CUTLASS's grouped GEMM"),
        Framework.HIP: say("`hipblasGemmStridedBatchedEx`, or Composable Kernel's grouped GEMM"),
    },
)
UNDER_FILLED: Final = FixWords.of(
    say("more blocks: split rows, or handle several of them in one launch"),
    {
        Framework.TORCH: say("one call for all rows or requests, instead of a loop over them"),
        Framework.TRITON: say("more programs in the grid: smaller tiles, or split the reduction"),
        Framework.JAX: say("`jax.vmap` instead of a loop"),
        Framework.NUMBA: say("more blocks in `kernel[blocks, threads]`: one thread for each element"),
        Framework.JULIA: say("more blocks in `@cuda threads=… blocks=…`: one thread for each element"),
        Framework.OPENACC: say("`gang vector` over more iterations: `collapse` nested loops"),
        Framework.OPENMP: say("`teams distribute parallel for` over more iterations: `collapse` nested loops"),
    },
)
MISALIGNED: Final = FixWords.of(
    say("pad sizes to a multiple of 8 in 16-bit types, of 16 in 8-bit ones"),
    {
        Framework.TORCH: say("pad vocabulary, hidden sizes and channels to a multiple of 8, better 64"),
        Framework.JAX: say("pad dimensions of `dot_general` and convolutions to a multiple of 8, better 64"),
    },
)
ATTENTION_SLOW_PATH: Final = FixWords.of(
    say("tell the kernel that the mask is causal instead of passing one; heads of 64 or 128"),
    {
        Framework.TORCH: say(
            "`F.scaled_dot_product_attention(..., is_causal=True)` without a mask (`flex_attention` for others), heads "
            "of 64 or 128"
        ),
        Framework.JAX: say(
            "`jax.nn.dot_product_attention(..., is_causal=True, implementation='cudnn')` without a mask"
        ),
    },
)
OLD_KERNEL: Final = FixWords.of(
    say("attention of a library that is built for this GPU: cuDNN's, or FlashAttention 3"),
    {
        Framework.TORCH: say("`torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION)`, or FlashAttention 3"),
        Framework.JAX: say("`jax.nn.dot_product_attention(..., implementation='cudnn')`"),
    },
)
RECOMPUTE: Final = FixWords.of(
    say("keep activations as far as memory allows"),
    {
        Framework.TORCH: say("checkpoint fewer layers, or none: `torch.cuda.max_memory_allocated()` tells the room"),
        Framework.JAX: say("`jax.checkpoint` around fewer layers, or with a policy that saves matrix products"),
    },
)
DENSE_EMBEDDING: Final = FixWords.of(
    say("a sparse gradient, and an optimizer that updates only the rows in it"),
    {Framework.TORCH: say("`nn.Embedding(..., sparse=True)` with `torch.optim.SparseAdam`, or a row-wise optimizer")},
)
UNUSED_RESULT: Final = FixWords.of(
    say("compute only what is read"),
    {
        Framework.TORCH: say(
            "take the slice before the product (`hidden[:, -1]`), and `requires_grad_(False)` on what is not trained"
        )
    },
)
REDUNDANT_FILL: Final = FixWords.of(
    say("allocate without clearing"),
    {Framework.TORCH: say("`torch.empty` instead of `zeros`, `optimizer.zero_grad(set_to_none=True)`")},
)
ONE_HOT: Final = FixWords.of(
    say("look rows up by their numbers"),
    {Framework.TORCH: say("`F.embedding(tokens, table)` instead of `F.one_hot(tokens) @ table`")},
)
UNVECTORIZED: Final = FixWords.of(
    say("give all operands one layout, the innermost dimension contiguous"),
    {Framework.TORCH: say("one layout for all operands: transpose once, where the tensor is made")},
)
TAIL_WAVE: Final = FixWords.of(
    say("smaller blocks, or a grid that is a multiple of the blocks that fit on all SMs"),
    {Framework.TRITON: say("another BLOCK size, or a persistent kernel: a grid of as many programs as fit on all SMs")},
)
FAR_FROM_ROOF: Final = FixWords.of(
    say("see what holds the kernel back: `gpuledger kernels PROFILE -- COMMAND` prints the ncu command for it"), {}
)
