"""What compiles again, or records a CUDA graph again, is told as that; what does it once is start-up."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gpuledger import build_report, open_trace
from gpuledger.catalog.compilers import NOBODY, Compiler, compiler_in
from gpuledger.findings.finding import Finding
from support.nsys_exports import call, kernel, minimal, push

MS = 1_000_000
US = 1_000
STEP = 20 * MS
NAMES = {
    4: "cuModuleLoadDataEx",
    5: "cudaStreamBeginCapture_v10000",
    6: "cudaStreamEndCapture_v10000",
    7: "cudaGraphLaunch_v10000",
    8: "cudaDeviceSynchronize_v3020",
    9: "triton_red_fused_add_0",
    10: "cudaMalloc_v3020",
    11: "cuLaunchKernel",
}
Tables = dict[str, list[dict[str, Any]]]


def told(path: Path) -> dict[str, Finding]:
    return {finding.code: finding for finding in build_report(open_trace(path)).findings}


def written(path: Path, tables: Tables) -> Path:
    minimal(path, **tables)
    with sqlite3.connect(path) as database:
        database.executemany("INSERT INTO StringIds (id, value) VALUES (?, ?)", NAMES.items())
    database.close()
    return path


def stepped(steps: int = 12) -> Tables:
    """In each step 10 ms of a kernel, which is launched first, and a second one, 10 ms after the first ended."""
    tables: Tables = {"KERNEL": [], "RUNTIME": [], "NVTX": []}
    for step in range(steps):
        begin, number = step * STEP, 2 * step + 1
        tables["NVTX"].append(push(begin, begin + STEP - 1, "step"))
        tables["RUNTIME"] += [
            call(begin + 1 * US, begin + 6 * US, correlationId=number),
            call(begin + 19 * MS, begin + 19 * MS + 5 * US, correlationId=number + 1),
        ]
        tables["KERNEL"] += [
            kernel(begin + 10 * US, begin + 9 * MS, correlationId=number),
            kernel(begin + 19 * MS + 10 * US, begin + STEP - 1, correlationId=number + 1, shortName=9, demangledName=9),
        ]
    return tables


@pytest.mark.parametrize(("compiled", "code"), [((), "HOST-CODE"), (range(12), "RECOMPILE"), ((7,), "COLD-START")])
def test_a_range_of_a_compiler_says_that_it_compiles(tmp_path: Path, compiled: tuple[int, ...], code: str) -> None:
    tables = stepped()
    tables["NVTX"] += [
        push(step * STEP + 9 * MS, step * STEP + 18 * MS, "_compile.compile_inner (dynamo_timed)") for step in compiled
    ]
    found = told(written(tmp_path / "a.sqlite", tables))
    assert code in found
    assert ("RECOMPILE" in found) == (len(compiled) > 1)
    if code == "RECOMPILE":
        assert found[code].claim == "the GPU waits 10.0 ms per step while torch.compile compiles again, once per step"
        assert "TORCH_LOGS=recompiles" in str(found[code].fix)
        assert found[code].saving_ns > 11 * 9 * MS
        assert "HOST-CODE" not in found


@pytest.mark.parametrize(("name", "code"), [(9, "RECOMPILE"), (1, "HOST-LOAD")])
def test_a_module_loaded_for_a_kernel_that_ran_before_is_another_version_of_it(
    tmp_path: Path, name: int, code: str
) -> None:
    """Of torch.compile's kernels; what a library loads is a plan of its own."""
    tables = stepped()
    for number, row in enumerate(tables["KERNEL"]):
        row["demangledName"] = row["shortName"] = name if number % 2 else 1
    tables["RUNTIME"] += [
        call(step * STEP + 17 * MS, step * STEP + 18 * MS, nameId=4, correlationId=100 + step) for step in range(12)
    ]
    found = told(written(tmp_path / "a.sqlite", tables))
    assert code in found
    assert ("RECOMPILE" in found) == (name == 9)


@pytest.mark.parametrize(("launches", "code"), [(11, "RECOMPILE"), (2, "HOST-LOAD")])
def test_a_module_may_be_loaded_before_a_kernel_of_a_library(tmp_path: Path, launches: int, code: str) -> None:
    """Inductor loads all kernels of a graph first, of which cuBLAS's runs first; 712 ms a step on an H200."""
    tables = stepped()
    for step in range(12):
        begin, second = step * STEP + 19 * MS, 100 + step
        tables["RUNTIME"] += [
            call(begin - 2 * MS, begin - 1 * MS, nameId=4, correlationId=200 + step),
            call(begin + 20 * US, begin + 25 * US, nameId=launches, correlationId=second),
        ]
        tables["KERNEL"][2 * step + 1] |= {"demangledName": 1, "shortName": 1, "end": begin + 100 * US}
        tables["KERNEL"].append(
            kernel(begin + 110 * US, begin + 900 * US, correlationId=second, shortName=9, demangledName=9)
        )
    assert code in told(written(tmp_path / "a.sqlite", tables))


@pytest.mark.parametrize(("launches", "code"), [(1, "RECOMPILE"), (5, "HOST-ALLOC")])
def test_a_graph_that_is_recorded_for_each_launch_is_recorded_again(tmp_path: Path, launches: int, code: str) -> None:
    """From the wait before it on; a graph that is launched often is not."""
    tables, number = stepped(), 1000
    for step in range(12):
        begin = step * STEP
        for start, end, name in ((8, 9.1, 8), (9.2, 17, 10), (17.1, 17.2, 5), (18, 18.1, 6)):
            number += 1
            tables["RUNTIME"].append(
                call(begin + int(start * MS), begin + int(end * MS), nameId=name, correlationId=number)
            )
        tables["RUNTIME"][2 * step + 1]["nameId"] = 7
        for extra in range(launches - 1):
            number += 1
            tables["RUNTIME"].append(
                call(begin + 19 * MS + (extra + 1) * 10 * US, begin + 19 * MS + (extra + 1) * 10 * US + 1, nameId=7)
                | {"correlationId": number}
            )
    found = told(written(tmp_path / "a.sqlite", tables))
    assert code in found
    assert ("RECOMPILE" in found) == (launches == 1)
    if launches == 1:
        assert found[code].claim == "the GPU waits 10.0 ms per step while a CUDA graph is recorded again, once per step"


@pytest.mark.parametrize(
    ("name", "compiler"),
    [
        ("torch/_dynamo/convert_frame.py(1234): __call__", Compiler.TORCH),
        ("_compile (torch/_dynamo/convert_frame.py:700)", Compiler.TORCH),
        ("torch/_dynamo/eval_frame.py(791): compile_wrapper", None),  # on the way of every call
        ("triton/compiler/compiler.py(481): run", None),  # of every launch
        ("compile (triton/compiler/compiler.py:230)", Compiler.TRITON),
        ("graph.__enter__ (torch/cuda/graphs.py:180)", Compiler.CUDA_GRAPHS),
        ("CUDAGraph.replay (torch/cuda/graphs.py:88)", None),
        ("compile_or_get_cached (jax/_src/compiler.py:411)", Compiler.XLA),
        ("XlaCompileBackend:#module=jit_step", Compiler.XLA),
        ("compile (train.py:12)", None),
        ("re.compile", None),
    ],
)
def test_only_what_compiles_is_a_compiler(name: str, compiler: Compiler | None) -> None:
    assert compiler_in(name) == (NOBODY if compiler is None else compiler.number)
