"""How `nsys stats` heads its tables and writes its numbers, 2020 to 2026: text in, a report's columns and values out.

A heading is told by its words, whatever its unit: `Total Time (ns)`, `Total Time (us)`, `Average`. Times come out in
nanoseconds, sizes in bytes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Final

from msgspec import Struct

KNOWN: Final = (
    "cuda_api_sum",
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "nvtx_sum",
    "nvtx_pushpop_sum",
    "nvtx_gpu_proj_sum",
    "osrt_sum",
    "cuda_kern_exec_sum",
)
"""The reports that are read."""

_OTHERS: Final = (
    *("cuda_gpu_sum", "cuda_api_gpu_sum", "cuda_gpu_kern_gb_sum", "nvtx_kern_sum", "nvtx_startend_sum"),
    *("openacc_sum", "openmp_sum", "vulkan_api_sum", "vulkan_marker_sum", "opengl_khr_range_sum", "syscall_sum"),
    *("dx11_pix_sum", "dx12_pix_sum", "um_sum", "um_total_sum", "mpi_event_sum", "nvvideo_api_sum", "gpu_gaps"),
)
"""Some that are not, where only a file's name would tell them from those that are."""

FORMER_NAMES: Final = {
    "cudaapisum": "cuda_api_sum",
    "gpukernsum": "cuda_gpu_kern_sum",
    "gpumemtimesum": "cuda_gpu_mem_time_sum",
    "gpumemsizesum": "cuda_gpu_mem_size_sum",
    "nvtxsum": "nvtx_sum",
    "nvtxppsum": "nvtx_pushpop_sum",
    "pushpopsum": "nvtx_pushpop_sum",
    "osrtsum": "osrt_sum",
    "kernexecsum": "cuda_kern_exec_sum",
}
"""What the reports were called before 2023."""

FORMER_TITLES: Final = {
    "CUDA API Statistics": "cuda_api_sum",
    "CUDA Kernel Statistics": "cuda_gpu_kern_sum",
    "CUDA Memory Operation Statistics (by time)": "cuda_gpu_mem_time_sum",
    "Operating System Runtime API Statistics": "osrt_sum",
    "NVTX Range Statistics": "nvtx_sum",
    "NVTX Push-Pop Range Statistics": "nvtx_pushpop_sum",
    "NVTX Push/Pop Range Statistics": "nvtx_pushpop_sum",
}
"""How they were titled before their names stood in the title."""

_SPREAD: Final = {"avg": "average", "med": "median", "min": "least", "max": "most", "stddev": "deviation"}
_WORDS: Final = {
    "time_percent": ("time",),
    "total": ("total time", "total", "total proj time"),
    "count": ("num calls", "calls", "instances", "inst", "count", "operations", "range instances"),
    "name": ("name", "operation", "range", "kernel name", "kernel"),
    **{key: (word, f"proj {word}", f"t{word}") for word, key in _SPREAD.items()},
    **{f"{part}_{word}_ns": (f"{part}{word}",) for part in "aqk" for word in _SPREAD},
    "style": ("style",),
    "pid": ("pid",),
    "tid": ("tid",),
    "device": ("devid",),
    "queued_count": ("qcount",),
    "api_name": ("api name",),
    "total_range_ns": ("total range time",),
    "gpu_ops": ("total gpu ops",),
    "avg_gpu_ops": ("avg gpu ops",),
    "avg_level": ("avg range lvl",),
    "avg_children": ("avg num child",),
    "of another report": ("category", "gridxyz", "blockxyz", "nvtx range", "nvtx inst", "kern inst"),
}
"""What is said under which headings. The keys of what few tables have are those of `gpuledger stats --format=json`."""

_KEYS: Final = {word: key for key, words in _WORDS.items() for word in words} | {
    "average": "average",
    "median": "median",
    "minimum": "least",
    "maximum": "most",
}

TEXTS: Final = frozenset(("name", "style", "api_name"))
_WHOLE: Final = frozenset(
    (
        *("count", "total", "least", "most", "pid", "tid", "device", "queued_count", "gpu_ops", "total_range_ns"),
        *(f"{part}_{word}_ns" for part in "aqk" for word in ("min", "max")),
    )
)
_TIMES: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9} | {
    f"{prefix}sec": factor for prefix, factor in (("n", 1), ("u", 10**3), ("m", 10**6), ("", 10**9))
}
_SIZES: Final = {"b": 1, "bytes": 1} | {
    f"{prefix}{mark}b": factor**power
    for power, prefix in enumerate("kmg", 1)
    for mark, factor in (("", 1000), ("i", 1024))
}
_FACTORS: Final[dict[str, int]] = {"": 1, "%": 1} | _TIMES | _SIZES
_MOST: Final = 2**63
_UNIT: Final = r"\s*(?:\((?P<unit>[^()]{1,8})\))?"
_HEADING: Final = re.compile(rf"(?P<words>[A-Za-z][A-Za-z /#-]*?){_UNIT}")
_ONE_AFTER_ANOTHER: Final = re.compile(
    rf"(?P<words>{'|'.join(sorted(_KEYS, key=len, reverse=True))})\b{_UNIT}\s*", re.IGNORECASE
)
_GROUPING: Final = "[,'_\u00a0\u202f]"
_NUMBER: Final = re.compile(
    rf"-?(?:\d{{1,3}}(?:{_GROUPING}\d{{3}}){{1,8}}|\d{{1,25}})(?:\.\d{{1,25}})?(?:[eE][-+]?\d{{1,2}})?"
)
_REPORT_IN_NAME: Final = re.compile(rf"(?:^|[^a-z0-9])({'|'.join((*KNOWN, *_OTHERS, *FORMER_NAMES))})$")


