"""What GPUs can do at most: arithmetic by type, bytes from memory and over links, warps that a kernel has room for.

Each figure with its source. A GPU that is not listed, or of which only a part was used, has no peak here:
`NotMeasured`, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from gpuledger.catalog.gpu_metrics import WARPS_PER_SM
from gpuledger.regex import regex
from gpuledger.trace.model import Gpu, NotMeasured

TYPES: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
"""The types that peaks are given for. `fp32` is exact single precision, `tf32` its short form for tensor cores."""

PLAIN_TYPES: Final = ("fp64", "fp32", "fp16")
"""The types that peaks outside matrix units are given for."""


class Peaks(Struct, frozen=True):
    """One model of GPU. TFLOP/s by type (TOP/s for int8), without sparsity; a type that is not there is unknown.

    Without `tf32` the GPU has no such type: whoever adds a model that has it gives its figure too.
    """

    name: re.Pattern[str]
    """As NVML and ROCm report it, or as profilers shorten that."""
    processors: int
    """Multiprocessors, or compute units: another number means another or a divided GPU."""
    dram_tb_per_s: float | None
    """To and from its own memory, 1 TB = 1e12 bytes. None: the name does not tell which memory the GPU has."""
    plain: Mapping[str, float]
    """Outside matrix units, multiply and add counted as two; of PLAIN_TYPES."""
    tera: Mapping[str, float]
    """Matrix products that accumulate in fp32, as frameworks have it. Where matrix units are faster, theirs counts."""


_Row: TypeAlias = tuple[float | None, ...]


def _gpu(name: str, processors: int, dram_tb_per_s: float | None, plain: _Row, tera: _Row) -> Peaks:
    by_type = (
        {kind: figure for kind, figure in zip(types, row, strict=True) if figure is not None}
        for types, row in ((PLAIN_TYPES, plain), (TYPES, tera))
    )
    return Peaks(regex(name), processors, dram_tb_per_s, *by_type)


# Plain, then matrix, in the order of PLAIN_TYPES and TYPES, for chips that were sold with several memories.
_P100_PCIE: Final = (4.7, 9.3, 18.7), (4.7, 9.3, None, None, None, None, None)
_A100: Final = (9.7, 19.5, 78), (19.5, 19.5, 156, 312, 312, None, 624)
_H100_SXM: Final = (33.5, 66.9, 133.8), (66.9, 66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9)
_H20: Final = (1, 44, None), (1, 44, 74, 148, 148, 296, 296)

# A row: name, multiprocessors, TB/s, plain (fp64, fp32, fp16), matrix (fp64, fp32, tf32, fp16, bf16, fp8, int8).
#
# Above it: the document, then what of the row was found again in public copies and citations of it ("seen"), and
# what is cited from memory ("recalled"). Data sheets with sparsity only: half of that. Where they do not give plain
# FP64 and FP16, "rates" means FP32's figure by the CUDA programming guide's table of arithmetic throughput: FP64 1/32
# on compute capability 7.5, 1/64 on 8.6, 8.9 and 12.0; FP16 as FP32 on 8.6 and later, but twice it on 7.x and 9.0.
# Of GeForce cards, matrix units reach FP32's figure in TF32, twice it in FP16 and BF16 with FP32 accumulate, four times
# in FP8 and eight times in INT8, as in the rows that whitepapers give in full.
PEAKS: Final = (
    # NVIDIA Tesla P100 data sheet (2016), PCIe 16 GB; FP16 accumulates in FP16, so not for products. Seen: all
    _gpu(r"\bP100-PCIE-16GB$", 56, 0.732, *_P100_PCIE),
    # NVIDIA Tesla P100 data sheet (2016), PCIe 12 GB. Seen: all
    _gpu(r"\bP100-PCIE-12GB$", 56, 0.549, *_P100_PCIE),
    # NVIDIA Tesla P100 data sheet (2016), SXM2. Seen: all
    _gpu(r"\bP100-SXM2-16GB$", 56, 0.732, (5.3, 10.6, 21.2), (5.3, 10.6, None, None, None, None, None)),
    # NVIDIA Tesla V100 data sheet (2020), V100 SXM2; no TF32, no BF16. Seen: all
    _gpu(r"\bV100-SXM2\b", 80, 0.9, (7.8, 15.7, 31.4), (7.8, 15.7, None, 125, None, None, None)),
    # NVIDIA Tesla V100 data sheet (2020), V100 PCIe; plain FP16 by rates. Seen: all
    _gpu(r"\bV100-PCIE\b", 80, 0.9, (7, 14, 28), (7, 14, None, 112, None, None, None)),
    # NVIDIA Tesla V100 data sheet (2020), V100S PCIe. Seen: all
    _gpu(r"\bV100S-PCIE\b", 80, 1.134, (8.2, 16.4, 32.8), (8.2, 16.4, None, 130, None, None, None)),
    # NVIDIA TITAN V page (2017): 110 TFLOP/s and what reviews give at the same clock. Seen: all
    _gpu(r"\bTITAN V$", 80, 0.653, (6.9, 13.8, 27.6), (6.9, 13.8, None, 110, None, None, None)),
    # NVIDIA T4 data sheet (2019), "320+ GB/s"; plain FP64, FP16 by rates. Seen: all
    _gpu(r"\bT4$", 40, 0.32, (0.25, 8.1, 16.2), (None, 8.1, None, 65, None, None, 130)),
    # NVIDIA Turing GPU Architecture whitepaper (2018), reference card with FP32 accumulate; plain FP64 by rates.
    # Seen: TB/s, FP32, FP16; recalled: INT8 (seen as the Founders Edition's 227.7, 6% higher in clock)
    _gpu(r"\bRTX 2080 Ti$", 68, 0.616, (0.42, 13.4, 26.9), (None, 13.4, None, 53.8, None, None, 215.2)),
    # NVIDIA Quadro RTX 8000 and 6000 data sheets (2018), active cooling: passive ones are slower and report the same
    # name; plain FP64 by rates. Seen: all, INT8 as the TITAN RTX's
    _gpu(r"\bQuadro RTX [68]000$", 72, 0.672, (0.51, 16.3, 32.6), (None, 16.3, None, 130.5, None, None, 261)),
    # NVIDIA A100 Tensor Core GPU data sheet (2021), 80 GB SXM; FP64 by tensor cores; plain FP16: the A100 whitepaper.
    # A800 (2022) differs in NVLink only. Seen: all
    _gpu(r"\bA[18]00-SXM4-80GB\b", 108, 2.039, *_A100),
    # NVIDIA A100 Tensor Core GPU data sheet (2021), 80 GB PCIe. Seen: all; recalled: that the A800's is the same
    _gpu(r"\bA[18]00 80GB PCIe\b", 108, 1.935, *_A100),
    # NVIDIA A100 whitepaper (2020), 40 GB, SXM and PCIe. Seen: all; recalled: that the A800's is the same
    _gpu(r"\bA100-(SXM4|PCIE)-40GB\b|\bA800-SXM4-40GB\b|\bA800 40GB Active\b", 108, 1.555, *_A100),
    # NVIDIA A100 Tensor Core GPU data sheet (2021), where the name does not tell the memory. Seen: all
    _gpu(r"\bA100\b", 108, None, *_A100),
    # NVIDIA A30 data sheet (2021); plain FP16 as on the A100, 4 times FP32. Seen: TB/s, FP32, FP16; recalled: the rest
    _gpu(r"\bA30$", 56, 0.933, (5.2, 10.3, 41.3), (10.3, 10.3, 82, 165, 165, None, 330)),
    # NVIDIA A10 data sheet (2021), the figures without sparsity; plain FP64, FP16 by rates. Seen: all
    _gpu(r"\bA10$", 72, 0.6, (0.49, 31.2, 31.2), (None, 31.2, 62.5, 125, 125, None, 250)),
    # NVIDIA A10G data sheet (2021, by AWS): not the A10, half its rate with FP32 accumulate; plain FP64, FP16 by rates.
    # Seen: TB/s, FP32, and TF32 34.7, FP16 69.5 as measured; recalled: INT8
    _gpu(r"\bA10G$", 80, 0.6, (0.55, 35, 35), (None, 35, 35, 70, 70, None, 140)),
    # NVIDIA A40 data sheet (2021); plain FP64 by rates. Seen: all
    _gpu(r"\bA40$", 84, 0.696, (0.58, 37.4, 37.4), (None, 37.4, 74.8, 149.7, 149.7, None, 299.3)),
    # NVIDIA Ampere GA102 GPU Architecture whitepaper (2020), appendix C, RTX A6000. Seen: all
    _gpu(r"\bRTX A6000$", 84, 0.768, (0.6, 38.7, 38.7), (None, 38.7, 77.4, 154.8, 154.8, None, 309.7)),
    # NVIDIA Ampere GA102 GPU Architecture whitepaper (2020), RTX 3080 10 GB, FP32 accumulate. The 12 GB card reports
    # the same name and 70 multiprocessors. Seen: all
    _gpu(r"\bRTX 3080$", 68, 0.76, (0.47, 29.8, 29.8), (None, 29.8, 29.8, 59.5, 59.5, None, 238)),
    # NVIDIA Ampere GA102 GPU Architecture whitepaper (2020), appendix A, RTX 3090, FP32 accumulate. Seen: all
    _gpu(r"\bRTX 3090$", 82, 0.936, (0.56, 35.6, 35.6), (None, 35.6, 35.6, 71, 71, None, 284)),
    # NVIDIA product page (2022), RTX 3050 8 GB: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 3050$", 20, 0.224, (None, 9.1, 9.1), (None, 9.1, 9.1, 18.2, 18.2, None, 72.8)),
    # NVIDIA product page (2021), RTX 3060: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 3060$", 28, 0.36, (0.2, 12.7, 12.7), (None, 12.7, 12.7, 25.4, 25.4, None, 101.6)),
    # NVIDIA product page (2021), RTX 3060 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 3060 Ti$", 38, 0.448, (0.25, 16.2, 16.2), (None, 16.2, 16.2, 32.4, 32.4, None, 129.6)),
    # NVIDIA product page (2021), RTX 3070: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 3070$", 46, 0.448, (0.32, 20.3, 20.3), (None, 20.3, 20.3, 40.6, 40.6, None, 162.4)),
    # NVIDIA product page (2021), RTX 3070 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 3070 Ti$", 48, 0.608, (0.34, 21.7, 21.7), (None, 21.7, 21.7, 43.4, 43.4, None, 173.6)),
    # NVIDIA product page (2021), RTX 3080 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 3080 Ti$", 80, 0.912, (0.53, 34.1, 34.1), (None, 34.1, 34.1, 68.2, 68.2, None, 272.8)),
    # NVIDIA product page (2021), RTX 3090 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 3090 Ti$", 84, 1.008, (0.62, 40, 40), (None, 40, 40, 80, 80, None, 320)),
    # NVIDIA L4 data sheet (2023): half of what it gives with sparsity; plain FP64, FP16 by rates. Seen: all
    _gpu(r"\bL4$", 58, 0.3, (0.47, 30.3, 30.3), (None, 30.3, 60, 121, 121, 242.5, 242.5)),
    # NVIDIA L20 data sheet (2023). Seen: FP32, TF32, FP16 and BF16, 0.95 of them measured; recalled: the rest
    _gpu(r"\bL20$", 92, 0.864, (None, 59.8, 59.8), (None, 59.8, 59.8, 119.5, 119.5, 239, 239)),
    # NVIDIA L40 data sheet (2023), the figures without sparsity: half of the L40S's, which some doubt for the same
    # chip; plain FP64, FP16 by rates. Seen: all
    _gpu(r"\bL40$", 142, 0.864, (1.41, 90.5, 90.5), (None, 90.5, 90.5, 181.05, 181.05, 362, 362)),
    # NVIDIA L40S data sheet (2023), the figures without sparsity; plain FP64, FP16 by rates. Seen: all
    _gpu(r"\bL40S$", 142, 0.864, (1.43, 91.6, 91.6), (None, 91.6, 183, 362.05, 362.05, 733, 733)),
    # NVIDIA Ada GPU Architecture whitepaper for professionals (2023), RTX 6000 Ada; plain FP64, FP16 by rates.
    # Seen: TB/s, FP32, FP16, BF16, FP8; recalled: TF32, INT8
    _gpu(r"\bRTX 6000 Ada Generation$", 142, 0.96, (1.42, 91.1, 91.1), (None, 91.1, 182.1, 364.2, 364.2, 728.5, 728.5)),
    # NVIDIA Ada GPU Architecture whitepaper (2022), appendix, RTX 4080 with FP32 accumulate, without sparsity.
    # Seen: all but FP8; recalled: FP8
    _gpu(r"\bRTX 4080$", 76, 0.717, (0.76, 48.7, 48.7), (None, 48.7, 48.7, 97.5, 97.5, 194.9, 389.9)),
    # NVIDIA Ada GPU Architecture whitepaper (2022), appendix A, RTX 4090 with FP32 accumulate, without sparsity.
    # Seen: all but FP8; recalled: FP8
    _gpu(r"\bRTX 4090$", 128, 1.008, (1.29, 82.6, 82.6), (None, 82.6, 82.6, 165.2, 165.2, 330.3, 660.6)),
    # NVIDIA product page (2023), RTX 4060: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 4060$", 24, 0.272, (0.24, 15.1, 15.1), (None, 15.1, 15.1, 30.2, 30.2, 60.4, 120.8)),
    # NVIDIA product page (2023), RTX 4060 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 4060 Ti$", 34, 0.288, (0.35, 22.1, 22.1), (None, 22.1, 22.1, 44.2, 44.2, 88.4, 176.8)),
    # NVIDIA product page (2023), RTX 4070: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 4070$", 46, 0.504, (0.45, 29.1, 29.1), (None, 29.1, 29.1, 58.2, 58.2, 116.4, 232.8)),
    # NVIDIA product page (2023), RTX 4070 SUPER: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 4070 SUPER$", 56, 0.504, (0.55, 35.5, 35.5), (None, 35.5, 35.5, 71, 71, 142, 284)),
    # NVIDIA product page (2023), RTX 4070 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 4070 Ti$", 60, 0.504, (0.63, 40.1, 40.1), (None, 40.1, 40.1, 80.2, 80.2, 160.4, 320.8)),
    # NVIDIA product page (2023), RTX 4070 Ti SUPER: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 4070 Ti SUPER$", 66, 0.672, (0.69, 44.1, 44.1), (None, 44.1, 44.1, 88.2, 88.2, 176.4, 352.8)),
    # NVIDIA product page (2023), RTX 4080 SUPER: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 4080 SUPER$", 80, 0.736, (0.82, 52.2, 52.2), (None, 52.2, 52.2, 104.4, 104.4, 208.8, 417.6)),
    # NVIDIA H100 data sheet (2023), H100 PCIe: FP64 tensor 51, FP32 51, and half of what it gives with sparsity;
    # plain FP64: the whitepaper; plain FP16 by rates. Seen: all
    _gpu(r"\bH100 PCIe\b", 114, 2.0, (25.6, 51, 102), (51, 51, 378, 756, 756, 1513, 1513)),
    # NVIDIA H100 NVL data sheet (2024), one of the pair: half of what it gives with sparsity; plain FP16 by rates.
    # Seen: TB/s, FP16, BF16; recalled: the rest
    _gpu(r"\bH100 NVL\b", 132, 3.9, (30, 60, 120), (60, 60, 417.5, 835.5, 835.5, 1670.5, 1670.5)),
    # NVIDIA H100 Tensor Core GPU Architecture whitepaper (2022), table 2, H100 SXM5; TB/s: data sheet (2023).
    # "80GB HBM3" is how SXM reports. Seen: all
    _gpu(r"\bH100 80GB HBM3\b|\bH100 SXM", 132, 3.35, *_H100_SXM),
    # NVIDIA H800 data sheet (2023), SXM: the H100's but for FP64. Seen: TB/s, FP64, FP16; recalled: the rest
    _gpu(r"\bH800$", 132, 3.35, (1, 66.9, 133.8), (1, 66.9, 494.7, 989.4, 989.4, 1978.9, 1978.9)),
    # NVIDIA H800 data sheet (2023), PCIe: the H100 PCIe's but for FP64, which is not given here. Recalled: all
    _gpu(r"\bH800 PCIe$", 114, 2.0, (None, 51, 102), (None, 51, 378, 756, 756, 1513, 1513)),
    # NVIDIA H20 data sheet (2023), 96 GB HBM3. Seen: all
    _gpu(r"\bH20$", 78, 4.0, *_H20),
    # NVIDIA H20 data sheet (2023) with 141 GB HBM3e. Seen: all
    _gpu(r"\bH20-3e$", 78, 4.8, *_H20),
    # NVIDIA H200 data sheet (2024), H200 SXM: the H100 SXM's figures; dense ones as in the whitepaper above. Seen: all
    _gpu(r"\bH200$", 132, 4.8, *_H100_SXM),
    # NVIDIA GH200 data sheet (2023), 96 GB HBM3; "480GB" is the CPU's memory. Seen: FP32, 3.7 TB/s as measured;
    # recalled: TB/s, that the rest is the H100 SXM's
    _gpu(r"\bGH200 (120|480)GB$", 132, 4.0, *_H100_SXM),
    # NVIDIA GH200 data sheet (2024), 144 GB HBM3e. Seen: TB/s; recalled: that the rest is the H100 SXM's
    _gpu(r"\bGH200 144G HBM3e$", 132, 4.9, *_H100_SXM),
    # NVIDIA Blackwell data sheet (2025), one GPU of an HGX B200: half of what it gives with sparsity. Seen: all
    _gpu(r"\bB200\b", 148, 7.7, (37, 75, None), (37, 75, 1100, 2250, 2250, 4500, 4500)),
    # NVIDIA GB200 NVL72 page (2025), a 72nd of it, half of what it gives with sparsity. Seen: TF32 to INT8, TB/s
    # (one place has the B200's for all); recalled: FP64, FP32, of which earlier versions said 45 and 90
    _gpu(r"\bGB200$", 152, 8.0, (40, 80, None), (40, 80, 1250, 2500, 2500, 5000, 5000)),
    # NVIDIA Blackwell Ultra data sheet (2025), one GPU of an HGX B300; sources differ in INT8. Seen: all
    _gpu(r"\bB300\b", 148, 7.7, (1.25, 75, None), (1.25, 75, 1100, 2250, 2250, 4500, None)),
    # NVIDIA Blackwell Ultra data sheet (2025), one GPU of a GB300 NVL72; sources differ in FP64, INT8. Seen: all
    _gpu(r"\bGB300$", 152, 8.0, (None, 80, None), (None, 80, 1250, 2500, 2500, 5000, None)),
    # NVIDIA RTX Blackwell GPU Architecture whitepaper (2025), RTX 5080 with FP32 accumulate; plain FP64 by rates.
    # Seen: TB/s, FP16, BF16, FP8; recalled: FP32, TF32, INT8
    _gpu(r"\bRTX 5080$", 84, 0.96, (0.88, 56.3, 56.3), (None, 56.3, 56.3, 112.6, 112.6, 225.1, 450.2)),
    # NVIDIA RTX Blackwell GPU Architecture whitepaper (2025), RTX 5090 with FP32 accumulate; plain FP64 by rates.
    # Seen: all but TF32; recalled: TF32
    _gpu(r"\bRTX 5090$", 170, 1.792, (1.64, 104.8, 104.8), (None, 104.8, 104.8, 209.5, 209.5, 419, 838)),
    # NVIDIA product page (2025), RTX 5050: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 5050$", 20, 0.32, (0.21, 13.2, 13.2), (None, 13.2, 13.2, 26.3, 26.3, 52.7, 105.3)),
    # NVIDIA product page (2025), RTX 5060: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 5060$", 30, 0.448, (0.3, 19.2, 19.2), (None, 19.2, 19.2, 38.4, 38.4, 76.7, 153.4)),
    # NVIDIA product page (2025), RTX 5060 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 5060 Ti$", 36, 0.448, (0.37, 23.7, 23.7), (None, 23.7, 23.7, 47.4, 47.4, 94.8, 189.6)),
    # NVIDIA product page (2025), RTX 5070: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 5070$", 48, 0.672, (0.48, 30.9, 30.9), (None, 30.9, 30.9, 61.8, 61.8, 123.6, 247.2)),
    # NVIDIA product page (2025), RTX 5070 Ti: FP32 by cores and boost clock, the rest by rates. Recalled: all
    _gpu(r"\bRTX 5070 Ti$", 70, 0.896, (0.69, 43.9, 43.9), (None, 43.9, 43.9, 87.8, 87.8, 175.6, 351.2)),
    # NVIDIA RTX Blackwell PRO GPU Architecture whitepaper (2025), Workstation Edition: others are slower. Seen: all
    _gpu(
        r"\bRTX PRO 6000 Blackwell Workstation Edition$",
        188,
        1.792,
        (1.97, 126, 126),
        (None, 126, 251.9, 503.8, 503.8, 1007.6, 1007.6),
    ),
    # AMD Instinct MI250X data sheet (2021): half of the card's, as each of its two dies is a GPU to programs.
    # Seen: all but FP64 and FP32 by matrix units; recalled: those
    _gpu(r"\bMI250X\b", 110, 1.638, (23.95, 23.95, None), (47.85, 47.85, None, 191.5, 191.5, None, 191.5)),
    # AMD Instinct MI210 data sheet (2022), one die. Recalled: all
    _gpu(r"\bMI210\b", 104, 1.638, (22.6, 22.6, None), (45.3, 45.3, None, 181, 181, None, 181)),
    # AMD Instinct MI250 data sheet (2021): half of the card's, as of the MI250X. Recalled: all
    _gpu(r"\bMI250$", 104, 1.638, (22.6, 22.6, None), (45.3, 45.3, None, 181, 181, None, 181)),
    # AMD Instinct MI300A data sheet (2023), matrix figures without sparsity. Recalled: all
    _gpu(r"\bMI300A\b", 228, 5.3, (61.3, 122.6, None), (122.6, 122.6, 490.3, 980.6, 980.6, 1961.2, 1961.2)),
    # AMD Instinct MI300X data sheet (2023), matrix figures without sparsity; TF32 is AMD's XF32. Seen: all
    _gpu(r"\bMI300X\b", 304, 5.3, (81.7, 163.4, None), (163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9)),
    # AMD Instinct MI325X data sheet (2024): the MI300X's figures. Seen: TB/s; recalled: the rest
    _gpu(r"\bMI325X\b", 304, 6.0, (81.7, 163.4, None), (163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9)),
    # AMD Instinct MI350X data sheet (2025), matrix figures without sparsity; no XF32. Seen: TB/s, clock, FP8 by 8,192
    # operations of a compute unit and cycle; recalled: the rest
    _gpu(r"\bMI350X\b", 256, 8.0, (72.1, 144.2, None), (72.1, 144.2, None, 2306.9, 2306.9, 4613.7, 4613.7)),
    # AMD Instinct MI355X data sheet (2025), likewise. Seen: TB/s, clock, FP8; recalled: the rest
    _gpu(r"\bMI355X\b", 256, 8.0, (78.6, 157.3, None), (78.6, 157.3, None, 2516.6, 2516.6, 5033.2, 5033.2)),
    # AMD Radeon RX 7900 XTX page (2022), RDNA 3. Seen: TB/s, FP32, FP16, INT8; recalled: the rest
    _gpu(r"\bRX 7900 XTX$", 96, 0.96, (1.92, 61.4, 122.8), (None, 61.4, None, 122.8, 122.8, None, 122.8)),
    # AMD Radeon RX 7900 XT page (2022), RDNA 3, by rates of the XTX. Recalled: all
    _gpu(r"\bRX 7900 XT$", 84, 0.8, (1.61, 51.6, 103), (None, 51.6, None, 103, 103, None, 103)),
    # AMD Radeon PRO W7900 data sheet (2023), RDNA 3. Recalled: all
    _gpu(r"\bPRO W7900$", 96, 0.864, (1.92, 61.3, 122.6), (None, 61.3, None, 122.6, 122.6, None, 122.6)),
    # AMD Radeon AI PRO R9700 page (2025), RDNA 4 without sparsity. Seen: compute units, FP16 and FP8 by 1,024 and 2,048
    # operations of a compute unit and cycle; recalled: TB/s, clock
    _gpu(r"\bR9700\b", 64, 0.64, (0.75, 47.8, 95.7), (None, 47.8, None, 191, 191, 383, 383)),
)
"""First match of the name wins."""

_BY_MEMORY: Final = {48: "A100-SXM4-40GB", 96: "A100-SXM4-80GB"}
"""Which A100 it is by its gigabytes, where the name is a board's (PG509-200): of two that differ, the faster."""

