"""Phases from the order of kernels, held against what ranges and names say of the same kernels."""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import Table, Trace, diff, open_trace
from gpuledger.analyse.diff.baseline import baseline_content
from gpuledger.analyse.operators.graph_places import named_by_trace
from gpuledger.analyse.phases.layer_structure import _KINDS, LayerStructure
from gpuledger.analyse.phases.work_phases import NOWHERE, ToldBy, WorkPhases, work_phases
from gpuledger.attribution.ranges import naming_ranges
from gpuledger.catalog.range_names import PHASES
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import innermost
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY
from gpuledger.verbs.compared_sides import Sides
from support.command import ROOT
from support.traces.book_checks import analysed
from support.traces.trace_notation import trace

ATTENTION = "norm=rms_norm attention=gemm_qkv,rope,flash_fwd,gemm_o norm=add_elementwise,rms_norm"
ROUTED = f"{ATTENTION} router=gemm,softmax,gatherTopK,bitonicSort,reduce_kernel,elementwise_div"
SHARED = "shared_expert=gemm,silu,gemm"
MEAN = "elementwise_pow,reduce_kernel,elementwise_rsqrt,elementwise_mul"
BLOCKS = {
    "shared expert first": ROUTED.replace("router=", f"{SHARED} router=")
    + " dispatch=radixSort,index expert_gemm=grouped_gemm,silu,grouped_gemm combine=index,sum",
    "shared expert last": f"{ROUTED} dispatch=index expert_gemm=grouped_gemm,silu,grouped_gemm combine=index "
    "shared_expert=gemm,gemm,silu,gemm,splitKreduce_kernel combine=copy",
    "experts as one batched product": f"{ROUTED} dispatch=index expert_gemm=gemm,silu,gemm combine=index",
    "experts one after the other": f"{ROUTED} moe={'index,gemm,silu,gemm,index_add,' * 3}index",
    "an activation inside a product": f"{ATTENTION} mlp=gemm_up,gemm_down",
    "a part beside attention": "norm=layer_norm attention=gemm,flash_fwd,gemm,splitKreduce_kernel mlp=gemm,gelu,gemm",
    "norms after parts too": "norm=rms_norm attention=gemm,rms_norm,flash_fwd,gemm "
    "norm=rms_norm,add_elementwise,rms_norm mlp=gemm,gelu,gemm norm=rms_norm,add_elementwise",
    "norms of many kernels": f"norm={MEAN} attention=gemm,flash_fwd,gemm norm=add_elementwise,{MEAN} "
    "mlp=gemm,silu,gemm norm=add_elementwise",
    "attention of many kernels": "norm=layer_norm attention=gemm,gemm,softmax,gemm,gemm "
    "norm=add_elementwise,layer_norm mlp=gemm,gelu,gemm",
}


def found_in(kernels: list[str], step: str) -> tuple[WorkPhases, list[str]]:
    """What is found in kernels one after another on a stream: all of it, and the phase of each."""
    traced = trace(*(f"s0: {10 * at}-{10 * at + 10} {name}" for at, name in enumerate(kernels)))
    [device] = analysed(traced, Selection(kernel_pattern=step))
    return work_phases(traced, device), phases_of(traced, device)


def test_where_no_two_layers_are_alike_order_says_nothing() -> None:
    """Five layers of one to five norms each, as no model has: an internal error of every report until now."""
    kernels = [part for norms in range(1, 6) for part in ("gemm", "flash_fwd", "gemm", *["rms_norm", "gemm"] * norms)]
    assert set(found_in([*kernels, *kernels[:3]], "flash")[1]) == {"attention", "", "norm"}


def test_a_router_that_nothing_comes_after_has_no_experts() -> None:
    """Kernels that tell the router by their names after the choice, and no product before the next norm."""
    router = PHASES.index("router")
    layer = {"norm": -1, "gemm": -1, "attention": -1}
    kinds = [*layer, "gemm", "norm", "gemm", "sort", "gemm", "reduction"] * 3
    told = [-1, -1, -1, -1, -1, -1, router, router, router] * 3
    family = np.array([_KINDS.index(kind) for kind in kinds], np.int16)
    found = LayerStructure(_KINDS, family, np.array(told, np.int16), np.zeros(len(kinds), np.bool_))
    assert PHASES.index("expert_gemm") not in found.phase
    assert router in found.phase


@given(st.lists(st.sampled_from(_KINDS), max_size=150), st.randoms(use_true_random=False))
def test_any_order_of_kernels_is_looked_at(kinds: list[str], random: Random) -> None:
    """Kernels in any order, some with a phase by name, some of a backward pass: phases or none, and no exception."""
    told = [random.choice((NOWHERE, NOWHERE, NOWHERE, *range(len(PHASES)))) for _ in kinds]
    back = [random.random() < 0.3 for _ in kinds]
    family = np.array([_KINDS.index(kind) for kind in kinds], np.int16)
    found = LayerStructure(_KINDS, family, np.array(told, np.int16), np.array(back, np.bool_))
    assert set(found.phase.tolist()) <= {NOWHERE, *range(len(PHASES))}
    assert ((found.layer >= 0) == (found.instance >= 0)).all()


