"""The formats that are read, as people know them: who makes each, which versions were seen, and what each lacks."""

from __future__ import annotations

from typing import Final, NamedTuple


class Format(NamedTuple):
    """One line of the table of formats."""

    name: str
    made_by: str
    seen: str
    """Versions of what writes it that files were read of."""
    lacks: str
    """What no such file says, however it was recorded."""
    reader: str


FORMATS: Final = (
    Format("SQLite export", "`nsys export --type=sqlite`", "nsys 2020 to 2026", "nothing", "sqlite"),
    Format(
        "parquetdir, arrowdir",
        "`nsys export --type=parquetdir` (or arrowdir)",
        "as SQLite; needs `pip install 'gpuledger[arrow]'`",
        "nothing",
        "nsys parquetdir and arrowdir",
    ),
    Format(".nsys-rep, .qdrep", "`nsys profile`", "nsys 2020.4 to 2026.1", "which graph a node is of", "nsys report"),
    Format(
        "torch.profiler trace, .json or .json.gz",
        "`export_chrome_trace`, `tensorboard_trace_handler`",
        "torch 1.9 to today",
        "OS calls; shapes, stacks and GPU counters unless asked for",
        "json",
    ),
    Format(".tar, .tar.gz, .zip of such traces", "`tar`, `zip`; `ARCHIVE::MEMBER` names one", "", "", "archive"),
    Format(
        "rocpd, `*_results.db`",
        "`rocprofv3` (ROCm 7), `--output-format rocpd`",
        "schema 3, of 2025 and 2026",
        "synchronizations, OS calls; calls and markers unless traced (`--sys-trace`)",
        "sqlite",
    ),
    Format(
        "rocprofv3 JSON, `*_results.json`",
        "`rocprofv3 --output-format json`",
        "of 2025",
        "as rocpd",
        "json",
    ),
    Format(
        "rocprofv3 CSV, `*_trace.csv`",
        "`rocprofv3 --output-format csv`; files of one run are read together",
        "of 2026",
        "as rocpd; bytes of copies, allocations, counters",
        "rocprof csv",
    ),
    Format(
        ".rpd",
        "`runTracer.sh`, rocpd_tracer of rocmProfileData",
        "schema 2",
        "names of GPUs, synchronizations, OS calls, allocations",
        "sqlite",
    ),
    Format(
        "rocprof results.db (and kernels as CSV)",
        "`rocprof --hip-trace`, `rocprof --timestamp on`",
        "of 2025",
        "names of GPUs, sizes of launches and copies, synchronizations, OS calls",
        "sqlite",
    ),
    Format(
        ".pftrace, also gzipped",
        "`gpuledger export`, `rocprofv3 --output-format pftrace`, torch.profiler",
        "of 2026; no public one with GPU work",
        "synchronizations, allocations, counters; names of GPUs but in ours",
        "perfetto",
    ),
    Format(
        ".xplane.pb",
        "`jax.profiler.trace`, TensorFlow's profiler",
        "JAX 0.8 and before, on AMD's GPUs",
        "processes, synchronizations, OS calls; on AMD the thread of calls is not that of ranges",
        "xplane",
    ),
)


def formats_table() -> str:
    """The table in Markdown, as `gpuledger info --formats` prints it and docs/reference/formats.md holds it."""
    head = ("format", "made by", "versions seen", "lacks", "reader")
    lines = [head, ("---",) * len(head), *FORMATS]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace("|  |", "| – |").replace("|  |", "| – |")
