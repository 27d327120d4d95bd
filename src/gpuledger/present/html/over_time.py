"""What happened when: how busy each stream was, memory in use, copies, and how launched work waited."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.activity_bins import Use, queue_delays, stream_use
from gpuledger.analyse.memory.in_use import memory_use
from gpuledger.messages import Message, say
from gpuledger.present.charts.amounts import Column, columns
from gpuledger.present.charts.over_time import Row, heat_map, memory_area
from gpuledger.present.charts.svg import Picture
from gpuledger.present.html.parts import Chart, Part, Section, Text
from gpuledger.present.html.scene import Scene
from gpuledger.present.html.tables import table
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.launches import launches_sheets
from gpuledger.present.views.memory import memory_sheets
from gpuledger.trace.health import NotMeasured
from gpuledger.trace.model import os_pid
from gpuledger.trace.tables import Table as Recorded
from gpuledger.units import bytes_text, share_text, time_text

_DELAYS = {"during the call": say("during the call"), "over 1 ms": say("over 1 ms")}
"""Buckets that are named with words; the others are numbers."""


def use_picture(scene: Scene) -> tuple[Picture, Use]:
    """The map of streams over the window."""
    tell, window = scene.tell, scene.report.window
    use = stream_use(scene.device.found, window)
    length = window.end_ns - window.start_ns
    several_pids = len({each.pid for each in use.streams}) > 1
    rows = []
    for each in use.streams:
        busy = share_text(int(each.busy_ns.sum()) / length)
        name = say("GPU {gpu}, stream {stream}", gpu=each.gpu, stream=each.stream)
        if several_pids:
            pid = os_pid(each.pid)
            name = say("GPU {gpu}, stream {stream} of process {pid}", gpu=each.gpu, stream=each.stream, pid=pid)
        rows.append(Row(tell(name), each.busy_ns, tell(say("{share} busy", share=busy))))
    widths = (use.edges_ns[1:] - use.edges_ns[:-1]).tolist()
    said = "; ".join(f"{row.name}: {row.said}" for row in rows)
    title = tell(say("How busy each stream was"))
    return heat_map(title, said, rows, widths, ("0", time_text(length)), tell(say("busy"))), use


def use_section(scene: Scene) -> Section:
    """Every GPU and stream."""
    tell = scene.tell
    picture, use = use_picture(scene)
    each = time_text(int(use.edges_ns[1] - use.edges_ns[0]))
    said = say(
        "The window in {bins} parts of {time}; the stronger the colour, the longer the stream was busy in it.",
        bins=len(use.edges_ns) - 1,
        time=each,
    )
    parts: list[Part] = [
        Text(tell(said), "lead"),
        Chart(picture, name="stream-map"),
    ]
    if use.left_out:
        parts.append(Text(tell(say("{count} streams with less work are not shown.", count=use.left_out)), "note"))
    return Section("streams", tell(say("Streams over time")), tuple(parts))


def launches_section(scene: Scene) -> Section:
    """What launching costs, and how far the host runs ahead."""
    tell, device = scene.tell, scene.device
    parts: list[Part] = []
    delays = queue_delays(device)
    if isinstance(delays, NotMeasured):
        parts.append(scene.unknown(delays))
    else:
        title = tell(say("From the launch call's return to the start on the GPU"))
        parts += [
            Chart(_delay_picture(scene, title, delays), name="queue-chart"),
            Text(
                tell(
                    say(
                        "Work that waits long was launched well ahead: the host keeps up. Work that starts at once was "
                        "waited for by the GPU."
                    )
                ),
                "note",
            ),
        ]
    titles = (
        say("Launch calls, steady steps"),
        say("Calls that wait for the device, steady steps"),
        say("How far the host runs ahead, steady steps"),
        say("Launches by range, steady steps"),
    )
    parts += tables(scene, launches_sheets(scene.report.trace, device), titles)
    return Section("launches", tell(say("Launches and the queue")), tuple(parts))


def _delay_picture(scene: Scene, title: str, delays: Sequence[tuple[str, int]]) -> Picture:
    total = sum(count for _, count in delays)
    given = [
        Column(scene.tell(_DELAYS.get(name, name)), (count / total,), (share_text(count / total),))
        for name, count in delays
    ]
    said = "; ".join(f"{column.name}: {column.texts[0]}" for column in given)
    return columns(title, said, (("compute-gemm", ""),), given, tall=110)


def memory_section(scene: Scene) -> Section:
    """Memory in use, copies and allocations."""
    tell, device, trace = scene.tell, scene.device, scene.report.trace
    parts: list[Part] = []
    found = memory_use(trace, device.gpu, scene.report.window)
    if isinstance(found, NotMeasured):
        parts.append(scene.unknown(found))
    else:
        length = time_text(scene.report.window.end_ns - scene.report.window.start_ns)
        peak = bytes_text(int(found.most_bytes.max()))
        said = tell(say("At most {size} in use", size=peak))
        picture = memory_area(tell(say("Device memory in use")), said, found.most_bytes, ("0", length))
        parts += [Text(said, "lead"), Chart(picture, name="memory-chart")]
    titles = (say("Copies, steady steps"), say("Allocation calls, steady steps"), say("Device memory"))
    parts += tables(scene, memory_sheets(trace, device), titles)
    if not len(trace[Recorded.COPIES]):
        reason = trace.missing(Recorded.COPIES)
        parts.append(scene.unknown(reason) if reason else Text(tell(say("Nothing was copied.")), "note"))
    return Section("memory", tell(say("Memory and copies")), tuple(parts))


def tables(scene: Scene, sheets: Sequence[Sheet], titles: Sequence[Message]) -> list[Part]:
    """Sheets with rows as tables under our own titles."""
    return [
        table(sheet, scene.tell, scene.room, caption=scene.tell(title))
        for sheet, title in zip(sheets, titles, strict=True)
        if sheet.rows
    ]
