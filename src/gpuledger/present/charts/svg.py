"""Pictures: marks in, SVG or PNG out. The one place that writes SVG; text in it is escaped here, whatever it holds.

A picture is as wide as the page lets it be: positions across are shares of that width, positions down are pixels. So
shapes stretch with the page while text keeps its size. Tones are names of the palette; a page paints them by class, so
that dark paper needs no second picture, and a picture that stands alone has the colours written into it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from msgspec import Struct

from gpuledger.present.palette import TONES
from gpuledger.present.safe_text import visible

WIDE: Final = 640
"""How many pixels a picture has at least on a page that is not narrow; text that would not fit then is left out."""

ALONE: Final = 900
"""How wide a picture is that stands alone."""

NARROW: Final = 330
"""On a telephone; text that does not fit then is shown on wider pages only."""

SIZE: Final = 12
"""Of letters, in pixels."""

_LETTER: Final = 0.56
"""How wide a letter is, as a share of the size."""

_ACROSS: Final = 1000
"""Units of the stretched part of a picture."""

Box = tuple[float, float, float, float]
"""Left and width as shares of the picture's, top and height in pixels: (left, top, width, height)."""


class Boxes(Struct, frozen=True):
    """Rectangles of one tone, or of none. `hint` is shown where the pointer rests; `hatched` draws lines over them."""

    tone: str
    boxes: tuple[Box, ...]
    hint: str = ""
    hatched: bool = False


class Trail(Struct, frozen=True):
    """A line through points, or the area under it down to `floor`."""

    tone: str
    points: tuple[tuple[float, float], ...]
    floor: float | None = None
    dashed: bool = False
    hint: str = ""


class GridLine(Struct, frozen=True):
    """A thin straight line, behind everything else."""

    x1: float
    y1: float
    x2: float
    y2: float
    tone: str = "rule"


class Dot(Struct, frozen=True):
    """A circle."""

    x: float
    y: float
    radius: float
    tone: str
    hollow: bool = False
    hint: str = ""


class Words(Struct, frozen=True):
    """A short text at its baseline. `room` is the share of the width that it may take: None, as much as it needs.

    `halo` sets it off from shapes behind it; `only` narrow: for pages that are too narrow for the others; `aside` moves
    it to the right by so many pixels, however wide the picture is.
    """

    x: float
    y: float
    text: str
    tone: str = "muted"
    anchor: str = "start"
    room: float | None = None
    bold: bool = False
    halo: bool = False
    only: str = ""
    aside: float = 0


Mark = Boxes | Trail | GridLine | Dot | Words


class Picture(Struct, frozen=True):
    """A chart. `title` names it and `description` says what it shows, for those who do not see it.

    `legend` says what its tones mean; it stands under the picture, drawn by whoever shows that.
    """

    height: int
    title: str
    description: str
    marks: tuple[Mark, ...]
    legend: tuple[tuple[str, str], ...] = ()


class ByClass:
    """Tones as attributes, for a page with our style sheet."""

    def fill(self, tone: str) -> str:
        return f'class="f-{tone}"'

    def stroke(self, tone: str) -> str:
        return f'class="s-{tone}"'


class ByColour:
    """The same for a picture that stands alone, on light paper."""

    def fill(self, tone: str) -> str:
        return f'fill="{TONES[tone].light}"'

    def stroke(self, tone: str) -> str:
        return f'fill="none" stroke="{TONES[tone].light}"'


Paint = ByClass | ByColour


HATCH: Final = (
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="2" height="6" {fill} fill-opacity="0.28"/></pattern>'
)
"""Thin lines of the paper's colour; a page defines them once."""


def hatch(paint: Paint) -> str:
    """The pattern that hatched boxes refer to."""
    return HATCH.format(fill=paint.fill("paper"))


def text_width(text: str, size: float = SIZE) -> float:
    """About how many pixels a text takes."""
    return sum(1.0 if unicodedata.east_asian_width(letter) in "WF" else _LETTER for letter in text) * size


def svg(picture: Picture, paint: Paint | None = None) -> str:
    """The picture for a page."""
    said = _attribute(f"{picture.title}. {picture.description}")
    head = f'<svg class="picture" role="img" aria-label="{said}" width="100%" height="{picture.height}">'
    return f"{head}{_body(picture, ByClass() if paint is None else paint)}</svg>"


_MARGIN: Final = 20
_ABOVE: Final = 44
_LINE: Final = 20


def svg_alone(picture: Picture, width: int = ALONE) -> str:
    """The picture as a file of its own, with its title above and its legend below, on white paper."""
    paint = ByColour()
    legend, lines = _legend(picture, paint, width)
    height = _ABOVE + picture.height + _MARGIN + lines * _LINE
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
    paper = f'<defs>{hatch(paint)}</defs><rect width="{width}" height="{height}" {paint.fill("paper")}/>'
    where = f'x="{_MARGIN}" y="26" font-size="15" font-weight="bold"'
    title = f"<text {where} {paint.fill('ink')}>{_text(picture.title)}</text>"
    inner = f'<svg x="{_MARGIN}" y="{_ABOVE}" width="{width - 2 * _MARGIN}" height="{picture.height}">'
    return f"{head}{paper}{title}{inner}{_body(picture, paint)}</svg>{legend}</svg>"