_IN_PAIRS: Final = regex(r"\bRadeon\b")
"""GPUs whose compute units some tools count in pairs, as HIP does."""

_DIVIDED: Final = regex(r"\bMIG\b")

_BY_UNITS: Final = {((9, 4), 228): ((0, "MI300A"),), ((9, 4), 304): ((0, "MI300X"), (210 * 10**9, "MI325X"))}
"""Which GPU has a compute capability (AMD's gfx942) and so many units, from so many bytes of memory on: torch's traces
of AMD GPUs leave the name empty."""


def _model(gpu: Gpu) -> str:
    """Its name; where none was recorded, what its description fits alone."""
    models = _BY_UNITS.get((gpu.compute_capability or (0, 0), gpu.sm_count or 0), ())
    fitting = [name for least, name in models if (gpu.memory_bytes or 0) >= least]
    return fitting[-1] if fitting and gpu.name.startswith("GPU, ") else gpu.name


def peaks_of(gpu: Gpu) -> Peaks | NotMeasured:
    """The figures of a GPU as the profile describes it."""
    model = _model(gpu)
    peaks = next((candidate for candidate in PEAKS if candidate.name.search(model)), None)
    if peaks is None:
        return NotMeasured(f"the peak of '{gpu.name}' is unknown")
    units = peaks.processors // 2 if _IN_PAIRS.search(gpu.name) else peaks.processors
    if _DIVIDED.search(gpu.name) or gpu.sm_count not in (None, peaks.processors, units):
        return NotMeasured(f"the peak of a part of a GPU is unknown: '{gpu.name}', {gpu.sm_count} SMs")
    return peaks


