"""A Chrome trace's JSON in, its events out, batch by batch; what stands around the events is its metadata.

The text is read in pieces and cut between events. A cut is right if and only if the piece parses: it begins where an
event begins, and braces balance only at an event's end. Pieces are decoded with a typed decoder. One that is not valid
JSON, or holds a value of an odd type, is read again with a patient decoder, event by event if need be, and what cannot
be read is counted.

Times are decimal text, and become whole nanoseconds exactly: a float64 cannot hold microseconds since 1970 to the
nanosecond.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, DecimalException
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import Message, say
from gpuledger.read.checked_tables import LARGEST
from gpuledger.read.request import counted, more_event_bytes
from gpuledger.read.source import too_slow
from gpuledger.read.stream import ByteStream, cut_off
from gpuledger.read.torch.columns import PLAIN, USUAL, Args, Event, decode_any
from gpuledger.trace.model import Note
from gpuledger.trace.spans import Ints
from gpuledger.units import bytes_text, count_text

PIECE: Final = 1 << 20
_TAILS: Final = (1 << 12, 1 << 16)
"""A cut is looked for in so many last bytes, then in all."""
_KEYS: Final = rb'"(?:ph|name|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:'
BETWEEN: Final = re.compile(rb"\}\s*,\s*\{\s*" + _KEYS)
_END: Final = re.compile(rb"\}\s*+,?\s*+\]|\A\s*\]")  # a run of spaces is looked at once
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*(?P<value>\S)', re.DOTALL)
_NEXT: Final = re.compile(r"\}\s*,\s*(?=\{\s*" + _KEYS.decode() + ")")
_UNDECODABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(Args)}
_HEAD: Final = 1 << 16
_FEW: Final = 8
"""So many candidates for a cut are tried before a piece is taken for broken."""
_PADDING: Final = b" \t\r\n\0"
_BLANK: Final = re.compile(r"[ \t\r\n,]*+")


_AMD: Final = "it reads the database that this was made from (.db, .rpd), and what `rocprofv3 --sys-trace` writes"
_TORCH: Final = "record with `torch.profiler.profile`, and write it with its `export_chrome_trace`"
_XLA: Final = "give the .xplane.pb beside it, which holds more"

_OTHER_TRACES: Final[tuple[tuple[tuple[bytes, ...], str, str], ...]] = (
    ((b'"BeginNs"', b'"DurationNs"'), "a trace of AMD's rocprof", _AMD),
    ((b"CPU HIP API", b"process_name"), "a trace of AMD's rocprof", _AMD),
    ((b'"name":"COPY"', b'"name":"GPU', b"process_name"), "a trace of AMD's rocprof", _AMD),
    ((b'"process_name"', b'"name":"GPU', b'"Hip '), "a trace of AMD's rpd (rocmProfileData)", _AMD),
    ((b'"process_sort_index"', b'"name":"GPU', b'"desc"'), "a trace of AMD's rpd (rocmProfileData)", _AMD),
    ((b"viztracer",), "a trace of VizTracer, which records Python and no GPU", _TORCH),
    ((b"/device:GPU:",), "a trace of JAX's or TensorFlow's profiler", _XLA),
    ((b"/device:TPU:",), "a trace of JAX's or TensorFlow's profiler, of a TPU", "only GPUs are supported"),
    ((b"/host:CPU",), "a trace of JAX's or TensorFlow's profiler", _XLA),
)
"""Traces of other tools in Chrome's format: words that are all in each file, what it is, and a hint."""

_OTHER_JSON: Final = {
    "nodes": ("an execution trace of PyTorch (ExecutionTraceObserver), which holds operators and no times", _TORCH),
    "stackFrames": ("a profile in Chrome's own form, without events of a GPU", _TORCH),
}
"""What other JSON files are, by a key at their top, and a hint."""


def other_trace(name: str, text: bytes, seen: Mapping[str, int]) -> UnreadableProfile | None:
    """The refusal of events that no category of torch.profiler's is among; `seen` counts those that they have.

    `text` is how the file begins, and the keys beside its events. None where neither says anything: metadata alone.
    """
    for words, what, hint in _OTHER_TRACES:
        if all(word in text for word in words):
            return UnreadableProfile(f"{name}: is {what}", found=_categories(seen), hint=hint)
    if not any(seen.keys()):
        return None
    return UnreadableProfile(f"{name}: a Chrome trace, but not of torch.profiler", found=_categories(seen), hint=_TORCH)


