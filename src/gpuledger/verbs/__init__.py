"""What each verb answers: a profile in, and out a typed result that any writer shows.

The command line, Python and agents call the same functions: a command parses and shows, `gpuledger.NAME` is the
function itself, in the module of that name. `VERBS` is the one list of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """What is known of a verb before it is loaded."""

    help: str
    """The first line of its help; a test keeps the two the same."""
    answers: bool = False
    """Whether the function in the module here that is called like the verb answers it, in Python too; else it acts."""
    command: str | None = ""
    """The module of `cli.verbs` with its command, where that has another name; None: it is made from the function."""


VERBS: Final = {
    "report": Verb("Show where the time in PROFILE went, and what to do about it.", answers=True),
    "info": Verb("Show what is in PROFILE, what is missing, and what that means.", answers=True),
    "stats": Verb("Print NVIDIA's summary tables of PROFILE, to the nanosecond.", answers=True, command="info"),
    "gaps": Verb(
        "Show why the GPU was idle in PROFILE: causes, triggers, launches, overlap, the longest gaps.",
        answers=True,
        command=None,
    ),
    "steps": Verb(
        "List the steps of PROFILE: usual length, drift, unusual ones, and what serving costs by batch.",
        answers=True,
        command=None,
    ),
    "memory": Verb(
        "Show what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.",
        answers=True,
        command=None,
    ),
    "ranges": Verb(
        "Show where PROFILE spends time by NVTX range, and what each phase of a layer costs.",
        answers=True,
        command=None,
    ),
    "ops": Verb(
        "Show what each operator costs in PROFILE: host and GPU time, shapes, TFLOP/s, MFU, work in graphs.",
        answers=True,
        command=None,
    ),
    "whatif": Verb(
        "Show the critical path of PROFILE, and predict what changes would save, alone and together.", answers=True
    ),
    "query": Verb("Ask PROFILE a question in SQL: kernels, calls, ranges, gaps, steps, findings.", answers=True),
    "kernels": Verb(
        "Show which kernels of PROFILE take the time, what limits them, and which to give to Nsight Compute.",
        answers=True,
        command=None,
    ),
    "diff": Verb("Tell whether AFTER is faster than BEFORE, by how much, how sure that is, and why.", answers=True),
    "align": Verb(
        "Check that MOCK, one operation in isolation, runs the same kernels as in the model of E2E, as fast.",
        answers=True,
    ),
    "history": Verb("Keep the figures of runs in a store; show their trend, and which commit changed it."),
    "fleet": Verb("Analyze all ranks of a job in one report: who waits for whom.", answers=True),
    "time": Verb("Time an operation until its median is reliable, with the GPU's clocks, power and throttling."),
    "capture": Verb("Record a profile of COMMAND, check that it is complete, and report on it."),
    "doctor": Verb("Check whether profiles can be recorded here, and how to fix what is in the way."),
    "bench": Verb("Run a program to profile: an MoE layer, a decoder, a server's steps, a transport, a barrier."),
    "run": Verb("Run RUNBOOK: benchmarks and captures over a matrix of settings, with a table over its cells."),
    "export": Verb(
        "Write PROFILE as a timeline for Perfetto or Chrome, or its tables as Parquet.", command="timelines"
    ),
    "view": Verb("Open the timeline of PROFILE in the Perfetto UI, in a browser, offline.", command="timelines"),
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
