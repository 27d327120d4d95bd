"""Archives of traces, one per rank: `ranks.tar.gz::worker0.json` names one. Members are streamed, never unpacked."""

from __future__ import annotations

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.request import Progress, WantedColumns
from gpuledger.read.source import SEPARATOR, Source
from gpuledger.read.stream import is_archive, members, unpacked
from gpuledger.read.torch.reader import looks_like_json, read_torch
from gpuledger.trace.model import Trace


def traces_in(source: Source, limits: Limits) -> list[str]:
    """The names of the members that look like traces, in the order of their names."""
    names = []
    for name, read in members(source, limits):
        head, stream = unpacked(read(), name, limits)
        if not head and stream.cut:
            raise UnreadableProfile(
                f"{source.name}: the archive is damaged", found=f"{name} cannot be read", hint="copy or pack it again"
            )
        if looks_like_json(head):
            names.append(name)
    return sorted(names)


def read_member(source: Source, member: str, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
    """Read one trace of an archive."""
    for name, read in members(source, limits):
        if name == member:
            _, stream = unpacked(read(), name, limits)
            return read_torch(stream, f"{source.name}{SEPARATOR}{name}", "archive", wanted, limits, progress)
    raise UnreadableProfile(
        f"{source.name}: holds no member {member}", found=f"traces in it: {', '.join(traces_in(source, limits)[:5])}"
    )


class ArchiveReader:
    """A tar or zip archive that holds one trace -> Trace. With several, the user has to say which."""

    name = "archive"

    def recognises(self, source: Source) -> bool:
        return bool(source.head) and is_archive(source)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        names = traces_in(source, limits)
        if not names:
            raise UnreadableProfile(f"{source.name}: an archive without a torch.profiler trace in it")
        if len(names) > 1:
            raise UnreadableProfile(
                f"{source.name}: holds {len(names)} traces",
                found=", ".join(names[:4]) + (", ..." if len(names) > 4 else ""),
                hint=f"`gpuledger fleet` reads them all; `{source.name}{SEPARATOR}{names[0]}` names one",
            )
        return read_member(source, names[0], wanted, limits, progress)