def _categories(seen: Mapping[str, int]) -> str:
    """The categories of most events."""
    most = sorted(seen.items(), key=lambda entry: -entry[1])[:6]
    return "events: " + ", ".join(f"{count_text(count)} of {name or 'no category'}" for name, count in most)


class EventStream:
    """The events of one JSON text. After `batches` is exhausted, `metadata` and `notes` are complete."""

    def __init__(self, stream: ByteStream, name: str, limits: Limits) -> None:
        self.metadata: dict[str, Any] = {}
        self.head = b""
        """How the text begins, for what is no trace of torch.profiler."""
        self._stream, self._name, self._limits = stream, name, limits
        self._deadline = time.monotonic() + limits.read_seconds
        self._odd = self._lost = self._kept = 0
        self._broken_off: list[Message] = []
        self._trailing_bytes, self._repeated = 0, list[str]()
        self._decoders: tuple[msgspec.json.Decoder[list[Any]], ...] = (PLAIN, USUAL)
        self._is_faulty = False
        """Whether the last piece that could not be decoded holds something else than whole events."""

    def batches(self) -> Iterator[list[Any]]:
        """All events, some thousands at a time; `by_category` sorts them."""
        text = self._find_events()
        while True:
            piece = self._next_piece(len(text))
            text += piece
            if len(text) > self._limits.event_bytes + 2 * PIECE:
                raise UnreadableProfile(
                    f"{self._name}: not a trace: no event ends within {bytes_text(self._limits.event_bytes)}",
                    hint=f"if there are such events in it: {more_event_bytes(self._limits)}",
                )
            if not piece:
                yield from self._last(text)
                return
            events, text = self._whole_events(text)
            if events is not None:
                self._kept += len(events)
                yield events
                del events  # two batches at a time are one too many
                continue
            if not self._is_faulty:
                continue  # no event ends here yet
            if (end := self._end_of_events(text)) is not None:
                yield end[0]
                self._after_events(end[1] + self._stream.read(self._limits.event_bytes))
                return
            events, text, ended = self._patiently(text, at_end=False)
            self._kept += len(events)
            yield events
            if ended:
                self._after_events(text + self._stream.read(self._limits.event_bytes))
                return

    def notes(self) -> list[Note]:
        return [
            *{note.code: note for note in (*self._stream.end_notes, *map(cut_off, self._broken_off[::-1]))}.values(),
            *counted("json-trailing", self._trailing_bytes),
            *counted("keys-repeated", len(self._repeated), keys=", ".join(key[:60] for key in self._repeated[:4])),
            *counted("events-unreadable", self._lost),
            *counted("events-odd", self._odd),
        ]

    def _next_piece(self, waiting: int) -> bytes:
        """The next bytes; refuses where reading takes too long.

        As many again as wait for the end of an event: a long one is looked at a few times, not once for each piece.
        """
        if time.monotonic() > self._deadline:
            raise too_slow(self._name, self._limits.read_seconds)
        return self._stream.read(max(PIECE, min(waiting, self._limits.event_bytes - waiting)))

    def _find_events(self) -> bytes:
        """Reads up to the first event; what stands before is metadata."""
        text, looked_at, tried = b"", 0, 0
        while True:
            piece = self._next_piece(len(text))
            text = (text + piece).removeprefix(b"\xef\xbb\xbf").lstrip()
            self.head = text[:_HEAD]
            if text.startswith(b"["):
                return text[1:]
            for match in _EVENTS.finditer(text, looked_at):
                looked_at, tried = match.end(), tried + 1
                if tried > _FEW:
                    raise self._not_a_trace(text)
                before, rest = _object(text[: match.start()].rstrip().rstrip(b",") + b"}")
                if before is None or rest:
                    continue  # the word, but inside something else
                if match["value"] != b"[":
                    raise UnreadableProfile(f"{self._name}: traceEvents is no list", hint="export the trace again")
                self._add_metadata(before)
                return text[match.end() :]
            if len(text) > self._limits.event_bytes:
                raise UnreadableProfile(
                    f"{self._name}: JSON, but no `traceEvents` within its first {bytes_text(self._limits.event_bytes)}",
                    hint=f"if they come later: {more_event_bytes(self._limits)}",
                )
            if not piece:
                raise self._not_a_trace(text)

    def _not_a_trace(self, text: bytes) -> UnreadableProfile:
        whole, rest = _object(text)
        whole = None if rest else whole
        if known := next((known for key, known in _OTHER_JSON.items() if key in (whole or ())), None):
            return UnreadableProfile(f"{self._name}: is {known[0]}", hint=known[1])
        return UnreadableProfile(
            f"{self._name}: JSON, but not a torch.profiler trace (looked for `traceEvents`)",
            found="not valid JSON" if whole is None else f"its keys are {', '.join(sorted(whole)[:6]) or 'none'}",
            hint="it reads what `torch.profiler` writes with `export_chrome_trace` or `tensorboard_trace_handler`",
        )

    def _whole_events(self, text: bytes) -> tuple[list[Any] | None, bytes]:
        """The events that end within `text`, and the rest; None where no cut gives valid events."""
        self._is_faulty = False
        for cut in _cuts(text):
            try:
                return self._decode_usual(memoryview(text)[:cut]), text[cut:].lstrip().removeprefix(b",")
            except _UNDECODABLE as error:
                if _is_before_the_end(error, cut):
                    self._is_faulty = True
                    break
        return None, text

    def _decode_usual(self, inside: memoryview) -> list[Any]:
        """The events of a text, all of usual categories or all of any."""
        whole = b"".join((b"[", inside, b"]"))  # `inside` is a view, which takes no `+`
        for decoder in self._decoders:
            try:
                events: list[Any] = decoder.decode(whole)
            except _UNDECODABLE:
                continue
            if decoder is USUAL:
                self._decoders = (USUAL,)  # a trace that has collectives has them everywhere
            return events
        return decode_any(whole)

    def _end_of_events(self, text: bytes) -> tuple[list[Event], bytes] | None:
        """The last events, if the list ends within `text`, and what stands after it."""
        for tried, match in enumerate(_END.finditer(text)):
            if tried == _FEW:
                return None
            inside = text[: match.end() - 1].rstrip().removesuffix(b",")
            if (events := _decode(inside)) is not None:
                return events, text[match.end() :]
        return None

    def _last(self, text: bytes) -> Iterator[list[Event]]:
        if (end := self._end_of_events(text)) is not None:
            yield end[0]
            self._after_events(end[1])
            return
        events, text = self._whole_events(text)
        if events is not None:
            yield events
        events, text, ended = self._patiently(text, at_end=True)
        yield events
        if ended:
            self._after_events(text)
        else:
            self._broken_off.append(say("the list of events does not end"))

    def _after_events(self, text: bytes) -> None:
        after, rest = _object(b"{" + text.strip().removeprefix(b","))
        self._add_metadata(after)
        self._trailing_bytes = len(rest) - (after is None)
        while piece := self._next_piece(0):  # also where an end is told
            self._trailing_bytes += len(piece)

    def _add_metadata(self, given: _JsonObject | None) -> None:
        """Take the keys beside the list of events; of those that are given twice the last value counts."""
        for key, value in given.pairs if given else ():
            if key == "traceEvents" and value != []:
                raise UnreadableProfile(f"{self._name}: holds `traceEvents` twice", hint="export the trace again")
            if key == "traceEvents" or self.metadata.get(key, value) != value:
                self._repeated.append(key)
            self.metadata[key] = value

    def _patiently(self, text: bytes, *, at_end: bool) -> tuple[list[Event], bytes, bool]:
        """Event by event with a decoder that takes what is nearly JSON: events, the rest, and whether the list ended.

        What is broken is left out up to the next place where an event could begin.
        """
        events: list[Event] = []
        letters = text.decode("utf-8", "surrogateescape")
        decoder = json.JSONDecoder(parse_float=str, parse_constant=str, parse_int=_whole)
        at = 0
        while (at := _BLANK.match(letters, at).end()) < len(letters):  # type: ignore[union-attr]  # matches nothing too
            if letters[at] == "]":
                return events, letters[at + 1 :].encode("utf-8", "surrogateescape"), True
            begins = at
            try:
                value, at = decoder.raw_decode(letters, at)
            except (ValueError, RecursionError):
                following = _NEXT.search(letters, at)
                if following is None:
                    break
                self._lose(len(events))
                at = following.end()
                continue
            whole = _decode(letters[begins:at].encode("utf-8", "backslashreplace"))
            event = whole[0] if whole else _event(value)
            if event is None:
                self._lose(len(events))
                continue
            self._odd += not whole and not _is_usual(letters[begins:at])
            events.append(event)
        rest = letters[at:]
        if at_end and rest:
            self._broken_off.append(say("the last event breaks off"))
            rest = ""
        return events, rest.encode("utf-8", "surrogateescape"), False

    def _lose(self, kept_here: int) -> None:
        """Count an event that cannot be read. Where hardly any can, looking for the next one could take for ever."""
        self._lost += 1
        if self._lost > 10_000 and self._lost > self._kept + kept_here:
            raise UnreadableProfile(
                f"{self._name}: not a trace: of its first {count_text(self._lost + self._kept + kept_here)} events "
                f"{count_text(self._lost)} cannot be read",
                hint="export the trace again",
            )


