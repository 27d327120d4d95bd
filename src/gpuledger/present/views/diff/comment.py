"""A comparison as a comment on a pull request, in Markdown: the verdict, what changed, and where to look."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from gpuledger.analyse.diff.compare import Diff
from gpuledger.answers.several_profiles import Compared
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.messages import say
from gpuledger.present.document import Block, Conclusion, Document, Drawn, Heading, Points, SheetBlock
from gpuledger.present.views.diff.document import HOST_ALONE, diff_document, verdict_text
from gpuledger.present.views.diff.tables import gates_sheet, part_name, parts_sheet, signed_time, times
from gpuledger.verdicts import FAIL, PASS, UNDECIDED

COMMENT_MARK: Final = "<!-- gpuledger -->"
_MOST_PARTS: Final = 8


def mark() -> Drawn:
    """What a comment begins with and nobody sees: whoever posts it finds the one before by it, and replaces that."""
    return Drawn(lambda *_: "", lambda *_: COMMENT_MARK)


def diff_comment(compared: Compared) -> Document:
    """The gates, or what became of the step where there are none; the largest parts; and the places that moved most."""
    found, whole = compared.diff, diff_document(compared)
    verdicts = {FAIL if outcome.tripped else outcome.verdict for outcome in compared.outcomes}
    verdict = next((verdict for verdict in (FAIL, UNDECIDED) if verdict in verdicts), PASS if verdicts else UNDECIDED)
    blocks: list[Block] = [mark(), Heading(say("gpuledger: {verdict}", verdict=verdict), 3)]
    blocks.append(Conclusion(say("{told}.", told=verdict_text(found))))
    if compared.outcomes:
        blocks.append(SheetBlock(gates_sheet(compared.outcomes)))
    if (parts := parts_sheet(found)).rows:
        blocks.append(SheetBlock(replace(parts, rows=parts.rows[:_MOST_PARTS])))
    if places := where_to_look(compared):
        blocks.append(Points(say("Where to look"), tuple(places)))
    notes = ((HOST_ALONE,) if found.is_host_alone else ()) + found.notes
    if notes:
        blocks.append(Points(say("Notes"), notes))
    return Document(lambda: tuple(blocks), whole.data, whole.sheets)


def where_to_look(compared: Compared) -> list[str]:
    """The part, the range and the kernel that moved most in the direction of the whole."""
    found: Diff = compared.diff
    way = 1 if found.delta_ns > 0 else -1
    part = max(found.parts, key=lambda part: way * part.ns, default=None)
    said = list[str]()
    if part is not None and way * part.ns > 0:
        said.append(say("{part}: {change}", part=part_name(part.name), change=signed_time(part.ns)))
    grown = [
        (way * (change.host_ns[1] - change.host_ns[0]), change) for change in compared.ranges if all(change.host_ns)
    ]
    most = max((ns for ns, _ in grown), default=0.0)
    inner = [change for ns, change in grown if 3 * ns >= most > 0]  # the innermost with much of what its parents have
    for change in sorted(inner, key=lambda change: -len(change.pair.after.inside if change.pair.after else ()))[:1]:
        said.append(say("range {range}, host time: {times}", range=change.pair.name, times=times(*change.host_ns)))
    kernel = max((*found.changes, *found.comm), key=lambda change: way * change.delta_ns, default=None)
    if kernel is not None and way * kernel.delta_ns > 0:
        said.append(
            say("kernel {kernel}: {times}", kernel=cut_label(label(kernel.pair.first.name)), times=times(*kernel.ns))
        )
    return said
