"""The steps and comparisons of a runbook, from nodes to values, and whether each finds what it works on."""

from __future__ import annotations

import re
from typing import Final

from gpuledger.runbook.book import (
    NEEDS,
    TOOLS,
    Align,
    Bench,
    Capture,
    Command,
    Diff,
    Report,
    Runbook,
    Saving,
    Step,
)
from gpuledger.runbook.fields import NAME, Names, Part
from gpuledger.runbook.matrix import cells_of, pairs, profiles_of
from gpuledger.runbook.nodes import Fields, Items, Node, unknown

FORMATS: Final = ("txt", "md", "json", "html")
_COMMON: Final = ("needs", "when", "optional", "timeout_s")
_STEPS: Final = {
    "capture": ("capture", "bench", "command", "preset", "flags", "as"),
    "bench": ("bench", "as"),
    "report": ("report", "ncu", "flags", "formats", "as"),
    "command": ("command", "makes", "figures"),
}
"""What a step may be, with the keys of each; the first that is there says what the step is."""

_COMPARES: Final = {
    "diff": ("diff", "before", "after", "flags"),
    "align": ("align", "mock", "e2e", "e2e_profile", "range", "flags", "gate"),
    "saving": ("saving", "from", "to", "report", "key", "within", "over"),
}
_CODE: Final = re.compile(r"[A-Z][A-Z0-9-]{2,40}")
_NEEDED: Final = {"nsys": ("gpu", "nsys"), "ncu": ("gpu", "ncu"), "torch": ("gpu", "torch")}


def step_of(top: Part, node: Node, what: str, names: Names) -> Step:
    """A step. A bare list is a command."""
    if isinstance(node, Items):
        words = top.checked(node, top.words_of(node, what), names)
        return Step(
            Command(_some(top, words, node.line, what)), "", (), {}, optional=False, timeout_s=None, line=node.line
        )
    every = dict.fromkeys(key for keys in _STEPS.values() for key in keys)
    kind = _kind(Part(top.file, node, what, (*every, *_COMMON)), _STEPS)
    part = Part(top.file, node, f"{what} ({kind})", (*_STEPS[kind], *_COMMON))
    does: Bench | Capture | Report | Command
    needs: tuple[str, ...]
    if kind == "bench":
        does, name, needs = Bench(_program(part, "bench", names)), "bench", ("torch",)
    elif kind == "capture":
        does = _capture(part, names)
        name, needs = "ncu" if does.tool == "ncu" else "profile", _NEEDED[does.tool]
    elif kind == "report":
        formats = part.all_of("formats", FORMATS, ("txt", "json"))
        does = Report(part.name("report", ""), part.templates("flags", names), formats, part.maybe("ncu"))
        name, needs = "report", ()
    else:
        does, name, needs = Command(_program(part, "command", names), _made(part)), "", ()
    return Step(
        does,
        part.name("figures" if kind == "command" else "as", name),
        part.all_of("needs", NEEDS, needs),
        part.pick("when", names),
        part.flag("optional"),
        part.whole("timeout_s"),
        part.line,
    )


def _kind(part: Part, kinds: dict[str, tuple[str, ...]]) -> str:
    kind = next((each for each in kinds if each in part), None)
    if kind is None:
        raise part.fault(part.line, f"{part.what} does nothing: it needs one of {', '.join(kinds)}")
    return kind


def _program(part: Part, key: str, names: Names) -> tuple[str, ...]:
    node = part.node(key)
    if not isinstance(node, Items):
        claim = f"'{key}' in {part.what}: expected a list of words, as no shell takes a line apart"
        raise part.fault(node.line, claim)
    return _some(part, part.templates(key, names), node.line, f"'{key}' in {part.what}")


def _some(part: Part, words: tuple[str, ...], line: int, what: str) -> tuple[str, ...]:
    if not words or not words[0]:
        raise part.fault(line, f"{what}: an empty command")
    return words


def _capture(part: Part, names: Names) -> Capture:
    tool = part.one_of("capture", TOOLS)
    if ("bench" in part) == ("command" in part):
        raise part.fault(part.line, f"{part.what} needs either 'bench' or 'command': what to record")
    preset = part.maybe("preset")
    if preset is not None and tool != "nsys":
        raise part.fault(part.key_line("preset"), f"{part.what}: presets are for nsys, not for {tool}")
    flags = (*(() if preset is None else (f"--preset={preset}",)), *part.templates("flags", names))
    key = "bench" if "bench" in part else "command"
    return Capture(tool, flags, _program(part, key, names), is_bench=key == "bench")


def _made(part: Part) -> dict[str, str]:
    made = part.pairs("makes")
    for word in (*made, *made.values()):
        if NAME.fullmatch(word) is None:
            raise part.fault(
                part.key_line("makes"), f"'makes' in {part.what}: '{word}' is no name of a file in the cell"
            )
    return made


