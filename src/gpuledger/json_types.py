"""JSON documents are Structs, whose tag is the document's name and version; `views/schema.py` makes their schemas."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

Count: TypeAlias = Annotated[int, Meta(ge=0)]


def builtins(content: msgspec.Struct) -> dict[str, Any]:
    """The document as dicts and lists."""
    whole: dict[str, Any] = msgspec.to_builtins(content, enc_hook=text_of_message)
    return whole


def text_of_message(value: object) -> str:
    """For msgspec: subclasses of str are their text."""
    if isinstance(value, str):  # a Message, which also knows how it was put together
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a JSON document")
