"""nsys-ai's answers: its findings by our causes, in its favor; and the page shows what the kept answers score."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from gpuledger.diagnosis.cases import diagnosis_benchmark
from gpuledger.diagnosis.score import tool_score
from support.command import ROOT

sys.path.append(str(ROOT / "benchmarks"))  # as for `python benchmarks/run_diagnosis.py`

peer: Any = importlib.import_module("harness.nsys_ai_answers")
run: Any = importlib.import_module("run_diagnosis")
BENCHMARK = diagnosis_benchmark()


def gap(call: str, call_ms: float) -> dict[str, Any]:
    values = {"gap_ms": 5.0, "top_cpu_api": call, "top_cpu_api_ms": call_ms}
    return {"label": "GPU Idle Gap (5.00ms)", "provenance": {"row_kind": "per_gap"}, "evidence": [{"values": values}]}


def test_findings_are_read_in_its_favor() -> None:
    """What names no reason takes no place; a cause counts once; idle time is the saving of what gaps are blamed on."""
    idle = {"pct_of_profile": 60.0, "total_idle_ms": 120.0}
    findings = [
        {"label": "Hotspot: gemm", "provenance": {"row_kind": "kernel_hotspot"}},
        {"label": "GPU Idle Summary (60%)", "provenance": {}, "headroom_ms": 60.0, "evidence": [{"values": idle}]},
        gap("cudaFree", 6.0),
        gap("cudaFree", 5.5),
        gap("cuLaunchKernelEx", 0.04),
        {"label": "Large H2D Transfer (33.6MB)", "note": "H2D"},
        {"label": "Critical path is gpu-compute-bound", "provenance": {"row_kind": "bound_class"}},
    ]
    told = [(one["cause"], one.get("saving_percent")) for one in peer.diagnosed({"findings": findings})]
    assert told == [("allocation", 30.0), ("host-code", 30.0), ("exposed-copies", None)]


def test_patterns_are_read_in_its_favor() -> None:
    def row(pattern: str, severity: str, advice: str = "") -> dict[str, str]:
        return {"pattern": pattern, "severity": severity, "recommendation": advice, "evidence": "e"}

    rows = [
        row("Kernel Hotspot", "info"),
        row("H2D Transfer Spike", "info"),
        row("GPU Bubbles (Pipeline Stalls)", "warning", "CPU is not feeding GPU fast enough."),
        row("Pipeline Imbalance", "warning"),
        row("Excessive Synchronization", "critical"),
    ]
    assert [one["cause"] for one in peer.matched(rows)] == ["host-sync", "host-code", "exposed-copies"]
    assert peer.matched([row("No Known Anti-Patterns Detected", "info")]) == []


def test_it_is_mapped_to_causes_that_are_known() -> None:
    rules = [*peer.LABELS, *peer.CALLS, *peer.ADVICE]
    causes = {*peer.ROW_KINDS.values(), *peer.PATTERNS.values(), *(cause for _, cause in rules)}
    assert causes <= {cause.id for cause in BENCHMARK.causes}


def test_the_page_shows_what_the_kept_answers_score() -> None:
    page = run.PAGE.read_text()
    assert run.written(page) == page, "run `python benchmarks/run_diagnosis.py --kept --write-docs`"


def test_the_page_names_the_programs_that_no_rule_was_made_on() -> None:
    [summary] = [line for line in run.PAGE.read_text().splitlines() if "in sample" in line]
    new = run.scores(BENCHMARK)[0].of_cases(BENCHMARK.unseen)
    assert BENCHMARK.unseen
    assert f"({', '.join(BENCHMARK.unseen)}), {new.first} are named" in summary


def test_readmes_have_the_score() -> None:
    total = run.scores(BENCHMARK)[0].total
    assert f"[{total.first} of {total.faults} programs]" in (run.ROOT / "README.md").read_text()
    assert f"[{total.faults} 个程序中的 {total.first} 个]" in (run.ROOT / "README.zh.md").read_text()


def test_every_kept_answer_uses_words_of_the_list() -> None:
    for score in run.scores(BENCHMARK):
        assert [case.not_in_list for case in score.cases if case.not_in_list] == []
        assert score.total.answered == len(BENCHMARK.cases)


def test_the_three_are_scored_on_the_same_cases() -> None:
    assert [score.tool for score in run.scores(BENCHMARK)] == list(run.TOOLS)
    assert tool_score(BENCHMARK, run.answers_at(run.kept_at("gpuledger"), BENCHMARK)).total.faults == 73