def compare_of(top: Part, node: Node, what: str, names: Names) -> Diff | Align | Saving:
    """A comparison between cells."""
    every = dict.fromkeys(key for keys in _COMPARES.values() for key in keys)
    kind = _kind(Part(top.file, node, what, every), _COMPARES)
    part = Part(top.file, node, f"{what} ({kind})", _COMPARES[kind])
    flags = part.templates("flags", Names({}, names.variables, ())) if kind != "saving" else ()
    if kind == "diff":
        return Diff(
            _cells(part, "before", names), _cells(part, "after", names), part.name("diff", ""), flags, part.line
        )
    if kind == "align":
        flags = (*((f"--range={part.word('range')}",) if "range" in part else ()), *flags)
        profile = part.name("align", "")
        mock, e2e = _cells(part, "mock", names), _cells(part, "e2e", names)
        return Align(mock, e2e, profile, part.name("e2e_profile", profile), flags, part.flag("gate"), part.line)
    key = part.maybe("key")
    if key is not None and not key.endswith(("_ns", "_us", "_ms", "_s")):
        raise part.fault(
            part.node("key").line, f"'key' in {part.what}: '{key}' is no time: it should end in _ms, _us, _ns or _s"
        )
    return Saving(
        _cells(part, "from", names),
        _cells(part, "to", names),
        _findings(part),
        part.name("report", "report"),
        key,
        part.share("within"),
        part.line,
        _axis(part, names),
    )


def _axis(part: Part, names: Names) -> str | None:
    """The axis of repetitions, which may be none of those that tell the two cells apart."""
    over = part.maybe("over")
    if over is None:
        return None
    free = [axis for axis in names.axes if axis not in {*part.pick("from", names), *part.pick("to", names)}]
    if over not in free:
        raise part.fault(
            part.node("over").line, f"'over' in {part.what}: there is no axis '{over}' besides; {unknown(over, free)}"
        )
    return over


def _findings(part: Part) -> dict[str, tuple[str, ...]] | None:
    """A code, or codes with figures; None for the finding that promises most."""
    node = part.node("saving")
    if isinstance(node, Fields):
        named = Part(part.file, node, "'saving'")
        codes = {code: named.words(code) for code in named.keys}
    elif (word := part.word("saving")) == "top":
        return None
    else:
        codes = {word: ()}
    if not codes:
        raise part.fault(node.line, f"'saving' in {part.what} names no finding")
    for code in codes:
        if _CODE.fullmatch(code) is None:
            raise part.fault(node.line, f"'saving' in {part.what}: '{code}' is no code of a finding, nor top")
    return codes


def _cells(part: Part, key: str, names: Names) -> dict[str, tuple[str, ...]]:
    part.node(key)  # must be there
    return dict(part.pick(key, names))


def check_names(top: Part, book: Runbook) -> None:
    """Refuse a report or a comparison of what no step leaves, and two steps of a cell that leave the same."""
    for size in book.sizes or ("",):
        for cell in cells_of(book):
            _check_cell(top, cell.steps(book, size), cell.title)
    for compare in book.compares:
        before, after = (compare.mock, compare.e2e) if isinstance(compare, Align) else (compare.before, compare.after)
        if not pairs(cells_of(book), before, after):
            raise top.fault(compare.line, "this comparison has no pair of cells that differ in what it names only")
        if isinstance(compare, Saving):
            known = [step.name for step in book.steps if isinstance(step.does, Report) and "json" in step.does.formats]
            _must_know(top, compare.line, compare.report, known, "report in JSON")
            continue
        names = [name for step in book.steps for name in profiles_of(step)]
        wanted = (compare.profile,) if isinstance(compare, Diff) else (compare.mock_profile, compare.e2e_profile)
        for profile in wanted:
            _must_know(top, compare.line, profile, names, "profile")


def _check_cell(top: Part, steps: tuple[Step, ...], title: str) -> None:
    left: dict[str, int] = {}
    profiles: dict[str, str] = {}
    for step in steps:
        if isinstance(step.does, Report):
            _must_know(top, step.line, step.does.profile, list(profiles), "profile", f" of an earlier step in {title}")
            if step.does.ncu is not None:
                _must_know(top, step.line, step.does.ncu, list(profiles), "profile", f" of an earlier step in {title}")
        profiles |= profiles_of(step)
        made = [step.name] if step.name else list(profiles_of(step))
        for name in made:
            if name in left:
                claim = f"'{name}' is also what the step in line {left[name]} leaves, in {title}; name one with 'as'"
                raise top.fault(step.line, claim)
            left[name] = step.line


def _must_know(top: Part, line: int, name: str, known: list[str], what: str, where: str = "") -> None:
    if name not in known:
        raise top.fault(line, f"there is no {what} '{name}'{where}; {unknown(name, list(dict.fromkeys(known)))}")
