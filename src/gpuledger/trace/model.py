"""One profile in memory: its tables, where it came from, what was lost or is doubtful, and what names its graphs' work.

Notes of `health` are shown with every output. `GraphPlaces`, where in the program the work inside CUDA graphs comes
from, goes with a trace where a second file told it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from gpuledger.messages import say
from gpuledger.trace.spans import Ints, Span
from gpuledger.trace.strings import Stacks, Strings
from gpuledger.trace.tables import Rows, Table, TablesByName, empty
from gpuledger.visible_text import visible


class Severity(Enum):
    """How much a note matters to the numbers."""

    INFO = "info"
    """Good to know; no number is affected."""
    WARNING = "warning"
    """Some numbers may be incomplete."""
    LOSS = "loss"
    """Rows that the profile holds are missing from the numbers."""


class Note(Struct, frozen=True):
    """One thing that a reader of the numbers should know. `count` is how many rows it is about."""

    severity: Severity
    code: str
    sentence: str
    count: int = 1


NAMES_FROM = "names-from"
"""The code of the note that says how much of the work inside graphs a second file names: it belongs to every answer."""

CORRECTED: Final = frozenset({"clock-drift-corrected", "clock-early-corrected", "clock-late-corrected"})
"""The codes of notes that say that the times of a GPU were moved."""


def always_shown(notes: Iterable[Note]) -> list[str]:
    """The sentences that people see in any case, besides what was lost."""
    return [note.sentence for note in notes if note.code == NAMES_FROM or note.code in CORRECTED]


DAMAGE: Final = frozenset(
    {
        *("ids-repeated", "kernels-timeless", "launches-lost", "outside-recording", "rows-twice"),
        *("starts-before-launch", "starts-late", "stream-order", "stream-overlap", "sync-before-end"),
    }
)
"""The codes of notes on what cannot be true: no cause of idle time, and no saving, is believed after one of them."""


class NotMeasured(Struct, frozen=True):
    """Stands where a number would be that the profile cannot give. Never zero."""

    reason: str


Names = tuple[str, ...]


class GraphPlace(Struct, frozen=True):
    """One place in the program."""

    path: Names
    """Annotations, modules and operators, the outermost first."""
    source: str
    """How it is known: an equal run, a capture, or an annotation of the graph's node."""
    is_part: bool = False
    """Whether several places fit and differ, and this is what they agree on, counted from the innermost."""
    where: str = ""
    """The line of code that launched it, where stacks were recorded and all places that fit agree on it."""
    inputs: str = ""
    """What the innermost operator was given, where that was recorded and all places that fit agree on it."""
    blocks: int = 0
    """How many were launched at the capture, likewise; 0 where that is not known."""


class NameCoverage(Struct, frozen=True):
    """How much of the work inside graphs has a name: kernels, copies and memsets."""

    count: int
    named: int
    gpu_ns: int
    named_ns: int
    in_part: int
    """Of those with a name, how many have only what several places agree on."""

    @property
    def named_share(self) -> float:
        return self.named_ns / self.gpu_ns if self.gpu_ns else 0.0


class GraphPlaces(Struct, frozen=True, eq=False):
    """The places of the work inside graphs, row by row."""

    file: str
    """The file that told them; '' where it is the profile itself."""
    places: tuple[GraphPlace, ...]
    of_kernel: NDArray[np.int32]
    """For each row of the kernels a position in `places`; -1 where there is none."""
    of_copy: NDArray[np.int32]
    """Likewise for each row of the copies."""
    coverage: NameCoverage | None = None
    """How much they name, where that was counted."""


PID_BITS: Final = 24
"""Bits of `pid` that hold the operating system's process id; the host's index is above them."""


def os_pid(pid: int) -> int:
    """The operating system's number for a process of the tables."""
    return pid if pid < 0 else pid & (1 << PID_BITS) - 1


