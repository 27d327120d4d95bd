"""Pages about findings, one Markdown file per code under `explain/`, other languages under `explain/LANGUAGE/`."""

from __future__ import annotations

from importlib.resources import files

from gpuledger.findings.finding import Finding
from gpuledger.messages import Message


def first_fix(finding: Finding) -> Message | None:
    """What to change first."""
    return finding.fix


def page(code: str, language: str = "en") -> str:
    """The page about a code."""
    folder = ("explain",) if language == "en" else ("explain", language)
    return files(__package__).joinpath(*folder, f"{code}.md").read_text(encoding="utf-8")