def peak_flops(gpu: Gpu, kind: str) -> float | NotMeasured:
    """Most operations per second in matrix products of one of TYPES, dense."""
    peaks = peaks_of(gpu)
    if isinstance(peaks, NotMeasured):
        return peaks
    if kind not in peaks.tera:
        return NotMeasured(f"the peak of '{gpu.name}' in {kind} is unknown")
    return peaks.tera[kind] * 1e12


def peak_bytes_per_s(gpu: Gpu) -> float | NotMeasured:
    """Most bytes per second to and from the GPU's own memory."""
    peaks = peaks_of(gpu)
    if isinstance(peaks, NotMeasured):
        return peaks
    if peaks.dram_tb_per_s is None:
        by_memory = [name for size, name in _BY_MEMORY.items() if gpu.memory_bytes and gpu.memory_bytes < size * 1e9]
        if by_memory and "A100" in gpu.name:
            return peak_bytes_per_s(Gpu(by_memory[0]))
        return NotMeasured(f"the memory bandwidth of '{gpu.name}' is unknown")
    return peaks.dram_tb_per_s * 1e12


def _pcie(generation: int, lanes: int) -> int:
    """What pinned copies usually reach: four fifths of the nominal rate, which is 63 GB/s of PCIe 5.0 x16 (PCI-SIG)."""
    return {3: 12, 4: 25, 5: 50}[generation] * lanes * 1_000_000_000 // 16