def thread_number(pid: Ints, tid: Ints) -> Ints:
    """One number per thread. A thread's id may be as long as a pointer, so it is added, not packed."""
    return (pid << 32) + tid


_NOT_THE_PROGRAM: Final = (Table.ALLOCS, Table.OVERHEADS, Table.METRICS)

NOT_DESCRIBED: Final = ""
"""The name of a GPU that only stands between others: nothing ran on it, and the profile says nothing about it."""

NO_MANIFEST: Final = NotMeasured(say("there is no `gpuledger capture` manifest next to the profile"))
"""Why nothing is known of the capture but what the profile holds."""


UNNAMED_GPU: Final = say("GPU, name not recorded")
UNKNOWN_GPU: Final = say("unknown GPU")
"""Names of GPUs that a profile does not describe."""


class Gpu(Struct, frozen=True):
    """One physical GPU, as far as the profile describes it. None: not recorded."""

    name: str
    bus: str | None = None
    compute_capability: tuple[int, int] | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    bandwidth_bytes_per_s: int | None = None
    clock_hz: int | None = None
    l2_bytes: int | None = None

    @property
    def known_name(self) -> str | None:
        """None: the profile does not name it."""
        return None if self.name in ("", UNNAMED_GPU, UNKNOWN_GPU) else self.name


class Process(Struct, frozen=True):
    """One traced process. `pid` is the tables' key."""

    pid: int
    name: str | None


class Private(Struct, frozen=True):
    """What may name people, paths or secrets. Shown only when asked for."""

    command: tuple[str, ...] = ()
    host: str | None = None
    environment: tuple[tuple[str, str], ...] = ()


class Decoding(Struct, frozen=True):
    """What took the tables out of a file that our own decoder can read, and SQLite too, which is slower."""

    by: str
    """native or sqlite."""
    reason: str | None = None
    """Why it was not native: not-compiled, switched-off, write-ahead-log, journal or unusual-header."""
    by_sqlite: tuple[str, ...] = ()
    """The tables that SQLite read all the same, as the decoder would not answer for them."""


class Origin(Struct, frozen=True):
    """Where a trace came from. None: the profile does not say."""

    tool: str
    container: str
    """How the profile is stored: sqlite, parquetdir, arrowdir."""
    tool_version: str | None = None
    schema_version: str | None = None
    started_utc: str | None = None
    wall_zero_ns: int | None = None
    """The wall clock, in ns since 1970, at the instant 0 of the trace, where the profile says it to the microsecond."""
    driver_version: str | None = None
    cuda_version: str | None = None
    recorded_ns: int | None = None
    """How long was recorded; work that was launched by then, and calls that were made, may end later."""
    asked_for: tuple[str, ...] | None = None
    """What the capture was to trace, in the profiler's words."""
    gpus: tuple[Gpu, ...] = ()
    processes: tuple[Process, ...] = ()
    rank: int | None = None
    """Which of a job's ranks this is."""
    world_size: int | None = None
    """How many ranks the job has."""
    capture: str | None = None
    """What tells this capture from all others; profiles with the same one are parts of it, on one clock."""
    source_rows: tuple[tuple[str, int], ...] = ()
    """Rows of each of the profile's own event tables, by name."""
    decoding: Decoding | None = None
    """How the file was read; None where there is only one way."""
    private: Private = field(default_factory=Private)

    def gpu(self, number: int) -> Gpu | None:
        """A GPU by its number; None if the profile does not describe it."""
        return self.gpus[number] if 0 <= number < len(self.gpus) else None


