"""Planted places: host time lost in a known place is told there, with its share, however the place was recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuledger import Trace, build_report, open_trace
from gpuledger.export.sections import finding_mark
from gpuledger.findings.finding import LEAST_SHARE, Evidence, Finding
from gpuledger.selection import Selection
from gpuledger.units import instant_text
from support.corpus import corpus_file
from support.host_programs import LAUNCH, MAIN, STEP, STEPS, US, called, program, ranged, sampled
from support.nsys_exports import PID, TID, call, kernel, minimal, push
from support.torch_traces import CORPUS, saved

WORKER = 7
USERS = ("resize (data.py:12)", "__next__ (torch/utils/data/dataloader.py:700)", "main (train.py:3)")


def told(trace: Trace, code: str = "HOST-CODE", wanted: Selection | None = None) -> Finding:
    [finding] = [
        finding for finding in build_report(trace, "a", wanted or Selection()).findings if finding.code == code
    ]
    return finding


def first(trace: Trace, code: str = "HOST-CODE") -> Evidence:
    return told(trace, code).evidence[0]


def test_a_nested_range_is_followed_to_where_the_time_is() -> None:
    """8 ms are lost in a step; the launch that ends them lies in a range that holds none of them."""
    place = first(
        program(
            [
                ranged("step", 0, STEP - 1),
                ranged("data", 10, 7_900),
                ranged("read", 20, 1_000),
                ranged("resize", 1_000, 7_500),
                ranged("model", 7_950, 9_000),
            ]
        )
    )
    assert place.sentence == "81.2 % of the lost time in step > data > resize"
    assert (place.ranges, place.of) == (("step", "data", "resize"), "the lost time")
    assert place.share == pytest.approx(6_500 / 8_000, abs=0.001)
    assert place.span is not None
    assert (place.span.start_ns % (STEP * US), place.span.end_ns % (STEP * US)) == (1_000 * US, 7_500 * US)
    assert (place.pid, place.tid, len(place.correlations)) == (0, MAIN, STEPS)


def test_running_numbers_are_one_range() -> None:
    parts = [ranged(f"shard {number}", 10 + number * 790, 800 + number * 790) for number in range(10)]
    assert first(program([ranged("load", 5, 7_950), *parts])).sentence.endswith("in load > shard #")


def test_work_before_the_range_of_the_launch_lies_between_ranges() -> None:
    place = first(program([ranged("forward", LAUNCH - 10, 8_500), ranged("log", 9_000, 9_500)]))
    assert place.sentence == "99.9 % of the lost time outside every range, between log and forward"
    assert place.ranges == ()


def test_work_after_the_range_of_the_launch_is_told_inside_the_step() -> None:
    """The step goes on after its last launch: what it does then keeps the next launch waiting."""
    trace = program([ranged("step", 100, 7_990), ranged("save", 7_000, 7_900), ranged("forward", 200, 300)])
    assert first(trace).sentence == "98.6 % of the lost time in step, between forward and save"


def test_time_that_parts_is_told_with_its_largest_part() -> None:
    parts = [ranged("tokenise", 100, 3_500), ranged("pack", 3_500, 6_500), ranged("sort", 6_500, 7_900)]
    sentences = told(program([ranged("batch", 50, 7_950), *parts])).sentences
    assert sentences[:2] == ("98.8 % of the lost time in batch", "42.5 % of the lost time in batch > tokenise")


def test_python_functions_of_torch_are_places_and_the_users_own_come_first() -> None:
    functions = [
        ranged("train.py(3): main", 0, STEP - 1, kind="python"),
        ranged("torch/utils/data/dataloader.py(700): __next__", 10, 7_900, kind="python"),
        ranged("/opt/me/data.py(12): resize", 20, 7_500, kind="python"),
        ranged("numpy/core/multiarray.py(1): dot", 30, 7_400, kind="python"),
        ranged("aten::mm", 7_950, 8_100, kind="op"),
    ]
    sentences = told(program(functions)).sentences
    place = "in resize, which begins at data.py:12 -> numpy/core/multiarray.py dot in torch.utils.data.DataLoader"
    assert sentences[0] == f"92.1 % of the lost time {place}"
    assert sentences[1].startswith("99.4 % of the lost time outside every range")


def test_samples_name_the_function() -> None:
    samples = [*sampled(100, 6_100, 100, *USERS), *sampled(6_100, 7_900, 100, "pack (data.py:40)")]
    piece = told(program(samples=samples)).evidence[0]
    place = "at data.py:12 in resize in torch.utils.data.DataLoader, called from train.py:3"
    assert piece.sentence == f"76.9 % of the lost time {place}"
    assert (piece.line and piece.line.at, piece.of) == ("data.py:12", "the lost time")


LOADERS = {
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": "load in worker processes",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__": "give the data loader more workers",
    "DataLoader.__next__": "load in workers",
    "[DALI][CPU op] readers__File": "give DALI more threads",
}


@pytest.mark.parametrize("name", LOADERS)
def test_the_data_loader_is_named_with_what_to_do_about_it(name: str) -> None:
    found = told(program([ranged("step", 0, STEP - 1), ranged(name, 10, 7_900), ranged("decode", 20, 7_800)]))
    assert found.claim.endswith("per step while the data loader prepares the next batch")
    assert str(found.fix).startswith(LOADERS[name])


def test_a_function_of_the_data_loader_names_it() -> None:
    found = told(program(samples=sampled(100, 7_900, 100, *USERS)))
    assert "the data loader" in found.claim


def test_a_data_loader_that_holds_less_than_half_is_not_named() -> None:
    """As one with enough workers: a batch is there, and the host is elsewhere."""
    ranges = [ranged("step", 0, STEP - 1), ranged(next(iter(LOADERS)), 10, 3_900), ranged("augment", 3_950, 7_950)]
    assert "the host runs its own code" in told(program(ranges)).claim


def test_the_best_known_trace_of_a_data_loader_says_so_first() -> None:
    path = corpus_file("resnet50_num_workers_0__worker0.pt.trace.json.gz")
    found = build_report(open_trace(path)).findings[0]
    assert found.code == "HOST-CODE"
    assert "the data loader prepares the next batch" in found.claim
    assert found.sentences[0].endswith("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__")
    assert not found.is_unsure


def test_stacks_of_calls_are_told_by_the_time_that_they_hold() -> None:
    """Only the calls carry stacks; 5 of 8 ms lie in them."""
    calls = [called("cudaMalloc", 1_000, 6_000, layer="runtime", stack=("cudaMalloc", "grow (cache.py:9)"))]
    sentences = told(program(calls=calls), "HOST-ALLOC").sentences
    assert "62.5 % of the lost time in calls from grow (cache.py:9)" in sentences
    assert "62.5 % of the lost time in cudaMalloc" in sentences


def test_with_neither_ranges_nor_stacks_what_came_next_is_told() -> None:
    assert told(program()).sentences == ("100.0 % of the lost time before k", "meanwhile: host code 99.9 %")


@pytest.mark.parametrize(
    ("worked", "place"),
    [
        ({"ranges": [ranged("collate", 200, 7_800, WORKER)]}, "95.0 % of the lost time in collate"),
        ({"ranges": [ranged("collate", 200, 7_800, WORKER, process=5)]}, "95.0 % of the lost time in collate"),
        ({"calls": [called("fread", 200, 7_800, WORKER)]}, "95.0 % of the lost time in fread"),
        (
            {"samples": sampled(200, 7_800, 100, *USERS, thread=WORKER, process=5)},
            "100.0 % of the lost time at data.py:12 in resize in torch.utils.data.DataLoader, called from train.py:3",
        ),
    ],
)
def test_a_loader_on_another_thread_is_named_where_the_main_one_waits(worked: dict[str, Any], place: str) -> None:
    waits = called("sem_wait", 50, 7_900)
    idle = called("poll", 0, STEP - 1, thread=WORKER + 1)
    trace = program(**{**worked, "calls": [waits, idle, *worked.get("calls", ())]})
    piece = first(trace, "HOST-THREAD")
    assert piece.sentence == f"{place}, on thread {WORKER}, which the launching thread waits on"
    assert piece.tid == WORKER


def test_a_thread_that_waits_itself_is_not_what_was_waited_for() -> None:
    waits = [called("sem_wait", 50, 7_900), called("sem_wait", 50, 7_900, thread=WORKER)]
    sentences = told(program([ranged("loop", 0, STEP - 1, thread=WORKER)], waits), "HOST-THREAD").sentences
    assert not any("on thread" in sentence for sentence in sentences)


def test_a_thread_without_ranges_is_placed_by_those_of_the_program() -> None:
    """As autograd's: the program says `backward` on another thread of the process."""
    ranges = [ranged("backward", 100, 7_990, thread=2), ranged("elsewhere", 0, STEP - 1, thread=3, process=9)]
    piece = first(program(ranges))
    assert piece.sentence == (
        "98.6 % of the lost time in backward, on thread 2, while the launching thread is in no range"
    )