LINKS: Final = (
    # NVLink-C2C, 450 GB/s each way: what copies from the CPU's memory reach on a GH200
    (regex(r"\bGH200|\bGB[23]00"), 300_000_000_000),
    # cards with fewer than 16 lanes, by the makers' product pages, before the others of their generation
    (regex(r"RTX 50[56]0"), _pcie(5, 8)),
    (regex(r"RTX 40[56]0|RTX 3050|RX [67]6|A2$|RTX A(?:400|1000)|RTX [12]000 Ada"), _pcie(4, 8)),
    (regex(r"RX 6[45]00"), _pcie(4, 4)),
    (regex(r"GeForce MX"), _pcie(3, 4)),
    (regex(r"B[123]00|H[128]00|H20\b|RTX 50|RTX PRO \d000|MI3\d\d|R9700|RX 90"), _pcie(5, 16)),
    (regex(r"A[18]00|A10|A30|A40|A16|L4\b|L40|L20|RTX (?:30|40)|RTX A|Ada|MI[12]\d\d|RX [67]|W[67]\d00"), _pcie(4, 16)),
)
"""Host link by GPU name: what pinned copies usually reach over as many lanes as the card has."""

PEER_LINKS: Final = (
    (regex(r"\bG?B[23]00\b"), 760_000_000_000),
    (regex(r"\bH100 80GB HBM3\b|\bH100 SXM|\bH200$|\bH20\b"), 380_000_000_000),
    (regex(r"\bA100-SXM4"), 250_000_000_000),
)
"""NVLink by GPU name, one way: what copies between two GPUs behind switches usually reach.

A GPU's links carry 900, 450 and 300 GB/s each way (NVIDIA's data sheets of B200, H100 SXM, A100 SXM); copies reach
about 85 % of it. GPUs that are sold with and without NVLink are not listed.
"""


