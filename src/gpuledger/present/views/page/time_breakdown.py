"""Where the time went: a bar per GPU with every line of the books, and the lines as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gpuledger.analyse.inventory import about_unclassified
from gpuledger.ledger.books import Line, LineKind
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.present.charts.amounts import Bar, Part, stacked
from gpuledger.present.charts.svg import Picture
from gpuledger.present.palette import line_tone
from gpuledger.present.sheet import Cell as Value
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import TOTAL, line_term
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.views.report import ledger_title
from gpuledger.present.writers.html.parts import Part as PagePart
from gpuledger.present.writers.html.parts import Section, Text
from gpuledger.present.writers.html.tables import table
from gpuledger.units import share_text, time_text

_ENLARGED: Final = 0.25
"""Where a GPU works less than this share of the time, its work is also drawn over the whole width."""

_KINDS: Final = tuple(LineKind)


def ordered(lines: Mapping[Line, int]) -> list[Line]:
    """Lines in the order that they are drawn in: compute, what is exposed, idle; within each the largest first."""
    return sorted(lines, key=lambda line: (_KINDS.index(line.kind), -lines[line], line))


def ledger_picture(scene: Scene) -> Picture:
    """A bar for every GPU, the main one first."""
    tell, main = scene.tell, scene.device
    others = [device for device in scene.report.devices if device is not main]
    several = bool(others)
    bars = [
        _bar(scene, device, tell(say("GPU {gpu}", gpu=device.gpu)) if several else "") for device in (main, *others)
    ]
    work = {line: amount for line, amount in main.line_ns.items() if not line.is_idle}
    share = sum(work.values()) / main.steady_ns
    if 0 < share < _ENLARGED:
        title = say("The busy {share}, full width", share=share_text(share))
        bars.insert(1, Bar(tell(title), _parts(scene, main, work)))
    said = "; ".join(part.hint for part in bars[0].parts)
    return stacked(tell(say("Where the time went")), said, bars)


def _bar(scene: Scene, device: Device, name: str) -> Bar:
    return Bar(name, _parts(scene, device, device.line_ns))


def _parts(scene: Scene, device: Device, lines: Mapping[Line, int]) -> tuple[Part, ...]:
    """The lines as shares of what they sum to; each is named with its share of the steady stretch."""
    whole = sum(lines.values()) or 1
    return tuple(
        Part(
            line_tone(line),
            lines[line] / whole,
            scene.tell(line.label),
            share_text(lines[line] / device.steady_ns),
            time_text(lines[line] // device.step_count),
            scene.tell(line.brief_label),
        )
        for line in ordered(lines)
    )


def ledger_section(scene: Scene) -> Section:
    """Every line of the main GPU as a table; the bar of them stands on the first screen."""
    tell, device = scene.tell, scene.device
    parts: list[PagePart] = [
        table(
            _sheet(device),
            tell,
            scene.room,
            caption=tell(say("Time breakdown, GPU {gpu}", gpu=device.gpu)),
            name="ledger",
        ),
    ]
    parts += _remarks(scene)
    return Section("books", tell(ledger_title(device)), tuple(parts), tell(say("Where the time went")))


def _sheet(device: Device) -> Sheet:
    """Per step over the steady steps, and over the whole window, as the JSON has it. Both sum to their whole."""
    window = device.ledger.total()
    steady = device.line_ns
    columns = [
        Column("line", say("Line"), Unit.TEXT),
        Column("step_percent", say("Share"), Unit.SHARE_PERCENT),
        Column("step_ns", say("Per step"), Unit.NS),
    ]
    if device.steps is not None:
        columns += [
            Column("window_ns", say("Whole window"), Unit.NS),
            Column("window_percent", say("Of the window"), Unit.SHARE_PERCENT),
        ]
    else:
        columns[2] = Column("window_ns", say("Whole window"), Unit.NS)
    order = ordered(steady) + [line for line in ordered(window) if line not in steady]
    whole = device.ledger.window_ns
    rows = tuple(_row(device, line_term(line), steady.get(line, 0), window.get(line, 0)) for line in order)
    return Sheet("ledger", "Ledger", tuple(columns), rows, foot=(_row(device, TOTAL, device.steady_ns, whole),))


def _row(device: Device, name: Value, steady: int, window: int) -> tuple[Value, ...]:
    share = 100 * steady / device.steady_ns
    if device.steps is None:
        return name, share, window
    return name, share, steady // device.step_count, window, 100 * window / device.ledger.window_ns


def _remarks(scene: Scene) -> list[PagePart]:
    said = about_unclassified(scene.report.trace, scene.device)
    return [] if said is None else [Text(scene.tell(said), "note")]
