"""The published schemas of our documents: each is read and checked once by a process, as that takes a while."""

from __future__ import annotations

import functools
import json

from jsonschema import Draft202012Validator

from gpuledger.present.views.schema import answer_schema, answer_types
from support.command import ROOT


@functools.cache
def schema_of(document: str) -> Draft202012Validator:
    """What validates the document gpuledger.DOCUMENT/1."""
    kind = answer_types().get(document)
    if kind is None:
        schema = json.loads((ROOT / "docs" / "schemas" / f"gpuledger.{document}-1.json").read_text())
    else:
        schema = answer_schema(kind)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
