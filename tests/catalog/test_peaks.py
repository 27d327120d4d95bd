"""What GPUs can do at most: names as drivers report them, and laws that catch a slip of the pen in the table."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gpuledger.catalog import gpus as table
from gpuledger.catalog.gpus import (
    PEAKS,
    PEER_LINKS,
    PLAIN_TYPES,
    TYPES,
    Peaks,
    has_bfloat16,
    link_bytes_per_s,
    narrow_times_fp32,
    peak_bytes_per_s,
    peak_flops,
    peaks_of,
    peer_bytes_per_s,
)
from gpuledger.trace.model import Gpu, NotMeasured

NAMES = [
    # name, multiprocessors, TB/s, plain fp32, matrix fp16
    ("Tesla P100-PCIE-16GB", 56, 0.732, 9.3, None),
    ("Tesla P100-PCIE-12GB", 56, 0.549, 9.3, None),
    ("Tesla P100-SXM2-16GB", 56, 0.732, 10.6, None),
    ("Tesla V100-SXM2-16GB", 80, 0.9, 15.7, 125),
    ("Tesla V100-SXM2-32GB", 80, 0.9, 15.7, 125),
    ("Tesla V100-PCIE-32GB", 80, 0.9, 14, 112),
    ("Tesla V100S-PCIE-32GB", 80, 1.134, 16.4, 130),
    ("NVIDIA TITAN V", 80, 0.653, 13.8, 110),
    ("Tesla T4", 40, 0.32, 8.1, 65),
    ("GeForce RTX 2080 Ti", 68, 0.616, 13.4, 53.8),
    ("Quadro RTX 8000", 72, 0.672, 16.3, 130.5),
    ("A100-SXM4-40GB", 108, 1.555, 19.5, 312),
    ("NVIDIA A100-SXM4-40GB", 108, 1.555, 19.5, 312),
    ("NVIDIA A100-PCIE-40GB", 108, 1.555, 19.5, 312),
    ("NVIDIA A100-SXM4-80GB", 108, 2.039, 19.5, 312),
    ("NVIDIA A100 80GB PCIe", 108, 1.935, 19.5, 312),
    ("NVIDIA A800-SXM4-80GB", 108, 2.039, 19.5, 312),
    ("NVIDIA A800 80GB PCIe", 108, 1.935, 19.5, 312),
    ("NVIDIA A30", 56, 0.933, 10.3, 165),
    ("NVIDIA A10", 72, 0.6, 31.2, 125),
    ("NVIDIA A10G", 80, 0.6, 35, 70),
    ("NVIDIA A40", 84, 0.696, 37.4, 149.7),
    ("NVIDIA RTX A6000", 84, 0.768, 38.7, 154.8),
    ("NVIDIA GeForce RTX 3080", 68, 0.76, 29.8, 59.5),
    ("NVIDIA GeForce RTX 3090", 82, 0.936, 35.6, 71),
    ("NVIDIA L4", 58, 0.3, 30.3, 121),
    ("NVIDIA L20", 92, 0.864, 59.8, 119.5),
    ("NVIDIA L40", 142, 0.864, 90.5, 181.05),
    ("NVIDIA L40S", 142, 0.864, 91.6, 362.05),
    ("NVIDIA RTX 6000 Ada Generation", 142, 0.96, 91.1, 364.2),
    ("NVIDIA GeForce RTX 4080", 76, 0.717, 48.7, 97.5),
    ("NVIDIA GeForce RTX 4090", 128, 1.008, 82.6, 165.2),
    ("NVIDIA H100 PCIe", 114, 2.0, 51, 756),
    ("NVIDIA H100 NVL", 132, 3.9, 60, 835.5),
    ("NVIDIA H100 80GB HBM3", 132, 3.35, 66.9, 989.4),
    ("NVIDIA H800", 132, 3.35, 66.9, 989.4),
    ("NVIDIA H800 PCIe", 114, 2.0, 51, 756),
    ("NVIDIA H20", 78, 4.0, 44, 148),
    ("NVIDIA H20-3e", 78, 4.8, 44, 148),
    ("NVIDIA H200", 132, 4.8, 66.9, 989.4),
    ("NVIDIA GH200 120GB", 132, 4.0, 66.9, 989.4),
    ("NVIDIA GH200 480GB", 132, 4.0, 66.9, 989.4),
    ("NVIDIA GH200 144G HBM3e", 132, 4.9, 66.9, 989.4),
    ("NVIDIA B200", 148, 7.7, 75, 2250),
    ("NVIDIA GB200", 152, 8.0, 80, 2500),
    ("NVIDIA B300 SXM6 AC", 148, 7.7, 75, 2250),
    ("NVIDIA GB300", 152, 8.0, 80, 2500),
    ("NVIDIA GeForce RTX 5080", 84, 0.96, 56.3, 112.6),
    ("NVIDIA GeForce RTX 5090", 170, 1.792, 104.8, 209.5),
    ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", 188, 1.792, 126, 503.8),
    ("AMD Instinct MI250X", 110, 1.638, 23.95, 191.5),
    ("AMD Instinct MI300X", 304, 5.3, 163.4, 1307.4),
    ("NVIDIA GeForce RTX 3050", 20, 0.224, 9.1, 18.2),
    ("NVIDIA GeForce RTX 3060", 28, 0.36, 12.7, 25.4),
    ("NVIDIA GeForce RTX 3060 Ti", 38, 0.448, 16.2, 32.4),
    ("NVIDIA GeForce RTX 3070", 46, 0.448, 20.3, 40.6),
    ("NVIDIA GeForce RTX 3070 Ti", 48, 0.608, 21.7, 43.4),
    ("NVIDIA GeForce RTX 3080 Ti", 80, 0.912, 34.1, 68.2),
    ("NVIDIA GeForce RTX 3090 Ti", 84, 1.008, 40, 80),
    ("NVIDIA GeForce RTX 4060", 24, 0.272, 15.1, 30.2),
    ("NVIDIA GeForce RTX 4060 Ti", 34, 0.288, 22.1, 44.2),
    ("NVIDIA GeForce RTX 4070", 46, 0.504, 29.1, 58.2),
    ("NVIDIA GeForce RTX 4070 SUPER", 56, 0.504, 35.5, 71),
    ("NVIDIA GeForce RTX 4070 Ti", 60, 0.504, 40.1, 80.2),
    ("NVIDIA GeForce RTX 4070 Ti SUPER", 66, 0.672, 44.1, 88.2),
    ("NVIDIA GeForce RTX 4080 SUPER", 80, 0.736, 52.2, 104.4),
    ("NVIDIA GeForce RTX 5050", 20, 0.32, 13.2, 26.3),
    ("NVIDIA GeForce RTX 5060", 30, 0.448, 19.2, 38.4),
    ("NVIDIA GeForce RTX 5060 Ti", 36, 0.448, 23.7, 47.4),
    ("NVIDIA GeForce RTX 5070", 48, 0.672, 30.9, 61.8),
    ("NVIDIA GeForce RTX 5070 Ti", 70, 0.896, 43.9, 87.8),
    ("AMD Instinct MI210", 104, 1.638, 22.6, 181),
    ("AMD Instinct MI250", 104, 1.638, 22.6, 181),
    ("AMD Instinct MI300A", 228, 5.3, 122.6, 980.6),
    ("AMD Instinct MI325X", 304, 6.0, 163.4, 1307.4),
    ("AMD Instinct MI350X", 256, 8.0, 144.2, 2306.9),
    ("AMD Instinct MI355X", 256, 8.0, 157.3, 2516.6),
    ("AMD Radeon RX 7900 XTX", 96, 0.96, 61.4, 122.8),
    ("AMD Radeon RX 7900 XT", 84, 0.8, 51.6, 103),
    ("AMD Radeon PRO W7900", 96, 0.864, 61.3, 122.6),
    ("AMD Radeon AI PRO R9700", 64, 0.64, 47.8, 191),
]

STRANGERS = [
    "",
    "NVIDIA",
    "NVIDIA T4G",
    "NVIDIA A2",
    "NVIDIA A16",
    "NVIDIA A40-48Q",
    "NVIDIA L2",
    "NVIDIA H200 NVL",
    "NVIDIA GB300 WS",
    "NVIDIA GB10",
    "NVIDIA TITAN V CEO Edition",
    "NVIDIA TITAN RTX",
    "NVIDIA GeForce RTX 3080 Laptop GPU",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090 D",
    "NVIDIA RTX 5000 Ada Generation",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
]

every_model = pytest.mark.parametrize("peaks", PEAKS, ids=lambda peaks: peaks.name.pattern)


@pytest.mark.parametrize(("name", "processors", "tb_per_s", "fp32", "fp16"), NAMES, ids=[each[0] for each in NAMES])
def test_a_name_finds_its_own_figures(
    name: str, processors: int, tb_per_s: float, fp32: float, fp16: float | None
) -> None:
    gpu = Gpu(name, sm_count=processors)
    found = peaks_of(gpu)
    assert isinstance(found, Peaks)
    assert (found.processors, found.plain["fp32"], found.tera.get("fp16")) == (processors, fp32, fp16)
    assert peak_bytes_per_s(gpu) == peak_bytes_per_s(Gpu(name)) == tb_per_s * 1e12


def test_no_name_finds_two_models_and_each_model_is_found() -> None:
    found = {name: [each for each in PEAKS if each.name.search(name)] for name, *_ in NAMES}
    without_memory = [each for each in PEAKS if each.dram_tb_per_s is None]
    assert [each.name.pattern for each in without_memory] == [r"\bA100\b"]
    assert all(len([each for each in models if each not in without_memory]) == 1 for models in found.values())
    assert {id(models[0]) for models in found.values()} == {id(each) for each in PEAKS if each not in without_memory}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_near_name_finds_nothing(name: str) -> None:
    assert peaks_of(Gpu(name)) == NotMeasured(f"the peak of '{name}' is unknown")
    assert isinstance(peak_bytes_per_s(Gpu(name)), NotMeasured)


def test_a_board_is_told_by_its_memory() -> None:
    boards = [
        Gpu("NVIDIA A100-PG509-200", sm_count=108, memory_bytes=size) for size in (42_505_273_344, 84_987_740_160)
    ]
    assert [peak_bytes_per_s(board) for board in boards] == [1.555 * 1e12, 2.039 * 1e12]


def test_compute_units_may_be_counted_in_pairs() -> None:
    assert peak_flops(Gpu("AMD Radeon RX 7900 XTX", sm_count=48), "fp16") == 122.8e12
    assert isinstance(peak_flops(Gpu("AMD Radeon RX 7900 XTX", sm_count=47), "fp16"), NotMeasured)


def test_a_name_without_memory_has_operations_and_no_bytes() -> None:
    gpu = Gpu("NVIDIA A100", sm_count=108)
    assert peak_flops(gpu, "bf16") == 312e12
    assert peak_bytes_per_s(gpu) == NotMeasured("the memory bandwidth of 'NVIDIA A100' is unknown")


@pytest.mark.parametrize(
    "gpu",
    [
        Gpu("NVIDIA A100-SXM4-40GB MIG 1g.5gb"),
        Gpu("NVIDIA A100-SXM4-80GB", sm_count=14),
        Gpu("NVIDIA H100 80GB HBM3", sm_count=16),
        Gpu("NVIDIA GeForce RTX 3080", sm_count=70),
        Gpu("AMD Instinct MI300X", sm_count=38),
    ],
    ids=lambda gpu: f"{gpu.name}, {gpu.sm_count}",
)
def test_a_part_of_a_gpu_has_no_bandwidth(gpu: Gpu) -> None:
    found = peak_bytes_per_s(gpu)
    assert isinstance(found, NotMeasured)
    assert "part of a GPU" in found.reason


@every_model
def test_figures_are_in_their_range(peaks: Peaks) -> None:
    assert peaks.dram_tb_per_s is None or 0.2 <= peaks.dram_tb_per_s <= 10
    assert set(peaks.plain) <= set(PLAIN_TYPES)
    assert set(peaks.tera) <= set(TYPES)
    assert all(0.2 <= figure <= 10_000 for figure in (*peaks.plain.values(), *peaks.tera.values()))
    assert 20 <= peaks.processors <= 400


@every_model
def test_matrix_units_are_not_slower(peaks: Peaks) -> None:
    both = set(peaks.plain) & set(peaks.tera)
    assert all(peaks.tera[kind] >= peaks.plain[kind] for kind in both)
    assert "fp32" in both
    assert peaks.plain.get("fp64", 0) <= peaks.plain["fp32"] <= peaks.plain.get("fp16", float("inf"))


@every_model
def test_half_the_bits_are_twice_the_products(peaks: Peaks) -> None:
    halves = [("tf32", "fp16"), ("tf32", "bf16"), ("fp16", "fp8")]
    for wide, narrow in halves:
        if wide in peaks.tera and narrow in peaks.tera:
            assert peaks.tera[narrow] / peaks.tera[wide] == pytest.approx(2, rel=0.03)
    if "bf16" in peaks.tera:
        assert peaks.tera["bf16"] == peaks.tera["fp16"]


@every_model
def test_the_models_with_tf32_say_so(peaks: Peaks) -> None:
    """`work_done` takes a model without `tf32` for one that multiplies floats in fp32 only."""
    others = ("MI250X", "MI250", "MI210", "MI350X", "MI355X", "RX 7900 XT", "RX 7900 XTX", "PRO W7900", "R9700")
    has_bf16_alone = any(peaks.name.search(f"AMD {name}") for name in others)
    assert ("tf32" in peaks.tera) == ("bf16" in peaks.tera and not has_bf16_alone)


def test_every_row_has_its_source() -> None:
    text = Path(table.__file__).read_text(encoding="utf-8")
    lines = text.splitlines()
    rows = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_gpu"
    ]
    assert len(rows) == len(PEAKS)
    for row in rows:
        above = row.lineno - 1
        while lines[above - 1].lstrip().startswith("#"):
            above -= 1
        source = " ".join(line.strip("# ") for line in lines[above : row.lineno - 1])
        assert re.match(r"(NVIDIA|AMD) .*\b(data sheets?|whitepaper|page)\b.*\(20\d\d\b", source), lines[row.lineno - 1]
        assert re.search(r"\b(Seen|[Rr]ecalled): ", source), source


def test_peers_are_as_fast_as_their_nvlink_and_unknown_without() -> None:
    assert peer_bytes_per_s("NVIDIA H100 80GB HBM3") == 380_000_000_000
    assert peer_bytes_per_s("NVIDIA H100 PCIe") is None
    assert all(rate > link_bytes_per_s("NVIDIA B200") for _, rate in PEER_LINKS)


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("NVIDIA H200", 50),
        ("NVIDIA A100-SXM4-80GB", 25),
        ("Tesla T4", 12),
        ("Quadro RTX 6000", 12),
        ("NVIDIA GeForce RTX 4090", 25),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", 12.5),
        ("NVIDIA GeForce RTX 3050", 12.5),
        ("NVIDIA A2", 12.5),
        ("NVIDIA GeForce RTX 5060 Ti", 25),
        ("NVIDIA GH200 480GB", 300),
        ("AMD Radeon RX 6500 XT", 6.25),
        ("AMD Instinct MI300X", 50),
        ("some GPU", 12),
    ],
)
def test_the_hosts_link_has_as_many_lanes_as_the_card(name: str, gigabytes: float) -> None:
    assert link_bytes_per_s(name) == gigabytes * 1e9


MEASURED = [
    # name, compute capability, TFLOP/s of square products by torch in FP32, FP16, BF16, the best of 1024 to 10240 rows:
    # zzc0721/torch-performance-test-data on GitHub, database.md of 2026-01-12
    ("Tesla V100-SXM2-16GB", (7, 0), 14.06, 94.84, 10.34),
    ("Tesla T4", (7, 5), 4.35, 41.93, 2.01),
    ("Tesla T10", (7, 5), 9.46, 59.27, 5.33),
    ("NVIDIA GeForce RTX 2070", (7, 5), 7.90, 31.48, 4.42),
    ("NVIDIA GeForce RTX 2080 Ti", (7, 5), 13.04, 58.58, 7.28),
    ("NVIDIA GeForce GTX 1660 Ti", (7, 5), 5.24, 0.61, 2.84),
    ("NVIDIA GeForce MX450", (7, 5), 2.10, 0.36, 1.56),
    ("NVIDIA A100-SXM4-80GB", (8, 0), 19.18, 258.74, 264.53),
    ("NVIDIA GeForce RTX 3090", (8, 6), 24.79, 75.48, 76.58),
    ("NVIDIA GeForce RTX 3060 Ti", (8, 6), 13.83, 36.47, 36.50),
    ("NVIDIA GeForce RTX 3060 Laptop GPU", (8, 6), 7.83, 25.70, 25.85),
    ("NVIDIA RTX A2000 12GB", (8, 6), 5.51, 35.99, 37.26),
    ("NVIDIA RTX A4000", (8, 6), 11.90, 65.44, 62.78),
    ("NVIDIA RTX A6000", (8, 6), 23.92, 120.49, 123.34),
    ("NVIDIA GeForce RTX 4090", (8, 9), 53.84, 168.38, 164.81),
    ("NVIDIA GeForce RTX 4090 D", (8, 9), 50.07, 152.64, 148.91),
    ("NVIDIA GeForce RTX 4060 Laptop GPU", (8, 9), 9.08, 30.82, 30.87),
    ("NVIDIA L4", (8, 9), 15.38, 68.83, 70.89),
    ("NVIDIA L20", (8, 9), 37.27, 113.26, 114.14),
    ("NVIDIA L40S", (8, 9), 46.88, 264.02, 269.15),
    ("NVIDIA H200", (9, 0), 51.34, 759.40, 790.29),
    ("NVIDIA H800 PCIe", (9, 0), 37.77, 478.23, 503.83),
    ("NVIDIA H20", (9, 0), 31.99, 142.09, 142.25),
    ("NVIDIA B200", (10, 0), 66.24, 1627.64, 1696.03),
    ("NVIDIA GeForce RTX 5090", (12, 0), 63.99, 220.90, 221.65),
    ("NVIDIA GeForce RTX 5070 Laptop GPU", (12, 0), 12.87, 43.83, 44.25),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", (12, 0), 77.01, 312.78, 409.42),
    ("AMD Radeon RX 7900 XTX", None, 25.67, 97.52, 93.65),
]


LESS_IS_SOLD = ("H20", "L20")  # what their chips can do is cut down, which the compute capability doesn't tell


@pytest.mark.parametrize("part", [False, True], ids=["by name", "by compute capability"])
@pytest.mark.parametrize(("name", "capability", "fp32", "fp16", "bf16"), MEASURED)
def test_how_much_faster_16_bits_are_is_what_others_measured(
    name: str, capability: tuple[int, int] | None, fp32: float, fp16: float, bf16: float, part: bool
) -> None:
    if part and (capability is None or name.endswith(LESS_IS_SOLD)):
        return
    times = narrow_times_fp32(Gpu(name, compute_capability=capability, sm_count=1 if part else None))
    assert times is not None
    if "GTX" in name or "MX" in name:
        assert times == 0
    else:
        assert 0.5 < times * fp32 / max(fp16, bf16) < 1.15  # of real shapes, smaller: less is had of it


def test_where_neither_name_nor_compute_capability_tells_nothing_is_said_of_tensor_cores() -> None:
    assert narrow_times_fp32(None) is narrow_times_fp32(Gpu("some GPU")) is None
    assert narrow_times_fp32(Gpu("AMD Radeon RX 9070", compute_capability=(12, 0))) is None
    assert narrow_times_fp32(Gpu("GPU, name not recorded", compute_capability=(9, 0))) is None
    assert narrow_times_fp32(Gpu("Tesla P100-SXM2-16GB", compute_capability=(6, 0))) == 0


def test_which_gpus_have_bfloat16() -> None:
    assert has_bfloat16(Gpu("some GPU", compute_capability=(7, 5))) is False
    assert has_bfloat16(Gpu("some GPU", compute_capability=(8, 6))) is True
    assert [has_bfloat16(Gpu(name)) for name in ("Tesla V100-SXM2-16GB", "Tesla T4", "NVIDIA TITAN RTX")] == [False] * 3
    assert has_bfloat16(Gpu("NVIDIA H200")) is True
    assert has_bfloat16(Gpu("some GPU")) is has_bfloat16(None) is None


@pytest.mark.parametrize(
    ("name", "capability", "units", "gigabytes", "expected"),
    [
        ("GPU, name not recorded", (9, 4), 304, 206, 5.3e12),
        ("GPU, name not recorded", (9, 4), 304, 275, 6.0e12),
        ("GPU, name not recorded", (9, 4), 38, 24, None),  # a part of one
        ("GPU, name not recorded", (9, 0), 132, 80, None),  # NVIDIA's always have a name
        ("AMD something else", (9, 4), 304, 206, None),
    ],
)
def test_an_amd_gpu_without_a_name_is_told_by_its_units_and_memory(
    name: str, capability: tuple[int, int], units: int, gigabytes: int, expected: float | None
) -> None:
    found = peak_bytes_per_s(Gpu(name, compute_capability=capability, sm_count=units, memory_bytes=gigabytes * 10**9))
    assert isinstance(found, NotMeasured) if expected is None else found == expected
