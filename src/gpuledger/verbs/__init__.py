"""What each verb answers: a profile in, and out a typed result that any writer shows.

The command line, Python and agents call the same functions: a command parses and shows, `gpuledger.NAME` is the
function itself. `VERBS` is the one list of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """What is known of a verb before it is loaded."""

    help: str  # the first line of its help; a test keeps the two the same
    command: str = ""  # the module of `cli.verbs` that its command stands in, where that has another name
    answer: str = ""
    """The module here with the function that answers, for the command, Python and agents; "": it acts instead."""
    declared: str = ""
    """The module here with the function that the command is made from."""


VERBS: Final = {
    "report": Verb("Show where the time in PROFILE went, and what to do about it.", answer="report"),
    "info": Verb("Show what is in PROFILE, what is missing, and what that means.", answer="inventory"),
    "stats": Verb("Print NVIDIA's summary tables of PROFILE, to the nanosecond.", "info", "recorded"),
    "gaps": Verb(
        "Show why the GPU was idle in PROFILE: causes, triggers, launches, overlap, the longest gaps.",
        answer="idle",
        declared="idle",
    ),
    "steps": Verb(
        "List the steps of PROFILE: usual length, drift, unusual ones, and what serving costs by batch.",
        answer="steps",
        declared="steps",
    ),
    "memory": Verb(
        "Show what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.",
        answer="memory",
        declared="memory",
    ),
    "ranges": Verb(
        "Show where PROFILE spends time by NVTX range, and what each phase of a layer costs.",
        answer="ranges",
        declared="ranges",
    ),
    "ops": Verb(
        "Show what each operator costs in PROFILE: host and GPU time, shapes, TFLOP/s, MFU, work in graphs.",
        answer="operators",
        declared="operators",
    ),
    "whatif": Verb(
        "Show the critical path of PROFILE, and predict what changes would save, alone and together.", answer="whatif"
    ),
    "query": Verb("Ask PROFILE a question in SQL: kernels, calls, ranges, gaps, steps, findings.", answer="query"),
    "kernels": Verb(
        "Show which kernels of PROFILE take the time, what limits them, and which to give to Nsight Compute.",
        answer="kernels",
        declared="kernels",
    ),
    "diff": Verb("Tell whether AFTER is faster than BEFORE, by how much, how sure that is, and why.", answer="diff"),
    "align": Verb(
        "Check that MOCK, one operation in isolation, runs the same kernels as in the model of E2E, as fast.",
        answer="align",
    ),
    "history": Verb("Keep the figures of runs in a store; show their trend, and which commit changed it."),
    "fleet": Verb("Analyze all ranks of a job in one report: who waits for whom.", answer="job"),
    "time": Verb("Time an operation until its median is reliable, with the GPU's clocks, power and throttling."),
    "capture": Verb("Record a profile of COMMAND, check that it is complete, and report on it."),
    "doctor": Verb("Check whether profiles can be recorded here, and how to fix what is in the way."),
    "bench": Verb("Run a program to profile: an MoE layer, a decoder, a server's steps, a transport, a barrier."),
    "run": Verb("Run RUNBOOK: benchmarks and captures over a matrix of settings, with a table over its cells."),
    "export": Verb("Write PROFILE as a timeline for Perfetto or Chrome, or its tables as Parquet.", "timelines"),
    "view": Verb("Open the timeline of PROFILE in the Perfetto UI, in a browser, offline.", "timelines"),
    "mcp": Verb("Serve profiles to agents over the Model Context Protocol (stdio), read-only."),
    "explain": Verb("Explain a finding's CODE: symptom, how it was detected, causes, fix, how to verify."),
}

RENAMED: Final = {
    "launches": "gaps",
    "overlap": "gaps",
    "serving": "steps",
    "phases": "ranges",
    "critical": "whatif",
    "ncu-plan": "kernels",
}
"""What was a verb of its own, and the verb that answers it."""

GROUPS: Final = {
    "Start here": ("report", "info", "explain", "view"),
    "Why the GPU is idle": ("gaps", "steps", "memory"),
    "Why kernels are slow, and whose they are": ("kernels", "ops", "ranges", "stats"),
    "Would it help, did it": ("whatif", "diff", "history", "align", "time"),
    "Many ranks": ("fleet",),
    "Record": ("capture", "doctor", "bench", "run"),
    "Share, and ask more": ("export", "query", "mcp"),
}
"""Verbs by the question that one comes with, as `gpuledger --help` lists them; each once."""

DEFAULT_REPORTS: Final = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum")
"""NVIDIA's tables that `stats` prints where none is named."""

LATENCY_TIERS: Final = ("mock", "same-module")
"""How close latencies must be for `align`; a test keeps them those of `analyse.align`."""
