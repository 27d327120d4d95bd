"""Our wire format held against Perfetto's own: its generated classes read what we write, and know every field of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from gpuledger import Table, open_trace
from support.pages.timelines import perfetto


def unknown(message: Any, path: str) -> Iterator[str]:
    """Fields that Perfetto's .proto does not have, anywhere in a message."""
    yield from (f"{path}.{field.field_number}" for field in UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            values = value if field.is_repeated else [value]
            for inner in values:
                yield from unknown(inner, f"{path}.{field.name}")


def test_perfetto_knows_every_field_that_we_write(decode: Path) -> None:
    trace = open_trace(decode)
    read = proto.Trace.FromString(perfetto(trace))
    assert sorted(set(unknown(read, "Trace"))) == []
    kinds = Counter(packet.track_event.type for packet in read.packet if packet.HasField("track_event"))
    begun, ended = kinds[proto.TrackEvent.TYPE_SLICE_BEGIN], kinds[proto.TrackEvent.TYPE_SLICE_END]
    assert begun == ended >= len(trace[Table.KERNELS]) + len(trace[Table.CALLS])
    assert kinds[proto.TrackEvent.TYPE_COUNTER] > 0
    described = {packet.track_descriptor.name for packet in read.packet if packet.HasField("track_descriptor")}
    assert any(name.startswith("stream ") for name in described)
    interned = {name.name for packet in read.packet for name in packet.interned_data.event_names}
    assert "cudaLaunchKernel" in interned
    assert all(packet.trusted_packet_sequence_id for packet in read.packet if packet.HasField("track_event"))


def test_a_field_that_perfetto_does_not_have_is_seen() -> None:
    read = proto.Trace.FromString(b"\x0a\x04\xfa\xff\x7f\x00")  # a packet with a field of a number that nobody uses
    assert list(unknown(read, "Trace"))
