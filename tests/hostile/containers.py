"""What is wrapped around a trace: gzip, tar, zip."""

from __future__ import annotations

import gzip
import io
import random
import struct
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from hostile.files import JSON, Make, holding

LARGE = b'{"traceEvents": [' + b",".join([JSON[JSON.index(b"[") + 1 : -2]] * 2000) + b"]}"


def packed(content: bytes) -> Make:
    return holding(gzip.compress(content, mtime=0), "a.json.gz")


def raw(content: bytes) -> Make:
    return holding(content, "a.json.gz")


def flipped(at: int) -> Make:
    """A gzip with one byte of it changed."""
    content = bytearray(gzip.compress(LARGE, mtime=0))
    content[at] ^= 0xFF
    return raw(bytes(content))


def with_every_header_field() -> bytes:
    """A gzip whose header has extra bytes, a name, a comment and a checksum."""
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + struct.pack("<H", 4) + b"abcd" + b"../canary.json\0" + b"\x1b[31mhello\0"
    return head + struct.pack("<H", zlib.crc32(head) & 0xFFFF) + gzip.compress(JSON, mtime=0)[10:]


def bomb(start: bytes, filler: bytes, size: int) -> Make:
    """A small gzip of `start` and then `size` bytes of filler: one compressed block, over and over."""

    def make(folder: Path) -> Path:
        pack = zlib.compressobj(9, wbits=31)
        head = pack.compress(start) + pack.flush(zlib.Z_FULL_FLUSH)
        block = pack.compress(filler * ((1 << 20) // len(filler))) + pack.flush(zlib.Z_FULL_FLUSH)
        return raw(head + block * (size >> 20))(folder)

    return make


def empty_members(count: int) -> bytes:
    """A gzip of very many members with nothing in them, and a trace behind them."""
    return gzip.compress(b"", mtime=0) * count + gzip.compress(JSON, mtime=0)


Member = tuple[str, bytes | str]
"""A name, and bytes; or one of tarfile's types and where a link points to."""


def tar(*members: Member, mode: str = "w", form: int = tarfile.PAX_FORMAT) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode=mode, format=form) as archive:  # type: ignore[call-overload]
        for name, content in members:
            entry = tarfile.TarInfo(name)
            if isinstance(content, str):
                kind, _, entry.linkname = content.partition(" ")
                entry.type = getattr(tarfile, kind)
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return whole.getvalue()


def tarred(*members: Member, name: str = "a.tar", mode: str = "w") -> Make:
    return holding(tar(*members, mode=mode), name)


def sparse_member() -> bytes:
    """A tar whose one member claims eight terabytes, all of them a hole."""
    head = bytearray(tar(("a.json", b"{" + b" " * 511), form=tarfile.GNU_FORMAT)[:512])
    head[156:157] = b"S"
    head[386:410] = b"%011o\0%011o\0" % (0, 512)
    head[482:483] = b"\0"
    head[483:495] = b"\x80" + (8 << 40).to_bytes(11, "big")
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + b"{" + b" " * 511 + bytes(1024)


def tar_size(claimed: bytes) -> bytes:
    """A tar whose member claims another size than it has."""
    whole = bytearray(tar(("a.json", JSON), form=tarfile.GNU_FORMAT))
    whole[124:136] = claimed
    whole[148:156] = b" " * 8
    whole[148:156] = b"%06o\0 " % sum(whole[:512])
    return bytes(whole)


def zipped(*members: tuple[str, bytes], times: int = 1, change: Callable[[bytes], bytes] = bytes) -> Make:
    """A zip of these members, their content so many times over."""

    def make(folder: Path) -> Path:
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a name that is there twice
            for name, content in members:
                archive.writestr(name, content * times)
        return holding(change(whole.getvalue()), "a.zip")(folder)

    return make


def zip_link(target: bytes) -> Make:
    """A zip with a symbolic link in it, as Unix stores it."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        link = zipfile.ZipInfo("link.json")
        link.create_system, link.external_attr = 3, 0o120777 << 16
        archive.writestr(link, target)
        archive.writestr("a.json", JSON)
    return holding(whole.getvalue(), "a.zip")


def marked(at_local: int, at_central: int, value: bytes) -> Callable[[bytes], bytes]:
    """Changes a field in both headers of a zip's first member."""

    def change(whole: bytes) -> bytes:
        found, central = bytearray(whole), whole.index(b"PK\1\2")
        found[at_local : at_local + len(value)] = value
        found[central + at_central : central + at_central + len(value)] = value
        return bytes(found)

    return change


ENCRYPTED = marked(6, 8, b"\1\0")
METHOD_99 = marked(8, 10, b"\x63\0")


def damaged_inside(whole: bytes) -> bytes:
    """A zip with noise in the middle of its first member's bytes."""
    found, end = bytearray(whole), whole.index(b"PK\1\2")
    found[end // 2 : end // 2 + 40] = random.Random(1).randbytes(40)
    return bytes(found)


def bad_checksum(whole: bytes) -> bytes:
    """A zip whose member has another checksum than it should."""
    return marked(14, 16, b"\0\0\0\0")(whole)


LARGER = marked(22, 24, (1 << 30).to_bytes(4, "little"))


def zipped_trace() -> bytes:
    return gzip.compress(JSON, mtime=0)


def cut_gzip(share: float) -> bytes:
    """The beginning of a gzip."""
    whole = gzip.compress(LARGE, mtime=0)
    return whole[: int(len(whole) * share)]


def in_members(count: int) -> Make:
    """The clean trace in so many gzip members."""
    step = len(JSON) // count + 1
    return raw(b"".join(gzip.compress(JSON[at : at + step], mtime=0) for at in range(0, len(JSON), step)))


def cut_tar(share: float) -> Make:
    whole = tar(("a.json", LARGE))
    return holding(whole[: int(len(whole) * share)], "a.tar")


def changed_tar(at: int, value: bytes) -> Make:
    whole = bytearray(tar(("a.json", JSON), form=tarfile.GNU_FORMAT))
    whole[at : at + len(value)] = value
    return holding(bytes(whole), "a.tar")


def whole_zip() -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("a.json", JSON)
    return whole.getvalue()


def tar_claiming(size: int) -> bytes:
    """The header of a tar's member that is so large, and a bracket."""
    entry = tarfile.TarInfo("a.json")
    entry.size = size
    return entry.tobuf(tarfile.GNU_FORMAT) + b"["
