"""A Chrome trace's JSON in, its events out, batch by batch; what stands around the events is its metadata.

The text is read in pieces and cut between events. A cut is right if and only if the piece parses: it begins where an
event begins, and braces balance only at an event's end. Pieces are decoded with a typed decoder. One that is not valid
JSON, or holds a value of an odd type, is read again with a patient decoder, event by event if need be, and what cannot
be read is counted.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec
from msgspec import Raw

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.model.health import Note, Severity
from gpuledger.read.stream import Bytes
from gpuledger.units import bytes_text, count_text

PIECE: Final = 2 << 20
_TAIL: Final = 1 << 16
_KEYS: Final = rb'"(?:ph|name|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:'
BETWEEN: Final = re.compile(rb"\}\s*,\s*\{\s*" + _KEYS)
_END: Final = re.compile(rb"\}\s*,?\s*\]|\A\s*\]")
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*(?P<value>.)', re.DOTALL)
_NEXT: Final = re.compile(r"\}\s*,\s*(?=\{\s*" + _KEYS.decode() + ")")
_FEW: Final = 8
"""So many candidates for a cut are tried before a piece is taken for broken."""


class _Struct(msgspec.Struct, gc=False):
    pass


class CallArgs(_Struct):
    """What is read of the arguments of a call."""

    correlation: int = -1


class _WhereArgs(CallArgs):
    device: int = -1
    context: int = -1
    stream: int = -1


class CopyArgs(_WhereArgs):
    """Of a copy's or memset's arguments."""

    bytes: int | str = -1


class SyncArgs(_WhereArgs):
    """Of a synchronisation's arguments."""

    sync_kind: str = msgspec.field(name="cuda_sync_kind", default="")


class MemoryArgs(_Struct):
    """Of a memory event's arguments."""

    memory_bytes: int = msgspec.field(name="Bytes", default=0)
    memory_device: int = msgspec.field(name="Device Id", default=-1)
    memory_device_type: int = msgspec.field(name="Device Type", default=-1)
    address: int = msgspec.field(name="Addr", default=-1)


class _CollectiveArgs(_Struct):
    collective: str = msgspec.field(name="Collective name", default="")
    group: Raw = msgspec.field(name="Process Group Name", default=Raw())
    ranks: Raw = msgspec.field(name="Process Group Ranks", default=Raw())
    group_size: int = msgspec.field(name="Group size", default=-1)
    in_elements: int = msgspec.field(name="In msg nelems", default=-1)
    out_elements: int = msgspec.field(name="Out msg nelems", default=-1)
    dtype: str = ""


class KernelArgs(_CollectiveArgs):
    """Of a kernel's arguments."""

    correlation: int = -1
    device: int = -1
    context: int = -1
    stream: int = -1
    grid: Raw = Raw()
    block: Raw = Raw()
    registers: int = msgspec.field(name="registers per thread", default=-1)
    shared_memory: int = msgspec.field(name="shared memory", default=-1)
    graph: int = msgspec.field(name="graph id", default=-1)
    graph_node: int = msgspec.field(name="graph node id", default=-1)


class OpArgs(_CollectiveArgs):
    """Of an operator's arguments, in the spellings of 2021 and of today."""

    dims: Raw = msgspec.field(name="Input Dims", default=Raw())
    dims_2021: Raw = msgspec.field(name="Input dims", default=Raw())
    types: Raw = msgspec.field(name="Input type", default=Raw())


class Args(KernelArgs):
    """All of it, for events of any category."""

    dims: Raw = msgspec.field(name="Input Dims", default=Raw())
    dims_2021: Raw = msgspec.field(name="Input dims", default=Raw())
    types: Raw = msgspec.field(name="Input type", default=Raw())
    bytes: int | str = -1
    sync_kind: str = msgspec.field(name="cuda_sync_kind", default="")
    memory_bytes: int = msgspec.field(name="Bytes", default=0)
    memory_device: int = msgspec.field(name="Device Id", default=-1)
    memory_device_type: int = msgspec.field(name="Device Type", default=-1)
    address: int = msgspec.field(name="Addr", default=-1)
    name: str = ""