class ColumnHeading(Struct, frozen=True):
    """One column: what it means, and what its numbers are multiplied with. An unknown one has the key ''."""

    key: str
    words: str
    factor: int = 1
    is_size: bool = False

    def value(self, text: str) -> int | float | None:
        """A cell's number, in ns or bytes; None where it is blank. What is no number raises ValueError."""
        bare = text.strip().removesuffix("%")
        if not bare:
            return None
        if _NUMBER.fullmatch(bare) is None:
            raise ValueError(bare[:40])
        number = Decimal(re.sub(_GROUPING, "", bare)) * self.factor
        if abs(number) >= _MOST:
            raise ValueError(bare[:40])
        return round(number) if self.key in _WHOLE else float(number)


def heading(text: str) -> ColumnHeading:
    """What one heading says."""
    match = _HEADING.fullmatch(text.strip())
    return _heading(match["words"], match["unit"] or "") if match else ColumnHeading("", text.strip())


def headings_of(line: str) -> list[ColumnHeading]:
    """The headings of a line, in columns or one after another; none where the line has anything else in it."""
    apart = [heading(cell) for cell in re.split(r"\s{2,}", line.strip())]
    if is_header(apart):
        return apart
    headings, end, text = [], 0, line.strip()
    while end < len(text):
        match = _ONE_AFTER_ANOTHER.match(text, end)
        if match is None:
            return []
        headings.append(_heading(match["words"], match["unit"] or ""))
        end = match.end()
    return headings


def _heading(words: str, unit: str) -> ColumnHeading:
    key = _KEYS.get(words.lower().strip(), "")
    unit = unit.strip().lower()
    if key == "" or unit not in _FACTORS:
        return ColumnHeading("", words)
    return ColumnHeading(key, words, _FACTORS[unit], unit in _SIZES)


def is_header(headings: Sequence[ColumnHeading]) -> bool:
    """Whether these head a summary: it names something, counts it, and says at least one thing more."""
    keys = [column.key for column in headings]
    return {"name", "count"} <= set(keys) and sum(key != "" for key in keys) >= 3


def lacking(report: str, headings: Sequence[ColumnHeading]) -> list[str]:
    """What a table of this report cannot do without, and does not have."""
    key, called = ("average", "TAvg") if report == "cuda_kern_exec_sum" else ("total", "the total")
    missing = [] if any(column.key == key for column in headings) else [called]
    if report == "cuda_gpu_mem_size_sum" and not any(column.is_size for column in headings):
        missing.append("the unit of the sizes")
    return missing


def is_report(name: str) -> bool:
    """Whether NVIDIA may have given a report this name."""
    return name in FORMER_NAMES or name in _OTHERS or re.fullmatch(r"[a-z0-9]\w*_(?:sum|trace)", name) is not None


def report_in(stem: str) -> tuple[str, str]:
    """The report that a file's name ends with, '' for none, and the name before it."""
    match = _REPORT_IN_NAME.search(stem)
    return (FORMER_NAMES.get(match[1], match[1]), stem[: match.start()]) if match else ("", stem)


def report_of(headings: Sequence[ColumnHeading], names: Collection[str], said: str = "") -> str:
    """The report that a table is, from its headings and, where those leave a choice, from what was said of it.

    '' for one that is not read. Calls of CUDA and of the operating system stand in tables that look the same; without
    a word on them, the names of their rows decide.
    """
    possible = _possible(headings)
    if said and (said in possible or not possible or said not in KNOWN):
        return said
    if "osrt_sum" in possible:
        return "cuda_api_sum" if 2 * sum(name.startswith("cu") for name in names) >= len(names) else "osrt_sum"
    return possible[0] if possible else ""


def _possible(headings: Sequence[ColumnHeading]) -> tuple[str, ...]:
    """The reports with such headings; none where some are unknown, or of a report that is not read."""
    keys = {column.key for column in headings}
    words = {column.words.lower() for column in headings}
    if keys & {"of another report", ""}:
        return ()
    if "queued_count" in keys:
        return ("cuda_kern_exec_sum",)
    if "total proj time" in words:
        return ("nvtx_gpu_proj_sum",)
    if any(column.is_size for column in headings):
        return ("cuda_gpu_mem_size_sum",)
    if "range" in words:
        return ("nvtx_sum",) if "style" in keys else ("nvtx_pushpop_sum", "nvtx_sum")
    if "operation" in words:
        return ("cuda_gpu_mem_time_sum",)
    if words & {"num calls", "calls"}:
        return ("cuda_api_sum", "osrt_sum")
    return ("cuda_gpu_kern_sum",)
