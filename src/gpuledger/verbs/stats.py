"""NVIDIA's tables of a profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from gpuledger.errors import NothingRecorded
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.stages import NOBODY, Listener
from gpuledger.verbs.definition import Option, Profile

if TYPE_CHECKING:
    from gpuledger.present.views.nvidia import StatsAnswer
    from gpuledger.trace.model import Trace

_DEFAULT_REPORTS: Final = ("cuda_gpu_kern_sum", "cuda_api_sum", "nvtx_sum")


def _names() -> list[str]:
    from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS

    return list(NVIDIA_REPORTS)


def _known_names(text: str) -> str:
    """The same names, if they are NVIDIA's."""
    import difflib

    known = _names()
    for name in _split(text):
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(known)}."
            raise ValueError(f"no report {name!r}. {meant}")
    return text


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def stats(
    profile: Profile,
    reports: Annotated[
        tuple[str, ...],
        Option(
            f"NVIDIA's name of a table; several with commas. Default: {','.join(_DEFAULT_REPORTS)}.",
            "-r --report",
            "NAME[,NAME...]",
            _known_names,
            _names,
        ),
    ]
    | Sequence[str] = (),
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> StatsAnswer:
    """Print NVIDIA's summary tables of PROFILE, to the nanosecond.

    The CSV equals what `nsys stats --format csv` of nsys 2025.3 prints: header, rows, order and digits. Times are
    those of the profile, with overlaps and nesting counted in full. On a terminal long names are cut in the middle;
    CSV and JSON have them whole.

    \b
    Tables:
      cuda_gpu_kern_sum      kernels
      cuda_gpu_kern_gb_sum   kernels by launch shape
      cuda_api_sum           CUDA calls
      cuda_gpu_sum           kernels and copies
      cuda_api_gpu_sum       CUDA calls, kernels and copies
      cuda_gpu_mem_time_sum  copies and memsets, by time
      cuda_gpu_mem_size_sum  copies and memsets, by bytes
      cuda_kern_exec_sum     from the launch call to the kernel's end
      nvtx_sum               ranges, time on the host
      nvtx_pushpop_sum       push/pop ranges, time on the host
      nvtx_gpu_proj_sum      ranges, time on the GPU
      nvtx_kern_sum          kernels by range
      osrt_sum               operating-system calls

    \b
    Examples:
      gpuledger stats run.sqlite
      gpuledger stats run.sqlite --report=nvtx_kern_sum --format=csv
      gpuledger stats run.sqlite --report=cuda_gpu_kern_sum -o kernels.json
    """
    from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS, columns_for
    from gpuledger.present.views.nvidia import nvidia_sheet, stats_answer
    from gpuledger.verbs.profiles import profile_name, read_profile

    names = dict.fromkeys(name for text in reports or _DEFAULT_REPORTS for name in _split(_known_names(text)))
    asked = tuple(NVIDIA_REPORTS[name] for name in names)
    trace = read_profile(profile, columns_for(asked), limits=limits, progress=progress)
    progress.stage("making the tables")
    answer = stats_answer(
        profile_name(profile), [(report, nvidia_sheet(report, trace)) for report in asked], trace.health
    )
    if not answer.tables():
        raise _nothing(answer, trace)
    return answer


def _nothing(answer: StatsAnswer, trace: Trace) -> NothingRecorded:
    reasons = list(dict.fromkeys(table.not_measured for table in answer.reports if table.not_measured is not None))
    origin = trace.origin
    version = f"{origin.tool} {origin.tool_version or 'of unknown version'}"
    hint = "`gpuledger info` says what was recorded"
    if origin.tool == "nsys":
        version = f"{version}, export schema {origin.schema_version or 'unknown'}"
        hint = f"{hint}; record again with `nsys profile --trace=cuda,nvtx`"
    held = [f"{name} ({count:,})" for name, count in origin.source_rows if count]
    asked = answer.reports[0].report if len(answer.reports) == 1 else "any of the tables asked for"
    return NothingRecorded(
        f"{answer.profile}: nothing for {asked}: {reasons[0]}",
        found="\n".join([*reasons[1:], f"{version}; rows: {', '.join(held) or 'none at all'}"]),
        hint=hint,
    )
