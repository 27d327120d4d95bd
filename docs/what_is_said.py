"""Write what `gpuledger report` says of profiles whose truth is known. `make docs` runs it, and a test compares.

Profiles of the repository, and public ones where they lie beside the checkout or GPULEDGER_CORPUS says; rows of those
that are not here stay as they are.
"""

from __future__ import annotations

import lzma
import os
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import gpuledger
from gpuledger.errors import GpuledgerError
from gpuledger.messages import capitalised
from gpuledger.present.document import Conclusion, Document, Findings, Medium, Only, Opening
from gpuledger.units import count_text, time_text

ROOT: Final = Path(__file__).parent.parent
CAPTURES: Final = ROOT / "captures"
CORPUS: Final = Path(os.environ.get("GPULEDGER_CORPUS", ROOT.parent / "shared" / "corpus"))
PAGE: Final = Path(__file__).parent / "concepts" / "what-is-said.md"
BEGIN: Final = "<!-- {part}: from here to the end mark, `make docs` writes -->"
END: Final = "<!-- {part}: end -->"
HEAD: Final = "| profile | truth | said: steps | said: first sentences | said: first finding |\n|---|---|---|---|---|"


class Truth(NamedTuple):
    """A profile by how its path ends, what we call it, and what one who knows the program says of it."""

    ending: str
    title: str
    truth: str
    is_job: bool = False
    """Of several ranks: what `gpuledger fleet` says."""


OURS: Final = (
    Truth(
        "nsys/experts_loop.sqlite.xz",
        "nsys/experts_loop",
        "64 experts in a Python loop: a wait for the number of tokens before each, then small kernels launched one by "
        "one; the host is never ahead",
    ),
    Truth(
        "nsys/experts_batched.sqlite.xz",
        "nsys/experts_batched",
        "the same as one padded product: one wait a step, then 43 launches",
    ),
    Truth("nsys/experts_grouped.sqlite.xz", "nsys/experts_grouped", "the same as one grouped product: no wait"),
    Truth(
        "nsys/decode.sqlite.xz",
        "nsys/decode",
        "20 decode steps of a small model; cuDNN plans its attention anew for every length, on the host, before the "
        "kernel is there",
    ),
    Truth("nsys/attn.sqlite.xz", "nsys/attn", "that attention alone"),
    Truth("nsys/graph.sqlite.xz", "nsys/graph", "20 replays of a decode step as one CUDA graph: nothing to fix"),
    Truth(
        "nsys/host_read_stacks.sqlite.xz",
        "nsys/host_read_stacks",
        "a matmul stack that reads a number back after each of 64 layers",
    ),
    Truth("nsys/numpy_samples.sqlite.xz", "nsys/numpy_samples", "a matmul stack with numpy in every step"),
    Truth(
        "nsys/metrics_llama.sqlite.xz",
        "nsys/metrics_llama",
        "ten eager forwards of a Llama over 8,192 tokens: busy, with rotary embeddings and activations in many passes",
    ),
    Truth("serve/normal.sqlite.xz", "serve/normal", "decode of eight ranks as streams of one eager process"),
    Truth("serve/graph.sqlite.xz", "serve/graph", "the same as one graph: the kernels are what is left"),
    Truth("places/function.plain.json.gz", "places/function", "numpy in a function before every forward"),
    Truth("places/loader.plain.json.gz", "places/loader", "a DataLoader without workers resizes images in every step"),
    Truth("places/workers.plain.json.gz", "places/workers", "a DataLoader with one worker, which is too slow"),
    Truth("torch/graph.json.gz", "torch/graph", "20 replays of a decode step as one CUDA graph: nothing to fix"),
    Truth("torch/moe_loop.json.gz", "torch/moe_loop", "256 experts in a Python loop, most of them launches"),
)

