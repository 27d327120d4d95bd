"""NVIDIA's `nsys`: a report in, the path of its SQLite export out.

Exports go into the user's cache folder, never beside the report, and are made again when the report has changed.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from gpuledger.capture.run import run
from gpuledger.capture.tools import find_nsys
from gpuledger.errors import GpuledgerError, MissingPackage, ToolFailed


def exported(report: Path, *, seconds: float) -> Path:
    """The SQLite export of `report`, made now unless the cache holds one of this very state of it."""
    status = report.stat()
    folder = _cache() / "exports" / hashlib.sha256(os.fsencode(report.resolve())).hexdigest()[:16]
    wanted = folder / f"{status.st_size}-{status.st_mtime_ns}.sqlite"
    if wanted.exists():
        return wanted
    nsys = find_nsys()
    if nsys is None:
        raise _not_installed(report)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolFailed(
            f"{report.name}: no place for the export: {error.strerror}",
            found=f"the cache folder is {folder}",
            hint="set XDG_CACHE_HOME to a folder that you can write to",
        ) from None
    partial = folder / f"{os.getpid()}.partial.sqlite"
    try:
        _export(nsys, report, partial, seconds)
        for stale in folder.glob("*[0-9].sqlite"):
            stale.unlink(missing_ok=True)
        partial.replace(wanted)
    finally:
        partial.unlink(missing_ok=True)
    return wanted


def _export(nsys: Path, report: Path, target: Path, seconds: float) -> None:
    options = ["--type=sqlite", "--force-overwrite=true", "--quiet=true", f"--output={target}"]
    # Python's stacks come only as JSON; releases before 2024 write it unasked and do not know the option
    done = run([nsys, "export", *options, "--include-json=true", report.resolve()], seconds=seconds)
    if done.exit_code != 0 and "include-json" in done.output:
        done = run([nsys, "export", *options, report.resolve()], seconds=seconds)
    if done.exit_code == 0 and target.exists() and target.stat().st_size:
        return
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
        hint = f"{beside.name} lies beside it: open that"
    return MissingPackage(
        f"{report.name}: an Nsight Systems report; opening it needs nsys, which was not found", hint=hint
    )


def _cache() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("gpuledger", appauthor=False))
