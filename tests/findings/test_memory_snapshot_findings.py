"""Planted faults of memory, recorded on an H200 (captures/memory.py), are named; a steady program has none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuledger.analyse.memory.snapshot_figures import snapshot_figures
from gpuledger.findings.finding import Finding
from gpuledger.findings.memory.snapshot_findings import snapshot_findings
from gpuledger.read.snapshot import open_snapshot
from support.command import gpuledger
from support.pages.schemas import schema_of
from support.profiles.memory_snapshots import MIB, Program, unpacked_snapshots, written

PLANTED = {
    "steady": (),
    "late": (),
    "peak": (),
    "model": (),
    "expandable": (),
    "oom_fixed": (),  # what the fix of oom_fragmented does: no segment is stranded, and the request fits
    "leak": ("MEM-LEAK",),
    "fragmented": ("MEM-FRAGMENTED",),
    "churn": ("ALLOC-CHURN",),
    "oom_held": ("MEM-OOM",),
    "oom_fragmented": ("MEM-OOM", "MEM-FRAGMENTED"),
}
"""What each is found to have, besides who holds its peak."""


def _found(path: Path) -> dict[str, Finding]:
    snapshot = open_snapshot(path)
    return {found.code: found for found in snapshot_findings(snapshot, snapshot_figures(snapshot))}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_named_and_nothing_else(name: str, tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, [f"{name}.pickle"])
    assert tuple(_found(path)) == (*PLANTED[name], "MEM-PEAK")


def test_the_line_of_the_leak_is_named(tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, ["leak.pickle"])
    claim = _found(path)["MEM-LEAK"].claim
    assert claim.startswith("memory grows by 8.39 MB per step: 176 MB allocated in 21 steps by remember (memory.py:66)")


def test_the_line_of_the_peak_is_named(tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, ["peak.pickle"])
    claim = _found(path)["MEM-PEAK"].claim
    assert claim.startswith("the peak is 689 MB; its largest part, 77.9 %: all_pairs (memory.py:79)")


def _in_backward(tmp_path: Path, *other: str) -> Finding:
    """The peak of a program whose loss makes large logits, and whose backward, without stacks, their gradient."""
    program = Program()
    logits = [program.alloc(90 * MIB, "loss (a.py:9)"), program.alloc(90 * MIB, "loss (a.py:10)")]
    for place in other:
        program.free(program.alloc(90 * MIB, place))
    gradients = [program.alloc(90 * MIB) for _ in range(3)]
    for block in (*gradients, *logits):
        program.free(block)
    return _found(written(tmp_path, program.snapshot()))["MEM-PEAK"]


def test_a_peak_in_backward_names_what_its_gradients_are_of(tmp_path: Path) -> None:
    found = _in_backward(tmp_path)
    assert found.claim == "the peak is 472 MB; the largest part of it that has a stack, 20.0 %: loss (a.py:10)"
    assert found.sentences[1:] == (
        "283 MB (60.0 %): no recorded stack (autograd's threads have none)",
        "94.4 MB (20.0 %): loss (a.py:9)",
        "283 MB of what has no stack may be gradients: of the size of what loss (a.py:9) allocates, and nothing else",
    )


def test_a_size_that_several_functions_allocate_says_nothing_of_gradients(tmp_path: Path) -> None:
    assert not [sentence for sentence in _in_backward(tmp_path, "norm (b.py:3)").sentences if "gradients" in sentence]


def test_of_several_leaks_the_sum_and_the_largest_are_told_apart(tmp_path: Path) -> None:
    program = Program()
    for _ in range(12):
        temporary = program.alloc(8 * MIB, "forward (a.py:2)")
        program.alloc(3 * MIB, "keep (a.py:5)")
        program.alloc(1 * MIB, "log (a.py:7)")
        program.free(temporary)
        program.step()
    claim = _found(written(tmp_path, program.snapshot()))["MEM-LEAK"].claim
    assert claim.startswith("memory grows by 4.19 MB per step: ")
    assert claim.endswith(" is never freed, 28.3 MB of it by keep (a.py:5)")


def test_what_would_have_helped_is_said(tmp_path: Path) -> None:
    fragmented, held = unpacked_snapshots(tmp_path, ["oom_fragmented.pickle", "oom_held.pickle"])
    assert "expandable_segments:True: 3.14 GB was free" in (_found(fragmented)["MEM-OOM"].fix or "")
    out_of_memory = _found(held)["MEM-OOM"]
    assert "hold up to 537 MB less" in (out_of_memory.fix or "")
    assert out_of_memory.sentences[0].startswith("the GPU had 148 GB left: a limit of this process")
    assert out_of_memory.sentences[1].startswith("1.61 GB (83.7 %): floats (memory.py:26), called from activations")


def test_fragments_that_would_do_with_what_the_gpu_had_left_are_told_with_it(tmp_path: Path) -> None:
    program = Program()
    program.alloc(8 * MIB, "forward (a.py:2)")
    program.out_of_memory(60 * MIB, 40 * MIB, "loss (a.py:3)")
    snapshot = open_snapshot(written(tmp_path, program.snapshot()))
    [figures] = snapshot_figures(snapshot)
    [failed] = figures.out_of_memories
    failed = replace(failed, layout=replace(failed.layout, stranded_bytes=30 * MIB))
    [found, *_] = snapshot_findings(snapshot, [replace(figures, out_of_memories=(failed,))])
    assert (found.fix or "").endswith(
        "with the 41.9 MB that the GPU had left, 31.5 MB in pieces were more than was asked for"
    )


def test_when_the_peak_was_is_told_without_times(tmp_path: Path) -> None:
    program = Program()
    for address in [program.alloc(8 * MIB, "forward (a.py:2)") for _ in range(8)]:
        program.free(address)
    for event in program.events:
        del event["time_us"]
    found = _found(written(tmp_path, program.snapshot()))["MEM-PEAK"]
    assert found.sentences[0] == "after 16 of 32 events"


def test_the_gpu_that_ran_out_is_told_first_and_each_finding_names_its_gpu(tmp_path: Path) -> None:
    fine, full = Program(), Program()
    fine.alloc(8 * MIB, "forward (a.py:2)")
    full.alloc(9 * MIB, "forward (a.py:2)")
    full.out_of_memory(8 * MIB, MIB, "loss (a.py:3)")
    first, second = fine.snapshot(), full.snapshot()
    for segment in second["segments"]:
        segment["device"] = 1
        segment["address"] += 1 << 40
        segment["blocks"][0]["address"] += 1 << 40
    for event in second["device_traces"][0]:
        event["addr"] = event.get("addr", 0) + (1 << 40)
    first["segments"] += second["segments"]
    first["device_traces"] += second["device_traces"]
    path = written(tmp_path, first)
    text = gpuledger("memory", path).stdout
    assert text.startswith("GPU 1: out of memory: 8.39 MB did not fit")
    assert "MEM-PEAK: GPU 0: the peak is 8.39 MB" in text
    assert "MEM-PEAK: GPU 1: the peak is 9.44 MB" in text


def test_without_a_history_there_is_no_peak(tmp_path: Path) -> None:
    program = Program()
    program.alloc(8 * MIB, "forward (a.py:2)")
    assert not _found(written(tmp_path, program.snapshot() | {"device_traces": [[]]}))


def test_a_full_gpu_that_leaks_is_told_to_stop_the_leak(tmp_path: Path) -> None:
    program = Program()
    for _ in range(12):
        temporary = program.alloc(8 * MIB, "forward (a.py:2)")
        program.alloc(4 * MIB, "remember (a.py:7)")
        program.free(temporary, gives_back=True)
        program.step()
    program.out_of_memory(8 * MIB, MIB, "forward (a.py:2)")
    found = _found(written(tmp_path, program.snapshot()))
    assert tuple(found) == ("MEM-OOM", "MEM-LEAK", "MEM-PEAK")
    assert (found["MEM-OOM"].fix or "").startswith("stop the leak first")
    assert found["MEM-OOM"].sentences[0] == "the GPU had 1.05 MB left"


def test_fragments_smaller_than_a_leak_are_not_what_to_fix(tmp_path: Path) -> None:
    """Filling them would let some steps more pass, and no more."""
    fragmented, leaking = unpacked_snapshots(tmp_path, ["oom_fragmented.pickle", "leak.pickle"])
    snapshot = open_snapshot(fragmented)
    [whole] = snapshot_figures(snapshot)
    [leaks] = snapshot_figures(open_snapshot(leaking))
    [failed] = whole.out_of_memories
    little = replace(failed, request_bytes=MIB, layout=replace(failed.layout, stranded_bytes=2 * MIB))
    for ran_out, fix in ((failed, "set PYTORCH_CUDA_ALLOC_CONF"), (little, "stop the leak first: 176 MB")):
        figures = replace(whole, leaks=leaks.leaks, out_of_memories=(ran_out,))
        [found] = [found for found in snapshot_findings(snapshot, [figures]) if found.code == "MEM-OOM"]
        assert (found.fix or "").startswith(fix)


def test_the_verb_answers_first(tmp_path: Path) -> None:
    [path] = unpacked_snapshots(tmp_path, ["oom_fragmented.pickle"])
    shown = gpuledger("memory", path).stdout
    assert shown.startswith("GPU 0: out of memory: 671 MB did not fit, asked for by floats (memory.py:26)")
    assert "fix: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in shown
    brief = gpuledger("report", path, "--brief").stdout
    assert shown.startswith(brief.rstrip("\n"))
    document = json.loads(gpuledger("memory", path, "--format=json").stdout)
    schema_of("memorysnapshot").validate(document)
    assert document["schema"] == "gpuledger.memorysnapshot/1"
    assert [row["code"] for row in document["findings"]] == ["MEM-OOM", "MEM-FRAGMENTED", "MEM-PEAK"]
    assert [row["moment"] for row in document["reserved"]] == ["peak", "out of memory", "end"]
    parts = ("allocated_bytes", "awaiting_bytes", "stranded_bytes", "releasable_bytes")
    assert all(row["reserved_bytes"] == sum(row[part] for part in parts) for row in document["reserved"])
