"""The formats that a document can be written in."""

from __future__ import annotations

from typing import Final

FORMATS: Final = ("text", "md", "csv", "json")
PAGE: Final = "html"
"""One HTML file, which some verbs write too."""
