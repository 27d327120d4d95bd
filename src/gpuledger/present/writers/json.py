"""Results as JSON documents: versioned, integer nanoseconds, no NaN, the same bytes for the same input."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuledger.present.safe_text import visible_json


def json_text(content: Mapping[str, Any]) -> str:
    """One document, ended by a newline. Names keep their letters; what a terminal would obey is escaped."""
    import msgspec

    # the standard library is quick only without indents, and these would be searched for what hides
    text = visible_json(json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    try:
        return msgspec.json.format(text, indent=1) + "\n"
    except msgspec.DecodeError:  # half a pair of surrogates, from a name that is no UTF-8
        return visible_json(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)) + "\n"
