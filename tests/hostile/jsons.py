"""Chrome traces that are nearly JSON, or JSON that is nearly a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hostile.files import CALL, EVENTS, JSON, KERNEL, KERNEL_ARGS, OP, Make, holding


def text(content: bytes) -> Make:
    return holding(content, "a.json")


def events(*more: Any, first: bool = False, **metadata: Any) -> Make:
    """The clean trace with further events and metadata."""
    listed = [*more, *EVENTS] if first else [*EVENTS, *more]
    return text(json.dumps(metadata | {"traceEvents": listed}).encode())


def swapped(old: bytes, new: bytes) -> Make:
    """The clean trace with one piece of its text replaced."""
    assert JSON.count(old) >= 1
    return text(JSON.replace(old, new, 1))


def kernel(**fields: Any) -> Make:
    """The clean trace, and a second kernel with these fields; None leaves a field out."""
    odd = KERNEL | {"args": KERNEL_ARGS, "ts": 50, "name": "odd"} | fields
    return events({key: value for key, value in odd.items() if value is not None})


def kernel_args(**args: Any) -> Make:
    """The clean trace, and a second kernel with these arguments."""
    return events(KERNEL | {"ts": 50, "name": "odd", "args": KERNEL_ARGS | args})


def kernel_text(**fields: bytes) -> Make:
    """The same with the JSON of the values given."""
    odd = json.dumps(KERNEL | {"args": KERNEL_ARGS, "ts": "T", "dur": "D", "name": "odd"}).encode()
    for field, value in ({"ts": b"50", "dur": b"1"} | fields).items():
        odd = odd.replace(b'"T"' if field == "ts" else b'"D"', value)
    return text(JSON[:-2] + b", " + odd + b"]}")


def op_args(content: bytes) -> Make:
    """An operator with these arguments, as JSON."""
    return swapped(b'"name": "aten::mm"', b'"args": ' + content + b', "name": "aten::mm"')


def without_gpu() -> Make:
    return text(json.dumps({"traceEvents": [OP, CALL]}).encode())


def metadata_only() -> Make:
    names = [{"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "python"}}]
    return text(json.dumps({"traceEvents": names}).encode())


def newline_separated(folder: Path) -> Path:
    """One event a line, as no trace of torch is."""
    path = folder / "a.json"
    path.write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in EVENTS))
    return path


def one_long_event(size: int) -> Make:
    return lambda folder: kernel_args(x="y" * size)(folder)


def many_names_of_the_list(count: int) -> bytes:
    """Metadata that says `traceEvents` very often before the events come."""
    return b'{"x": {' + b",".join([b'"traceEvents":1'] * count) + b'}, "traceEvents": ' + JSON[16:]


def spaces_after_an_event(count: int) -> bytes:
    """An event, and then a long way to the next character, which is none that could follow."""
    return JSON[:-2] + b" " * count + b"x"


LIST = json.dumps(EVENTS).encode()


def long_metadata(size: int) -> Make:
    return lambda folder: text(b'{"note": "' + b"y" * size + b'", ' + JSON[1:])(folder)