@lru_cache(maxsize=64)
def link_bytes_per_s(gpu_name: str) -> int:
    """What a pinned copy between host and this GPU usually reaches; PCIe 3.0 x16 for GPUs that are not listed."""
    return next((rate for pattern, rate in LINKS if pattern.search(gpu_name)), _pcie(3, 16))


_NO_BFLOAT16: Final = regex(r"\b(?:V100|P100|T4|P40?|TITAN|GTX|Quadro|RTX 20)")


def has_bfloat16(gpu: Gpu | None) -> bool | None:
    """Whether matrix units of this GPU know bfloat16 (and with it TF32): from compute capability 8 on.

    None where neither the profile nor the name tells.
    """
    if gpu is None or not gpu.name:
        return None
    if gpu.compute_capability is not None:
        return gpu.compute_capability >= (8, 0)
    peaks = peaks_of(gpu)
    if not isinstance(peaks, NotMeasured):
        return "bf16" in peaks.tera
    return False if _NO_BFLOAT16.search(gpu.name) else None


_ATTAINED: Final = 0.7
"""Of the ratio of two types' peaks, what tensor cores usually attain of it where plain arithmetic attains its peak."""

_ATTAINED_BY_PAIRS: Final = 1.3
"""The same where half of the FP32 units are shared with integers, or only run in pairs: plain arithmetic attains two
thirds of its peak there."""

