"""Where the time of a profile went, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, TellStage
from gpuledger.verbs.definition import Option, Profile, ProfileOptions

if TYPE_CHECKING:
    from gpuledger.trace.measured import KernelReport
    from gpuledger.trace.model import Trace
    from gpuledger.verbs.profiled_report import Report


def report(
    profile: Profile,
    *,
    ncu: Annotated[
        tuple[Path, ...],
        Option(
            "Nsight Compute report (.ncu-rep or CSV) of the same program; may be given several times.", metavar="FILE"
        ),
    ] = (),
    **asked: Unpack[ProfileOptions],
) -> Report:
    """Show where the time in PROFILE went, and what to do about it.

    Books every nanosecond of each GPU's time to one line: compute by kernel family, exposed communication and
    copies, and idle time by what set it off. The lines sum to the window. Then shows what to change, ranked by what
    it would save. With reports of Nsight Compute (--ncu), also shows what limits each kernel of the step, and what
    fixing it would save. Of a memory snapshot of PyTorch it shows who holds the memory, see `gpuledger memory`.

    \b
    Examples:
      gpuledger report run.sqlite
      gpuledger report run.sqlite --brief
      gpuledger report run.sqlite --step-range=decode
      gpuledger report run.sqlite -o report.html
      gpuledger report run.sqlite -o report.md --charts
      gpuledger report run.sqlite --lang=zh
      gpuledger report run.sqlite --ncu=layer.ncu-rep
      gpuledger report replay.json.gz --names-from=capture.json.gz
      gpuledger report run.json.gz --memory=run.memory.pickle
      gpuledger report snapshot.pickle -o memory.html
    """
    from gpuledger.findings.profiled_run import WHERE_SAMPLED, columns_for
    from gpuledger.verbs.profiles import profile_name, read_profile

    progress = asked.get("progress", NOBODY)
    trace = read_profile(profile, columns_for(), WHERE_SAMPLED, **asked)
    profiled = None
    if ncu:
        from gpuledger.read.ncu.reader import open_kernels

        profiled = open_kernels(ncu, limits=asked.get("limits", DEFAULT_LIMITS), progress=progress)
    return build_report(trace, profile_name(profile), asked.get("wanted"), profiled, stage=progress.stage)


def build_report(
    trace: Trace,
    name: str = "profile",
    wanted: Selection | None = None,
    profiled: KernelReport | None = None,
    *,
    stage: TellStage = NOBODY.stage,
) -> Report:
    """The books and findings of a trace, together with what Nsight Compute measured of its kernels."""
    from msgspec.structs import asdict

    from gpuledger.findings.profiled_run import diagnose
    from gpuledger.verbs.profiled_report import Report

    run = diagnose(trace, name, wanted or Selection(), profiled, stage=stage, shows_levels=True)
    return Report(**asdict(run))
