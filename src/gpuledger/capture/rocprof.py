"""AMD's `rocprofv3`: what the user wants recorded in, its options with their reasons out. Nothing runs here.

Written after AMD's documentation: no machine with an AMD GPU was at hand to run it on.
"""

from __future__ import annotations

from msgspec import Struct

from gpuledger.capture.nsys import Flag
from gpuledger.capture.output_files import CapturePlace
from gpuledger.errors import GpuledgerError


class RocprofWishes(Struct, frozen=True):
    """What to record of a program on an AMD GPU."""

    hsa: bool = False
    counters: tuple[str, ...] = ()
    kernel: str | None = None
    delay: float | None = None
    duration: float | None = None


def rocprof_flags(wishes: RocprofWishes, place: CapturePlace) -> tuple[tuple[str, str], ...]:
    """The options and why each is given. Every process writes a file of its own, as ranks would overwrite one."""
    if wishes.delay is not None and wishes.duration is None:
        raise GpuledgerError("--delay says when to begin, but not when to end", hint="add --duration=SECONDS")
    traced = (
        Flag("sys-trace", "", "kernels, copies, allocations, roctx ranges; calls of HIP, of its compiler and of HSA")
        if wishes.hsa
        else Flag(
            "runtime-trace", "", "kernels, copies, allocations, HIP calls, RCCL and roctx ranges; not HSA's calls"
        )
    )
    flags = [traced]
    if wishes.counters:
        flags.append(Flag("pmc", ",".join(wishes.counters), "hardware counters of each kernel, which slow it down"))
    if wishes.kernel is not None:
        flags.append(Flag("kernel-include-regex", wishes.kernel, "counters of kernels of these names alone"))
    if wishes.duration is not None:
        period = f"{wishes.delay or 0:g}:{wishes.duration:g}:1"
        flags += [
            Flag("collection-period", period, "seconds to let pass, seconds to record, once"),
            Flag("collection-period-unit", "sec", "the unit of these"),
        ]
    flags += [
        Flag("output-format", "rocpd", "a database, which holds all that AMD's tools record"),
        Flag("output-directory", str(place.folder.absolute()), "where it goes"),
        Flag("output-file", f"{place.name}_%pid%", "one file per process: NAME_PID_results.db"),
    ]
    # counters are a list that would take what follows it, if it were not joined to its option
    return tuple((flag.argument if flag.value else f"--{flag.name}", flag.why) for flag in flags)
