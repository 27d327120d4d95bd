"""Python's stacks of another process, read from its memory: a process id in, its threads' frames out.

Nothing is put into that process and it is never stopped: Linux lets a process that may debug another read
`/proc/PID/mem`. CPython 3.13 and later say where their fields lie (`_Py_DebugOffsets`); earlier versions have the
layout of their headers, which is the same on x86-64 and aarch64. A thread that runs while it is read can give a mix of
two stacks: one that does not hold together is read again, and left out the third time.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import time
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

MAX_DEPTH: Final = 200  # innermost frames that are kept of a deeper stack
_MAX_THREADS: Final = 10_000  # a longer list is one that changes while it is read
_MAX_CHUNK: Final = 1 << 22  # bytes of one piece of a thread's stack
_MAX_TEXT: Final = 1 << 20  # bytes of a name or a line table
_TRIES: Final = 3
_SYMBOLS: Final = (b"_PyRuntime", b"PyCode_Type", b"Py_Version", b"PyIter_Send")
_ENTRY: Final = re.compile(rb"[\x80-\xff][\x00-\x7f]*")  # of a location table: only its first byte has the highest bit
_DYNAMIC_SYMBOLS: Final = 11  # the kind of a section of ELF
_THREAD_ID: Final = 176  # where a thread of 3.10 has the address of its pthread
_OWNED_BY_C: Final = 3  # 3.12 and later: a frame of the interpreter itself, without code of the program

Code: TypeAlias = tuple[int, str, str]
"""First line, qualified name and file of a code object."""
Frame: TypeAlias = tuple[int, Code]
"""The line that runs (0: not known) and its code."""
_LineTable: TypeAlias = tuple[list[int], list[int], int]
"""Where stretches of one line begin, in bytes of code; their lines (0: none); where the last one ends."""


class Unreadable(Exception):
    """The process is gone, may not be read, or has a Python that we don't know."""


class NoPython(Unreadable):
    """The process holds no Python."""


class _Layout(Struct, frozen=True):
    """Where the fields of CPython's structures lie, in bytes."""

    interpreters: int
    next_interpreter: int
    threads: int
    next_thread: int
    native_id: int | None  # None: only the address of the thread's pthread is there
    frame: int
    frame_in_cframe: int | None  # None: the thread points to its frame itself
    chunk: int | None  # None: frames are objects of their own
    previous: int
    code: int
    instruction: int
    owner: int | None
    bytecode: int | None  # None: a frame holds the number of its instruction, not an address
    filename: int
    qualname: int
    first_line: int
    line_table: int
    ascii_text: int
    wide_text: int

    @property
    def frame_size(self) -> int:
        return max(self.previous, self.code, self.instruction, self.owner or 0) + 8


_BY_HEADERS: Final = {
    (3, 10): _Layout(32, 0, 8, 8, None, 24, None, None, 24, 32, 96, None, None, 104, 112, 40, 120, 48, 72),
    (3, 11): _Layout(40, 0, 16, 8, 160, 56, 8, 296, 48, 32, 56, None, 184, 112, 128, 72, 136, 48, 72),
    (3, 12): _Layout(40, 0, 72, 8, 144, 56, 0, 232, 8, 0, 56, 70, 192, 112, 128, 68, 136, 40, 56),
}
_WORDS_OF_OFFSETS: Final = {(3, 13): (19, 25, 28, 34), (3, 14): (22, 28, 31, 39), (3, 15): (22, 31, 39, 47)}
"""Index of the word of `_Py_DebugOffsets` where thread state, native thread id, frame and code object begin."""
KNOWN: Final = f"3.10 to 3.{max(_WORDS_OF_OFFSETS)[1]}"


