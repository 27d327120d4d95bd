"""What is done to the columns of all formats: GPUs placed, texts coded, nodes of graphs numbered, values looked up."""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger.errors import NothingRecorded, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read import wanted_columns
from gpuledger.read.assembled import Columns, RawTables, TextCodes, copy_kind, ints, value_by_key
from gpuledger.trace.model import NOT_DESCRIBED, Gpu, Origin
from gpuledger.trace.tables import NOT_RECORDED, Table

WANTED = wanted_columns((Table.KERNELS, Table.CALLS))


def kernels(devices: list[int], **more: object) -> Columns:
    start = 10 * np.arange(len(devices))
    rest = {name: np.array(values) for name, values in more.items()}
    return {"start_ns": start, "end_ns": start + 5, "device": np.array(devices, np.int64)} | rest


@pytest.mark.parametrize(
    ("devices", "numbers", "gpus"),
    [
        ([0, 2], [0, 2], ["a", NOT_DESCRIBED, "GPU, name not recorded"]),
        ([0, 3], [0, 3], ["a", NOT_DESCRIBED, NOT_DESCRIBED, "GPU, name not recorded"]),
        ([0, 4], [0, 1], ["a", "GPU, name not recorded"]),  # no machine has so many: they are names
        ([-5, 0], [0, 1], ["GPU, name not recorded", "a"]),
        ([0, 2, 2, NOT_RECORDED], [0, 2, 2, 2], ["a", NOT_DESCRIBED, "GPU, name not recorded"]),
        ([NOT_RECORDED], [0], ["a"]),
    ],
)
def test_a_number_that_a_machine_can_have_stays(devices: list[int], numbers: list[int], gpus: list[str]) -> None:
    raw = RawTables("run", WANTED, Limits())
    raw.add(Table.KERNELS, kernels(devices))
    assert [gpu.name for gpu in raw.place_on_gpus({0: Gpu("a")}, most=4)] == gpus
    assert raw.complete(1)[Table.KERNELS]["gpu"].tolist() == numbers
    assert [(note.code, note.count) for note in raw.notes] == [("gpu-not-recorded", 1)] * devices.count(NOT_RECORDED)


def test_rows_without_times_are_dropped_and_too_many_are_refused() -> None:
    raw = RawTables("run", WANTED, Limits(rows_per_table=2))
    raw.add(Table.KERNELS, kernels([0, 0, 0]) | {"end_ns": ints([5, None, 2**62])})
    assert [(note.code, note.count) for note in raw.notes] == [("rows-dropped", 2)]
    raw.add(Table.KERNELS, kernels([0]))
    with pytest.raises(UnreadableProfile, match="more than 2 rows"):
        raw.add(Table.KERNELS, kernels([0]))
    with pytest.raises(NothingRecorded, match="holds no events"):
        RawTables("run", WANTED, Limits()).trace(Origin("a", "b"), 1)


def test_kernels_of_a_graph_launch_are_its_nodes_in_order() -> None:
    raw = RawTables("run", WANTED, Limits())
    launch = raw.codes["hipGraphLaunch"], raw.codes["hipLaunchKernel"]
    calls = {"start_ns": np.arange(2), "end_ns": np.arange(2) + 1, "name": np.array(launch)}
    raw.add(Table.CALLS, calls | {"correlation": np.array([7, 8])})
    raw.add(Table.KERNELS, kernels([0] * 5, correlation=[7, 7, 8, 7, 7], graph_node=[-1, -1, 0, 0, 9]))
    assert raw.complete(1)[Table.KERNELS]["graph_node"].tolist() == [1, 2, -1, 3, 9]


def test_a_text_is_cut_where_it_is_longer_than_allowed() -> None:
    codes = TextCodes(4)
    assert codes.column(["four", None, "fives", "fives", "four"]).tolist() == [0, -1, 1, 1, 0]
    assert (list(codes), codes.cut) == (["four", "five..."], 2)


def test_values_are_found_by_their_key_the_first_of_several() -> None:
    keys, values = np.array([5, 1, 5]), np.array([50, 10, 51])
    assert value_by_key(np.array([1, 5, 0, 9]), keys, values).tolist() == [10, 50, -1, -1]
    assert value_by_key(np.array([1]), keys[:0], values[:0], missing=7).tolist() == [7]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("CopyHostToDevice", "Host-to-Device"),
        ("MEMORY_COPY_DEVICE_TO_HOST", "Device-to-Host"),
        ("MemcpyD2D", "Device-to-Device"),
        ("FillBuffer", "Memset"),
        ("hipMemset", "Memset"),
        ("barrier", "Unknown"),
    ],
)
def test_a_copy_has_nvidias_label(name: str, kind: str) -> None:
    assert copy_kind(name) == kind