def test_a_callback_is_placed_on_its_own_thread() -> None:
    """Kernel and callback were queued in time; the kernel waits until the callback returns."""
    calls = [
        called("cudaLaunchHostFunc", 10, 20, layer="runtime"),
        called("usleep", 500, 7_500, thread=WORKER),
    ]
    trace = program(calls=calls, launch=30, kernel=8_000)
    sentences = told(trace, "DEVICE-WAIT").sentences
    assert any(sentence.endswith("of the lost time after cudaLaunchHostFunc") for sentence in sentences)
    assert any(f"in usleep, on thread {WORKER}, which runs it" in sentence for sentence in sentences)


def test_waits_are_calls_and_not_the_gaps_they_leave(unpacked: Callable[[str], Path]) -> None:
    """64 layers read one value each; 127 gaps per step follow."""
    finding = told(open_trace(unpacked("host_read_stacks.sqlite")), "HOST-SYNC", Selection(range_pattern="^step$"))
    assert "64 times per step" in finding.claim
    [piece] = [piece for piece in finding.evidence if piece.call == "cudaStreamSynchronize"]
    assert (piece.count, len(piece.correlations)) == (128, 20)


def test_an_nsys_export_says_where(tmp_path: Path) -> None:
    """Read from a file: the resize before the launch's own range, which the driver's thread ends."""
    steps = range(6)
    path = minimal(
        tmp_path / "a.sqlite",
        KERNEL=[kernel(at(step, 9_000), at(step, 9_990), correlationId=step + 1, globalPid=PID) for step in steps],
        RUNTIME=[call(at(step, 8_990), at(step, 8_995), correlationId=step + 1) for step in steps],
        NVTX=[
            row
            for step in steps
            for row in (
                push(at(step, 0), at(step, 9_999), "train_step", globalTid=TID),
                push(at(step, 100), at(step, 8_500), "resize", globalTid=TID),
                push(at(step, 8_980), at(step, 8_999), "forward", globalTid=TID),
            )
        ],
    )
    assert first(open_trace(path)).sentence == "93.4 % of the lost time in train_step > resize"


