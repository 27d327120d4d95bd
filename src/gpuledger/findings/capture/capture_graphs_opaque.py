"""CAPTURE-GRAPHS-OPAQUE: CUDA graphs were recorded whole, without their kernels.

The GPU looks busy with graphs, but the kernel table lacks the model's kernels, or holds only the few that run outside
of graphs. On the timeline each replay is one block. The time breakdown counts them as compute, without kernel
families.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpuledger.findings.finding import Evidence, Finding
from gpuledger.findings.rule import Capture, Rule
from gpuledger.messages import say
from gpuledger.units import count_text


def _opaque_graphs(rule: Rule[Capture], subject: Capture) -> Sequence[Finding]:
    opaque = []
    for note in subject.trace.health:
        if note.code == "graphs-opaque":
            claim = say(
                "{count} CUDA graph launches were traced as a whole: the kernels inside were not recorded",
                count=count_text(note.count),
            )
            advice = say("record with `nsys profile --cuda-graph-trace=node`")
            opaque.append(Finding(rule.code, claim, (Evidence(advice, count=note.count),)))
    return opaque


RULE: Final = Rule("CAPTURE-GRAPHS-OPAQUE", _opaque_graphs, None)