class Event(_Struct):
    """One event of any category. Times stay text until they are parsed exactly."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: Raw = Raw()
    dur: Raw = Raw()
    args: Args = msgspec.field(default_factory=Args)


class _Timed(_Struct, tag_field="cat"):
    ph: str = ""
    name: str = ""
    pid: int | str = -1
    tid: int | str = -1
    ts: Raw = Raw()
    dur: Raw = Raw()


def _kind(category: str, args: type[_Struct] | None = None, *, timed: bool = True) -> type[msgspec.Struct]:
    """The type of the events of one category, with no more than is read of them."""
    fields: list[Any] = [] if args is None else [("args", args, msgspec.field(default_factory=args))]
    bases = (_Timed,) if timed else (_Struct,)
    return msgspec.defstruct(
        f"Event_{category}", fields, bases=bases, tag=category, tag_field="cat", gc=False, module=__name__
    )


_KINDS: Final = {
    _kind("kernel", KernelArgs): "kernel",
    _kind("cpu_op", OpArgs): "cpu_op",
    _kind("cuda_runtime", CallArgs): "cuda_runtime",
    _kind("cuda_driver", CallArgs): "cuda_driver",
    _kind("gpu_memcpy", CopyArgs): "gpu_memcpy",
    _kind("gpu_memset", CopyArgs): "gpu_memset",
    _kind("cuda_sync", SyncArgs): "cuda_sync",
    _kind("cpu_instant_event", MemoryArgs): "cpu_instant_event",
    _kind("user_annotation"): "user_annotation",
    _kind("gpu_user_annotation", timed=False): "gpu_user_annotation",
    _kind("python_function"): "python_function",
    _kind("overhead"): "overhead",
    _kind("ac2g", timed=False): "ac2g",
    _kind("fwdbwd", timed=False): "fwdbwd",
}
"""The types of the usual categories. A piece that holds any other is decoded as `Event`s: slower, and as right."""

_ANY_USUAL: Any = reduce(or_, _KINDS)
_USUAL: Final = msgspec.json.Decoder(list[_ANY_USUAL])
_STRICT: Final = msgspec.json.Decoder(list[Event])
_FIELDS: Final = {field.encode_name: field.type for field in msgspec.structs.fields(Args)}
_NAMES: Final = {field.encode_name: field.name for field in msgspec.structs.fields(Args)}


def by_category(batch: list[Any]) -> dict[str, list[Any]]:
    """The events of a batch by category."""
    groups: defaultdict[type, list[Any]] = defaultdict(list)
    for event in batch:
        groups[type(event)].append(event)
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for event in groups.pop(Event, ()):
        found[event.cat].append(event)
    for kind, events in groups.items():
        found[_KINDS[kind]] += events
    return found


class EventStream:
    """The events of one JSON text. After `batches` is exhausted, `metadata` and `notes` are complete."""

    def __init__(self, stream: Bytes, name: str, limits: Limits) -> None:
        self.metadata: dict[str, Any] = {}
        self._stream, self._name, self._limits = stream, name, limits
        self._odd = self._lost = 0
        self._broken_off = ""
        self._is_faulty = False
        """Whether the last piece that could not be decoded holds something else than whole events."""

    def batches(self) -> Iterator[list[Any]]:
        """All events, some thousands at a time; `by_category` sorts them."""
        text = self._find_events()
        while True:
            piece = self._stream.read(PIECE)
            text += piece
            if len(text) > self._limits.event_bytes + 2 * PIECE:
                limit = bytes_text(self._limits.event_bytes)
                raise UnreadableProfile(f"{self._name}: not a trace: no event ends within {limit}")
            if not piece:
                yield from self._last(text)
                return
            events, text = self._whole_events(text)
            if events is not None:
                yield events
                continue
            if not self._is_faulty:
                continue  # no event ends here yet
            if (end := self._end_of_events(text)) is not None:
                yield end[0]
                self._after_events(end[1] + self._stream.read(self._limits.event_bytes))
                return
            events, text, ended = self._patiently(text, at_end=False)
            yield events
            if ended:
                self._after_events(text + self._stream.read(self._limits.event_bytes))
                return

    def notes(self) -> list[Note]:
        """What could not be read."""
        found = []
        cut = self._broken_off or self._stream.cut
        if cut:
            found.append(Note(Severity.LOSS, "trace-cut-off", f"{cut}: the trace is not whole, its end is missing"))
        if self._lost:
            sentence = f"{count_text(self._lost)} events could not be read and were left out"
            found.append(Note(Severity.LOSS, "events-unreadable", sentence, self._lost))
        if self._odd:
            sentence = f"{count_text(self._odd)} events hold odd values; what could be read of them was kept"
            found.append(Note(Severity.WARNING, "events-odd", sentence, self._odd))
        return found

    def _find_events(self) -> bytes:
        """Reads up to the first event; what stands before is metadata."""
        text = b""
        while True:
            piece = self._stream.read(PIECE)
            text = (text + piece).removeprefix(b"\xef\xbb\xbf").lstrip()
            if text.startswith(b"["):
                return text[1:]
            for match in _EVENTS.finditer(text):
                before = _object(text[: match.start()].rstrip().rstrip(b",") + b"}")
                if before is None:
                    continue  # the word, but inside something else
                if match["value"] != b"[":
                    raise UnreadableProfile(f"{self._name}: traceEvents is no list", hint="export the trace again")
                self.metadata = before
                return text[match.end() :]
            if not piece or len(text) > self._limits.event_bytes:
                raise self._not_a_trace(text)

    def _not_a_trace(self, text: bytes) -> UnreadableProfile:
        whole = _object(text)
        found = f"its keys are {', '.join(sorted(whole)[:6]) or 'none'}" if whole is not None else "not valid JSON"
        return UnreadableProfile(
            f"{self._name}: JSON, but not a torch.profiler trace (looked for `traceEvents`)",
            found=found,
            hint="it reads what `torch.profiler` writes with `export_chrome_trace` or `tensorboard_trace_handler`",
        )

    def _whole_events(self, text: bytes) -> tuple[list[Any] | None, bytes]:
        """The events that end within `text`, and the rest; None where no cut gives valid events."""
        window = max(len(text) - _TAIL, 0)
        cuts = [match.start() + 1 for match in BETWEEN.finditer(text, window)] or [
            match.start() + 1 for match in BETWEEN.finditer(text)
        ]
        self._is_faulty = False
        for cut in cuts[: -_FEW - 1 : -1]:
            inside = b"[" + text[:cut] + b"]"
            try:
                events: list[Any] = _USUAL.decode(inside)
                return events, text[cut:].lstrip().removeprefix(b",")
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                pass  # something unusual: look again
            try:
                return _STRICT.decode(inside), text[cut:].lstrip().removeprefix(b",")
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                if _is_before_the_end(error, cut):
                    self._is_faulty = True
                    break
        return None, text

    def _end_of_events(self, text: bytes) -> tuple[list[Event], bytes] | None:
        """The last events, if the list ends within `text`, and what stands after it."""
        for tried, match in enumerate(_END.finditer(text)):
            if tried == _FEW:
                return None
            inside = text[: match.end() - 1].rstrip().removesuffix(b",")
            events = _decoded(inside)
            if events is not None:
                return events, text[match.end() :]
        return None

    def _last(self, text: bytes) -> Iterator[list[Event]]:
        """What is left at the end of the file."""
        end = self._end_of_events(text)
        if end is not None:
            yield end[0]
            self._after_events(end[1])
            return
        events, rest = self._whole_events(text)
        if events is not None:
            yield events
            text = rest
        events, text, ended = self._patiently(text, at_end=True)
        yield events
        if ended:
            self._after_events(text)
        else:
            self._broken_off = self._broken_off or "the list of events does not end"

    def _after_events(self, text: bytes) -> None:
        """Metadata that follows the events."""
        rest = text.strip()
        if rest in (b"", b"}", b","):
            return
        self.metadata |= _object(b"{" + rest.removeprefix(b",")) or {}

    def _patiently(self, text: bytes, *, at_end: bool) -> tuple[list[Event], bytes, bool]:
        """Event by event with a decoder that takes what is nearly JSON: events, the rest, and whether the list ended.

        What is broken is left out up to the next place where an event could begin.
        """
        events: list[Event] = []
        letters = text.decode("utf-8", "backslashreplace")
        decoder = json.JSONDecoder(parse_float=str, parse_constant=str, parse_int=_whole)
        at = 0
        while (at := _skip(letters, at)) < len(letters):
            if letters[at] == "]":
                return events, letters[at + 1 :].encode(), True
            begins = at
            try:
                value, at = decoder.raw_decode(letters, at)
            except (ValueError, RecursionError):
                following = _NEXT.search(letters, at)
                if following is None:
                    break
                self._lost += 1
                at = following.end()
                continue
            whole = _decoded(letters[begins:at].encode("utf-8", "backslashreplace"))
            event = whole[0] if whole else _event(value)
            self._lost += event is None
            if event is not None:
                self._odd += not whole
                events.append(event)
        rest = letters[at:]
        if at_end and rest:
            self._broken_off = "the last event breaks off"
            rest = ""
        return events, rest.encode(), False


def _is_before_the_end(error: Exception, length: int) -> bool:
    """Whether a text of this length failed within, not because it was cut in the wrong place."""
    if isinstance(error, msgspec.ValidationError) or not isinstance(error, msgspec.DecodeError):
        return True
    if "truncated" in str(error):
        return False
    at = re.search(r"\(byte (\d+)\)", str(error))
    return at is None or int(at[1]) < length - 1


def _decoded(inside: bytes) -> list[Event] | None:
    try:
        return _STRICT.decode(b"[" + inside + b"]")
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _object(text: bytes) -> dict[str, Any] | None:
    """A JSON object; None if it is not one."""
    try:
        found = json.loads(text.decode("utf-8", "backslashreplace"), parse_int=_whole)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _whole(text: str) -> int | str:
    """An integer, unless it is longer than any that means something."""
    return int(text) if len(text) < 40 else text


def _skip(letters: str, at: int) -> int:
    while at < len(letters) and letters[at] in " \t\r\n,":
        at += 1
    return at


def _clean(text: object) -> str:
    """Text without lone surrogates, which could not be written anywhere."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def _event(value: object) -> Event | None:
    """An event from whatever the patient decoder found."""
    if not isinstance(value, dict):
        return None
    given = value.get("args")
    args = Args()
    for key, item in (given if isinstance(given, dict) else {}).items():
        wanted = _FIELDS.get(key)
        if wanted is int and isinstance(item, int) and abs(item) < 2**63:
            setattr(args, _NAMES[key], item)
        elif wanted is str and isinstance(item, str):
            setattr(args, _NAMES[key], _clean(item))
        elif wanted is Raw:
            setattr(args, _NAMES[key], Raw(json.dumps(item).encode()))
    return Event(
        ph=_clean(value.get("ph", "")),
        cat=_clean(value.get("cat", "")),
        name=_clean(value.get("name", "")),
        pid=_identity(value.get("pid")),
        tid=_identity(value.get("tid")),
        ts=_number_text(value.get("ts")),
        dur=_number_text(value.get("dur")),
        args=args,
    )


def _identity(value: object) -> int | str:
    """A process or thread."""
    if isinstance(value, int):
        return value if abs(value) < 2**62 else -1
    return -1 if value is None else _clean(value)


def _number_text(value: object) -> Raw:
    return Raw() if value is None else Raw(str(value).encode("utf-8", "backslashreplace"))
