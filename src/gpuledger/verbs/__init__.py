"""What each verb answers: a profile in, and out a typed result that any writer shows.

The command line, Python and agents call the same functions: `gpuledger.NAME` is the function in the module of that
name here, and a module of that name in `cli.verbs` has what only its command does. `GROUPS` is the one list of verbs.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Verb(NamedTuple):
    """What is known of a verb before it is loaded."""

    help: str
    """The first line of its help; a test keeps the two the same."""
    answers: bool = True
    """Whether the function in the module here that is called like the verb answers it, in Python too; else it acts."""
    tool: str = ""
    """The title of the tool that agents have for it, where that is made from its function."""
    has_page: bool = True
    is_english: bool = False
    """Whether its words are others', or names of this machine, so that it has no other language."""


GROUPS: Final = {
    "Start here": {
        "report": Verb("Show where the time in PROFILE went, and what to do about it."),
        "info": Verb("Show what is in PROFILE, what is missing, and what that means."),
        "explain": Verb(
            "Explain a finding's CODE: symptom, how it was detected, causes, fix, how to verify.", answers=False
        ),
        "view": Verb("Open the timeline of PROFILE in the Perfetto UI, in a browser, offline.", answers=False),
    },
    "Why the GPU is idle": {
        "gaps": Verb(
            "Show why the GPU was idle in PROFILE: causes, triggers, launches, overlap, the longest gaps.",
            tool="Idle time",
        ),
        "steps": Verb(
            "List the steps of PROFILE: usual length, drift, unusual ones, and what serving costs by batch.",
            tool="Steps",
        ),
        "memory": Verb(
            "Show what PROFILE copies and allocates: kinds, bytes, rates, pageable memory, churn, peak.", tool="Memory"
        ),
    },
    "Why kernels are slow, and whose they are": {
        "kernels": Verb(
            "Show which kernels of PROFILE take the time, what limits them, and which to give to Nsight Compute.",
            tool="Kernels",
        ),
        "ops": Verb(
            "Show what each operator costs in PROFILE: host and GPU time, shapes, TFLOP/s, MFU, work in graphs.",
            tool="Operators",
        ),
        "ranges": Verb(
            "Show where PROFILE spends time by NVTX range, and what each phase of a layer costs.",
            tool="Ranges and phases",
        ),
        "stats": Verb("Print NVIDIA's summary tables of PROFILE, to the nanosecond.", has_page=False, is_english=True),
    },
    "Would it help, did it": {
        "whatif": Verb(
            "Show the critical path of PROFILE, and predict what changes would save, alone and together.",
            tool="What if",
        ),
        "diff": Verb("Tell whether AFTER is faster than BEFORE, by how much, how sure that is, and why."),
        "history": Verb(
            "Keep the figures of runs in a store; show their trend, and which commit changed it.", answers=False
        ),
        "align": Verb(
            "Check that MOCK, one operation in isolation, runs the same kernels as in the model of E2E, as fast."
        ),
        "time": Verb(
            "Time an operation until its median is reliable, with the GPU's clocks, power and throttling.",
            answers=False,
            has_page=False,
        ),
    },
    "Many ranks": {"fleet": Verb("Analyze all ranks of a job in one report: who waits for whom.")},
    "Record": {
        "capture": Verb("Record a profile of COMMAND, check that it is complete, and report on it.", answers=False),
        "doctor": Verb(
            "Check whether profiles can be recorded here, and how to fix what is in the way.",
            answers=False,
            has_page=False,
            is_english=True,
        ),
        "bench": Verb(
            "Run a program to profile: an MoE layer, a decoder, a server's steps, a transport, a barrier.",
            answers=False,
            has_page=False,
        ),
        "run": Verb(
            "Run RUNBOOK: benchmarks and captures over a matrix of settings, with a table over its cells.",
            answers=False,
        ),
    },
    "Share, and ask more": {
        "export": Verb("Write PROFILE as a timeline for Perfetto or Chrome, or its tables as Parquet.", answers=False),
        "query": Verb("Ask PROFILE a question in SQL: kernels, calls, ranges, gaps, steps, findings.", has_page=False),
        "mcp": Verb("Serve profiles to agents over the Model Context Protocol (stdio), read-only.", answers=False),
    },
}
"""Verbs by the question that one comes with, as `gpuledger --help` lists them."""

VERBS: Final = {name: verb for verbs in GROUPS.values() for name, verb in verbs.items()}

RENAMED: Final = {
    "launches": "gaps",
    "overlap": "gaps",
    "serving": "steps",
    "phases": "ranges",
    "critical": "whatif",
    "ncu-plan": "kernels",
}
"""What was a verb of its own, and the verb that answers it."""