@pytest.mark.parametrize("layers", [2, 5])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS.keys())
def test_order_tells_the_parts_of_layers(block: str, layers: int) -> None:
    """A step's first layer runs a kernel more, and a step ends with a norm, a head and a token."""
    norm = f"norm={MEAN}" if MEAN in block else "norm=layer_norm"
    first = block.replace("attention=gemm", "attention=gemm,cos_sin", 1)
    step = " ".join(("=gather", first, *[block] * (layers - 1), norm, "lm_head=gemm", "sampling=argmax"))
    parts = [part.partition("=") for part in step.split() * 3]
    kernels = [(name, phase) for phase, _, names in parts for name in names.split(",")]
    found, told = found_in([name for name, _ in kernels], "argmax")
    assert list(zip([name for name, _ in kernels], told, strict=True)) == kernels
    assert set(found.layer.tolist()) == {*range(layers), NOWHERE}


def test_what_plans_attention_for_a_step_is_no_layer() -> None:
    """FlashAttention 3 in vLLM: once a step, before the first norm; it looked like a layer with the head in it."""
    layer = "rms_norm gemm flash_fwd gemm rms_norm gemm silu gemm " * 4
    names = f"gather flash::prepare_varlen_num_blocks_kernel {layer} rms_norm index head_gemm argmax".split() * 3
    found, told = found_in(names, "argmax")
    assert [phase for name, phase in zip(names, told, strict=True) if name == "head_gemm"] == ["lm_head"] * 3
    assert set(found.layer.tolist()) == {*range(4), NOWHERE}
    assert told[1] == "attention"


def test_a_backward_pass_goes_through_the_layers_from_the_last_and_an_optimizer_is_in_none() -> None:
    forward = "layer_norm gemm flash_fwd gemm layer_norm gemm gelu gemm " * 3
    norm = "layer_norm_bwd gamma_beta_norm"
    backward = f"{norm} gemm gemm gelu_bwd gemm gemm {norm} gemm gemm flash_bwd gemm gemm " * 3
    names = f"gather {forward} layer_norm head_gemm softmax head_gemm {backward} {norm} adam adam".split() * 3
    found, told = found_in(names, "gather")
    of = {name: {phase for own, phase in zip(names, told, strict=True) if own == name} for name in names}
    assert (of["adam"], of["head_gemm"], of["gelu_bwd"]) == ({""}, {"lm_head"}, {"mlp", ""})
    layers = [int(found.layer[at]) for at, name in enumerate(names) if name.startswith("flash")]
    assert layers == [0, 1, 2, 2, 1, 0] * 3


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trace]:
    folder = tmp_path_factory.mktemp("served")

    def unpacked(name: str) -> Trace:
        path: Path = folder / f"{Path(name).name}.sqlite"
        if not path.exists():
            path.write_bytes(lzma.decompress((ROOT / "captures" / f"{name}.sqlite.xz").read_bytes()))
        return open_trace(path, cache=False)

    return unpacked


SAYS = {"experts": "expert_gemm", "embedding": ""} | {name: name for name in PHASES if name != "moe"}


@pytest.fixture(scope="module")
def recorded() -> Iterator[Path]:
    with TemporaryDirectory() as folder, tarfile.open(ROOT / "captures" / "nsys" / "layers.tar.xz") as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder) / "layers"


@pytest.mark.parametrize("program", ["decode", "shared", "shared_last", "batched", "unfused", "gemma"])
def test_phases_of_a_graph_take_as_long_as_the_ranges_of_the_eager_run(recorded: Path, program: str) -> None:
    """Programs that no rule was made on: times by the ranges around launches, and by order alone in the graph."""
    eager, graph = (open_trace(recorded / f"{program}.{way}.sqlite", cache=False) for way in ("eager", "graph"))
    [device] = analysed(eager)
    own, ranges = device.work.of(device.gpu), naming_ranges(eager, "push_pop")
    named = ranges.where(eager.strings.each(ranges.codes("name"), lambda name: name in SAYS) > 0)
    names = [SAYS[eager.strings.text(code) or ""] for code in named.codes("name").tolist()]
    truth = [(*names, "")[place] for place in innermost(named, device.host.calls.at(own.launch)).tolist()]
    right = np.array([phase != "" for phase in truth])
    length = own.end_ns - own.start_ns
    told = phases_of(without_ranges(eager), device)
    same = np.array([said == phase for said, phase in zip(told, truth, strict=True)])
    assert length[right & same].sum() > 0.995 * length[right].sum()
    by_range = times(truth, device)
    for profile in (graph, named_by_trace(graph, "graph", eager, "eager")):
        [device] = analysed(profile)
        found = times(phases_of(profile, device), device)
        assert found.keys() == by_range.keys()
        assert all(abs(found[phase] / by_range[phase] - 1) < 0.1 for phase in by_range if phase)


