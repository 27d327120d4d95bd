"""Kernel names: the parts, one spelling for all profilers, families."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger import Table, open_trace
from gpuledger.catalog.kernel_names import cut_label, label, parse
from gpuledger.regex import LOOKED_AT
from support.command import NAMES, ROOT

SILU_NSYS = (
    "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast<at::native::"
    "<unnamed>::silu_kernel(at::TensorIteratorBase &)::[lambda() (instance 1)]::operator ()() const::"
    "[lambda(c10::BFloat16) (instance 1)]>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"
)
SILU_TORCH = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::(anonymous namespace)::"
    "silu_kernel(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda(c10::BFloat16)#1}>"
    "(at::TensorIteratorBase&, at::native::(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1}"
    " const&)::{lambda(int)#1}>(int, at::native::foo)"
)


@pytest.mark.parametrize(
    ("name", "short", "qualified", "template"),
    [
        ("gemm_tn", "gemm_tn", "gemm_tn", ()),
        ("void k<(int)1>(T1 *)", "k", "k", ("1",)),
        ("void at::native::reduce<(int)512, float>(T3)", "reduce", "at::native::reduce", ("512", "float")),
        ("void <unnamed>::soft<(bool)0, (bool)1>(T2 *)", "soft", "(anonymous)::soft", ("false", "true")),
        (
            "std::enable_if<!T7, void>::type internal::gemvx::kernel<int>(int)",
            "kernel",
            "internal::gemvx::kernel",
            ("int",),
        ),
        ("f<std::array<char *, (unsigned long)3>>(int)", "f", "f", ("std::array<char*,3>",)),
        ("f<std::array<char*, 3ul> >(int)", "f", "f", ("std::array<char*,3>",)),
        ("a::b::operator()(int)", "operator()", "a::b::operator()", ()),
        ("", "", "", ()),
    ],
)
def test_a_name_comes_apart(name: str, short: str, qualified: str, template: tuple[str, ...]) -> None:
    found = parse(name)
    assert (found.short, found.qualified, found.template) == (short, qualified, template)


def test_nsys_and_torch_mean_the_same_kernel() -> None:
    assert parse(SILU_NSYS).canonical == parse(SILU_TORCH).canonical


@pytest.mark.parametrize("capture", NAMES)
def test_short_names_equal_nsys_own(capture: str, unpacked: Callable[[str], Path]) -> None:
    kernels = open_trace(unpacked(f"{capture}.sqlite"), only=[Table.KERNELS])[Table.KERNELS]
    both = set(zip(kernels.texts("name"), kernels.texts("short_name"), strict=True))
    assert {(whole, parse(whole or "").short) for whole, _ in both} == both


def test_different_kernels_of_a_capture_keep_different_canonical_names(decode: Path) -> None:
    names = {name or "" for name in open_trace(decode, only=[Table.KERNELS])[Table.KERNELS].texts("name")}
    assert len({parse(name).canonical for name in names}) == len(names)


TORCH = ROOT / "captures" / "torch"


@pytest.mark.parametrize("capture", ["attn", "decode", "graph", "moe_batched_gemm", "moe_loop"])
def test_nsys_and_torch_agree_on_every_kernel_of_one_program(capture: str, unpacked: Callable[[str], Path]) -> None:
    kernels = open_trace(unpacked(f"{capture}.sqlite"), only={Table.KERNELS: ["name"]})[Table.KERNELS]
    seen_by_nsys = {parse(name or "").canonical for name in set(kernels.texts("name"))}
    events = json.loads(gzip.decompress((TORCH / f"{capture}.json.gz").read_bytes()))["traceEvents"]
    seen_by_torch = {parse(event["name"]).canonical for event in events if event.get("cat") == "kernel"}
    assert seen_by_nsys == seen_by_torch


def test_a_label_says_what_an_elementwise_kernel_does() -> None:
    assert label(SILU_NSYS) == "elementwise_kernel…silu_kernel"
    assert label("gemm_tn") == "gemm_tn"
    assert label("__main__::change_acceleration[abi:v1,cw51cXTLSUwv1sC](Array<double, 2, C, mutable>)") == (
        "change_acceleration"
    )


@pytest.mark.parametrize(
    ("launched", "said"),
    [
        ("ParallelFor<Chem::exchange(Kokkos::Cuda, View<double **>)::[lambda(int) (instance 1)], P, C>", "exchange"),
        ("ParallelFor<(anonymous namespace)::fill(int)::{lambda(int)#1}, RangePolicy<Kokkos::Cuda>, C>", "fill"),
        ("ParallelReduce<Kokkos::Impl::CombinedFunctorReducer<md::Energy<2>, R, void>, P, C>", "Energy"),
        ("ParallelScanWithTotal<Prefix, P, long, C>", "Prefix"),
    ],
)
def test_a_kernel_that_kokkos_launches_is_called_as_what_it_launches(launched: str, said: str) -> None:
    for launcher in ("cuda_parallel_launch_constant_memory", "hip_parallel_launch_local_memory"):
        assert label(f"void Kokkos::Impl::{launcher}<Kokkos::Impl::{launched}>()") == said


@given(st.text(alphabet="ab<>()[]{}:, *&0-operator", max_size=60))
def test_any_text_comes_apart_without_harm(name: str) -> None:
    found = parse(name)
    assert isinstance(found.canonical, str)
    assert isinstance(label(name), str)


def test_a_huge_name_is_no_burden() -> None:
    assert parse("void f<" + "g<" * 3000 + "int" + ">" * 3000 + ">(int)").short == "f"
    assert parse("f<" + "(" * 8_000 + ")" * 8_000 + ">").short == "f"
    endless = "f<" + "(" * 30_000 + ")" * 30_000 + ">"
    assert parse(endless).short == endless


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nvkernel_main_F1L369_4", "main:369 (OpenMP)"),
        ("nvkernel_mod_advance__F1L12_2_", "mod_advance_:12 (OpenMP)"),
        ("__omp_offloading_fd02_71f35_main_l46", "main:46 (OpenMP)"),
        ("__omp_offloading_fd00_19e4120__Z4copyPdS__l12", "copy:12 (OpenMP)"),
        ("__omp_offloading_fd02_3__ZN3sim4stepEPd_l7", "sim::step:7 (OpenMP)"),
        ("__omp_offloading_fd02_3__ZN3sim99stepEPd_l7", "_ZN3sim99stepEPd:7 (OpenMP)"),
        ("jacobi_45_gpu", "jacobi:45 (OpenACC)"),
        ("jacobi_45_gpu__red", "jacobi:45 (OpenACC sum)"),
        ("to_gpu", "to_gpu"),
        ("CudaCodeGen::kernel3(CudaCodeGen::Tensor<float, 2>)", "CudaCodeGen::kernel3"),
        ("kernel3(int*)", "kernel3"),
    ],
)
def test_kernels_that_a_compiler_made_have_the_name_of_their_source(name: str, said: str) -> None:
    assert label(name) == said


def test_a_hostile_source_name_costs_little_and_is_its_own_label() -> None:
    for name in ("nvkernel_" + "a_F1L" * 50_000, "__omp_offloading_1_1_" + "_l1" * 600 + "!", "_1_gp" * 400):
        assert label(name) == name[:LOOKED_AT]


@pytest.mark.parametrize(
    "text", ["unrolled_elementwise_kernel…direct_copy_kernel_cuda", "a" * 60, "a" * 50 + "…", "a…" + "b" * 60]
)
def test_a_label_is_cut_where_it_was_cut_before(text: str) -> None:
    shown = cut_label(text)
    assert "……" not in shown
    assert len(shown) <= 48
    assert cut_label("unrolled_elementwise_kernel…direct_copy_kernel_cuda").endswith("…direct_copy_kernel_cuda")


@pytest.mark.parametrize(
    ("mangled", "short", "qualified"),
    [
        (
            "_ZN5cudnn19engines_precompiled16nchwToNhwcKernelIfffLb0EEEvPKT_PT0_",
            "nchwToNhwcKernel",
            "cudnn::engines_precompiled::nchwToNhwcKernel",
        ),
        ("_Z23implicit_convolve_sgemmIffLi1024EEviiiPKT_", "implicit_convolve_sgemm", "implicit_convolve_sgemm"),
        ("_ZN2at6native25_GLOBAL__N__0b46_8_Shape_3catIfEEvPT_", "cat", "at::native::(anonymous)::cat"),
        ("_ZN99too_short", "_ZN99too_short", "_ZN99too_short"),
        ("_Z", "_Z", "_Z"),
    ],
)
def test_a_mangled_name_says_its_function(mangled: str, short: str, qualified: str) -> None:
    """It was: '27.3 % of the time in _Z23implicit_convolve_sgemmI…msyiiffPKS3_S7_bbii', of a trace from Windows."""
    assert (parse(mangled).short, parse(mangled).qualified) == (short, qualified)
    assert mangled == short or parse(mangled.replace("If", "Id")).canonical != parse(mangled).canonical
