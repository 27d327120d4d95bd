"""What JSON documents are made of: a type per object, its keys in order; docs/schemas is generated from these types.

A document's type has a `schema` with its name and version. What stands under a key, or in its `Meta`, is published as
its description. A key that is not always there is `UNSET` by default. So is a new one, as documents of older versions
lack it, and is one line of its type; one that is taken away or means something else is a new version of the document.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

Ns: TypeAlias = Annotated[int, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


class Json(msgspec.Struct, forbid_unknown_fields=True):
    """One object of a document."""


def builtins(content: msgspec.Struct) -> dict[str, Any]:
    """The document as dicts and lists."""
    whole: dict[str, Any] = msgspec.to_builtins(content, enc_hook=text_of_message)
    return whole


def text_of_message(value: object) -> str:
    """For msgspec: subclasses of str are their text."""
    if isinstance(value, str):  # a Message, which also knows how it was put together
        return str(value)
    raise TypeError(f"{type(value).__name__} has no place in a JSON document")
