"""Time by cause: a column for each cause that has any. Of the causes that there are, most profiles know a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from gpuledger.ledger.causes import Cause
from gpuledger.trace.columns import same
from gpuledger.trace.keys import Positions
from gpuledger.trace.spans import Ints


class ByCause:
    """Rows of time, each booked to causes; what is not booked is 0."""

    def __init__(self, rows: int, causes: Sequence[Cause]) -> None:
        self.causes: Final = tuple(causes)
        self._rows: Final = rows
        self._columns: Final[dict[Cause, Ints]] = {}

    def __len__(self) -> int:
        return self._rows

    def add(self, cause: Cause, rows: Positions, amount: Ints) -> None:
        """Book an amount to each of these rows, none of which is named twice."""
        if amount.any():
            if cause not in self._columns:
                self._columns[cause] = np.zeros(self._rows, np.int64)
            self._columns[cause][rows] += amount

    def of(self, cause: Cause) -> Ints:
        """The time of each row that is booked to one cause."""
        return self._columns[cause] if cause in self._columns else same(0, self._rows)

    @property
    def used(self) -> list[Cause]:
        """The causes that something was booked to, in their order."""
        return [cause for cause in self.causes if cause in self._columns]

    def total(self, *causes: Cause) -> Ints:
        """The time of each row by these causes together; by all of them if none is named."""
        total_ns = np.zeros(self._rows, np.int64)
        for cause in causes or self.used:
            if cause in self._columns:
                total_ns += self._columns[cause]
        return total_ns

    def largest(self) -> Positions:
        """For each row the position of the cause with the most time, the first of several."""
        position, most = np.zeros(self._rows, np.intp), np.zeros(self._rows, np.int64)
        for cause in self.used:
            more = self._columns[cause] > most
            position[more] = self.causes.index(cause)
            np.maximum(most, self._columns[cause], out=most)
        return position

    def sums(self, rows: Positions | slice = slice(None)) -> dict[Cause, int]:
        """The time of these rows by cause; causes without any are left out."""
        sums = {cause: int(self._columns[cause][rows].sum()) for cause in self.used}
        return {cause: amount for cause, amount in sums.items() if amount}
