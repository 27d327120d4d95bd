"""Roofs and points under them, checked against the shares that NVIDIA itself gives."""

from __future__ import annotations

import pytest

from gpuledger.analyse.roofline.roofs import REPORT, SHARE, TABLE, memory_rate, operations_per_s, points, roofs
from gpuledger.trace.measured import KernelReport
from gpuledger.trace.model import NotMeasured
from support.traces.profiled_launches import launch

TENSOR = "sm__ops_path_tensor_op_hgmma_src_fp16_sparsity_off.sum.pct_of_peak_sustained_elapsed"


def test_tensor_work_is_the_share_of_the_roof_that_nvidia_gives(layer: KernelReport) -> None:
    compared = 0
    for each in layer.launches:
        if not each.metrics[TENSOR]:
            continue
        done, over = operations_per_s(each), roofs(each)
        assert not isinstance(done, NotMeasured)
        assert max(done, key=done.__getitem__) == "tensor fp16"
        share = done["tensor fp16"] / over.compute["tensor fp16"].per_s
        assert share == pytest.approx(each.metrics[TENSOR], rel=2e-3)
        compared += 1
    assert compared == 5


def test_dram_traffic_is_the_share_of_the_roof_that_nvidia_gives(layer: KernelReport) -> None:
    for each in layer.launches:
        rate = memory_rate(each, "DRAM")
        assert not isinstance(rate, NotMeasured)
        given = each.metrics["gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"]
        assert rate / roofs(each).memory["DRAM"].per_s == pytest.approx(given, rel=0.01)


def test_the_roofs_come_from_the_report_where_it_has_them(layer: KernelReport) -> None:
    over = roofs(layer.launches[8])
    assert over.memory["DRAM"].source == REPORT
    assert over.memory["DRAM"].per_s == pytest.approx(4.8e12, rel=0.01)  # the H200's data sheet says 4.8 TB/s
    assert over.compute["tensor bf16"].source == REPORT
    assert set(over.memory) == {"DRAM", "L2", "L1"}


def test_without_peaks_a_rate_and_its_share_give_the_roof() -> None:
    over = roofs(launch(dram_rate=2.4e12, dram=0.5))
    assert (over.memory["DRAM"].per_s, over.memory["DRAM"].source) == (4.8e12, SHARE)


def test_without_either_the_table_of_gpus_does() -> None:
    over = roofs(launch(dram_rate=2.4e12))
    assert over.memory["DRAM"].source == TABLE
    assert over.compute["tensor fp16"].per_s == pytest.approx(989.4e12)
    assert roofs(launch(gpu=None, dram_rate=1.0)).memory == {}
    assert roofs(launch(gpu="NVIDIA Unheard-of 9", dram_rate=1.0)).compute == {}


def test_reads_and_writes_make_the_rate_where_the_sum_is_missing() -> None:
    both = launch(metrics={"dram__bytes_read.sum.per_second": 3.0, "dram__bytes_write.sum.per_second": 4.0})
    assert memory_rate(both, "DRAM") == 7.0
    sizes = launch(time=1000, metrics={"dram__bytes_read.sum": 3.0, "dram__bytes_write.sum": 4.0})
    assert memory_rate(sizes, "DRAM") == pytest.approx(7e6)
    assert isinstance(memory_rate(launch(), "DRAM"), NotMeasured)


def test_a_point_lies_under_the_lower_roof(layer: KernelReport) -> None:
    under_memory = set()
    for number, each in enumerate(layer.launches):
        over = roofs(each)
        for point in points(each, over):
            slanted = point.operations_per_byte * over.memory[point.level].per_s
            flat = over.compute[point.kind].per_s
            assert 0 < point.share <= 1.05
            assert point.operations_per_s == pytest.approx(point.share * min(slanted, flat))
            under_memory |= {(number, point.level)} if slanted < flat else set()
    assert (6, "DRAM") in under_memory  # an addition of two tensors


def test_bulk_copies_past_l1_make_no_point_there(layer: KernelReport) -> None:
    assert {point.level for point in points(layer.launches[8], roofs(layer.launches[8]))} == {"DRAM", "L2"}


def test_fused_multiply_adds_count_twice() -> None:
    counted = launch(time=1000, metrics={"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 500.0})
    done = operations_per_s(counted)
    assert not isinstance(done, NotMeasured)
    assert done == {"fp32": 1e9}
    assert isinstance(operations_per_s(launch(time=1000)), NotMeasured)
