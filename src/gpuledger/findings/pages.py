"""The pages about findings, one Markdown file per code under `explain/`."""

from __future__ import annotations

from importlib.resources import files


def page(code: str) -> str:
    """The page about a code."""
    return files(__package__).joinpath("explain", f"{code}.md").read_text(encoding="utf-8")
