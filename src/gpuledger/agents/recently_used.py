"""The few things that were used last: what is put in beyond the limits pushes out what was not used for longest."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

Kept = TypeVar("Kept")


class RecentlyUsed(Generic[Kept]):
    """Things by name, at most so many and so large together. The last one stays however large it is."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._kept: OrderedDict[str, tuple[Kept, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def held_bytes(self) -> int:
        """How large they are together."""
        return sum(size for _, size in self._kept.values())

    def get(self, name: str) -> Kept | None:
        """The thing of that name, which is then the last used; None where it is not, or no longer, there."""
        if name not in self._kept:
            return None
        self._kept.move_to_end(name)
        return self._kept[name][0]

    def put(self, name: str, thing: Kept, size: int) -> None:
        """Keep a thing."""
        self._kept.pop(name, None)
        self._kept[name] = thing, size
        while len(self._kept) > 1 and (len(self._kept) > self._most or self.held_bytes > self._most_bytes):
            self._kept.popitem(last=False)
