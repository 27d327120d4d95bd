"""Which commands speak Chinese, and English sentences in what they say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from support.command import ROOT

CJK = re.compile("[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")

CHINESE_CASES = {
    **dict.fromkeys(("gaps", "steps", "memory", "ranges", "ops"), ("attn.sqlite",)),
    "align": ("attn.sqlite", "decode.sqlite", "--range=attention"),
    "diff": ("experts_batched.sqlite", "experts_grouped.sqlite"),
    "fleet": ("two_gloo.sqlite",),
    "gaps": ("attn.sqlite",),
    "info": ("attn.sqlite",),
    "kernels": ("attn.sqlite",),
    "ops": ("attn.json.gz",),
    "ranges": ("experts_batched.sqlite",),
    "report": ("attn.sqlite",),
    "query": ("attn.sqlite", "SELECT start_ns FROM kernels"),
    "whatif": ("attn.sqlite", "--speedup=compute=2", "--fix=LAUNCH-BOUND", "--host=2"),
}


_NOT_OURS = re.compile(r"nsys: .*|`[^`]*`|<code>.*?</code>|work, all of it")
"""What others say, and commands; the last is a range of a capture."""


_WORDS = re.compile(r"(?<![\w.:/-])[A-Za-z]?[a-z]+(?: [a-z]+){2,}(?![\w:(])")
"""Three English words in a row: names of kernels, ranges and functions have none."""


def english(text: str) -> list[str]:
    """The sentences of a text that are English."""
    return _WORDS.findall(_NOT_OURS.sub("", text))


def chinese_arguments(files: tuple[str, ...], unpacked: Callable[[str], Path]) -> list[str]:
    def path(name: str) -> str:
        if name.startswith(("--", "SELECT ")):
            return name
        return str(ROOT / "captures" / "torch" / name if name.endswith(".gz") else unpacked(name))

    return [path(name) for name in files]
