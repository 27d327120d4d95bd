"""A runbook's file into a `Runbook`: strict, so that a typing error is told with its line before anything runs."""

from __future__ import annotations

import re
from itertools import groupby
from typing import Final

from gpuledger.runbook.book import BUILT_IN, NEEDS, Axis, Pick, Runbook, Target
from gpuledger.runbook.fields import NAME, Names, Part
from gpuledger.runbook.matrix import MOST_CELLS, cells_of
from gpuledger.runbook.nodes import Fields, Node, parsed
from gpuledger.runbook.read_steps import check_names, compare_of, step_of

VERSION: Final = "1"
_KEYS: Final = (
    *("runbook", "name", "question", "variables", "sizes", "environment", "prelude", "matrix", "exclude", "steps"),
    *("compare", "targets", "show"),
)
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w{0,99}", re.ASCII)
_KEY: Final = re.compile(r"[A-Za-z_][\w.-]{0,99}", re.ASCII)


def runbook_of(text: bytes, file: str) -> Runbook:
    """The runbook in a file; `file` is how errors call it."""
    top = Part(file, parsed(text, file), "the runbook", _KEYS)
    if top.word("runbook") != VERSION:
        raise top.fault(top.node("runbook").line, f"'runbook' says which form this is: {VERSION}")
    axes = _axes(top)
    variables = _variables(top, "variables", axes)
    sizes = _sizes(top, variables)
    names = Names({axis.name: axis for axis in axes}, variables, sizes)
    outside = Names({}, variables, sizes)
    for axis in axes:
        for word in (word for words in axis.flags.values() for word in words):
            top.check_template(word, _line_of(top, axis), outside, whole=False)
    sizeless = Names(names.axes, variables, ())
    book = Runbook(
        file=file,
        name=top.name("name", "") or top.word("name"),
        question=top.word("question"),
        variables=variables,
        sizes=sizes,
        environment=_environment(top, names),
        prelude=tuple(step_of(top, node, f"prelude {at}", outside) for at, node in enumerate(top.items("prelude"), 1)),
        axes=axes,
        exclude=tuple(
            _excluded(top, node, f"exclude {at}", sizeless) for at, node in enumerate(top.items("exclude"), 1)
        ),
        steps=tuple(step_of(top, node, f"step {at}", names) for at, node in enumerate(top.items("steps"), 1)),
        compares=tuple(
            compare_of(top, node, f"compare {at}", sizeless) for at, node in enumerate(top.items("compare"), 1)
        ),
        targets=tuple(_target(top, node, f"target {at}", names) for at, node in enumerate(top.items("targets"), 1)),
        show=_shown(top),
    )
    if not book.steps:
        raise top.fault(top.key_line("steps"), "the runbook has no 'steps', so there is nothing to do")
    _check_cells(top, book)
    check_names(top, book)
    return book


def _axes(top: Part) -> tuple[Axis, ...]:
    part = top.part("matrix")
    if part is None:
        return ()
    axes = []
    for name in part.keys:
        line = part.key_line(name)
        if NAME.fullmatch(name) is None or "." in name:
            raise top.fault(line, f"'{name}' is no name for an axis: letters, digits, dashes and underscores")
        if name in BUILT_IN:
            raise top.fault(line, f"'{name}' is taken: it has a meaning of its own in every runbook")
        axes.append(_axis(top, name, part.node(name)))
    return tuple(axes)


def _line_of(top: Part, axis: Axis) -> int:
    matrix = top.part("matrix")
    return top.line if matrix is None else matrix.key_line(axis.name)


def _axis(top: Part, name: str, node: Node) -> Axis:
    what = f"axis '{name}'"
    if not isinstance(node, Fields):
        return Axis(name, _distinct(top, node, top.words_of(node, what), what))
    part = Part(top.file, node, what, ("values", "environment", "flags", "needs"))
    values = _distinct(top, part.node("values"), part.words("values"), what)
    variable = part.maybe("environment")
    if variable is not None and _VARIABLE.fullmatch(variable) is None:
        raise top.fault(part.node("environment").line, f"'{variable}' is no name of an environment variable")
    flags, needs = part.part("flags", values), part.part("needs", values)
    return Axis(
        name,
        values,
        variable,
        {} if flags is None else {value: flags.words(value) for value in values},
        {} if needs is None else {value: needs.all_of(value, NEEDS, ()) for value in values},
    )