def phases_of(of: Trace, device: Device) -> list[str]:
    found = work_phases(of, device)
    return [(*found.phases, "")[phase] for phase in found.phase.tolist()]


def times(phases: list[str], device: Device) -> dict[str, int]:
    """How long the kernels of each phase ran."""
    own = device.work.of(device.gpu)
    lengths = dict.fromkeys(phases, 0)
    for phase, length in zip(phases, (own.end_ns - own.start_ns).tolist(), strict=True):
        lengths[phase] += length
    return lengths


def without_ranges(of: Trace) -> Trace:
    return replace(of, tables={**of.tables, Table.RANGES: of[Table.RANGES].at(np.empty(0, np.intp))})


def compared(of: Trace, without: Trace) -> dict[tuple[str, str], float]:
    """Shares of the time that ranges or names of another file tell the phase of: what they say, and what order says."""
    [device] = analysed(of)
    [bare] = analysed(without)
    own, sure, told = device.work.of(device.gpu), work_phases(of, device), work_phases(without, bare)
    rows = np.flatnonzero(sure.told_by == ToldBy.RANGE)
    time = (own.end_ns - own.start_ns)[rows]
    pairs = zip(sure.phase[rows].tolist(), told.phase[rows].tolist(), time.tolist(), strict=True)
    shares: dict[tuple[str, str], float] = {}
    for truth, said, length in pairs:
        key = (sure.phases[truth], (*told.phases, "")[said])
        shares[key] = shares.get(key, 0) + length / int(time.sum())
    return shares


DEFINED_ELSEWHERE = {("attention", "norm"), ("mlp", "norm"), ("expert_gemm", "dispatch")}
"""Norms that a program has in the range of the part after them; rows sorted by expert in the range of the experts."""


@pytest.mark.parametrize(
    ("name", "least"),
    [("serve/gloo", 0.78), ("nsys/decode", 0.85)],
)
def test_without_its_ranges_order_says_what_they_say(served: Callable[[str], Trace], name: str, least: float) -> None:
    with_ranges = served(name)
    shares = compared(with_ranges, without_ranges(with_ranges))
    same = sum(share for (truth, said), share in shares.items() if truth == said)
    assert same >= least
    assert same + sum(shares.get(pair, 0) for pair in DEFINED_ELSEWHERE) >= 0.999


def test_an_eager_run_names_the_phases_of_a_graph_of_eight_ranks(served: Callable[[str], Trace]) -> None:
    """Each rank is a stream; in the graph they run side by side, so that their order is that of each stream."""
    graph = served("serve/graph")
    named = named_by_trace(graph, "graph", served("serve/low_latency"), "low_latency")
    assert named.places is not None
    assert named.places.coverage is not None
    assert named.places.coverage.named_share > 0.999
    shares = compared(named, graph)
    same = sum(share for (truth, said), share in shares.items() if truth == said)
    assert same > 0.86
    assert same + sum(shares.get(pair, 0) for pair in DEFINED_ELSEWHERE) >= 0.999
    [device] = analysed(named)
    assert set(work_phases(named, device).layer.tolist()) == {0, 1, 2, 3, NOWHERE}


def test_a_diff_says_which_phase_changed_and_a_baseline_holds_it(recorded: Path, tmp_path: Path) -> None:
    eager, graph = recorded / "shared.eager.sqlite", recorded / "shared.graph.sqlite"
    found = diff(eager, graph, anyway=True)
    changed = {change.phase: change for change in found.phases}
    assert sum(change.before_ns for change in found.phases) == pytest.approx(found.before.mean_ns, abs=10)
    assert sum(change.after_ns for change in found.phases) == pytest.approx(found.after.mean_ns, abs=10)
    assert max(changed, key=lambda name: abs(changed[name].delta_ns)) == "idle"
    assert "Of the phases dispatch changed most: 187 -> 195 us." in found.to_text()
    saved = tmp_path / "baseline.json"
    saved.write_bytes(baseline_content(Sides(Selection(), NOBODY, DEFAULT_LIMITS).read(eager)))
    assert [change.phase for change in diff(saved, graph, anyway=True).phases] == [*changed]


def test_what_has_no_layers_has_no_phases_to_compare() -> None:
    of = trace(*(f"s0: {10 * at}-{10 * at + 10} {name}" for at, name in enumerate(("conv", "gemm") * 9)))
    assert diff(of, of).phases == ()
