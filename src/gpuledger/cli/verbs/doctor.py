"""`gpuledger doctor`: can profiles be recorded here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from gpuledger.cli.output import Output
from gpuledger.doctor.check import ExaminedMachine, ProfileWriter
from gpuledger.present.views.runs.doctor import doctor_answer
from gpuledger.read import open_trace
from gpuledger.read.nsys.report import NsysRepReader
from gpuledger.read.source import look_at
from gpuledger.trace.tables import Table
from gpuledger.verbs.definition import Option, VerbArgument


def _writer_of(profile: Path) -> ProfileWriter:
    """Who wrote a profile. A report of nsys is not opened: that would need the nsys that is to be judged."""
    if NsysRepReader().recognises(look_at(profile)):
        return ProfileWriter(profile.name, NsysRepReader.name, None)
    origin = open_trace(profile, only=()).origin
    return ProfileWriter(profile.name, origin.tool, origin.tool_version)


def doctor(
    profile: Annotated[Path | None, VerbArgument()] = None,
    *,
    quick: Annotated[bool, Option("No trial captures: only look, start nothing on the GPU.")] = False,
    output: Output,
) -> None:
    """Check whether profiles can be recorded here, and how to fix what is in the way.

    Looks at the GPUs and their driver, nsys, ncu and torch, who may read the GPU's counters, containers, other
    profilers, disks, and the packages that open further verbs. Where a GPU and nsys are here, it records, exports
    and reads a tiny program, and measures what tracing adds to a CUDA call. With PROFILE, it also checks that the
    nsys here is as new as the one that wrote it.

    Each check ends in ok, warning, problem or not checked, and what can be fixed comes with its commands. Nothing is
    changed or installed. The exit code is 0 where nsys or torch can record and nothing is a problem, else 1.

    \b
    Examples:
      gpuledger doctor
      gpuledger doctor --quick
      gpuledger doctor run.sqlite
      gpuledger doctor --format=json | jq -r '.checks[].commands[]'
    """
    written = None if profile is None else _writer_of(profile)
    patient = ExaminedMachine(
        lambda export: len(open_trace(export, only=(Table.KERNELS,))[Table.KERNELS]), is_quick=quick, written=written
    )
    found = doctor_answer(patient, lambda name: output.progress.stage(f"checking {name}"))
    output.show(found.document())
    if not found.ready:
        sys.exit(1)
