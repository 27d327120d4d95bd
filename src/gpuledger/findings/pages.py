"""The pages about findings: one Markdown file per code under `explain/`, other languages under `explain/LANGUAGE/`."""

from __future__ import annotations

from importlib.resources import files


def page(code: str, language: str = "en") -> str:
    """The page about a code."""
    folder = ("explain",) if language == "en" else ("explain", language)
    return files(__package__).joinpath(*folder, f"{code}.md").read_text(encoding="utf-8")