_SHARED_UNITS: Final = ((8, 6), (8, 9), (12, 0))

_TENSOR_TIMES_PLAIN: Final = {
    (7, 0): 8,
    (7, 5): 8,
    (8, 0): 16,
    (8, 6): 4,
    (8, 9): 4,
    (9, 0): 15,
    (10, 0): 30,
    (12, 0): 4,
}
"""Tensor cores in 16 bits, accumulating in FP32, of plain FP32: by compute capability, as in PEAKS. GeForce: half."""

_WITHOUT_TENSOR_CORES: Final = regex(r"\b(?:GTX|MX\d|Quadro T|T\d{3})")

AMD: Final = ("AMD", "Radeon", "Instinct", "gfx")
"""One of them is in the name of each GPU of theirs, whose compute capabilities mean something else."""


def narrow_times_fp32(gpu: Gpu | None) -> float | None:
    """How many times as fast tensor cores multiply in 16 bits as plain arithmetic in FP32, by what both attain.

    0 where the GPU has none; None where neither its name nor its compute capability is known.
    """
    if gpu is None:
        return None
    peaks = peaks_of(gpu)
    if not isinstance(peaks, NotMeasured):
        plain, by_pairs = peaks.plain.get("fp32"), _IN_PAIRS.search(gpu.name) is not None
        is_shared = by_pairs or peaks.plain.get("fp16") == plain
        times = 0.0 if plain is None else peaks.tera.get("bf16", peaks.tera.get("fp16", 0.0)) / plain
    elif gpu.compute_capability in _TENSOR_TIMES_PLAIN and not any(word in gpu.name for word in ("GPU, ", *AMD)):
        is_shared = gpu.compute_capability in _SHARED_UNITS
        times = _TENSOR_TIMES_PLAIN[gpu.compute_capability] / (2 if "GeForce" in gpu.name else 1)
        times = 0.0 if _WITHOUT_TENSOR_CORES.search(gpu.name) else times
    else:
        return None
    return times * (_ATTAINED_BY_PAIRS if is_shared else _ATTAINED)