def _distinct(top: Part, node: Node, values: tuple[str, ...], what: str) -> tuple[str, ...]:
    twice = next((value for value, same in groupby(sorted(values)) if len(list(same)) > 1), None)
    if twice is not None:
        raise top.fault(node.line, f"{what} has the value '{twice}' twice")
    if not values:
        raise top.fault(node.line, f"{what} has no values")
    return values


def _variables(top: Part, key: str, axes: tuple[Axis, ...]) -> dict[str, str]:
    part = top.part(key)
    if part is None:
        return {}
    for name in part.keys:
        if _VARIABLE.fullmatch(name) is None:
            raise top.fault(part.key_line(name), f"'{name}' is no name for a variable: letters, digits, underscores")
        if name in BUILT_IN or any(name == axis.name for axis in axes):
            what = "a name with a meaning of its own" if name in BUILT_IN else "an axis of the matrix"
            raise top.fault(part.key_line(name), f"the variable '{name}' is also {what}")
    return _plain(top, part)


def _plain(top: Part, part: Part) -> dict[str, str]:
    values = {name: part.word(name) for name in part.keys}
    for name, value in values.items():
        if "${" in value:
            raise top.fault(part.node(name).line, f"'{name}': a variable holds a plain value, not ${{...}}")
    return values


def _sizes(top: Part, variables: dict[str, str]) -> dict[str, dict[str, str]]:
    part = top.part("sizes")
    if part is None:
        return {}
    sizes = {}
    for name in part.keys:
        inner = Part(top.file, part.node(name), f"size '{name}'", variables)
        sizes[name] = _plain(top, inner)
    return sizes


def _environment(top: Part, names: Names) -> dict[str, str]:
    part = top.part("environment")
    if part is None:
        return {}
    pairs = top.pairs("environment")
    for name, value in pairs.items():
        if _VARIABLE.fullmatch(name) is None:
            raise top.fault(part.key_line(name), f"'{name}' is no name of an environment variable")
        if any(axis.variable == name for axis in names.axes.values()):
            raise top.fault(part.key_line(name), f"'{name}' is set by an axis of the matrix too")
        top.check_template(value, part.node(name).line, names, whole=False)
    return pairs


def _excluded(top: Part, node: Node, what: str, names: Names) -> Pick:
    held = Part(top.file, Fields(node.line, {what: node}, {what: node.line}), "the runbook")
    picked = held.pick(what, names)
    if not picked:
        raise top.fault(node.line, f"{what} names no axis, so it would exclude every cell")
    return picked


def _target(top: Part, node: Node, what: str, names: Names) -> Target:
    part = Part(top.file, node, what, ("key", "at_most", "at_least", "where"))
    limits = [part.maybe("at_most"), part.maybe("at_least")]
    if limits.count(None) != 1:
        raise top.fault(part.line, f"{what} needs either 'at_most' or 'at_least'")
    key = "at_most" if limits[0] is not None else "at_least"
    limit = part.word(key)
    part.check_template(limit, part.node(key).line, names, whole=False)
    if "${" not in limit and _number(limit) is None:
        raise top.fault(part.node(key).line, f"'{key}' in {what}: '{limit}' is no number")
    return Target(_figure(part, "key"), limits[0], limits[1], part.pick("where", names), part.line)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,9})?", text) else None


def _figure(part: Part, key: str) -> str:
    word = part.word(key)
    if _KEY.fullmatch(word) is None:
        raise part.fault(part.node(key).line, f"'{word}' is no name of a figure")
    return word


def _shown(top: Part) -> tuple[str, ...]:
    for word in (shown := top.words("show")):
        if _KEY.fullmatch(word) is None:
            raise top.fault(top.node("show").line, f"'show': '{word}' is no name of a figure")
    return shown


def _check_cells(top: Part, book: Runbook) -> None:
    count = 1
    for axis in book.axes:
        count *= len(axis.values)
    if count > MOST_CELLS:
        raise top.fault(top.key_line("matrix"), f"the matrix has {count:,} cells; {MOST_CELLS:,} are the limit")
    if not cells_of(book):
        raise top.fault(top.key_line("exclude"), "'exclude' leaves no cell of the matrix")
