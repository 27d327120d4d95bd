"""Findings and health notes as marks on the timeline: each finding where its evidence is the strongest.

Where that is, `findings.places` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpuledger.export.book_tracks import FINDINGS, in_a_row
from gpuledger.export.timeline import Argument, ArgumentColumn, Records, Track, TrackKind, UniqueNumbers, text_argument
from gpuledger.findings.finding import Finding
from gpuledger.findings.places import finding_place
from gpuledger.ledger.device import Device
from gpuledger.trace.health import Note
from gpuledger.units import time_text


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing to say at one instant. Several may stand at the same one."""

    at_ns: int
    title: str
    words: Mapping[str, str]
    figures: Mapping[str, int]


def finding_mark(finding: Finding, device: Device) -> Mark:
    """A finding at the place where one should look."""
    words = {
        "claim": str(finding.claim),
        "saving": _saving(finding),
        "evidence": "\n".join(finding.sentences),
        "assumption": str(finding.assumption),
        "confidence": str(finding.confidence),
        "next": finding.next,
    }
    figures = {"saving_ns": finding.saving_ns}
    if finding.saving_ns_per_step is not None:
        figures["saving_ns_per_step"] = finding.saving_ns_per_step
    at_ns = finding_place(finding, device).start_ns
    return Mark(at_ns, finding.code, {name: text for name, text in words.items() if text}, figures)


def _saving(finding: Finding) -> str:
    if not finding.saving_ns:
        return ""
    if finding.saving_ns_per_step is None:
        return f"up to {time_text(finding.saving_ns)}"
    return f"up to {time_text(finding.saving_ns_per_step)} per step"


def note_mark(note: Note, at_ns: int) -> Mark:
    """A health note at the beginning."""
    words = {"sentence": note.sentence, "severity": note.severity.value}
    return Mark(at_ns, note.code, words, {"count": note.count})


def marked(
    marks: Sequence[Mark], name: str, category: str, above: Track, numbers: UniqueNumbers, order: int = FINDINGS
) -> tuple[list[Track], Records]:
    """Marks on tracks of one name, those at one instant on different ones: viewers draw them over each other."""
    seen: dict[int, int] = {}
    lane = []
    for mark in marks:
        lane.append(seen.setdefault(mark.at_ns, 0))
        seen[mark.at_ns] += 1
    tracks = [
        Track(numbers.uuid(), TrackKind.SLICES, name, above.uuid, above.pid, numbers.like(0), order)
        for _ in range(max(lane) + 1)
    ]
    at_ns = np.array([mark.at_ns for mark in marks], np.int64)
    arguments = []
    for word in dict.fromkeys(word for mark in marks for word in mark.words):
        texts = [mark.words.get(word, "") for mark in marks]
        codes = np.array([position if text else -1 for position, text in enumerate(texts)])
        arguments.append(text_argument(word, texts, codes))
    for figure in dict.fromkeys(figure for mark in marks for figure in mark.figures):
        values = np.array([mark.figures.get(figure, -1) for mark in marks], np.int64)
        arguments.append(Argument(figure, ArgumentColumn((values,))))
    titles = [mark.title for mark in marks]
    uuid = np.array([tracks[number].uuid for number in lane], np.int64)
    return tracks, in_a_row(uuid, at_ns, at_ns, titles, np.arange(len(marks)), category, tuple(arguments), instant=True)
