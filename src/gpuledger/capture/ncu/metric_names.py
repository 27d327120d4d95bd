"""Names of Nsight Compute's metrics: a name in, whether it is one out, and else which was meant.

A name is `UNIT__COUNTER`, then `.avg`, `.sum`, `.min` or `.max`, then what that is put in relation to, if anything
(`.per_second`, `.pct_of_peak_sustained_elapsed`); a ratio ends in `.pct`, `.ratio` or `.max_rate` instead. Without any
ending ncu takes all of them, and for `launch__`, `device__attribute_` and the like there are none. Only the grammar is
known here; which counters a GPU has, ncu alone knows, but it says so only after it has started the program.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from gpuledger.errors import GpuledgerError

ROLLUPS: Final = ("avg", "sum", "min", "max")
RATIOS: Final = ("pct", "ratio", "max_rate")

_OVER: Final = ("active", "elapsed", "region", "frame")
SUBMETRICS: Final = (
    "per_second",
    *(f"per_cycle_{over}" for over in ("active", "elapsed", "in_region", "in_frame")),
    *(f"pct_of_peak_sustained_{over}" for over in _OVER),
    "peak_sustained",
    *(f"peak_sustained_{over}" for over in _OVER),
    *(f"peak_sustained_{over}.per_second" for over in _OVER),
)

UNITS: Final = (
    *("sm", "smsp", "l1tex", "tex", "tpc", "gpc", "gpu", "gr", "fe", "idc", "gcc", "ctc", "sass"),
    *("lts", "ltc", "lrc", "dram", "dramc", "fbp", "fbpa", "mcc", "sys", "host", "pcie", "pm"),
    *("nvlink", "nvlrx", "nvltx", "c2clink", "numa", "crop", "zrop", "prop", "raster", "vaf", "vpc", "vsm", "pes"),
    *("launch", "device", "derived", "profiler"),
)
"""Parts of the chip, and ncu's own. A new chip may have more: an unknown unit is only refused if it is nearly one."""

_ALMOST: Final = 0.7
_PREFIX: Final = re.compile(r"(?:breakdown:|pmsampling:|[A-Z0-9_]+\.[A-Z]\w*\.)")
"""What ncu takes or prints before a name: `TPC.TriageCompute.sm__cycles_active.avg` was sampled over time."""

_ANY: Final = re.compile(r"(?:group|regex):.+", re.DOTALL)
_PER_INSTRUCTION: Final = re.compile(
    r"(?:thread_)?inst_executed(?:_true)?|memory_(?:type|access_|l[12]_)\w*|derived_\w+"
)
_BASE: Final = re.compile(r"([a-z][a-z0-9]*)__[A-Za-z0-9]\w*")
_MEANT: Final = {"mean": "avg", "average": "avg", "total": "sum", "minimum": "min", "maximum": "max"}
_HINT: Final = "`ncu --query-metrics` lists the counters of the GPU"


def checked(listed: str) -> tuple[str, ...]:
    """The metrics of a list with commas; refused if there is none, or one that cannot be."""
    names = tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))
    if not names:
        raise GpuledgerError("no metric in the list", hint=_HINT)
    if wrong := [complaint(name) for name in names if not is_metric(name)]:
        raise GpuledgerError(wrong[0], found="\n".join(wrong[1:]), hint=_HINT)
    return names


def is_metric(name: str) -> bool:
    """Whether a name is built as ncu's are."""
    if _ANY.fullmatch(name):
        return True
    base, *ending = _PREFIX.sub("", name, count=1).split(".")
    if not ending and _PER_INSTRUCTION.fullmatch(base):
        return True
    match = _BASE.fullmatch(base)
    if match is None or _misspelt(match[1]) or base.endswith(tuple(f"__{rollup}" for rollup in ROLLUPS)):
        return False
    if len(ending) <= 1:
        return not ending or ending[0] in (*ROLLUPS, *RATIOS)
    return ending[0] in ROLLUPS and ".".join(ending[1:]) in SUBMETRICS


def complaint(name: str) -> str:
    """What to say of a name that is none."""
    meant = _repaired(name)
    if is_metric(meant):
        return f"{name} is no metric: did you mean {meant}?"
    return f"{name} is no metric: expected UNIT__COUNTER.{'|'.join(ROLLUPS)}, then e.g. .{SUBMETRICS[0]}"


def _misspelt(unit: str) -> str | None:
    """The unit that was meant by one that is nearly, but not, known."""
    if unit in UNITS:
        return None
    return next(iter(difflib.get_close_matches(unit, UNITS, n=1, cutoff=_ALMOST)), None)


def _repaired(name: str) -> str:
    """The nearest name that could be one: separators, unit, rollup and ending put right, as far as they can be."""
    text = re.sub(r"(?<!breakdown)(?<!pmsampling)[:/]", ".", name.strip().replace("::", "__"))
    text = re.sub(rf"(?:__|-)({'|'.join(ROLLUPS)})(?=\.|-|$)", r".\1", text)
    text = re.sub(r"[-\s]+", "_", text)
    prefix = match[0] if (match := _PREFIX.match(text)) else ""
    text = text.removeprefix(prefix).lower()
    units = "|".join(sorted(UNITS, key=len, reverse=True))
    text = re.sub(rf"^({units})(?:_|\.)(?!_)", r"\1__", text)
    unit, double, rest = text.partition("__")
    base, *ending = rest.split(".")
    return f"{prefix}{_misspelt(unit) or unit}{double}{'.'.join([base, *_ending(ending)])}"


def _ending(parts: list[str]) -> list[str]:
    """Rollup and submetric, each as near to what was written as there is."""
    if not parts:
        return []
    first, rest = parts[0], ".".join(parts[1:])
    if first not in (*ROLLUPS, *RATIOS):
        if first.startswith(("per_", "pct_of", "peak_")):  # the rollup was left out
            first, rest = "avg", ".".join(parts)
        else:
            near = difflib.get_close_matches(first, (*ROLLUPS, *RATIOS), n=1)
            first = _MEANT.get(first) or (near[0] if near else first)
    return [first, _submetric(rest)] if rest else [first]


def _submetric(text: str) -> str:
    if text in SUBMETRICS:
        return text
    if f"{text}_elapsed" in SUBMETRICS:  # of the four that it may be, the one that ncu's own sections use
        return f"{text}_elapsed"
    return next(iter(difflib.get_close_matches(text, SUBMETRICS, n=1)), text)
