"""How alike two kernels are by name, and what is left of names, of ranges too, when running numbers are taken out.

Levels, the best first: the same name; the same function with other template arguments or another tile; the same
family of kernels; nothing in common.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from gpuledger.catalog.kernel_families import CARRIERS, OTHER, family
from gpuledger.catalog.kernel_names import label, parse

EXACT, FUNCTION, FAMILY, NONE = LEVELS = ("exact", "function", "family", "none")

_TILE: Final = re.compile(
    r"(?<=[_x])\d+(?:x\d+)+(?=_|$)|(?<=tile)\d+(?:x\d+)*|(?<=stage)s?\d+|_(?:splitK|streamK|stages?_\d+)(?=_|$)"
)
_LONGEST: Final = 2000
"""No function of a library has a longer name; the pattern of tiles takes time by the square of one."""
_CARRIER: Final = re.compile("|".join(CARRIERS), re.IGNORECASE)
_OP_ID: Final = re.compile(r",?(?:(?<!\s)\s+)?(?:op_id|seq|seq_id|sequence|corr_id|id)\s*[=:]\s*\d+", re.IGNORECASE)
_RUNNING: Final = re.compile(r"(?<=_)\d+(?=_|$)")
_NUMBER: Final = re.compile(r"\d+")
_HASH: Final = re.compile(r"(?<=_)[0-9a-f]{8,}(?=_|$)")
_GENERATED: Final = re.compile(
    r"^(?:triton|fused|wrapped|jit|loop|input|copy|broadcast|reduce|transpose|convert)", re.IGNORECASE
)


def untiled(name: str) -> str:
    """The function's bare name without its tile, so that a library's variants of one kernel are equal.

    `nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT` -> `nvjet_sm90_tst____v_bz_TNT`, `triton_poi_fused_add_12` ->
    `triton_poi_fused_add_`: compilers number what they generate.
    """
    short = parse(name).short
    if len(short) > _LONGEST:
        return short
    if _GENERATED.match(short):
        return _RUNNING.sub("", _HASH.sub("", short))
    return _HASH.sub("", _TILE.sub("", short))


def carries(name: str) -> bool:
    """Whether the function does what its template arguments name."""
    return bool(_CARRIER.fullmatch(parse(name).short))


def normalised(range_name: str) -> str:
    """A range's name with # for its numbers, so that like ranges are equal: `layer12.mlp` -> `layer#.mlp`."""
    return _NUMBER.sub("#", range_name)


def unnumbered(range_name: str) -> str:
    """A range's name without ids that differ in every run: `aten::mm, seq = 7, op_id = 31` -> `aten::mm`."""
    return _OP_ID.sub("", range_name).strip()


def counted_as(range_name: str) -> str:
    """What a range is counted under: its name as it is, but for ids that would make each instance another range."""
    bare = unnumbered(range_name)
    return range_name if bare == range_name.strip() else bare


@lru_cache(maxsize=65536)
def likeness(first: str, second: str) -> str:
    """One of LEVELS.

    A function that does what its template arguments name, as `elementwise_kernel<... silu_kernel ...>`, is the same
    one only if they name the same.
    """
    ours, theirs = parse(first), parse(second)
    if ours.bare == theirs.bare:
        return EXACT
    if ours.short == theirs.short and carries(first):
        alike = label(first) == label(second)
    else:
        alike = ours.short == theirs.short or untiled(first) == untiled(second)
    if alike:
        return FUNCTION
    return FAMILY if family(first) == family(second) != OTHER else NONE
