"""Answers about captures as somebody last looked at them: the JSON of a verb, in tests/golden/answers.

They tell that an answer changed, not which one is right: laws, oracles and cases do that. Of a list the first rows are
kept. `UPDATE_GOLDEN=1 pytest tests -k stand_as_they_were` writes them again; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.command import ROOT, gpuledger
from support.profiles.opened import plain

ANSWERS = ROOT / "tests" / "golden" / "answers"
MOST_ROWS = 5
NOT_HELD = ("created", "version", "profile", "tool_version", "health", "sentences", "not_measured", "kept", "made_at")
"""Keys whose values depend on the machine or the moment, or that other tests hold."""
TOLERANCE = 1e-6
"""Relative: what compilers of other processors round differently."""


def hold(question: str, *captures: str, only: tuple[str, ...] = ()) -> None:
    """The answer to `question` about these captures, or these keys of it, stands as it was."""
    paths = [_unpacked(capture) for capture in captures]
    ran = gpuledger(*question.split(), *paths, "--format=json", "--quiet")
    said = ran.stdout
    for path in paths:
        said = said.replace(str(path), path.name)
    found = _cut({"refused": ran.stderr.splitlines()[:1]} if ran.exit_code else json.loads(said), only)
    name = "+".join([*question.split(), *only, *(capture.replace("/", ".") for capture in captures)])
    kept = ANSWERS / f"{name.replace('--', '')}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        kept.write_text(_written(found), encoding="utf-8")
    expected = json.loads(kept.read_text(encoding="utf-8"))
    changed = list(differences(expected, found))
    accept = "UPDATE_GOLDEN=1 pytest tests -k stand_as_they_were"
    assert not changed, f"{kept.name}: {len(changed)} differ, see `{accept}`:\n" + "\n".join(changed[:20])


def _unpacked(capture: str) -> Path:
    """`nsys/planted.tar.xz/planted/alloc.bad.sqlite` is a member of an archive."""
    archive, ending, member = capture.partition(".tar.xz")
    return plain(ROOT / "captures" / f"{archive}{ending}") / member.removeprefix("/")


def differences(expected: Any, found: Any, place: str = "") -> Iterator[str]:
    """Where two documents differ, beyond rounding."""
    if isinstance(expected, dict) and isinstance(found, dict) and expected.keys() == found.keys():
        for key in expected:
            yield from differences(expected[key], found[key], f"{place}.{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for row, pair in enumerate(zip(expected, found, strict=True)):
            yield from differences(*pair, f"{place}[{row}]")
    elif not (
        expected == found
        or ({type(expected), type(found)} <= {int, float} and abs(expected - found) <= TOLERANCE * abs(expected) + 1e-9)
    ):
        yield f"{place}: {expected!r} became {found!r}"


def _cut(value: Any, only: tuple[str, ...] = ()) -> Any:
    if isinstance(value, dict):
        return {key: _cut(held) for key, held in value.items() if key not in NOT_HELD and (not only or key in only)}
    if isinstance(value, list):
        rows = [_cut(row) for row in value[:MOST_ROWS]]
        return [*rows, f"{len(value) - MOST_ROWS} more"] if len(value) > MOST_ROWS else rows
    return float(f"{value:.9g}") if isinstance(value, float) else value


def _written(value: Any, indent: str = "") -> str:
    """As JSON with a row a line where a row is flat: a change is a line of the difference."""
    if (
        isinstance(value, dict | list)
        and value
        and any(isinstance(held, dict | list) and held for held in _held(value))
    ):
        inside = f"{indent} "
        if isinstance(value, dict):
            parts = [f"{json.dumps(key)}: {_written(held, inside)}" for key, held in value.items()]
            return "{\n" + ",\n".join(inside + part for part in parts) + f"\n{indent}}}"
        return "[\n" + ",\n".join(inside + _written(held, inside) for held in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def _held(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