def test_a_torch_trace_says_the_loader_and_the_function(tmp_path: Path) -> None:
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events: list[dict[str, Any]] = []
    for step in range(6):
        on_host = {"ph": "X", "pid": 9, "tid": 10}
        spans = (
            ("cpu_op", loader, 100, 8_500),
            ("python_function", "train.py(9): main", 0, 9_990),
            ("python_function", "data.py(12): resize", 200, 8_400),
            ("cpu_op", "aten::copy_", 8_900, 9_000),
        )
        events += [
            on_host | {"cat": cat, "name": name, "ts": step * STEP + start, "dur": end - start, "args": {}}
            for cat, name, start, end in spans
        ]
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": step * STEP + 8_950, "dur": 5}
        events.append(on_host | launch | {"args": {"correlation": step + 1}})
        args = {
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": step + 1,
            "grid": [8, 1, 1],
            "block": [128, 1, 1],
        }
        kernel_event = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": step * STEP + 8_960}
        events.append(kernel_event | {"dur": 1_000, "args": args})
    sentences = told(open_trace(saved(tmp_path / "a.json", events))).sentences
    assert f"93.4 % of the lost time in {loader}" in sentences
    assert "91.2 % of the lost time in resize, which begins at data.py:12" in sentences


RESNET = (
    CORPUS.parent / "torch" / "pytorch+kineto__tb_plugin__samples__resnet50_num_workers_0__worker0.pt.trace.json.gz"
)


@pytest.mark.skipif(not RESNET.exists(), reason="the corpus is not here")
def test_a_training_without_workers_loses_its_time_in_the_loader() -> None:
    place = told(open_trace(RESNET)).evidence[0]
    assert place.ranges[-1] == "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert (place.share or 0) > 0.9


def test_the_mark_and_the_card_stand_at_the_example() -> None:
    trace = program([ranged("step", 0, STEP - 1), ranged("resize", 1_000, 7_500)])
    report = build_report(trace, "a", Selection())
    [finding] = [finding for finding in report.findings if finding.code == "HOST-CODE"]
    assert finding.example is not None
    assert finding.example.start_ns % (STEP * US) == 1_000 * US
    assert finding_mark(finding, report.devices[0]).at_ns == finding.example.start_ns
    start, end = (instant_text(instant - report.devices[0].zero_ns) for instant in finding.example)
    assert f"{start} to {end}" in report.to_html().replace("\xa0", " ")


def test_evidence_of_little_weight_is_told_by_no_finding(unpacked: Callable[[str], Path]) -> None:
    for name in ("decode", "moe_loop", "two_gloo", "zoo_node"):
        for finding in build_report(open_trace(unpacked(f"{name}.sqlite"))).findings:
            shares = [piece.share for piece in finding.evidence if piece.share is not None]
            assert all(LEAST_SHARE <= share <= 1 for share in shares), (name, finding.code)
            assert all(piece.of for piece in finding.evidence if piece.share is not None)


def at(step: int, us: int) -> int:
    return (step * STEP + us) * US