def _is_before_the_end(error: Exception, length: int) -> bool:
    """Whether a text of this length failed within, not because it was cut in the wrong place."""
    if isinstance(error, msgspec.ValidationError) or not isinstance(error, msgspec.DecodeError):
        return True
    if "truncated" in str(error):
        return False
    place = re.search(r"\(byte (\d+)\)", str(error))
    return place is None or int(place[1]) < length - 1


def _cuts(text: bytes) -> list[int]:
    """Where events may end, the last ones, from the end."""
    ends: list[int] = []
    for tail in (*_TAILS, len(text)):
        ends = [match.start() + 1 for match in BETWEEN.finditer(text, max(len(text) - tail, 0))]
        if len(ends) >= _FEW or (ends and tail > _TAILS[0]):
            break
    return ends[: -_FEW - 1 : -1]


def _decode(inside: bytes) -> list[Event] | None:
    """Events of any category; None if the text is no list of events."""
    try:
        return decode_any(b"[" + inside + b"]")
    except _UNDECODABLE:
        return None


def _is_usual(letters: str) -> bool:
    """Whether an event would be taken among usual ones: what is odd about it lies in a field that nobody reads.

    So that it does not depend on an event's neighbours, and with that on where a text is cut, how many are odd.
    """
    alone = b"[" + letters.encode("utf-8", "backslashreplace") + b"]"
    for decoder in (PLAIN, USUAL):
        try:
            decoder.decode(alone)
        except _UNDECODABLE:
            continue
        return True
    return False


