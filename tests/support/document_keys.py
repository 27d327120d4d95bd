"""What a JSON document promises: its keys and the types of their values, whatever the values are."""

from __future__ import annotations

from typing import Any

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "list", dict: "object"}


def lost(old: Any, new: Any, at: str = "$") -> list[str]:
    """The keys of the old document that the new one has no longer, or has with values of another type.

    null says that a value is not known, so it may stand for any. Where an integer was, a fraction is another type, but
    not the other way round. Of lists, what all items have together is looked at: they need not be equally long.
    """
    if old is None or new is None:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        gone = [f"{at}.{key}" for key in old if key not in new]
        return gone + [each for key in old if key in new for each in lost(old[key], new[key], f"{at}.{key}")]
    if isinstance(old, list) and isinstance(new, list):
        return lost(together(old), together(new), f"{at}[]")
    if type(old) is type(new) or (isinstance(old, float) and type(new) is int):
        return []
    return [f"{at}: was {_TYPES[type(old)]}, is {_TYPES[type(new)]}"]


def together(items: list[Any]) -> Any:
    """One value with all the keys that items have; None where there are none, or where they are of several types."""
    known = [item for item in items if item is not None]
    if known and all(isinstance(item, dict) for item in known):
        keys = dict.fromkeys(key for item in known for key in item)
        return {key: together([item[key] for item in known if key in item]) for key in keys}
    if known and all(isinstance(item, list) for item in known):
        return [inner for item in known for inner in item]
    if {type(item) for item in known} == {int, float}:
        return 0.5
    return known[0] if len({type(item) for item in known}) == 1 else None
