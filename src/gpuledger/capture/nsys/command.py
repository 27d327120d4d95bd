"""NVIDIA's `nsys`: what to record in, its argument list out; a report in, the path of its SQLite export out.

Exports of a report that we did not make go into the user's cache folder, never beside it, and are made again when the
report has changed. A capture of ours exports beside its report.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from gpuledger.capture.nsys.presets import Flag
from gpuledger.errors import GpuledgerError, MissingPackage, ToolFailed
from gpuledger.system.atomic_files import PARTIAL, placed
from gpuledger.system.cache_folder import cache_folder, make_private
from gpuledger.system.processes import Ran, run
from gpuledger.system.tools import find_nsys

Start = Callable[[Sequence[str | Path]], Ran]
"""Runs a program to its end."""

FULL: Final = re.compile(r"no space left on device|disk (?:is )?full|disk quota exceeded|\bENOSPC\b", re.IGNORECASE)
"""How tools say that a disk is full."""
_NOT_WHOLE: Final = f"{PARTIAL}.sqlite"
"""nsys wants the ending that goes with the format."""


def output_flags(output: str) -> tuple[Flag, ...]:
    """Where the report goes. nsys reads % as the beginning of a variable, so ours are doubled."""
    return (
        Flag("output", output.replace("%", "%%"), "the report's name; nsys adds .nsys-rep"),
        Flag("force-overwrite", "true", "gpuledger has looked before: what must stay is not touched"),
    )


def profile_command(nsys: str, flags: Sequence[Flag], command: Sequence[str] = ()) -> tuple[str, ...]:
    """The arguments of one recording."""
    return (nsys, "profile", *(flag.argument for flag in flags), *command)


def export_command(nsys: str, report: Path | str, target: Path | str) -> tuple[str, ...]:
    """The arguments that turn a report into a SQLite file."""
    options = ("--type=sqlite", "--force-overwrite=true", "--quiet=true", "--include-json=true", f"--output={target}")
    return (nsys, "export", *options, str(report))


def export_beside(nsys: Path, report: Path, start: Start) -> Path:
    """The export of a report of ours: NAME.sqlite beside NAME.nsys-rep, whole or not at all."""
    target = report.with_name(report.name.removesuffix(".nsys-rep") + ".sqlite")
    with placed(target, ending=_NOT_WHOLE) as beside:
        _export(nsys, report, beside, start)
    return target


def exported(report: Path, *, seconds: float) -> Path:
    """The SQLite export of `report`, made now unless the cache holds one of this very state of it."""
    status = report.stat()
    folder = cache_folder() / "exports" / hashlib.sha256(os.fsencode(report.resolve())).hexdigest()[:16]
    wanted = folder / f"{status.st_size}-{status.st_mtime_ns}.sqlite"
    if wanted.exists():
        return wanted
    nsys = find_nsys()
    if nsys is None:
        raise _not_installed(report)
    try:
        make_private(folder)
    except OSError as error:
        raise ToolFailed(
            f"{report.name}: no place for the export: {error.strerror}",
            found=f"the cache folder is {folder}",
            hint="set XDG_CACHE_HOME to a folder that you can write to",
        ) from None
    with placed(wanted, ending=_NOT_WHOLE) as beside:
        _export(nsys, report, beside, partial(run, seconds=seconds))
        for stale in folder.glob("*[0-9].sqlite"):
            stale.unlink(missing_ok=True)
    return wanted


def _export(nsys: Path, report: Path, target: Path, start: Start) -> None:
    # Python's stacks come only as JSON; releases before 2024 write it unasked and do not know the option
    argv = export_command(str(nsys), report.resolve(), target)
    done = start(argv)
    if done.exit_code != 0 and "include-json" in done.output:
        done = start([word for word in argv if word != "--include-json=true"])
    if done.exit_code == 0 and target.exists() and target.stat().st_size:
        return
    if FULL.search(done.output):
        raise ToolFailed(
            f"{report.name}: the disk is full: there is no room for its export",
            found=f"{report} is whole, and stays",
            hint="free some space, then `gpuledger report` exports it to your cache folder",
        )
    hint = "the report may be newer than this nsys: export it with the version that made it"
    if "importer" in done.output.lower():
        hint = "this nsys lacks its importer; install the full Nsight Systems, or export on the machine that captured"
    raise ToolFailed(
        f"{report.name}: `nsys export` failed (exit code {done.exit_code})",
        found=f"{nsys} says: {done.last_line}",
        hint=hint,
    )


def _not_installed(report: Path) -> GpuledgerError:
    beside = report.with_suffix(".sqlite")
    hint = f"export it where nsys is installed: `nsys export --type=sqlite {report.name}`, then open the .sqlite"
    if beside.exists():
        hint = f"{beside.name} is next to it: open that"
    return MissingPackage(
        f"{report.name}: an Nsight Systems report; opening it needs nsys, which was not found", hint=hint
    )