class _JsonObject(dict[str, Any]):
    """A JSON object that also knows its keys as often as they are given."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs: Final = pairs


def _object(text: bytes) -> tuple[_JsonObject | None, bytes]:
    """A JSON object, None if the text begins with none, and what stands after it."""
    letters = text.decode("utf-8", "backslashreplace")
    try:
        content, end = json.JSONDecoder(parse_int=_whole, object_pairs_hook=_JsonObject).raw_decode(letters)
    except (ValueError, RecursionError):
        return None, text.strip(_PADDING)
    return content if isinstance(content, _JsonObject) else None, letters[end:].encode().strip(_PADDING)


def _whole(text: str) -> int | str:
    """An integer, unless it is longer than any that means something."""
    return int(text) if len(text) < 40 else text


def _clean(text: object) -> str:
    """Text that can be written: bytes that are no UTF-8 as `\\xNN`, lone surrogates as `\\uNNNN`."""
    try:
        return str(text).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return str(text).encode("utf-8", "backslashreplace").decode()


def _event(value: object) -> Event | None:
    if not isinstance(value, dict):
        return None
    given = value.get("args")
    args = Args()
    for key, item in (given if isinstance(given, dict) else {}).items():
        field = _FIELDS.get(key)
        if field is None:
            continue
        if field.type is int and isinstance(item, int) and abs(item) < 2**63:
            setattr(args, field.name, item)
        elif field.type is str and isinstance(item, str):
            setattr(args, field.name, _clean(item))
        elif field.type is Raw:
            setattr(args, field.name, Raw(json.dumps(item).encode()))
    return Event(
        ph=_clean(value.get("ph", "")),
        cat=_clean(value.get("cat", "")),
        name=_clean(value.get("name", "")),
        pid=_identity(value.get("pid")),
        tid=_identity(value.get("tid")),
        ts=Raw(str(value.get("ts", "")).encode("utf-8", "backslashreplace")),
        dur=Raw(str(value.get("dur", "")).encode("utf-8", "backslashreplace")),
        args=args,
        series=Raw(json.dumps(given).encode()),
    )


def _identity(value: object) -> int | str:
    if isinstance(value, int):
        return value if abs(value) < 2**62 else -1
    return -1 if value is None else _clean(value)


_COMMA, _DOT, _MINUS, _ZERO, _NINE = (ord(letter) for letter in ",.-09")
_MOST_DIGITS: Final = 18
"""A number of so many digits fits in 63 bits."""


def nanoseconds(texts: Sequence[bytes | Raw]) -> tuple[Ints, NDArray[np.bool_]]:
    """Microseconds as JSON numbers -> nanoseconds, and which of them are usable numbers (the others are 0)."""
    count = len(texts)
    joined = b",".join(texts) + b","
    if not count or len(joined) == count:  # none of them is there
        return np.zeros(count, np.int64), np.zeros(count, np.bool_)
    letters = np.frombuffer(joined, np.uint8)
    ends = np.flatnonzero(letters == _COMMA)
    if len(ends) != count:  # a comma within one of them
        alone = [_one(bytes(text)) for text in texts]
        return np.array([value for value, _ in alone], np.int64), np.array([good for _, good in alone], np.bool_)
    if _are_kinetos(letters, ends):
        usual: Ints = np.fromstring(joined.replace(b".", b""), np.int64, sep=",")
        if usual.max() < LARGEST:
            return usual, np.ones(count, np.bool_)
    starts = np.append(0, ends[:-1] + 1)
    dots = np.flatnonzero(letters == _DOT)
    digits = (letters >= _ZERO) & (letters <= _NINE)
    minus = letters == _MINUS
    # per number: how many digits, dots and other letters it has, and where its dot is
    count_digits = np.add.reduceat(digits.astype(np.int64), starts)
    has_dot = np.add.reduceat((letters == _DOT).astype(np.int64), starts)
    negative = minus[starts]
    length = ends - starts
    plain = (count_digits + has_dot + negative == length) & (has_dot <= 1) & (count_digits > 0)
    dot_of = np.searchsorted(dots, ends) - 1
    decimals = np.where(has_dot == 1, ends - dots[np.maximum(dot_of, 0)] - 1 if len(dots) else 0, 0)
    usable = plain & (decimals <= 3) & (count_digits + 3 - decimals <= _MOST_DIGITS + 1)
    values = _parse_digits(letters, digits, starts, ends, usable)
    scale = 10 ** (3 - np.where(usable, decimals, 3))
    times_ns = np.where(usable, values * scale * np.where(negative, -1, 1), 0)
    usable &= (times_ns < LARGEST) & (times_ns > -LARGEST)  # what went over 64 bits is also beyond
    for row in np.flatnonzero(~usable).tolist():
        times_ns[row], usable[row] = _one(bytes(texts[row]))
    return times_ns, usable


def _are_kinetos(letters: NDArray[np.uint8], ends: Ints) -> bool:
    """Whether all are as Kineto prints them: digits, a dot, three decimals, and not too long."""
    odd = int((letters - _ZERO > 9).sum())  # unsigned: what is below zero is above nine
    length = np.diff(ends, prepend=-1)
    return odd == 2 * len(ends) and bool(
        (length.min() > 5) and (length.max() <= _MOST_DIGITS + 3) and (letters[ends - 4] == _DOT).all()
    )


def _parse_digits(
    letters: NDArray[np.uint8], digits: NDArray[np.bool_], starts: Ints, ends: Ints, usable: NDArray[np.bool_]
) -> Ints:
    """The digits of each number as one integer, dots and signs left out."""
    values = np.zeros(len(starts), np.int64)
    at, left = starts.copy(), usable & (starts < ends)
    while left.any():
        here = np.flatnonzero(left)
        where = at[here]
        letter = letters[where]
        is_digit = digits[where]
        values[here] = np.where(is_digit, values[here] * 10 + (letter.astype(np.int64) - _ZERO), values[here])
        at[here] += 1
        left[here] = at[here] < ends[here]
    return values


def _one(text: bytes) -> tuple[int, bool]:
    """One number in any form that JSON allows, also within quotes; more than three decimals are rounded."""
    try:
        value = Decimal(text.decode().strip('"')) * 1000
    except (DecimalException, UnicodeDecodeError, ValueError):
        return 0, False
    if not value.is_finite() or abs(value) >= LARGEST:
        return 0, False
    return int(value.to_integral_value()), True
