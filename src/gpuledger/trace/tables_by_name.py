"""The tables of a trace as attributes, for people who type: `trace.kernels` is `trace[Table.KERNELS]`."""

from __future__ import annotations

from abc import abstractmethod

from gpuledger.trace.tables import Rows, Table


class TablesByName:
    """An attribute for each table; AttributeError where the table was not read."""

    __slots__ = ()

    @abstractmethod
    def __getitem__(self, table: Table | str) -> Rows: ...

    def _of(self, table: Table) -> Rows:
        try:
            return self[table]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    @property
    def kernels(self) -> Rows:
        return self._of(Table.KERNELS)

    @property
    def copies(self) -> Rows:
        return self._of(Table.COPIES)

    @property
    def graphs(self) -> Rows:
        return self._of(Table.GRAPHS)

    @property
    def calls(self) -> Rows:
        return self._of(Table.CALLS)

    @property
    def ranges(self) -> Rows:
        return self._of(Table.RANGES)

    @property
    def syncs(self) -> Rows:
        return self._of(Table.SYNCS)

    @property
    def allocs(self) -> Rows:
        return self._of(Table.ALLOCS)

    @property
    def overheads(self) -> Rows:
        return self._of(Table.OVERHEADS)

    @property
    def samples(self) -> Rows:
        return self._of(Table.SAMPLES)

    @property
    def collectives(self) -> Rows:
        return self._of(Table.COLLECTIVES)

    @property
    def metrics(self) -> Rows:
        return self._of(Table.METRICS)