OTHERS: Final = (
    Truth(
        "sglang_Qwen3-8B_prefilldecode.json.gz",
        "TraceLens, SGLang Qwen3-8B prefill",
        "one `step[EXTEND…]` of 494 ms; before it the GPU finishes a batch that was launched before the recording",
    ),
    Truth(
        "sglang_Qwen3-8B_decode.json.gz",
        "TraceLens, SGLang Qwen3-8B decode",
        "one step of 10 ms, a graph replay; 463 ms before it are the batch before",
    ),
    Truth(
        "vllm_prefilldecode_piecewise__graph_execution.json.gz",
        "TraceLens, vLLM piecewise graphs",
        "one `execute_…` of 156 ms, 25 graphs a forward; before it work launched before the recording",
    ),
    Truth("b200__eager_trace.json.gz", "TraceLens, B200 eager", "one prefill of 36 layers, bound by the host"),
    Truth(
        "h100__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "TraceLens, H100 Qwen1.5-0.5B",
        "one ProfilerStep; 509 of 1,707 kernels were launched before the recording",
    ),
    Truth(
        "resnet50_num_workers_0__worker0.pt.trace.json.gz",
        "Kineto, ResNet-50, 0 workers (2021)",
        "six ProfilerSteps; the DataLoader decodes and resizes images between them",
    ),
    Truth(
        "mi300__Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "TraceLens, MI300X Qwen1.5-0.5B",
        "one ProfilerStep of the same eager model: rotary embeddings, norms and activations in many passes",
    ),
    Truth(
        "capture_traces__bs_32_rank0.json.gz",
        "TraceLens, SGLang graph capture",
        "the graph of a batch size is captured: hardly anything runs",
    ),
    Truth(
        "graph_capture_rank_0.1773709679453551615.pt.trace.json.gz",
        "TraceLens, vLLM graph capture",
        "piecewise graphs are captured, with copies between the captures: hardly anything runs",
    ),
    Truth(
        "ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
        "HolisticTraceAnalysis, ns_resolution",
        "five training steps on a V100 in FP32: half of the time is sgemm, which has no tensor cores",
    ),
    Truth(
        "critical_path__alexnet__benchmark_result_2869224_1695835535_trace.json.gz",
        "HolisticTraceAnalysis, alexnet",
        "one forward after 43 s of start-up: 11 ms of kernels, cudaFree creates the context",
    ),
    Truth(
        "cuda_event_sync__event_sync_trace.json.gz",
        "HolisticTraceAnalysis, cuda_event_sync",
        "four kernels and an event in one ProfilerStep: nothing but the host",
    ),
    Truth(
        "cuda_event_sync_multi_stream__event_sync_trace.json.gz",
        "HolisticTraceAnalysis, cuda_event_sync_multi_stream",
        "three products on two streams, 18.6 ms between two of them on the host: no steps",
    ),
    Truth(
        "large_integer_trace__rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz",
        "HolisticTraceAnalysis, large_integer",
        "one collective, cut out of a trace",
    ),
    Truth(
        "cpu_only__rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
        "HolisticTraceAnalysis, cpu_only",
        "operators of the host alone",
    ),
    Truth(
        "trace_diff__control__control.json.gz",
        "HolisticTraceAnalysis, trace_diff control",
        "six training steps, exposed all-to-all",
    ),
    Truth(
        "trace_diff__test__test.json.gz",
        "HolisticTraceAnalysis, trace_diff test",
        "six training steps, copies within the device",
    ),
    Truth(
        "h100_2gpu_1s.sqlite.xz",
        "nsys-ai, h100_2gpu_1s",
        "copies from pinned host memory all the time, at the link's rate",
    ),
    Truth(
        "mfu_2gpu_before.sqlite.xz",
        "nsys-ai, mfu_2gpu before",
        "a stretch of a training step, FSDP, blocks alike; no step is whole",
    ),
    Truth(
        "mfu_2gpu_after.sqlite.xz",
        "nsys-ai, mfu_2gpu after",
        "the same stretch with less to compute: the host now falls behind, after copies that it waits for",
    ),
    Truth(
        "result_2_7B_compile_ro.sqlite.xz",
        "assignment2-systems, 2.7 B compiled",
        "ten forwards, each one graph",
    ),
    Truth(
        "Mordred-Deprecated__report1.sqlite.xz",
        "Mordred, report1",
        "the program reads its columns from text files with getc",
    ),
    Truth(
        "JACC.jl__report1.sqlite.xz",
        "JACC.jl, report1",
        "CUDA was not traced",
    ),
    Truth(
        "cs336_assignment2__report1.nsys-rep",
        "cs336_assignment2, report1.nsys-rep",
        "CUDA calls and ranges, no kernel was recorded",
    ),
    Truth(
        "908_results.json.gz",
        "TraceLens, rocprofv3 JSON",
        "kernels on an MI300X, as rocprofv3 writes them",
    ),
    Truth(
        "jax08_gemm__tw003.xplane.pb",
        "TraceLens, JAX xplane",
        "matrix products of JAX on an MI300X",
    ),
    Truth(
        "dlrm_kineto.tar.gz",
        "param, DLRM, 8 ranks",
        "rank 7 is last most often, ranks 2, 6 and 0 arrive little earlier; captures of one step began apart",
        is_job=True,
    ),
)


