"""Reports of Nsight Systems, damaged: cut, blocks overwritten, taken out or twice, lengths and directories that lie.

The reports are made of the rows of our exports, in many blocks; those beside the checkout join them where there are
any. What lost something is told, refused or reported as before. Bits that change inside a block may give other values
that nothing gives away, as LZ4 blocks have no checksum: what is said of those must add up.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gpuledger.read.nsys.report_events import PackedBlock
from gpuledger.read.nsys.report_file import open_report
from gpuledger.read.source import look_at, opened
from support.command import ROOT
from support.profiles.report_files import of_export, varint
from torture.bench import Bench, Verdict
from torture.captures import an_export
from torture.oracle import judged, sane

_PUBLIC: Final = ROOT.parent / "shared" / "corpus" / "nsysrep"

_TRAILER_BYTES: Final = 16
Damage = Callable[[bytes, tuple[PackedBlock, ...], random.Random], bytes]


def _head(block: PackedBlock) -> int:
    """Where a block's lengths begin."""
    return block.offset - len(varint(block.size)) - len(varint(block.plain_size))


def _cut(whole: bytes, _: object, chance: random.Random) -> bytes:
    return whole[: chance.randrange(len(whole))]


def _middle_gone(whole: bytes, _: object, chance: random.Random) -> bytes:
    first, last = sorted(chance.sample(range(len(whole)), 2))
    return whole[:first] + whole[last:]


def _block_overwritten(whole: bytes, blocks: tuple[PackedBlock, ...], chance: random.Random) -> bytes:
    block = chance.choice(blocks)
    return whole[: block.offset] + chance.choice((b"\0", b"\xff")) * block.size + whole[block.offset + block.size :]


def _block_gone(whole: bytes, blocks: tuple[PackedBlock, ...], chance: random.Random) -> bytes:
    block = chance.choice(blocks)
    return whole[: _head(block)] + whole[block.offset + block.size :]


def _block_twice(whole: bytes, blocks: tuple[PackedBlock, ...], chance: random.Random) -> bytes:
    block = chance.choice(blocks)
    return whole[: block.offset + block.size] + whole[_head(block) :]


def _length_lies(whole: bytes, blocks: tuple[PackedBlock, ...], chance: random.Random) -> bytes:
    block = chance.choice(blocks)
    sizes = [block.size, block.plain_size]
    sizes[chance.randrange(2)] = chance.choice((0, 1, block.size - 1, block.size + 1, 2**31, 2**63, 2**64 - 1))
    return whole[: _head(block)] + varint(sizes[0]) + varint(sizes[1]) + whole[block.offset :]


def _offset_lies(whole: bytes, _: object, chance: random.Random) -> bytes:
    """The directory is said to lie elsewhere."""
    offset = chance.choice((0, 1, len(whole) - 16, len(whole), 2**63, 2**64 - 1, chance.randrange(len(whole))))
    return whole[:-_TRAILER_BYTES] + offset.to_bytes(8, "little") + whole[-8:]


def _directory_changed(whole: bytes, _: object, chance: random.Random) -> bytes:
    """A byte of the directory is another one: a name, an offset or a length."""
    begins = int.from_bytes(whole[-_TRAILER_BYTES:-8], "little")
    return _flipped(whole, begins, len(whole) - 8, chance)


def _header_changed(whole: bytes, blocks: tuple[PackedBlock, ...], chance: random.Random) -> bytes:
    return _flipped(whole, 0, _head(blocks[0]), chance)


def _bits_flipped(whole: bytes, _: object, chance: random.Random) -> bytes:
    return _flipped(whole, 0, len(whole), chance)


def _flipped(whole: bytes, begins: int, ends: int, chance: random.Random) -> bytes:
    changed = bytearray(whole)
    for _ in range(chance.choice((1, 1, 2, 8))):
        changed[chance.randrange(begins, ends)] ^= 1 << chance.randrange(8)
    return bytes(changed)


_LOSSES: Final[dict[str, Damage]] = {
    "cut": _cut,
    "without its middle": _middle_gone,
    "a block overwritten": _block_overwritten,
    "a block taken out": _block_gone,
    "a block twice": _block_twice,
    "a length that lies": _length_lies,
    "the directory elsewhere": _offset_lies,
}
_CHANGES: Final[dict[str, Damage]] = {
    "the directory changed": _directory_changed,
    "its header changed": _header_changed,
    "bits flipped": _bits_flipped,
}


def cases(bench: Bench) -> Iterator[Verdict]:
    """A report, damaged in some way, as chance gives both."""
    public = sorted(_PUBLIC.glob("*.nsys-rep"))
    while True:
        path = bench.chance.choice(public) if public and bench.chance.random() < 0.2 else _made(bench)
        with opened(source := look_at(path)) as file:
            blocks = open_report(source, file).blocks
        kind, damage = bench.chance.choice([*_LOSSES.items(), *_CHANGES.items()])
        damaged = bench.folder / "damaged.nsys-rep"
        damaged.write_bytes(damage(path.read_bytes(), blocks, bench.chance))
        ran = bench.call("report", damaged, "--format=json")
        verdict = judged(bench.whole(path), ran) if kind in _LOSSES else sane(ran)
        yield Verdict(f"{path.name}: {kind}", verdict, ran.said, damaged)


def _made(bench: Bench) -> Path:
    """One of our exports as a report; made once."""
    export = an_export(bench.folder, bench.chance)
    path = export.with_suffix(".nsys-rep")
    if not path.exists():
        path.write_bytes(of_export(export))
    return path