def peer_bytes_per_s(gpu_name: str) -> int | None:
    """What a copy between this GPU and its like usually reaches over NVLink; None where that is not known."""
    return next((rate for pattern, rate in PEER_LINKS if pattern.search(gpu_name)), None)


_KIB: Final = 1024
_REGISTERS: Final = 65_536
_REGISTER_UNIT: Final = 256
"""Registers that a warp gets are a multiple of this."""
_PARTITIONS: Final = 4
"""Of a multiprocessor: each has its own registers, and as many warps as the others."""
_SHARED_UNIT: Final = 128
_WARP: Final = 32


class _Room(NamedTuple):
    blocks: int
    shared_bytes: int
    reserved_bytes: int
    """Shared memory of each block that is the system's."""


_ROOM: Final = {
    (7, 0): _Room(32, 96 * _KIB, 0),
    (7, 5): _Room(16, 64 * _KIB, 0),
    (8, 0): _Room(32, 164 * _KIB, _KIB),
    (8, 6): _Room(16, 100 * _KIB, _KIB),
    (8, 7): _Room(16, 164 * _KIB, _KIB),
    (8, 9): _Room(24, 100 * _KIB, _KIB),
    (9, 0): _Room(32, 228 * _KIB, _KIB),
    (10, 0): _Room(32, 228 * _KIB, _KIB),
    (12, 0): _Room(24, 100 * _KIB, _KIB),
}


