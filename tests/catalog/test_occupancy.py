"""Theoretical occupancy: what Nsight Compute says of the same launches, and what no launch may exceed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.catalog.gpu_metrics import WARPS_PER_SM
from gpuledger.catalog.gpus import occupancy_limit

HOPPER = (9, 0)


def test_how_many_warps_fit_is_as_in_the_programming_guide() -> None:
    of_64, of_48 = {(7, 0), (8, 0), (9, 0), (10, 0), (10, 3)}, {(8, 6), (8, 7), (8, 9), (11, 0), (12, 0), (12, 1)}
    assert dict.fromkeys(of_64, 64) | dict.fromkeys(of_48, 48) | {(7, 5): 32} == WARPS_PER_SM


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "share", "limited_by"),
    [
        (256, 32, 0, 1.0, "warps"),
        (384, 168, 213_000, 0.1875, "registers"),
        (128, 255, 0, 0.125, "registers"),
        (128, 32, 100_000, 0.125, "shared memory"),
        (32, 16, 0, 0.5, "blocks"),
        (1024, 33, 0, 0.5, "registers"),
    ],
)
def test_what_a_launch_allows(threads: int, registers: int, shared_bytes: int, share: float, limited_by: str) -> None:
    limit = occupancy_limit(HOPPER, threads, registers, shared_bytes)
    assert limit is not None
    assert (limit.share, limit.limited_by) == (share, limited_by)


@given(st.integers(1, 1024), st.integers(1, 255), st.integers(0, 227 * 1024))
def test_more_registers_or_shared_memory_never_allow_more(threads: int, registers: int, shared_bytes: int) -> None:
    for capability in WARPS_PER_SM:
        limit = occupancy_limit(capability, threads, registers, shared_bytes)
        if limit is not None:
            assert 0 < limit.share <= 1
            for other in ((registers + 8, shared_bytes), (registers, shared_bytes + 4096)):
                more = occupancy_limit(capability, threads, *other)
                assert more is None or more.share <= limit.share


def test_what_is_not_known_or_cannot_run_has_no_limit() -> None:
    assert occupancy_limit(None, 256, 32, 0) is None
    assert occupancy_limit((99, 0), 256, 32, 0) is None
    assert occupancy_limit(HOPPER, 0, 32, 0) is None
    assert occupancy_limit(HOPPER, 256, -1, 0) is None
    assert occupancy_limit(HOPPER, 1 << 62, 255, 1 << 62) is None
