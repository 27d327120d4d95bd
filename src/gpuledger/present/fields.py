"""Typed results as JSON objects: which fields, in which order; no key is written twice."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from operator import attrgetter
from typing import Any

from gpuledger.trace.model import NotMeasured


def fields_json(record: object, fields: str) -> dict[str, Any]:
    """The named fields of a result, as JSON has them; `key=path.to.field` where a field goes by another name."""
    content = {}
    for field in fields.split():
        key, _, path = field.partition("=")
        content[key] = plain(attrgetter(path or key)(record))
    return content


def plain(value: object) -> Any:
    """A value as JSON has it: lists for tuples, the value of an enum, null for what was not measured."""
    match value:
        case NotMeasured():
            return None
        case Enum():
            return value.value
        case tuple() | list():
            return [plain(part) for part in value]
        case Mapping():
            return {plain(key): plain(part) for key, part in value.items()}
        case _:
            return value
