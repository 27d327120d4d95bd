"""The JSON schema of an answer, from its types: what stands under a field, and labels' meanings, are descriptions."""

from __future__ import annotations

import ast
import inspect
import pkgutil
from enum import Enum
from importlib import import_module
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import fields

from gpuledger.analyse.diff.run_side import RunSide
from gpuledger.capture.manifest import Manifest
from gpuledger.diagnosis.cases import DiagnosisAnswers
from gpuledger.present.views.answer import VerbAnswer
from gpuledger.rows import Label
from gpuledger.sql.answer import QueryAnswer
from gpuledger.sql.tables import QuerySchema

Schema = dict[str, Any]

_BOUNDS = {
    "ge": ["minimum"],
    "gt": ["exclusiveMinimum"],
    "le": ["maximum"],
    "lt": ["exclusiveMaximum"],
    "pattern": ["pattern"],
    "min_length": ["minLength", "minItems"],
    "max_length": ["maxLength", "maxItems"],
    "description": ["description"],
}
"""Keys of a schema; those that are not about a value's type do not matter there."""

_PLAIN = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}


def answer_schema(kind: type[Struct]) -> Schema:
    """The schema of a document, each object under `$defs` but its own."""
    parts: dict[str, Schema] = {}
    _of_struct(kind, parts)
    whole = parts.pop(kind.__name__)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind.__struct_config__.tag or kind.__name__,
        **whole,
        **({"$defs": parts} if parts else {}),
    }


def _of_struct(kind: type[Struct], parts: dict[str, Schema]) -> Schema:
    if kind.__name__ not in parts:
        parts[kind.__name__] = {}  # a type may hold itself
        hints, said, config = get_type_hints(kind, include_extras=True), field_docs(kind), kind.__struct_config__
        tag = {} if config.tag is None else {config.tag_field: {"const": config.tag}}
        properties = {
            key: _described(_of(hints[field], parts), hints[field], said.get(field, ""))
            for field, key in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
        }
        parts[kind.__name__] = {
            "description": " ".join((inspect.getdoc(kind) or "").split()),
            "type": "object",
            "properties": tag | properties,
            "required": [
                *tag,
                *(
                    field.encode_name
                    for field in fields(kind)
                    if field.required or not (config.omit_defaults or field.default is UNSET)
                ),
            ],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _described(schema: Schema, hint: Any, said: str) -> Schema:
    label = next((part for part in get_args(hint) if isinstance(part, Label)), None)
    words = (
        [said]
        if label is None
        else [str(label.text), label.unit.counts if label.unit.name != "TEXT" else "", label.meaning]
    )
    words += [part.description or "" for part in get_args(hint) if isinstance(part, Meta)]
    text = "; ".join(word for word in words if word)
    return {"description": text, **schema} if text else schema


def _of(hint: Any, parts: dict[str, Schema]) -> Schema:  # noqa: PLR0911 - a case per kind of type
    origin, inside = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _of(inside[0], parts) | _bounds(inside[1:])
    if origin in (Union, UnionType):
        of_each = [_of(part, parts) for part in inside if part is not UnsetType]
        different = [each for at, each in enumerate(of_each) if each not in of_each[:at]]
        return {"anyOf": different} if len(different) > 1 else different[0]
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (tuple, list):
        if origin is tuple and inside[-1] is not Ellipsis:
            return {"type": "array", "prefixItems": [_of(part, parts) for part in inside]}
        return {"type": "array", "items": _of(inside[0], parts)}
    if origin is not None:  # a mapping
        return {"type": "object", "additionalProperties": _of(inside[1], parts)}
    if hint is Any:
        return {}
    if issubclass(hint, Struct):
        return _of_struct(hint, parts)
    if issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    return {"type": next(name for known, name in _PLAIN.items() if issubclass(hint, known))}


def _bounds(said: tuple[Any, ...]) -> Schema:
    """What a value is held to when it is read."""
    found: Schema = {}
    for meta in (part for part in said if isinstance(part, Meta)):
        for bound, keys in _BOUNDS.items():
            if (value := getattr(meta, bound)) is not None:
                found |= dict.fromkeys(keys, value)
        found |= meta.extra_json_schema or {}
    return found


def field_docs(kind: type[Struct]) -> dict[str, str]:
    """What stands under the fields of a type and of those that it extends."""
    said = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, Struct) and base is not Struct:
            [declared] = ast.parse(inspect.getsource(base)).body
            for field, text in pairwise(getattr(declared, "body", ())):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(words))):
                        said[name] = " ".join(words.split())
    return said


def answer_types() -> dict[str, type[Struct]]:
    """Every document that has a type here, by its name without gpuledger."""
    views = import_module("gpuledger.present.views")
    for module in pkgutil.walk_packages(views.__path__, f"{views.__name__}."):
        import_module(module.name)
    kinds: list[type[Struct]] = [VerbAnswer, RunSide]
    for kind in kinds:
        kinds += kind.__subclasses__()
    kinds += [DiagnosisAnswers, Manifest, QueryAnswer, QuerySchema]
    tags = ((str(kind.__struct_config__.tag), kind) for kind in kinds if kind.__struct_config__.tag)
    return {
        tag.removeprefix("gpuledger.").partition("/")[0]: kind for tag, kind in tags if tag.startswith("gpuledger.")
    }
