"""The pages about findings, one Markdown file per code under `explain/`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def codes() -> tuple[str, ...]:
    """Every code that has a page."""
    names = (entry.name for entry in files(__package__).joinpath("explain").iterdir())
    return tuple(sorted(name.removesuffix(".md") for name in names if name.endswith(".md")))


def page(code: str) -> str:
    """The page about a code."""
    return files(__package__).joinpath("explain", f"{code}.md").read_text(encoding="utf-8")
