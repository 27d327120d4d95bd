"""Pictures as PNG files, for documents that cannot hold SVG. Needs vl-convert-python, which draws without a browser."""

from __future__ import annotations

from typing import Final

from gpuledger.present.charts.svg import Picture, svg_alone

SCALE: Final = 1.5
"""Pixels of the file for each of the picture: sharp on most screens, and still small."""


def png(picture: Picture) -> bytes:
    """The picture with its title, on white paper."""
    import vl_convert

    made: bytes = vl_convert.svg_to_png(svg_alone(picture), scale=SCALE)
    return made
