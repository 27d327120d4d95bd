"""Files in, `Trace` out. One reader per format, see `registry`; the content decides which, not the extension."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gpuledger.capture.output_files import samples_of
from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read.cache import may_be_cached
from gpuledger.read.plain_window import manifest_of, plain_window_ns
from gpuledger.read.registry import reader_of
from gpuledger.read.request import GPU_METRICS, Progress, WantedColumns
from gpuledger.read.source import Source, in_time, look_at, unchanged, unrecognised
from gpuledger.system.files import SEPARATOR
from gpuledger.system.opening import exists, is_file
from gpuledger.trace.model import NotMeasured, Trace
from gpuledger.trace.tables import EVENTS, Table

SAMPLES: Final = {Table.METRICS: frozenset(column.name for column in Table.METRICS.schema.columns)}
"""All of that table, to be read where there is one."""

_BESIDE: Final = {
    Table.KERNELS: frozenset({"start_ns", "end_ns", "pid"}),
    Table.CALLS: frozenset({"start_ns", "end_ns", "pid", "tid", "name"}),
}

_NO_COLUMNS: Final[Mapping[Table, Collection[str]]] = {}


def no_progress(table: str, rows: int) -> None:
    """Says nothing."""


def open_trace(
    path: str | Path,
    *,
    only: Collection[Table] | Mapping[Table, Collection[str]] = EVENTS,
    where_sampled: Mapping[Table, Collection[str]] = _NO_COLUMNS,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
    cache: bool = True,
) -> Trace:
    """Read the profile at `path`, or just what `only` names: some tables, or some columns of each.

    Without it, all tables but `metrics`, the samples of GPUs, which may be larger than all others together.
    `where_sampled` names columns to read besides where there are such samples.

    `ARCHIVE::MEMBER` names one of the traces in an archive. A profile that takes long to read is kept in the user's
    cache folder, and found there the next time; not with `cache=False`.
    """
    wanted = wanted_columns(only)
    trace = _read_trace(path, wanted, limits, progress, cache=cache)
    if where_sampled and any(count for name, count in trace.origin.source_rows if name == GPU_METRICS):
        besides = wanted_columns(where_sampled)
        both = {
            table: wanted.get(table, frozenset()) | besides.get(table, frozenset()) for table in {**wanted, **besides}
        }
        trace = _read_trace(path, both, limits, progress, cache=cache)
    return trace


def _read_trace(path: str | Path, wanted: WantedColumns, limits: Limits, progress: Progress, *, cache: bool) -> Trace:
    outer, separator, member = str(path).partition(SEPARATOR)
    asked, samples = wanted, samples_of(Path(path)) if Table.SAMPLES in wanted else ()
    if any(map(is_file, samples)):  # what they are put beside must be read, whoever asks for it
        wanted = {**wanted, **{table: wanted.get(table, frozenset()) | names for table, names in _BESIDE.items()}}
    if separator and not exists(Path(path)):
        from gpuledger.read.archive import read_member
        from gpuledger.read.stream import is_archive

        source = look_at(Path(outer))
        if not is_archive(source, limits):
            raise _refusal(path, source, limits)
        read = partial(read_member, source, member, wanted, limits, progress)
    else:
        source, member = look_at(Path(path)), ""
        reader = reader_of(source)
        if reader is None:
            raise _refusal(path, source, limits)
        read = partial(reader.read, source, wanted, limits, progress)
    with unchanged(source):
        if cache and may_be_cached(source):
            from gpuledger.read.cache.cached_open import cached_open

            trace = cached_open(source, member, wanted, limits, read)
        else:
            trace = read()
        if member:
            return trace
        manifest = manifest_of(Path(path))
        trace = replace(trace, plain_window_ns=plain_window_ns(manifest))
        listed = None if isinstance(manifest, NotMeasured) else manifest.get("files")
        if samples and (listed is not None or wanted is not asked):
            from gpuledger.read.python_samples import with_samples  # not for the many profiles that have none

            trace = with_samples(trace, samples, listed, asked)
        return trace


def _refusal(path: str | Path, source: Source, limits: Limits) -> GpuledgerError:
    from gpuledger.read.stats_text.tables import no_timeline

    return no_timeline(path, limits=limits) or unrecognised(source)


def profiles_in(path: str | Path, limits: Limits = DEFAULT_LIMITS) -> list[str]:
    """What `open_trace` can open at `path`: the file itself, or the traces in an archive, as they are stored."""
    from gpuledger.read.archive import traces_in
    from gpuledger.read.stream import is_archive

    source = look_at(Path(path))
    if source.head and is_archive(source, limits):
        with in_time(source.name, limits):
            return [f"{path}{SEPARATOR}{member}" for member in traces_in(source, limits)]
    return [str(path)]


def wanted_columns(only: Collection[Table] | Mapping[Table, Collection[str]]) -> WantedColumns:
    """Which columns of which tables; times always, and a column's name must be one of the table's."""
    chosen = only if isinstance(only, Mapping) else {table: (c.name for c in table.schema.columns) for table in only}
    wanted = {table: frozenset(names) | {"start_ns", "end_ns"} for table, names in chosen.items()}
    for table, names in wanted.items():
        if unknown := names - {column.name for column in table.schema.columns}:
            raise ValueError(f"{table.value} has no column {min(unknown)}")
    return wanted
