"""A path in, a `Source` out: what lies there, told from its first bytes and never from its name.

The only module that opens a profile's file. Everything that is wrong with the file itself, rather than with what it
holds, is refused here in one sentence.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from gpuledger.errors import GpuledgerError, UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.system.opening import entries_of, identity, open_file, status_of
from gpuledger.trace.deadline import until
from gpuledger.units import bytes_text

HEAD_BYTES = 512
MANY_REPLACED = 8

_FOREIGN = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself", "fetch it with `git lfs pull`"),
    (b"\xfd7zXZ\0", "compressed with xz", "unpack it with `xz -dk`, then open the result"),
    (b"(\xb5/\xfd", "compressed with zstd", "unpack it with `zstd -dk`, then open the result"),
    (
        b"U3w[END]",
        "a capture that nsys did not finish (.qdstrm)",
        "import it with the QdstrmImporter of Nsight Systems",
    ),
    (
        b"NVR\0",
        "a report of Nsight Compute, not a timeline",
        "see what it measured with `gpuledger kernels FILE`, or next to a timeline with `report PROFILE --ncu=FILE`",
    ),
    *(
        (
            bytes((0x80, protocol)),
            "a pickle, such as a memory snapshot of PyTorch, not a timeline",
            "see what a snapshot holds with `gpuledger memory FILE`, or next to a timeline with `report PROFILE "
            "--memory=FILE`",
        )
        for protocol in (2, 3, 4, 5)
    ),
    (b"BZh", "compressed with bzip2", "unpack it with `bunzip2 -k`, then open the result"),
    (b"7z\xbc\xaf", "a 7-Zip archive", "unpack it, then open the profile in it"),
    (b"\x7fELF", "a program, not a profile", "record it: `gpuledger capture nsys -- COMMAND`"),
    *(
        (magic, "a picture or a document, not a profile", "give the profile that it was made from")
        for magic in (b"\x89PNG", b"\xff\xd8\xff", b"%PDF")
    ),
    *(
        (magic, "a web page, not a profile", "download the file itself; on GitHub its `Raw`")
        for magic in (b"<!DOCTYPE html", b"<!doctype html", b"<html")
    ),
    (
        b'"Name","Calls","TotalDurationNs"',
        "a summary by name of AMD's rocprof or rocprofv3, which has no times",
        "give the table or the database of single kernels beside it: results.csv, results.db, *_kernel_trace.csv",
    ),
    (
        b"Dispatch_ID,GPU_ID,",
        "a table of counters of ROCm Compute Profiler (Omniperf), not a timeline",
        "record one with `rocprofv3 --sys-trace --output-format rocpd -- COMMAND`",
    ),
    (b"\x89HDF\r\n", "an HDF5 export", "export it again with `nsys export --type=sqlite`"),
    (b"PAR1", "one Parquet file of an export", "open the folder that holds it"),
    (b"\xff\xff\xff\xff", "one Arrow file of an export", "open the folder that holds it"),
)


class Source(Struct, frozen=True):
    """Something on disk that may be a profile. `head` holds a file's first bytes, `files` a folder's file names."""

    path: Path
    size: int
    head: bytes = b""
    files: tuple[str, ...] = ()
    identity: tuple[int, int] | None = None
    """Which file that was, for whoever opens it again."""

    @property
    def name(self) -> str:
        """How messages call it."""
        return self.path.name or str(self.path)


def opened(source: Source) -> BinaryIO:
    """The file's bytes; refused where another file is there by now."""
    try:
        file = open_file(source.path)
    except OSError as error:
        raise UnreadableProfile(f"{source.name}: cannot be opened: {(error.strerror or str(error)).lower()}") from None
    if source.identity not in (None, identity(file)):
        file.close()
        raise changed(source.name)
    return file


def look_at(path: Path) -> Source:
    """Look at what lies at `path`; refuse what cannot be a profile whatever it holds."""
    name = path.name or str(path)
    try:
        there = status_of(path)
        if stat.S_ISDIR(there.st_mode):
            return Source(path, 0, files=tuple(sorted(entries_of(path))))
        if not stat.S_ISREG(there.st_mode):
            raise UnreadableProfile(f"{name}: not a regular file", hint="save the profile to a file first")
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size  # 0 of files of /proc, whatever they hold
            if not (head := file.read(HEAD_BYTES)) or not size:
                raise UnreadableProfile(
                    f"{name}: the file is empty", hint="the export or the copy did not finish; repeat it"
                )
            return Source(path, size, head, identity=identity(file))
    except FileNotFoundError:
        raise UnreadableProfile(f"{name}: no such file", hint=_nearest(path)) from None
    except PermissionError:
        raise UnreadableProfile(f"{name}: permission denied", hint=f"make it readable: `chmod u+r {path}`") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UnreadableProfile(f"{name}: cannot be opened: {reason.lower()}") from None


