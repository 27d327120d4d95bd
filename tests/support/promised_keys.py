"""The keys that a JSON schema promises, one line each: where, of which types, and whether always there.

    devices[].ledger[].ns: integer, always

`PYTHONPATH=tests python -m support.promised_keys` lists those of the published schemas in tests/golden/promised.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.command import ROOT

PROMISED = ROOT / "tests" / "golden" / "promised"


@dataclass(frozen=True)
class PromisedKey:
    """A key of a document: where it stands, what it may hold, and whether it is always there."""

    path: str
    types: frozenset[str]
    is_always: bool

    def __str__(self) -> str:
        return f"{self.path}: {' '.join(sorted(self.types)) or 'anything'}{', always' if self.is_always else ''}"

    @classmethod
    def read(cls, line: str) -> PromisedKey:
        """What `str` wrote."""
        path, _, rest = line.rpartition(": ")
        types = rest.removesuffix(", always")
        return cls(path, frozenset(() if types == "anything" else types.split()), rest.endswith(", always"))

    def is_kept_by(self, published: PromisedKey) -> bool:
        """Whether who relies on this one can rely on that one: no new types, and always there if it was."""
        fits = not self.types or (bool(published.types) and published.types <= self.types | _wider(self.types))
        return fits and (published.is_always or not self.is_always)


def _wider(types: frozenset[str]) -> frozenset[str]:
    return frozenset({"integer"} if "number" in types else ())


def promised_keys(schema: dict[str, Any]) -> list[PromisedKey]:
    """All keys of a schema, those of parts that it refers to included."""
    by_path: dict[str, list[PromisedKey]] = {}
    for key in _keys(schema, schema, ""):
        by_path.setdefault(key.path, []).append(key)
    return [
        PromisedKey(path, frozenset().union(*(key.types for key in same)), all(key.is_always for key in same))
        for path, same in sorted(by_path.items())
    ]


def _keys(part: dict[str, Any], whole: dict[str, Any], path: str) -> Iterator[PromisedKey]:
    for variant in _variants(part, whole):
        required = variant.get("required", [])
        properties = variant.get("properties", {})
        for name in [*properties, *(name for name in required if name not in properties)]:
            content = properties.get(name, {})
            where = f"{path}.{name}" if path else name
            yield PromisedKey(where, frozenset(_types(content, whole)), name in required)
            yield from _keys(content, whole, where)
        if isinstance(variant.get("items"), dict):
            yield from _keys(variant["items"], whole, f"{path}[]")
        if isinstance(variant.get("additionalProperties"), dict):
            yield from _keys(variant["additionalProperties"], whole, f"{path}.*")


def _variants(part: dict[str, Any], whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    while part.get("$ref", "").startswith("#"):  # another document has keys of its own
        part = whole["$defs"][part["$ref"].rpartition("/")[2]]
    yield part
    for word in ("anyOf", "oneOf"):
        for variant in part.get(word, []):
            yield from _variants(variant, whole)


def _types(part: dict[str, Any], whole: dict[str, Any]) -> Iterator[str]:
    for variant in _variants(part, whole):
        types = variant.get("type", [])
        yield from [types] if isinstance(types, str) else types
        for value in [*variant.get("enum", []), *([variant["const"]] if "const" in variant else [])]:
            yield {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}[type(value)]


if __name__ == "__main__":
    for path in (ROOT / "docs" / "schemas").glob("*.json"):
        lines = [f"{key}\n" for key in promised_keys(json.loads(path.read_text()))]
        (PROMISED / f"{path.stem}.txt").write_text("".join(lines))