def _layout_of(version: tuple[int, int], runtime: bytes) -> _Layout | None:
    if version in _BY_HEADERS:
        return _BY_HEADERS[version]
    if version not in _WORDS_OF_OFFSETS or not runtime.startswith(b"xdebugpy"):
        return None
    words = struct.unpack_from("<64Q", runtime)
    if words[2]:
        return None  # threads that run side by side have copies of a function's code
    thread, native_id, frame, code = _WORDS_OF_OFFSETS[version]
    return _Layout(
        interpreters=words[5],
        next_interpreter=words[8],
        threads=words[9],
        next_thread=words[thread + 2],
        native_id=words[native_id],
        frame=words[thread + 4],
        frame_in_cframe=None,
        chunk=words[native_id + 1],
        previous=words[frame + 1],
        code=words[frame + 2],
        instruction=words[frame + 3],
        owner=words[frame + 5],
        bytecode=words[code + 9],
        filename=words[code + 1],
        qualname=words[code + 3],
        first_line=words[code + 5],
        line_table=words[code + 4],
        ascii_text=40,
        wide_text=56,
    )


@lru_cache(64)
def _symbols(path: str, _identity: tuple[int, ...]) -> dict[bytes, int] | None:
    """Offsets of Python's symbols from the first loaded byte of a program or library; None where it has none."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:6] != b"\x7fELF\x02\x01":
            return None
        headers, sections = struct.unpack_from("<QQ", data, 32)
        size, count, section_size, section_count = struct.unpack_from("<4H", data, 54)
        loads = [at for at in range(headers, headers + size * count, size) if data[at : at + 4] == b"\1\0\0\0"]
        first = min((struct.unpack_from("<Q", data, at + 16)[0] for at in loads), default=0) & ~0xFFF
        found = dict[bytes, int]()
        for at in range(sections, sections + section_size * section_count, section_size):
            _, kind, _, _, place, length, link = struct.unpack_from("<IIQQQQI", data, at)
            if kind != _DYNAMIC_SYMBOLS:
                continue
            begin, texts = struct.unpack_from("<QQ", data, sections + section_size * link + 24)
            names = data[begin : begin + texts]
            wanted = {names.find(b"\0" + name + b"\0") + 1: name for name in _SYMBOLS}
            for name, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", data[place : place + length // 24 * 24]):
                if name in wanted and value:
                    found[wanted[name]] = value - first
    return found if b"_PyRuntime" in found and b"PyCode_Type" in found else None


def _python_in(pid: int) -> Iterator[tuple[int, dict[bytes, int]]]:
    """Where a program or library that holds Python is loaded, and its symbols."""
    seen = set[str]()
    program = os.readlink(f"/proc/{pid}/exe")
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            words = line.rstrip("\n").split(None, 5)
            if (
                len(words) < 6
                or words[5] in seen
                or not (words[5] == program or "python" in os.path.basename(words[5]))
            ):
                continue
            seen.add(words[5])
            for path in (words[5], f"/proc/{pid}/root{words[5]}", f"/proc/{pid}/exe"):
                try:
                    status = os.stat(path)
                    if status.st_ino != int(words[4]):
                        continue
                    symbols = _symbols(path, (status.st_dev, status.st_ino, status.st_mtime_ns))
                except (OSError, ValueError, struct.error):  # replaced meanwhile, or no program
                    continue
                if symbols is not None:
                    yield int(words[0].partition("-")[0], 16), symbols
                break


class PythonProcess:
    """A process with Python in it, for reading its stacks again and again."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._codes: dict[int, tuple[bytes, Code, _LineTable]] = {}
        self._id_place: int | None = None
        self._last: dict[int, tuple[bytes, tuple[Frame, ...]]] = {}
        try:
            start, symbols = next(_python_in(pid), (0, None))
            if symbols is None:
                raise NoPython
            self._memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Unreadable(f"process {pid} cannot be read: {error.strerror}") from None
        try:
            self._runtime, self._code_type = start + symbols[b"_PyRuntime"], start + symbols[b"PyCode_Type"]
            self.version = self._version(start, symbols)
            layout = _layout_of(self.version, self._read(self._runtime, 512))
            if layout is None:
                raise Unreadable("process {} runs a build of Python {}.{} that is not known".format(pid, *self.version))
            self._layout = layout
        except Unreadable:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._memory)

    def _version(self, start: int, symbols: dict[bytes, int]) -> tuple[int, int]:
        if b"Py_Version" in symbols:  # 3.11 and later
            version = self._word(start + symbols[b"Py_Version"])
            return version >> 24 & 0xFF, version >> 16 & 0xFF
        return (3, 10) if b"PyIter_Send" in symbols else (3, 9)

    def _read(self, address: int, size: int) -> bytes:
        try:
            data = os.pread(self._memory, size, address)
        except (OSError, OverflowError) as error:
            raise Unreadable(str(error)) from None
        if len(data) < size:
            raise Unreadable("the memory is not there")
        return data

    def _word(self, address: int) -> int:
        return int.from_bytes(self._read(address, 8), "little")

    def _linked(self, first: int, next_offset: int) -> Iterator[int]:
        for _ in range(_MAX_THREADS):
            if not first:
                return
            yield first
            try:
                first = self._word(first + next_offset)
            except Unreadable:  # it was freed meanwhile
                return

    def stacks(self) -> dict[int, tuple[int, tuple[Frame, ...]]]:
        """When each thread was read (monotonic clock) and its frames, innermost first, by the thread's system id."""
        layout, found = self._layout, dict[int, tuple[int, tuple[Frame, ...]]]()
        for interpreter in self._linked(self._word(self._runtime + layout.interpreters), layout.next_interpreter):
            for thread in self._linked(self._word(interpreter + layout.threads), layout.next_thread):
                for _ in range(_TRIES):
                    try:
                        tid, time_ns, frames = self._stack(thread)
                    except (Unreadable, ValueError):  # the latter of bytes that are no text
                        continue
                    if frames:
                        found[tid] = time_ns, frames
                    break
        self._last = {tid: last for tid, last in self._last.items() if tid in found}
        return found

    def _stack(self, thread: int) -> tuple[int, int, tuple[Frame, ...]]:
        layout, began_ns = self._layout, time.monotonic_ns()
        state = self._read(thread, (layout.chunk or _THREAD_ID) + 16)
        frame = int.from_bytes(state[layout.frame : layout.frame + 8], "little")
        if layout.frame_in_cframe is not None:
            frame = self._word(frame + layout.frame_in_cframe) if frame else 0
        if layout.native_id is None:
            tid = self._id_of_pthread(int.from_bytes(state[_THREAD_ID : _THREAD_ID + 8], "little"))
        else:
            tid = int.from_bytes(state[layout.native_id : layout.native_id + 4], "little")
        chunks = list(self._chunks(state)) if frame else []
        time_ns = (began_ns + time.monotonic_ns()) // 2
        seen = b"".join((frame.to_bytes(8, "little"), *(data for _, data in chunks)))
        last = self._last.get(tid)
        if last is not None and last[0] == seen:
            return tid, time_ns, last[1]
        frames, has_others = list[Frame](), not chunks
        while frame:
            data = next((data[frame - at :] for at, data in chunks if at <= frame < at + len(data)), None)
            if data is None or len(data) < layout.frame_size:
                data = self._read(frame, layout.frame_size)
                has_others = has_others or not self._is_of_interpreter(data)
            if not self._is_of_interpreter(data):
                frames.append(self._frame(data))
            frame = int.from_bytes(data[layout.previous : layout.previous + 8], "little")
            if len(frames) >= MAX_DEPTH:
                break
        # of a thread that did nothing since the last look all bytes are the same; a generator's frame lies elsewhere
        self._last[tid] = (b"" if has_others else seen), tuple(frames)
        return tid, time_ns, tuple(frames)

    def _chunks(self, state: bytes) -> Iterator[tuple[int, bytes]]:
        """The pieces of a thread's stack of frames that are in use: address and content, the innermost first."""
        if self._layout.chunk is None:
            return
        chunk, top = struct.unpack_from("<QQ", state, self._layout.chunk)
        for _ in range(MAX_DEPTH):
            if not chunk:
                return
            if not 0 <= top - chunk <= _MAX_CHUNK:
                raise Unreadable("a stack that changes")
            data = self._read(chunk, max(top - chunk, 24))
            yield chunk, data
            chunk = int.from_bytes(data[:8], "little")
            top = chunk + 24 + 8 * self._word(chunk + 16) if chunk else 0

    def _is_of_interpreter(self, data: bytes) -> bool:
        owner = self._layout.owner
        return owner is not None and data[owner] >= _OWNED_BY_C

    def _frame(self, data: bytes) -> Frame:
        layout = self._layout
        address = int.from_bytes(data[layout.code : layout.code + 8], "little") & ~3  # 3.14 marks some references
        if layout.bytecode is None:
            offset = 2 * int.from_bytes(data[layout.instruction : layout.instruction + 4], "little", signed=True)
        else:
            instruction = int.from_bytes(data[layout.instruction : layout.instruction + 8], "little")
            offset = instruction - address - layout.bytecode
        head = self._read(address, layout.line_table + 8)
        if int.from_bytes(head[8:16], "little") != self._code_type:
            raise Unreadable("no code")
        known = self._codes.get(address)
        if known is None or known[0] != head[16:]:
            known = self._codes[address] = head[16:], self._code(head), self._lines(head)
        _, code, (begins, lines, end) = known
        if not -2 <= offset <= end:
            raise Unreadable("an instruction of other code")
        stretch = bisect_right(begins, max(offset, 0)) - 1
        return (lines[stretch] if stretch >= 0 else 0), code

    def _code(self, head: bytes) -> Code:
        layout = self._layout
        name, file = (
            self._text(int.from_bytes(head[offset : offset + 8], "little"))
            for offset in (layout.qualname, layout.filename)
        )
        return struct.unpack_from("<i", head, layout.first_line)[0], name, file

    def _text(self, address: int) -> str:
        layout = self._layout
        head = self._read(address, layout.ascii_text)
        length, state = int.from_bytes(head[16:24], "little"), head[32]
        kind, is_ascii = state >> 2 & 7, bool(state & 64)
        if kind not in (1, 2, 4) or length * kind > _MAX_TEXT:
            raise Unreadable("no text")
        data = self._read(address + (layout.ascii_text if is_ascii else layout.wide_text), length * kind)
        return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "surrogatepass")

    def _lines(self, head: bytes) -> _LineTable:
        layout = self._layout
        table = int.from_bytes(head[layout.line_table : layout.line_table + 8], "little")
        size = self._word(table + 16)
        if size > _MAX_TEXT:
            raise Unreadable("no table of lines")
        data, first = self._read(table + 32, size), struct.unpack_from("<i", head, layout.first_line)[0]
        entries = list(_lines_310(data, first) if layout.bytecode is None else _lines(data, first))
        return (
            [begin for begin, _, _ in entries],
            [line or 0 for _, _, line in entries],
            entries[-1][1] if entries else 0,
        )

    def _id_of_pthread(self, thread: int) -> int:
        """The system's id of a thread, which the C library keeps at one place of all its threads' records."""
        if self._id_place is None:
            own, pid = self._read(self._main_pthread(), 2048), self.pid.to_bytes(4, "little")
            self._id_place = next((at for at in range(0, 2048, 4) if own[at : at + 4] == pid), None)
        if self._id_place is None:
            raise Unreadable("no id of the thread")
        return int.from_bytes(self._read(thread + self._id_place, 4), "little")

    def _main_pthread(self) -> int:
        """The record of the first thread, which is the last of the list."""
        interpreter = self._word(self._runtime + self._layout.interpreters)
        *_, first = self._linked(self._word(interpreter + self._layout.threads), self._layout.next_thread)
        return self._word(first + _THREAD_ID)


def _lines(table: bytes, line: int) -> Iterator[tuple[int, int, int | None]]:
    """Begin, end and line of each stretch of code, by the location table of 3.11 and later."""
    begin = 0
    for entry in _ENTRY.findall(table):
        kind, end = entry[0] >> 3 & 15, begin + 2 * ((entry[0] & 7) + 1)
        if kind in (13, 14):  # a signed step, in groups of six bits
            step = 0
            for place, byte in enumerate(entry[1:]):
                step |= (byte & 63) << 6 * place
                if not byte & 64:
                    break
            line += -(step >> 1) if step & 1 else step >> 1
        elif kind in (10, 11, 12):
            line += kind - 10
        yield begin, end, None if kind == 15 else line
        begin = end


def _lines_310(table: bytes, line: int) -> Iterator[tuple[int, int, int | None]]:
    begin = 0
    for length, step in struct.iter_unpack("<Bb", table[: len(table) // 2 * 2]):
        line += step if step != -128 else 0
        yield begin, begin + length, None if step == -128 else line
        begin += length
