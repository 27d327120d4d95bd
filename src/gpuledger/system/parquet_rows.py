"""A folder of Parquet files, one per record: rows in, a whole file out, and back; any reader of Parquet reads them all.

A file gets its name once it is whole, and no two have the same, so that any number of writers may add to a folder at a
time, on a shared file system too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from gpuledger.errors import OutputRefused, UnreadableProfile, needing
from gpuledger.system.files import reason_of, whole_file
from gpuledger.system.opening import is_file, open_file

ENDING: Final = ".parquet"
_MOST_ROWS, _ROWS_AT_A_TIME = 10_000, 100
_MOST_BYTES: Final = 64 * 1024 * 1024
"""A larger file is no record of ours; nor is one that a few bytes unpack to more."""


def write_rows(path: Path, kinds: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> None:
    """Put rows into a new file, which is there when it is whole; `kinds` are the columns, with pyarrow's types."""
    with needing("pyarrow", "a history", "'gpuledger[arrow]'"):
        import pyarrow
        import pyarrow.parquet

    schema = pyarrow.schema([(name, pyarrow.type_for_alias(kind)) for name, kind in kinds.items()])
    table = pyarrow.Table.from_pylist([dict(row) for row in rows], schema)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, durable=True) as file:
            pyarrow.parquet.write_table(table, file, compression="zstd")
    except OSError as error:
        raise OutputRefused(f"{path}: cannot be written: {reason_of(error)}") from None


def read_rows(path: Path, kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """These columns of a file; UnreadableProfile where it is not whole, or none of ours."""
    with needing("pyarrow", "a history", "'gpuledger[arrow]'"):
        import pyarrow
        import pyarrow.parquet

    if not is_file(path):  # a pipe would be waited for
        raise UnreadableProfile(f"{path.name}: is no file")
    try:
        with open_file(path) as opened, pyarrow.parquet.ParquetFile(opened) as file:
            held = {field.name: str(field.type) for field in file.schema_arrow}
            if wrong := [name for name, kind in kinds.items() if held.get(name) != kind]:
                raise UnreadableProfile(f"{path.name}: has no column {wrong[0]} of {kinds[wrong[0]]}")
            if not 0 < file.metadata.num_rows <= _MOST_ROWS:
                raise UnreadableProfile(f"{path.name}: has {file.metadata.num_rows} rows")
            groups = range(file.metadata.num_row_groups)
            if sum(file.metadata.row_group(group).total_byte_size for group in groups) > _MOST_BYTES:
                raise UnreadableProfile(f"{path.name}: unpacks to more than {_MOST_BYTES >> 20} MiB")
            rows = list[dict[str, Any]]()
            unpacked_bytes = 0  # one text of a few bytes may stand in every row
            for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=list(kinds)):
                unpacked_bytes += batch.nbytes
                if unpacked_bytes > _MOST_BYTES:
                    raise UnreadableProfile(f"{path.name}: unpacks to more than {_MOST_BYTES >> 20} MiB")
                rows += batch.to_pylist()
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableProfile(f"{path.name}: cannot be read: {said}") from None
    return rows