def _legend(picture: Picture, paint: Paint, width: int) -> tuple[str, int]:
    """Swatches with their texts, in as many lines as they need."""
    parts, left, line = [], float(_MARGIN), 0
    for tone, text in picture.legend:
        wide = text_width(text) + 34
        if left > _MARGIN and left + wide > width - _MARGIN:
            left, line = float(_MARGIN), line + 1
        top = _ABOVE + picture.height + 10 + line * _LINE
        box = f'x="{_number(left)}" y="{top}" width="12" height="12"'
        over = f'<rect {box} fill="url(#hatch)"/>' if is_hatched(tone) else ""
        words = f'x="{_number(left + 18)}" y="{top + 10}" font-size="{SIZE}" {paint.fill("muted")}'
        parts.append(f"<rect {box} {paint.fill(tone)}/>{over}<text {words}>{_text(text)}</text>")
        left += wide
    return "".join(parts), line + 1 if picture.legend else 0


def is_hatched(tone: str) -> bool:
    """Whether a tone is drawn with lines over it: time that is lost is, idle or busy, wherever it is shown."""
    return tone.startswith(("idle-", "lost-"))


def _body(picture: Picture, paint: Paint) -> str:
    rules = [_rule(mark, paint) for mark in picture.marks if isinstance(mark, GridLine)]
    shapes = [_shape(mark, paint) for mark in picture.marks if isinstance(mark, Boxes | Trail)]
    dots = [_dot(mark, paint) for mark in picture.marks if isinstance(mark, Dot)]
    words = [_words(mark, paint) for mark in picture.marks if isinstance(mark, Words)]
    stretched = ""
    if shapes:
        view = f'viewBox="0 0 {_ACROSS} {picture.height}" preserveAspectRatio="none"'
        stretched = f'<svg width="100%" height="{picture.height}" {view}>{"".join(shapes)}</svg>'
    return "".join([*rules, stretched, *dots, *words])


def _shape(mark: Boxes | Trail, paint: Paint) -> str:
    hint = f"<title>{_text(mark.hint)}</title>" if mark.hint else ""
    if isinstance(mark, Boxes):
        path = _boxes_path(mark.boxes)
        over = f'<path d="{path}" fill="url(#hatch)" pointer-events="none"/>' if mark.hatched else ""
        under = f'<path d="{path}" {paint.fill(mark.tone)}>{hint}</path>' if mark.tone else ""
        return under + over
    if mark.floor is None:
        dashes = ' stroke-dasharray="5 4"' if mark.dashed else ""
        line = f'd="{_line_path(mark.points)}" {paint.stroke(mark.tone)} stroke-width="2"{dashes}'
        return f'<path {line} vector-effect="non-scaling-stroke">{hint}</path>'
    first, last = mark.points[0][0], mark.points[-1][0]
    area = _line_path(((first, mark.floor), *mark.points, (last, mark.floor)))
    return f'<path d="{area}z" {paint.fill(mark.tone)}>{hint}</path>'


def _boxes_path(boxes: Iterable[Box]) -> str:
    parts = []
    for left, top, width, height in boxes:
        across = _number(width * _ACROSS)
        parts.append(f"M{_number(left * _ACROSS)} {_number(top)}h{across}v{_number(height)}h-{across}z")
    return "".join(parts)


def _line_path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{_number(x * _ACROSS)} {_number(y)}" for x, y in points)


def _rule(mark: GridLine, paint: Paint) -> str:
    ends = f'x1="{_percent(mark.x1)}" y1="{_number(mark.y1)}" x2="{_percent(mark.x2)}" y2="{_number(mark.y2)}"'
    return f"<line {ends} {paint.stroke(mark.tone)}/>"


def _dot(mark: Dot, paint: Paint) -> str:
    hint = f"<title>{_text(mark.hint)}</title>" if mark.hint else ""
    how = (
        f'{paint.stroke(mark.tone)} stroke-width="1.5"'
        if mark.hollow
        else f'{paint.fill(mark.tone)} fill-opacity="0.85"'
    )
    place = f'cx="{_percent(mark.x)}" cy="{_number(mark.y)}" r="{_number(mark.radius)}"'
    return f"<circle {place} {how}>{hint}</circle>"


def _words(mark: Words, paint: Paint) -> str:
    need = text_width(mark.text)
    if mark.room is not None and need > mark.room * WIDE:
        return ""
    only = mark.only or ("wide" if mark.room is not None and need > mark.room * NARROW else "")
    if only == "narrow" and isinstance(paint, ByColour):
        return ""  # a picture that stands alone is wide
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    bold = ' font-weight="600"' if mark.bold else ""
    aside = f' dx="{_number(mark.aside)}"' if mark.aside else ""
    where = f'x="{_percent(mark.x)}"{aside} y="{_number(mark.y)}" font-size="{SIZE}"{anchor}{bold}'
    text = f"<text {where} {paint.fill(mark.tone)}>{_text(mark.text)}</text>"
    if mark.halo:
        text = f'<g {paint.stroke("paper")} stroke-width="3" stroke-linejoin="round" paint-order="stroke">{text}</g>'
    return f'<g class="{only}">{text}</g>' if only else text


def _number(value: float) -> str:
    """To a hundredth, without zeros behind it."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def _percent(share: float) -> str:
    return f"{_number(100 * share)}%"


def _text(text: str) -> str:
    return escape(visible(text), quote=False)


def _attribute(text: str) -> str:
    return escape(visible(text))


SCALE: Final = 1.5
"""Pixels of the file for each of the picture: sharp on most screens, and still small."""


def png(picture: Picture) -> bytes:
    """The picture with its title, on white paper."""
    import vl_convert

    drawn: bytes = vl_convert.svg_to_png(svg_alone(picture), scale=SCALE)
    return drawn
