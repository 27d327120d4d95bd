"""The list in docs/architecture.md of functions from the file to the first sentence: all are called, in that order."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from types import FrameType

from support.command import ROOT, gpuledger

LISTED = re.compile(r"^\d+\. `([\w.]+)`", re.MULTILINE)


def main_path() -> list[str]:
    """The functions that the page lists."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, section = page.partition("## The main path")
    return LISTED.findall(section.partition("\n## ")[0])


def test_a_report_walks_the_main_path(decode: Path) -> None:
    first_call: dict[str, int] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("gpuledger."):
            name = f"{module.removeprefix('gpuledger.')}.{frame.f_code.co_qualname}"
            first_call.setdefault(name, len(first_call))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        assert gpuledger("report", decode, "--brief", "--no-cache").exit_code == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    listed = main_path()
    assert [name for name in listed if name not in first_call] == []
    assert sorted(listed, key=first_call.__getitem__) == listed
