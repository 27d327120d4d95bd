"""A page of Markdown, such as an explanation, for a terminal: paragraphs as wide as it is, code as it stands."""

from __future__ import annotations

import re
from typing import Final

from gpuledger.present.safe_text import wrapped
from gpuledger.present.terminal import Terminal

_ITEM: Final = re.compile(r"(?:- |\d+\. )")
_FENCE: Final = "```"


def page_text(markdown: str, terminal: Terminal) -> str:
    """The page; where nothing limits its lines, as it was written."""
    if terminal.width is None:
        return markdown
    lines: list[str] = []
    paragraph: list[str] = []
    in_code = False

    def close_paragraph() -> None:
        if paragraph:
            text = " ".join(paragraph)
            item = _ITEM.match(text)
            lines.append(wrapped(text, terminal.prose_width, len(item[0]) if item else 0))
            paragraph.clear()

    for line in markdown.splitlines():
        is_fence = line.startswith(_FENCE)
        if not (is_fence or in_code or line.startswith(("#", "|", "    ")) or not line):
            if _ITEM.match(line):
                close_paragraph()
            paragraph.append(line.strip())
            continue
        close_paragraph()
        if is_fence:
            in_code = not in_code
        elif in_code:
            lines.append(terminal.painted(f"    {line}" if line else "", "cyan"))
        elif line.startswith("#"):
            title = line.lstrip("# ") if terminal.has_colours else line
            lines.append(terminal.painted(wrapped(title, terminal.prose_width), "bold"))
        else:
            lines.append(line)
    close_paragraph()
    return "\n".join(lines) + "\n"
