"""Results in, text out. Nothing here computes a number or writes to a file."""

from __future__ import annotations

from typing import Final

FORMATS: Final = ("text", "md", "csv", "json")
"""The formats that every document can be written in."""

PAGE: Final = "html"
"""One HTML file, which some verbs write too."""