class OccupancyLimit(Struct, frozen=True):
    """What a launch allows."""

    share: float
    """Of the warps that a multiprocessor has room for."""
    limited_by: str
    """`registers`, `shared memory`, `warps` (the block's size) or `blocks`."""
    blocks: int
    """That a multiprocessor has room for."""


def occupancy_limit(
    capability: tuple[int, int] | None, threads: int, registers: int, shared_bytes: int
) -> OccupancyLimit | None:
    """By threads and shared memory of a block, and registers of a thread; None for a GPU or a launch not known."""
    if capability not in _ROOM or capability not in WARPS_PER_SM or threads <= 0 or registers <= 0 or shared_bytes < 0:
        return None
    room, most = _ROOM[capability], WARPS_PER_SM[capability]
    warps = -(-threads // _WARP)
    per_warp = -(-registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    by_registers = _REGISTERS // per_warp // _PARTITIONS * _PARTITIONS
    shared = -(-(shared_bytes + room.reserved_bytes) // _SHARED_UNIT) * _SHARED_UNIT
    blocks = {
        "warps": most // warps,
        "blocks": room.blocks,
        "registers": by_registers // warps,
        "shared memory": room.shared_bytes // shared if shared else room.blocks,
    }
    limited_by = min(blocks, key=lambda resource: blocks[resource])
    fitting = blocks[limited_by]
    return OccupancyLimit(fitting * warps / most, limited_by, fitting) if fitting else None
