"""Rows in, tables out: for the terminal, and for docs/performance.md between two markers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.aims import Aim, aims, count
from harness.measure import Failed
from harness.results import Row, disagreements

BEGIN: Final = "<!-- measured: from here to the end mark, `python benchmarks/run.py --write` writes -->"
END: Final = "<!-- measured: end -->"
HEAD: Final = ("task", "program", "seconds", "CPU s", "x ours", "MB resident", "MB own", "own / file", "same answer")
_LEFT: Final = (0, 1, 8)


class NoMarkers(Exception):
    """The page has no place for the table."""


def cells(row: Row) -> tuple[str, ...]:
    """One row in words."""
    contest = row.contest
    task = f"{contest.name} {count(contest.size)}: {contest.task}" if contest.size else contest.task
    if isinstance(row.outcome, Failed):
        return (task, row.program, *("-",) * 6, row.outcome.reason)
    found = row.outcome
    ratio = "-" if row.ratio is None else "1" if row.is_ours else f"{row.ratio:.3g}"
    memory = ("-", "-", "-")
    if found.memory:
        own = found.memory.own_bytes
        share = f"{own / contest.file_bytes:.2f}" if contest.file_bytes else "-"
        memory = (f"{found.memory.resident_bytes / 1e6:.0f}", f"{own / 1e6:.0f}", share)
    said = ""
    if row.agreement:
        said = f"{'yes' if row.agreement.same else 'NO'}: {row.agreement.said}"
    return (task, row.program, f"{found.wall_s:.3f}", f"{found.cpu_s:.2f}", ratio, *memory, said)


def text_table(rows: list[Row]) -> str:
    """Columns under each other; a task is named once."""
    lines = [HEAD, *_once_named([cells(row) for row in rows])]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at in _LEFT else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def markdown_tables(rows: list[Row]) -> str:
    """Seconds by size for a page, with the ratio to ours; tasks of the same sizes share a table."""
    by_program: dict[tuple[str, str], list[Row]] = {}
    sizes_of: dict[str, list[int]] = {}
    for row in rows:
        task = f"{row.contest.name}: {row.contest.task}" if row.contest.size else row.contest.task
        by_program.setdefault((task, row.program), []).append(row)
        sizes = sizes_of.setdefault(task, [])
        if row.contest.size not in sizes:
            sizes.append(row.contest.size)
    tables = []
    for sizes in dict.fromkeys(tuple(sizes) for sizes in sizes_of.values()):
        head = ("task", "program", *(count(size) if size else "seconds" for size in sizes), "own / file", "same answer")
        rule = ["---", "---", *("--:" for _ in sizes), "--:", "---"]
        lines = [
            (task, program, *_cells_by_size(found, sizes))
            for (task, program), found in by_program.items()
            if tuple(sizes_of[task]) == sizes
        ]
        table = (head, rule, *_once_named(lines))
        tables.append("\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in table))
    return "\n\n".join(tables)


def _cells_by_size(rows: list[Row], sizes: Sequence[int]) -> tuple[str, ...]:
    """One program's seconds by size, then its own memory over the file by size, then what its answers are."""
    seconds, shares, said = dict.fromkeys(sizes, "-"), [], dict[str, None]()
    for row in rows:
        found, size = row.outcome, row.contest.size
        if isinstance(found, Failed):
            said[f"{count(size)}: {found.reason}" if len(rows) > 1 else found.reason] = None
            continue
        seconds[size] = f"{found.wall_s:.3g}" + (f" ({row.ratio:.3g})" if row.ratio and not row.is_ours else "")
        if found.memory and row.contest.file_bytes:
            shares.append(f"{found.memory.own_bytes / row.contest.file_bytes:.2f}")
        if row.agreement and not row.agreement.same:
            said[f"NO: {row.agreement.said}"] = None
    agreed = [row.agreement.said for row in rows if row.agreement and row.agreement.same]
    if agreed:
        said[f"yes: {agreed[-1]}"] = None
    return (*seconds.values(), ", ".join(shares), "; ".join(said))


def aim_lines(found: list[Aim]) -> list[str]:
    """One sentence each."""
    return [
        f"{aim.name}: {aim.found:.3g} {aim.unit}, wanted {aim.wanted}: {'met' if aim.is_met else 'NOT met'}"
        for aim in found
    ]


def measured_part(rows: list[Row], about: list[str]) -> str:
    """All that is measured, for the page."""
    parts = ["\n".join(f"- {line}" for line in about), markdown_tables(rows)]
    found = aims(rows)
    if found:
        missed = [aim for aim in found if not aim.is_met]
        met = f"Met are {len(found) - len(missed)} of {len(found)} aims (`benchmarks/harness/aims.py`); the others:"
        parts.append("\n".join([met, "", *(f"- {line}" for line in aim_lines(missed))]))
    wrong = disagreements(rows)
    if wrong:
        parts.append("\n".join(["Answers that differ:", "", *(f"- {line}" for line in wrong)]))
    return "\n\n".join(parts)


def replaced(page: str, part: str) -> str:
    """The page with another measured part."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoMarkers(f"looked for the lines `{BEGIN}` and `{END}`")
    return f"{before}{BEGIN}\n\n{part}\n\n{END}{after}"


def write(path: Path, part: str) -> None:
    """Into the page itself, which is whole at every moment."""
    text = replaced(path.read_text(), part)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text)
    beside.replace(path)


def _once_named(lines: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    named, last = [], None
    for line in lines:
        named.append(("", *line[1:]) if line[0] == last else line)
        last = line[0]
    return named


def _escaped(cell: str) -> str:
    return cell.replace("|", r"\|").replace("<", "&lt;")