def written(page: str) -> str:
    """The page with what is said now of the profiles that are here."""
    for part, folder, truths in (("ours", CAPTURES, OURS), ("others", CORPUS, OTHERS)):
        begin, end = BEGIN.format(part=part), END.format(part=part)
        before, _, rest = page.partition(begin)
        kept, _, after = rest.partition(end)
        rows = {row.split(" | ")[0].removeprefix("| "): row for row in kept.splitlines() if row.startswith("| ")}
        said = [row_of(truth, folder) or rows.get(truth.title, "") for truth in truths]
        page = "\n".join((before + begin, "", HEAD, *filter(None, said), "", end)) + after
    return page


def row_of(truth: Truth, folder: Path) -> str:
    """A row of the table; empty where the profile is not here."""
    packed = next((path for path in folder.glob("*/*") if str(path).endswith(truth.ending)), None)
    if packed is None:
        return ""
    with tempfile.TemporaryDirectory() as unpacked:
        profile = packed
        if packed.suffix == ".xz":
            profile = Path(unpacked) / packed.stem
            profile.write_bytes(lzma.decompress(packed.read_bytes()))
        if truth.is_job:
            cells = _cells(gpuledger.fleet(profile).document())
        else:
            try:
                report = gpuledger.report(profile)
                cells = _cells(report.document(), _steps(report))
            except GpuledgerError as refused:
                cells = ("–", f"Refused: {str(refused).splitlines()[0].partition(': ')[2]}", "–")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in (truth.title, truth.truth, *cells))} |"


def _cells(document: Document, steps: str = "") -> tuple[str, str, str]:
    blocks = document.blocks()
    [opening] = [block for block in blocks if isinstance(block, Opening)]
    conclusion = next(block for block in blocks if isinstance(block, Conclusion))
    in_text = (
        part for block in blocks for part in (block.shown_in(Medium.TEXT) if isinstance(block, Only) else (block,))
    )
    findings = next(block for block in in_text if isinstance(block, Findings))
    first = "–"
    if findings.entries:
        finding, saving = findings.entries[0].finding, findings.entries[0].saving
        first = f"{finding.code}{f', {saving}' if saving else ''}: {'; '.join(finding.sentences[:1]) or finding.claim}"
    return steps or str(opening.headline).rpartition(" · ")[2], capitalised(str(conclusion.text)), first


def _steps(report: gpuledger.Report) -> str:
    device = report.main_device
    if device.steps is None:
        return f"no steps, a window of {time_text(device.steady_ns)}"
    step = time_text(device.steady_ns // device.step_count)
    count = "one step" if device.step_count == 1 else f"{count_text(device.step_count)} steps"
    left_out = f", {device.steps.warm_up} before left out" if device.steps.warm_up else ""
    return f"{count} of {step}, {device.steps.source}{left_out}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
