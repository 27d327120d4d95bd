"""Whether two programs said the same: what both printed in, yes or no and in what words out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from harness.books import Books

_AVERAGE: Final = 3  # its column, after the share, the total and the number of instances
_MS_DECIMALS: Final = 0.005 + 1e-9  # nsys-ai prints ms with two decimals
_US_ERROR_SHARE: Final = 1e-9  # HolisticTraceAnalysis adds up float microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """The verdict on two answers, with how much was compared or what differs."""

    same: bool
    said: str


Compare = Callable[[str, str], Agreement]
"""Ours first."""


def same_tables(ours: str, theirs: str) -> Agreement:
    """Line by line, but for the domain's colon, which older versions of nsys leave out, and for ties.

    How an average of x.x5 is rounded depends on the version of nsys: 2023.4 goes by its decimal digits, and later ones,
    as we do, by the exact double, which may lie just below.
    """
    mine, other = _lines(ours), _lines(theirs)
    if len(mine) != len(other):
        return Agreement(same=False, said=f"{len(mine)} lines against {len(other)}")
    pairs = list(zip(mine, other, strict=True))
    equal = sum(a == b for a, b in pairs)
    ties = sum(a != b and _is_tie(a, b) for a, b in pairs)
    said = f"{equal + ties} of {len(mine)} lines" + (f", {ties} with a tie rounded otherwise" if ties else "")
    return Agreement(same=equal + ties == len(mine) > 0, said=said)


def same_kernels(ours: str, theirs: str) -> Agreement:
    """Our `cuda_gpu_kern_sum` against nsys-ai's `top_kernels`: launches and time of every kernel, to its decimals."""
    mine = {
        row["Name"]: (int(row["Instances"]), int(row["Total Time (ns)"]) / 1e6)
        for row in csv.DictReader(io.StringIO(ours))
    }
    other = {row["kernel_name"]: (int(row["invocations"]), float(row["total_ms"])) for row in json.loads(theirs)}
    if mine.keys() != other.keys():
        return Agreement(same=False, said=f"{len(mine.keys() ^ other.keys())} kernels only in one")
    equal = sum(
        mine[name][0] == count and abs(mine[name][1] - total_ms) <= _MS_DECIMALS
        for name, (count, total_ms) in other.items()
    )
    return Agreement(same=equal == len(mine) > 0, said=f"{equal} of {len(mine)} kernels")


def same_breakdown(ours: str, theirs: str) -> Agreement:
    """Our report against HolisticTraceAnalysis: computing, exposed communication, and the time of all kernels.

    In a generated trace each of the two streams runs one kernel at a time, so that all kernel time is what the ledger
    books as compute and communication plus what it says is hidden.
    """
    device = _device(ours)
    compute_ns, comm_ns = _booked(device, "compute"), _booked(device, "comm")
    kernel_ns = compute_ns + comm_ns + device["hidden_comm_ns"]
    other = json.loads(theirs)
    pairs = {
        "compute": (compute_ns, other["compute_us"]),
        "exposed communication": (comm_ns, other["exposed_us"]),
        "kernel time": (kernel_ns, other["kernel_us"]),
    }
    wrong = [
        f"{name} {ns / 1e3:.3f} us against {us:.3f} us"
        for name, (ns, us) in pairs.items()
        if abs(ns - us * 1e3) > 1 + _US_ERROR_SHARE * ns
    ]
    return Agreement(same=not wrong, said="; ".join(wrong) or "compute, exposed communication, kernel time")


def same_text(ours: str, theirs: str) -> Agreement:
    """Byte for byte."""
    return Agreement(
        same=bool(ours) and ours == theirs, said="byte for byte" if ours == theirs else "the outputs differ"
    )


def same_opened(ours: str, theirs: str) -> Agreement:
    """Two opens of one profile: all that is said but the seconds."""

    def said(output: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(output)
        return {key: value for key, value in found.items() if key != "seconds"}

    mine, other = said(ours), said(theirs)
    if mine != other:
        return Agreement(same=False, said=f"{mine} against {other}")
    return Agreement(same=True, said=f"{mine['kernels']:,} kernels, one span")


def exact_replay(output: str) -> Agreement:
    """A replay of what was recorded, as it was."""
    found: dict[str, Any] = json.loads(output)
    return Agreement(same=found["exact"], said=f"{found['operations']:,} operations to the nanosecond")


def same_books(books: Books) -> Callable[[str], Agreement]:
    """A report against what its export's rows add up to."""

    def compared(report: str) -> Agreement:
        device = _device(report)
        lines_ns = sum(line["ns"] for line in device["ledger"])
        busy_ns = lines_ns - _booked(device, "idle")
        if lines_ns != device["window_ns"]:
            return Agreement(same=False, said=f"the lines add up to {lines_ns} ns of {device['window_ns']} ns")
        if (device["window_ns"], busy_ns) != (books.window_ns, books.busy_ns):
            found = f"window {device['window_ns']} ns, busy {busy_ns} ns"
            return Agreement(same=False, said=f"{found}; by SQL {books.window_ns} ns and {books.busy_ns} ns")
        return Agreement(same=True, said="window and busy time, by SQL")

    return compared


def agreed(compare: Callable[..., Agreement], *outputs: str) -> Agreement:
    """The verdict, also where an answer is not what it should be."""
    try:
        return compare(*outputs)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return Agreement(same=False, said=f"an answer cannot be read: {type(error).__name__}: {error}"[:160])


def _lines(output: str) -> list[str]:
    return [line.replace(",:", ",").replace(',":', ',"') for line in output.splitlines() if line.strip()]


def _is_tie(ours: str, theirs: str) -> bool:
    """Whether two lines differ in the average alone, which lies halfway between the two."""
    [mine], [other] = csv.reader([ours]), csv.reader([theirs])
    if mine[:_AVERAGE] + mine[_AVERAGE + 1 :] != other[:_AVERAGE] + other[_AVERAGE + 1 :]:
        return False
    try:
        total, instances, *two = (Fraction(each) for each in (mine[1], mine[2], mine[_AVERAGE], other[_AVERAGE]))
    except ValueError:
        return False  # a line of headings
    return sum(two) / 2 == total / instances and abs(two[0] - two[1]) == Fraction(1, 10)


def _device(report: str) -> dict[str, Any]:
    [device] = json.loads(report)["devices"]
    found: dict[str, Any] = device
    return found


def _booked(device: dict[str, Any], kind: str) -> int:
    return sum(line["ns"] for line in device["ledger"] if line["line"].split(".")[0] == kind)