class Trace(TablesByName, Struct, frozen=True, eq=False):
    """One profile: immutable tables on one clock. `trace["kernels"]` and `trace.kernels` are one of them."""

    origin: Origin
    health: tuple[Note, ...]
    strings: Strings
    tables: Mapping[Table, Rows]
    """The tables that the profile holds, of those that were asked for."""
    absent: Mapping[Table, NotMeasured]
    """The tables that it does not hold, and why."""
    stacks: Stacks = field(default_factory=Stacks)
    """The call stacks that columns called `stack` point to."""
    plain_window_ns: int | NotMeasured = NO_MANIFEST
    """How long what was recorded took in a run without the profiler. Of the file beside it, not of the profile."""
    places: GraphPlaces | None = None
    """Where work inside graphs comes from, if a second file was asked; goes with these very rows."""

    def __getitem__(self, table: Table | str) -> Rows:
        """The rows of a table, by its name too; none if the profile does not hold it. Asks only for what was read."""
        if not isinstance(table, Table):
            names = [known.value for known in Table]
            if table not in names:
                from difflib import get_close_matches  # only here

                near = get_close_matches(str(table).lower(), names, n=1)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                raise KeyError(f"no table {table!r}{meant} There are {', '.join(names)}")
            table = Table(table)
        if table in self.tables:
            return self.tables[table]
        if table in self.absent:
            return empty(table, self.strings)
        raise KeyError(f"{table.value} was not read: open_trace(path, only=(Table.{table.name}, ...)) reads it")

    def __repr__(self) -> str:
        held = ", ".join(f"{len(rows):,} {table.value}" for table, rows in self.tables.items()) or "no tables"
        return f"<Trace of {visible(self._tool)}: {held}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: every table, how many rows it has, and why one is not there."""
        rows: list[tuple[object, ...]] = [
            (f"trace.{table.value}", len(held), table.schema.row) for table, held in self.tables.items()
        ]
        rows += ((f"trace.{table.value}", None, f"not recorded: {why.reason}") for table, why in self.absent.items())
        gpus = ", ".join(gpu.name for gpu in self.origin.gpus if gpu.name)
        from gpuledger.trace.notebook_table import html_table

        return html_table(("table", "rows", "a row is"), rows, f"{self._tool} {gpus}".strip())

    @property
    def _tool(self) -> str:
        return f"{self.origin.tool} {self.origin.tool_version or ''}".strip()

    @property
    def damage(self) -> tuple[Note, ...]:
        """What in it cannot be true."""
        return tuple(note for note in self.health if note.code in DAMAGE)

    def missing(self, *needed: Table) -> NotMeasured | None:
        """Why a question that needs these tables cannot be answered; None if it can."""
        return next((self.absent[table] for table in needed if table in self.absent), None)

    def same_events(self, other: Trace) -> bool:
        """Whether both hold the same rows, text included, whatever container they came in."""
        return (
            dict(self.tables) == dict(other.tables)
            and set(self.absent) == set(other.absent)
            and self.origin.gpus == other.origin.gpus
            and self.origin.processes == other.origin.processes
        )

    @property
    def span(self) -> Span | NotMeasured:
        """From the first to the last time that the program did anything.

        Allocations are left out, as nsys lists those from before the capture too, and so is what the profiler did:
        it samples a GPU for longer than the program runs. A thread that sleeps on in the system when the recording
        is over does not make that longer.
        """
        timed = {table: rows for table, rows in self.tables.items() if len(rows) and table not in _NOT_THE_PROGRAM}
        if not timed:
            return NotMeasured("no event was recorded")
        start_ns = min(int(rows["start_ns"].min()) for rows in timed.values())
        end_ns = max(int(max(rows["end_ns"].max(), rows["start_ns"].max())) for rows in timed.values())
        if self.origin.recorded_ns is not None and end_ns > (over_ns := start_ns + self.origin.recorded_ns):
            calls = timed.get(Table.CALLS)
            if calls is not None:
                waits = (calls.codes("layer") == self.strings.code("os")) & (calls["end_ns"] > over_ns)
                timed[Table.CALLS] = calls.where(~waits)
            last = (int(max(rows["end_ns"].max(), rows["start_ns"].max())) for rows in timed.values() if len(rows))
            end_ns = min(end_ns, max(over_ns, *last))
        return Span(start_ns, end_ns)
