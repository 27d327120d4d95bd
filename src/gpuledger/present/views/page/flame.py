"""The flame graph of a report's page: trees of host and GPU time as one JSON document of packed columns.

`scripts/flame.js` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.attribution.flame_trees import FlameTree, TreeKind, flame_trees
from gpuledger.catalog.kernel_families import COMMUNICATION
from gpuledger.ledger.books import COMM, Line
from gpuledger.messages import say
from gpuledger.present.palette import line_tone
from gpuledger.present.safe_text import visible
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.writers.html.packed import packed
from gpuledger.present.writers.html.parts import Chart, FlamePart
from gpuledger.present.writers.html.tables import middle

_LONGEST_NAME: Final = 120

_KINDS: Final = {
    TreeKind.RANGES: say("range"),
    TreeKind.OPERATORS: say("operator"),
    TreeKind.FUNCTIONS: say("Python function"),
    TreeKind.CALL_STACKS: say("call stack"),
    TreeKind.SAMPLED_STACKS: say("sampled stack"),
}
_WORDS: Final = {
    "host": say("host time"),
    "gpu": say("GPU time"),
    "samples": say("samples"),
    "whole": say("all"),
    "of_whole": say("{name}: {amount}, {share} of total", name="{name}", amount="{amount}", share="{share}"),
    "hits": say("{count} found, {share} of total", count="{count}", share="{share}"),
}
"""What the script says; the names in braces are filled in by it."""


def flame_part(scene: Scene, still: Chart | None) -> FlamePart | None:
    """The flame graph; `still` stands for it where there are no scripts. None where nothing was named."""
    trees = flame_trees(scene.report.trace, scene.device)
    return FlamePart(_json(scene, trees), scene.tell(say("Flame graph")), still) if trees else None


def _json(scene: Scene, trees: Sequence[FlameTree]) -> str:
    numbers: dict[tuple[str, str], int] = {}
    written = []
    for tree in trees:
        keys = [
            (visible(middle(name, _LONGEST_NAME)), _tone(family))
            for name, family in zip(tree.names, tree.family, strict=True)
        ]
        name = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        written.append(
            {
                "label": scene.tell(_KINDS[tree.kind]),
                "counts_samples": tree.kind is TreeKind.SAMPLED_STACKS,
                "count": len(tree),
                "parent": packed(np.arange(len(tree)) - tree.parent),
                "name": packed(name),
                "host": packed(tree.host),
                "gpu": packed(tree.gpu_ns),
            }
        )
    words = {key: scene.tell(text) for key, text in _WORDS.items()}
    document = {"names": [list(key) for key in numbers], "trees": written, "words": words}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _tone(family: str) -> str:
    """The tone of a kernel's family; none for all else, which the script colours by name."""
    if not family:
        return ""
    if family == "copy":
        return "copy"
    return line_tone(COMM if family == COMMUNICATION else Line.of_family(family))
