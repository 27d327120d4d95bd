"""Names inside graphs from a second file: who fits, how much, and that no number changes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuledger import GpuledgerError, NothingRecorded, Table, Trace, open_trace
from gpuledger.analyse.operators.graph_launches import in_order
from gpuledger.analyse.operators.graph_places import graph_names, named_by_nodes, named_by_trace
from gpuledger.analyse.ranges.range_tree import RangeRow, range_tree
from gpuledger.attribution.flame_trees import flame_trees
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.present.views.work.operators import GraphWorkRow, layers_together
from gpuledger.read.torch.reader import is_kernel_annotations, kernel_annotations
from gpuledger.selection import Selection
from gpuledger.trace.model import NameCoverage
from support.command import ROOT, gpuledger
from support.traces.launched_ops import LAYER, Launch, Op, captured, graph_of, layers, traced

TORCH = ROOT / "captures" / "torch"
CORPUS = ROOT.parent / "shared" / "corpus" / "torch"
SERVING = "AMD-AGI+TraceLens__tests__traces__inference__"
PAIRS = {
    "sglang": ("sglang_decode__sglang_Qwen3-8B_decode", "sglang_decode__capture_traces__bs_32_rank0", 544),
    "vllm": (
        "vllm_prefilldecode_piecewise__graph_execution",
        "vllm_prefilldecode_piecewise__capture_traces__graph_capture_rank_0.1773709679453551615.pt.trace",
        361,
    ),
}


def replays(*graphs: Launch) -> Trace:
    """Graphs that run, and an annotation around all of them."""
    return traced([Op("replay", 0, max(graph.end for graph in graphs) + 1, kind="push_pop")], list(graphs))


def whole(trace: Trace) -> Device:
    """The GPU with the whole window as the stretch that counts."""
    return replace(analyse_devices(trace, "test", Selection())[0], steps=None)


def covered_by(trace: Trace) -> NameCoverage:
    assert trace.places is not None
    assert trace.places.coverage is not None
    return trace.places.coverage


def nodes(trace: Trace) -> dict[tuple[str, int], RangeRow]:
    return {(node.range or "", node.depth): node for node in range_tree(trace, whole(trace)).nodes}


# Examples.


def test_an_eager_run_of_another_file_names_a_graph() -> None:
    found, launches, _ = layers(0, 2, "model")
    trace = named_by_trace(replays(graph_of(2, 0)), "run", traced(found, launches), "eager")
    work = graph_names(trace, whole(trace))
    assert work.named_share == 1.0
    assert {each.path for each in work.work} >= {("model", "layer0", "aten::norm"), ("model", "layer1", "aten::gemm2")}
    shown = nodes(trace)
    assert shown["replay", 0].gpu_ns == shown["model", 1].gpu_ns == 8 * 4
    assert (shown["layer1", 2].gpu_ns, shown["layer1", 2].instances, shown["layer1", 2].host_ns) == (16, 1, 0)
    assert "layer1" in {name for tree in flame_trees(trace, whole(trace)) for name in tree.names}


def test_calls_that_say_their_kernels_name_a_capture_call_by_call() -> None:
    """Layers that are equal graphs of their own are told apart by what comes before and after."""
    parts = (("embed", "first"), LAYER, LAYER, ("last",))
    found, launches, at = list[Op](), list[Launch](), 0
    for number, part in enumerate(parts):
        inside, calls, at = captured(at, part)
        found += [replace(op, name=f"piece{number}") if op.name == "capture" else op for op in inside]
        launches += [
            replace(calls[0]),
            *(replace(call, kernel=name) for call, name in zip(calls[1:-1], part, strict=True)),
            calls[-1],
        ]
    graphs = [
        Launch(
            100 * number,
            100 * number + 5,
            tuple((100 * number + 10 + 5 * k, 100 * number + 14 + 5 * k, name) for k, name in enumerate(part)),
            name="hipGraphLaunch",
            grid=-1,
        )
        for number, part in enumerate((*parts, *parts))
    ]
    trace = named_by_trace(replays(*graphs), "run", traced(found, launches), "capture")
    counts = {work.path: work.count for work in graph_names(trace, whole(trace)).work}
    assert counts == {(f"piece{number}", f"aten::{kernel}"): 2 for number, part in enumerate(parts) for kernel in part}


def test_a_capture_of_another_file_names_by_its_length_if_operators_and_kernels_agree() -> None:
    found, launches, _ = captured(0, LAYER * 3)
    trace = named_by_trace(replays(graph_of(3, 0)), "run", traced(found, launches), "capture")
    covered = covered_by(trace)
    assert covered.named == 12
    strangers = ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l")
    found, launches, _ = captured(0, strangers)
    with pytest.raises(NothingRecorded, match="does not name the graphs"):
        named_by_trace(replays(graph_of(3, 0)), "run", traced(found, launches), "capture")


def test_modules_and_lines_of_code_are_names_too() -> None:
    found, launches, at = layers(0, 1, "model")
    found += [
        Op("nn.Module: Decoder_0", 0, at, kind="python"),
        Op("train.py(12): forward", 0, at + 1, kind="python"),
        Op("threading.py(9): run", 0, at + 2, kind="python"),
    ]
    trace = named_by_trace(replays(graph_of(1, 0)), "run", traced(found, launches), "eager")
    work = graph_names(trace, whole(trace)).work
    assert {each.where for each in work} == {"forward (train.py:12)"}
    assert all("nn.Module: Decoder_0" in (each.path or ()) for each in work)


def test_what_has_several_places_is_counted() -> None:
    found, launches, _ = layers(0, 4, "model")
    trace = named_by_trace(replays(graph_of(1, 0)), "run", traced(found, launches), "eager")
    [note] = [note for note in trace.health if note.code == "names-from"]
    assert "4 of 4" in note.sentence
    assert "for 4 several places fit" in note.sentence


def test_torch_annotations_of_nodes_are_names(tmp_path: Path) -> None:
    path = tmp_path / "kernel_annotations_rank0.json"
    said = {"1": [{"module_fqn": "layers.0.attention"}], "2": [{"name": "mlp"}], "3": ["plain"], "x": 1, "4": 5}
    path.write_text(json.dumps(said))
    assert is_kernel_annotations(path)
    names = kernel_annotations(path, DEFAULT_LIMITS)
    assert names == {1: ("layers", "0", "attention"), 2: ("mlp",), 3: ("plain",), 4: ()}
    graph = replays(graph_of(1, 0))
    kernels = graph[Table.KERNELS].replaced("graph_node", np.arange(1, 5))
    trace = replace(graph, tables={**graph.tables, Table.KERNELS: kernels})
    named = named_by_nodes(trace, "run", names, path.name)
    paths = {work.path: work.source for work in graph_names(named, whole(named)).work}
    assert paths == {
        ("layers", "0", "attention"): "annotation",
        ("mlp",): "annotation",
        ("plain",): "annotation",
        None: None,
    }


def test_a_graph_of_ours_is_named_whole_by_its_eager_run() -> None:
    trace = named_by_trace(
        open_trace(TORCH / "graph.json.gz"), "graph", open_trace(TORCH / "decode.json.gz"), "decode.json.gz"
    )
    covered = covered_by(trace)
    assert (covered.named, covered.count, covered.in_part) == (2320, 2320, 0)
    linear = nodes(trace)["aten::linear", 0]
    assert (linear.instances, linear.host_ns) == (20, 0)


@pytest.mark.parametrize("engine", PAIRS)
def test_public_pairs_of_serving_engines_are_named_whole(engine: str) -> None:
    replay, capture, count = PAIRS[engine]
    files = [CORPUS / f"{SERVING}{name}.json.gz" for name in (replay, capture)]
    if not all(file.exists() for file in files):
        pytest.skip("the corpus is not beside the checkout")
    trace = named_by_trace(open_trace(files[0]), "replay", open_trace(files[1]), "capture")
    covered = covered_by(trace)
    assert (covered.named, covered.count) == (count, count)
    modules = {
        name
        for place in (trace.places.places if trace.places else ())
        for name in place.path
        if name.startswith("nn.Module: ")
    }
    assert any("Qwen3DecoderLayer_35" in name or "GptOss" in name for name in modules)


# Laws.


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2), st.booleans())
def test_a_trace_names_itself_as_a_second_file_does(eager: int, graph: int, extra: int, with_capture: bool) -> None:
    found, launches, at = layers(0, eager, "model")
    if with_capture:
        inside, calls, at = captured(at, LAYER * graph)
        found, launches = [*found, *inside], [*launches, *calls]
    trace = traced(found, [*launches, graph_of(graph, at, ("other",) * extra)])
    own = graph_names(trace, whole(trace))
    try:
        again = named_by_trace(trace, "run", trace, "run")
    except NothingRecorded:
        assert (own.named_share or 0) < 0.5
        return
    assert {each.path for each in graph_names(again, whole(again)).work} == {each.path for each in own.work}


@given(st.integers(1, 3), st.integers(1, 3), st.lists(st.sampled_from(["other", "norm"]), max_size=2))
def test_names_change_no_number(eager: int, graphs: int, extra: list[str]) -> None:
    found, launches, _ = layers(0, eager, "model")
    plain = replays(*(graph_of(eager, 300 * number, tuple(extra)) for number in range(graphs)))
    named = named_by_trace(plain, "run", traced(found, launches), "eager")
    before, after = whole(plain), whole(named)
    assert before.ledger.total() == after.ledger.total()
    trees = range_tree(plain, before), range_tree(named, after)
    times = [sum(node.own_gpu_ns for node in tree.nodes) + tree.outside.gpu_ns for tree in trees]
    assert times[0] == times[1]
    assert all(node.gpu_ns >= node.own_gpu_ns for node in trees[1].nodes)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=8), st.integers(1, 3))
def test_an_order_that_is_told_is_the_real_one(pieces: list[int], rounds: int) -> None:
    """Pieces between two that occur once are the ones that they are."""
    source = [3, *pieces, 4]
    lengths = [2, 3, 1, 5, 4]
    starts = np.cumsum([0, *(lengths[piece] for piece in source)])[:-1]
    occurrences = [starts[np.array(source) == piece] for piece in range(5)]
    told = in_order(source * rounds, occurrences, lengths, lambda *_: False)
    assert told == starts.tolist() * rounds


# What does not fit.


def test_another_program_is_refused() -> None:
    found, launches, _ = layers(0, 2, "model")
    other = [replace(launch, grid=7) for launch in launches]
    with pytest.raises(NothingRecorded, match="does not name the graphs of run") as refused:
        named_by_trace(replays(graph_of(2, 0)), "run", traced(found, other), "other.json")
    assert "0 of 8" in refused.value.found


def test_a_profile_without_graphs_has_nothing_to_name() -> None:
    found, launches, _ = layers(0, 2, "model")
    eager = traced(found, launches)
    with pytest.raises(NothingRecorded, match="nothing to name"):
        named_by_trace(eager, "run", eager, "run")


@pytest.mark.parametrize("content", ['{"1": [', '{"1": {"a": 1}} x', "\x80\x04}"])
def test_bad_annotations_are_one_sentence(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(GpuledgerError, match=r"^bad\.json: no whole mapping of nodes to names"):
        kernel_annotations(path, DEFAULT_LIMITS)


def test_ids_that_no_node_can_have_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ids.json"
    path.write_text('{"99999999999999999999": ["x"], "7": ["y"]}')
    assert kernel_annotations(path, DEFAULT_LIMITS) == {7: ("y",)}


def test_the_verbs_take_the_option() -> None:
    files = str(TORCH / "graph.json.gz"), f"--names-from={TORCH / 'decode.json.gz'}"
    ran = gpuledger("ops", *files)
    assert "inside graphs, operators with the most GPU self time: aten::mm 59.7 %" in ran.stdout
    assert "Note: names inside graphs are from decode.json.gz: 2,320 of 2,320 kernels" in ran.stdout
    report = json.loads(gpuledger("report", *files, "--format=json").stdout)
    assert report["graph_names"]["named"] == 2320
    refused = gpuledger("ranges", str(TORCH / "graph.json.gz"), f"--names-from={TORCH / 'attn.json.gz'}")
    assert refused.stderr.startswith("error: attn.json.gz does not name the graphs of graph.json.gz")


def test_equal_layers_are_told_as_one_place() -> None:
    def work(path: tuple[str, ...] | None, count: int, time_ns: int, where: str | None) -> GraphWorkRow:
        known_by = None if path is None else "capture"
        return GraphWorkRow(0, path, known_by, where, count, None, time_ns, time_ns / 255)

    def layer(number: int, time_ns: int, where: str) -> GraphWorkRow:
        path = ("decode 3", f"nn.Module: Qwen3Layer_{number}", f"nn.Module: Linear_{2 * number}", "aiter::gemm_a16w16")
        return work(path, 2, time_ns, where)

    head, unknown = work(("nn.Module: Head_0", "aten::mm"), 1, 90, None), work(None, 1, 5, None)
    rows = (layer(0, 100, "a.py:1"), head, layer(1, 60, "b.py:2"), unknown)
    layers = ("decode #", "nn.Module: Qwen3Layer_#", "nn.Module: Linear_#", "aiter::gemm_a16w16")
    together = layers_together(rows)
    assert together == [work(layers, 4, 160, "a.py:1"), head, unknown]
    assert sum(row.gpu_ns for row in together) == sum(row.gpu_ns for row in rows)


def test_where_most_runs_in_graphs_the_answer_is_about_what_runs_there() -> None:
    """Not about the warm-up beside them, whose operators have less of the GPU's time."""
    said = gpuledger("ops", ROOT / "captures/torch/graph_warm.json.gz").stdout
    assert said.startswith("GPU 0: inside graphs, operators with the most GPU self time: aten::mm 69.8 %")
