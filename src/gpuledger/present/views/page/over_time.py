"""What happened when: how busy each stream was, memory in use, copies, and how launched work waited."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.launch_costs import launch_costs
from gpuledger.analyse.memory.figures import memory_figures, memory_use
from gpuledger.analyse.over_time import StreamsOverTime, queue_delays, stream_use
from gpuledger.messages import Message, say
from gpuledger.present.charts.amounts import Column, columns
from gpuledger.present.charts.over_time import Row, heat_map, memory_area
from gpuledger.present.charts.svg import Picture
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.program_time import (
    launch_calls_sheet,
    launches_by_range_sheet,
    memory_sheets,
    queue_with_units_sheet,
    waiting_calls_sheet,
)
from gpuledger.present.writers.html.parts import Chart, Part, Section, Text
from gpuledger.present.writers.html.tables import table
from gpuledger.trace.model import NotMeasured, os_pid
from gpuledger.trace.tables import Table as Recorded
from gpuledger.units import bytes_text, instant_text, share_text, time_text


def use_picture(scene: Scene) -> tuple[Picture, StreamsOverTime]:
    """The map of streams over the window."""
    tell, window = scene.tell, scene.report.window
    use = stream_use(scene.device.work, window)
    length = window.end_ns - window.start_ns
    several_pids = len({stream.pid for stream in use.streams}) > 1
    rows = []
    for stream in use.streams:
        busy = share_text(int(stream.busy_ns.sum()) / length)
        name = say("GPU {gpu}, stream {stream}", gpu=stream.gpu, stream=stream.stream)
        if several_pids:
            pid = os_pid(stream.pid)
            name = say("GPU {gpu}, stream {stream} of process {pid}", gpu=stream.gpu, stream=stream.stream, pid=pid)
        rows.append(Row(tell(name), stream.busy_ns, tell(say("{share} busy", share=busy))))
    widths = (use.edges_ns[1:] - use.edges_ns[:-1]).tolist()
    said = "; ".join(f"{row.name}: {row.said}" for row in rows)
    title = tell(say("How busy each stream was"))
    return heat_map(title, said, rows, widths, window_ends(scene), tell(say("busy"))), use


def window_ends(scene: Scene) -> tuple[str, str]:
    """Where the window begins and ends, as `--time` takes it."""
    window, zero = scene.report.window, scene.report.zero_ns
    return "0" if window.start_ns == zero else instant_text(window.start_ns - zero), instant_text(window.end_ns - zero)


def use_section(scene: Scene) -> Section:
    """Every GPU and stream."""
    tell = scene.tell
    picture, use = use_picture(scene)
    bin_time = time_text(int(use.edges_ns[1] - use.edges_ns[0]))
    said = say(
        "The window in {bins} bins of {time}; the stronger the color, the busier the stream.",
        bins=len(use.edges_ns) - 1,
        time=bin_time,
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
        title = tell(say("Queue time: from the launch call's return to the start on the GPU"))
        parts += [
            Chart(_delay_picture(scene, title, delays), name="queue-chart"),
            Text(
                tell(
                    say(
                        "Work that queues for long was launched well ahead: the host keeps up. Where work starts at "
                        "once, the GPU was waiting for it."
                    )
                ),
                "note",
            ),
        ]
    costs = launch_costs(scene.report.trace, device)
    parts += _tables(
        scene,
        (say("Launch calls, steady steps"), launch_calls_sheet(costs)),
        (say("Calls that wait for the GPU, steady steps"), waiting_calls_sheet(costs)),
        (say("How far the host runs ahead, steady steps"), queue_with_units_sheet(costs)),
        (say("Launches by range, steady steps"), launches_by_range_sheet(costs)),
    )
    return Section("launches", tell(say("Launches and the queue")), tuple(parts))


def _delay_picture(scene: Scene, title: str, delays: Sequence[tuple[str, int]]) -> Picture:
    total = sum(count for _, count in delays)
    given = [Column(scene.tell(name), (count / total,), (share_text(count / total),)) for name, count in delays]
    said = "; ".join(f"{column.name}: {column.texts[0]}" for column in given)
    return columns(title, said, (("compute-gemm", ""),), given, tall=110)


def memory_section(scene: Scene) -> Section:
    """Memory in use, copies and allocations."""
    tell, device, trace = scene.tell, scene.device, scene.report.trace
    parts: list[Part] = []
    use = memory_use(trace, device.gpu, scene.report.window)
    if isinstance(use, NotMeasured):
        parts.append(scene.unknown(use))
    else:
        peak = bytes_text(int(use.most_bytes.max()))
        said = tell(say("Peak: {size} in use", size=peak))
        picture = memory_area(tell(say("Device memory in use")), said, use.most_bytes, window_ends(scene))
        parts += [Text(said, "lead"), Chart(picture, name="memory-chart")]
    sheets = memory_sheets(device, memory_figures(trace, device))
    parts += _tables(
        scene,
        (say("Copies, steady steps"), sheets.copies),
        (say("Allocation calls, steady steps"), sheets.allocation_calls),
        (say("Device memory"), sheets.in_use),
    )
    if not len(trace[Recorded.COPIES]):
        reason = trace.missing(Recorded.COPIES)
        parts.append(scene.unknown(reason) if reason else Text(tell(say("Nothing was copied.")), "note"))
    return Section("memory", tell(say("Memory and copies")), tuple(parts))


def _tables(scene: Scene, *titled: tuple[Message, Sheet]) -> list[Part]:
    """Sheets with rows as tables under our own titles."""
    return [table(sheet, scene.tell, scene.room, caption=scene.tell(title)) for title, sheet in titled if sheet.rows]