@contextlib.contextmanager
def unchanged(source: Source) -> Iterator[None]:
    """Refuse what is read meanwhile if the file changes: its parts would be of different states, and their sum of none.

    What a reader then says of a damaged file is not what is wrong with it.
    """
    before = state(source)
    if source.identity not in (None, before[0][:2]):
        raise changed(source.name)
    try:
        yield
    except Exception:
        if state(source) != before:
            raise changed(source.name) from None
        raise
    if state(source) != before:
        raise changed(source.name)


def state(source: Source) -> list[tuple[int, ...]]:
    """What tells that a file, or one of a folder's, was written to or replaced."""
    paths = [source.path] if source.head else [source.path, *(source.path / name for name in source.files)]
    states = list[tuple[int, ...]]()
    for path in paths:
        try:
            now = status_of(path)
        except OSError:  # gone: another state than any
            states.append(())
        else:
            states.append((now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))
    return states


def changed(name: str) -> UnreadableProfile:
    """The refusal of a file that is not, or may not be, what it was when reading began."""
    return UnreadableProfile(
        f"{name}: was changed while it was read", hint="read it again when whatever writes it has ended"
    )


def unrecognised(source: Source) -> GpuledgerError:
    """The refusal of something that no reader knows."""
    if not source.head:
        return UnreadableProfile(
            f"{source.name}: is a folder, not a profile",
            found=f"a folder with {len(source.files)} entries, none of them a table of an nsys export",
            hint="give a file, or a folder made by `nsys export --type=parquetdir` (or arrowdir)",
        )
    if known := foreign(source):
        return known
    start = source.head[:24].decode("ascii", "replace").replace("\ufffd", ".")
    printable = "".join(letter if letter.isprintable() else "." for letter in start)
    return UnreadableProfile(
        f"{source.name}: not a profile that gpuledger can read",
        found=f"{bytes_text(source.size)}, begins with '{printable}'",
        hint="`gpuledger info --formats` lists the files that it reads",
    )


def foreign(source: Source) -> GpuledgerError | None:
    """The refusal of something that is no profile, but that we know; None of anything else."""
    for magic, what, hint in _FOREIGN:
        if source.head.startswith(magic):
            return UnreadableProfile(f"{source.name}: is {what}", hint=hint)
    if is_text_of_binary(source.head):
        return UnreadableProfile(
            f"{source.name}: a binary file that was stored or sent as text",
            found="its bytes that are no letters were replaced, and are lost",
            hint="copy it again from where it was recorded, as a binary file",
        )
    return None


def is_text_of_binary(head: bytes) -> bool:
    """Whether a file was read as text and written again: where bytes were no UTF-8 there is now U+FFFD."""
    return head.count("\ufffd".encode()) >= MANY_REPLACED and min(head) < MANY_REPLACED


_ALIKE = 0.6


def _nearest(path: Path) -> str:
    import difflib

    try:
        beside = entries_of(path.parent)
    except OSError:
        return ""
    like = {name: name.partition(".")[0] for name in beside if path.suffix in ("", Path(name).suffix)}
    stem = path.name.partition(".")[0]  # endings are alike in a folder of profiles, and say nothing
    close = [name for name in like if difflib.get_close_matches(stem, [like[name]], cutoff=_ALIKE)][:1]
    return f"did you mean {path.parent / close[0]}?" if close else ""


@contextlib.contextmanager
def in_time(name: str, limits: Limits) -> Iterator[None]:
    """What is read meanwhile is refused once it has taken longer than is allowed."""
    with until(time.monotonic() + limits.read_seconds, lambda: too_slow(name, limits.read_seconds)):
        yield


def too_slow(name: str, seconds: float) -> UnreadableProfile:
    """The refusal of something that takes longer to read than is allowed."""
    return UnreadableProfile(
        f"{name}: took more than {seconds:g} s and was stopped",
        hint=f"--limit=read-seconds={4 * seconds:g} waits longer",
    )
