"""What GPUs can compute at most: dense matrix products per second by type, with the source of each figure.

A GPU that is not listed, or of which only a part was used, has no peak here: `NotMeasured`, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuledger.model.health import NotMeasured
from gpuledger.model.trace import Gpu

TYPES: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
"""The types that peaks are given for. `fp32` is exact single precision, `tf32` its short form for tensor cores."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """One model of GPU. TFLOP/s by type (TOP/s for int8), without sparsity; a type that is not there is not known.

    Products accumulate in fp32, as frameworks have it. Where matrix units are faster than the others, theirs counts.
    """

    name: re.Pattern[str]
    processors: int
    """Multiprocessors, or compute units: another number means another or a divided GPU."""
    tera: Mapping[str, float]


def _peaks(name: str, processors: int, **tera: float) -> Peaks:
    return Peaks(re.compile(name), processors, tera)


PEAKS: Final = (
    # NVIDIA Tesla V100 data sheet (2020), V100 SXM2; no TF32, no BF16
    _peaks(r"\bV100-SXM2\b", 80, fp64=7.8, fp32=15.7, fp16=125),
    # NVIDIA A100 Tensor Core GPU data sheet (2021), the same for 40 and 80 GB, SXM and PCIe; FP64 by tensor cores
    _peaks(r"\bA100\b", 108, fp64=19.5, fp32=19.5, tf32=156, fp16=312, bf16=312, int8=624),
    # NVIDIA H100 Tensor Core GPU Architecture whitepaper (2022), table 2, H100 SXM5. "80GB HBM3" is how SXM reports
    _peaks(
        r"\bH100 80GB HBM3\b|\bH100 SXM",
        132,
        fp64=66.9,
        fp32=66.9,
        tf32=494.7,
        fp16=989.4,
        bf16=989.4,
        fp8=1978.9,
        int8=1978.9,
    ),
    # NVIDIA H100 data sheet (2023), H100 PCIe: FP64 tensor 51, FP32 51, and half of what it gives with sparsity
    _peaks(r"\bH100 PCIe\b", 114, fp64=51, fp32=51, tf32=378, fp16=756, bf16=756, fp8=1513, int8=1513),
    # NVIDIA H200 data sheet (2024), H200 SXM: the H100 SXM's figures; dense ones as in the whitepaper above
    _peaks(r"\bH200$", 132, fp64=66.9, fp32=66.9, tf32=494.7, fp16=989.4, bf16=989.4, fp8=1978.9, int8=1978.9),
    # NVIDIA Blackwell data sheet (2025), one GPU of an HGX B200: half of what it gives with sparsity
    _peaks(r"\bB200\b", 148, fp64=37, fp32=75, tf32=1100, fp16=2250, bf16=2250, fp8=4500, int8=4500),
    # NVIDIA L4 data sheet (2023): half of what it gives with sparsity
    _peaks(r"\bL4$", 58, fp32=30.3, tf32=60, fp16=121, bf16=121, fp8=242.5, int8=242.5),
    # NVIDIA L40S data sheet (2023), the figures without sparsity
    _peaks(r"\bL40S$", 142, fp32=91.6, tf32=183, fp16=362.05, bf16=362.05, fp8=733, int8=733),
    # NVIDIA A10 data sheet (2021), the figures without sparsity
    _peaks(r"\bA10$", 72, fp32=31.2, tf32=62.5, fp16=125, bf16=125, int8=250),
    # NVIDIA Ada GPU Architecture whitepaper (2022), appendix A, RTX 4090 with FP32 accumulate, without sparsity
    _peaks(r"\bRTX 4090$", 128, fp32=82.6, tf32=82.6, fp16=165.2, bf16=165.2, fp8=330.3, int8=660.6),
    # AMD Instinct MI250X data sheet (2021): half of the card's, as each of its two dies is a GPU to programs
    _peaks(r"\bMI250X\b", 110, fp64=47.85, fp32=47.85, fp16=191.5, bf16=191.5, int8=191.5),
    # AMD Instinct MI300X data sheet (2023), matrix figures without sparsity; TF32 is AMD's XF32
    _peaks(
        r"\bMI300X\b",
        304,
        fp64=163.4,
        fp32=163.4,
        tf32=653.7,
        fp16=1307.4,
        bf16=1307.4,
        fp8=2614.9,
        int8=2614.9,
    ),
)
"""First match of the name wins."""

_DIVIDED: Final = re.compile(r"\bMIG\b")


def peaks_of(gpu: Gpu) -> Peaks | NotMeasured:
    """The figures of a GPU as the profile describes it."""
    found = next((each for each in PEAKS if each.name.search(gpu.name)), None)
    if found is None:
        return NotMeasured(f"the peak of '{gpu.name}' is not known")
    if _DIVIDED.search(gpu.name) or gpu.sm_count not in (None, found.processors):
        return NotMeasured(f"the peak of a part of a GPU is not known: '{gpu.name}', {gpu.sm_count} multiprocessors")
    return found


def peak_flops(gpu: Gpu, kind: str) -> float | NotMeasured:
    """Most operations per second in one of TYPES, dense."""
    found = peaks_of(gpu)
    if isinstance(found, NotMeasured):
        return found
    if kind not in found.tera:
        return NotMeasured(f"the peak of '{gpu.name}' in {kind} is not known")
    return found.tera[kind] * 1e12
