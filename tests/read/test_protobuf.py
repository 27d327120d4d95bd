"""Fields of messages: a number or bytes each, the same one by one and in columns; what is no message is damage."""

from __future__ import annotations

import numpy as np
import pytest

from gpuledger.read.protobuf import Damage, fields, message_columns, parts, readable_fields

NUMBER = (b"\x08\x96\x01", (1, 150))


@pytest.mark.parametrize(
    ("message", "held"),
    [
        NUMBER,
        (b"\x08" + b"\xff" * 9 + b"\x01", (1, 2**64 - 1)),
        (b"\x12\x03abc", (2, b"abc")),
        (b"\x12\x00", (2, b"")),
        (b"\x1d\x02\x01\x00\x00", (3, 258)),
        (b"\x19\x00\x00\x00\x00\x00\x00\x00\x80", (3, 2**63)),
        (b"\xa2\x06\x01x", (100, b"x")),
    ],
)
def test_a_field_is_a_number_or_bytes(message: bytes, held: tuple[int, int | bytes]) -> None:
    assert list(fields(message)) == [held]
    assert list(fields(message * 2 + NUMBER[0])) == [held, held, NUMBER[1]]
    [part] = parts(b"\xff" + message + b"\xff", 1, 1 + len(message))
    columns = message_columns(np.frombuffer(message, np.uint8), np.zeros(1, np.int64), np.array([len(message)]))
    assert [column.tolist() for column in columns[1:2] + columns[3:]] == [
        [part.field],
        [part.start - 1],
        [part.end - 1],
    ]
    assert columns.value.view(np.uint64).tolist() == [part.value]


@pytest.mark.parametrize(
    "message",
    [
        b"\x08",  # no number
        b"\x08\x96",  # one that breaks off
        b"\x08" + b"\xff" * 10 + b"\x01",  # longer than 64 bits
        b"\x12\x04abc",  # bytes that end before they should
        b"\x1d\x00\x00\x00",
        b"\x19\x00\x00\x00\x00\x00\x00\x00",
        b"\x0b",  # a group, which nobody writes any more
        b"\x12" + b"\xff" * 9 + b"\x01",
    ],
)
def test_what_is_no_message_is_damage(message: bytes) -> None:
    for content in (message, NUMBER[0] + message):
        with pytest.raises(Damage):
            list(fields(content))
        with pytest.raises(Damage):
            message_columns(np.frombuffer(content, np.uint8), np.zeros(1, np.int64), np.array([len(content)]))
    assert list(readable_fields(NUMBER[0] + message)) == [NUMBER[1]]
