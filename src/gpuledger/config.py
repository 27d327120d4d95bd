"""What a user sets once: kernel families of their own, from a TOML file or the project's pyproject.toml.

    [tool.gpuledger.families]
    attention = ["my_attn_.*"]
    comm-ours = ["ring_exchange"]

In a file of its own the table is called `[families]`. Patterns are regular expressions, searched in the whole kernel
name before the built-in table.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from pathlib import Path
from typing import Final

from gpuledger.errors import GpuledgerError
from gpuledger.system.opening import is_file, open_file

Families = tuple[tuple[str, str], ...]

MOST_BYTES: Final = 16 << 20
"""A larger file holds no settings."""


def user_families(path: Path | None) -> Families:
    """Patterns from `path`, or from a pyproject.toml in the current folder if there is one; none if it sets none."""
    chosen = path or Path("pyproject.toml")
    if path is None and not is_file(chosen):
        return ()
    import tomllib  # only where there is a file

    try:
        content = tomllib.loads(_text(chosen))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise GpuledgerError(f"{chosen}: cannot be read as TOML", found=str(error)) from None
    except RecursionError:
        raise GpuledgerError(f"{chosen}: cannot be read as TOML", found="values nested too deeply") from None
    table: object = content
    for key in ("tool", "gpuledger", "families"):
        table = table.get(key) if isinstance(table, dict) else None
    table = content.get("families", {}) if table is None else table
    return tuple((family, pattern) for family, patterns in _check_table(chosen, table) for pattern in patterns)


def _text(path: Path) -> str:
    """What a regular file holds: a device has no end, and a pipe would be waited for."""
    with open_file(path) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise GpuledgerError(f"{path}: not a regular file", hint="save the families to a file first")
        if status.st_size > MOST_BYTES:
            raise GpuledgerError(
                f"{path}: too large for a file of settings",
                found=f"{status.st_size} bytes; at most {MOST_BYTES} are read",
            )
        return file.read(MOST_BYTES).decode()


def _check_table(path: Path, table: object) -> list[tuple[str, list[str]]]:
    """The table, if it is one of lists of regular expressions."""
    hint = 'write it as `attention = ["pattern", ...]`'
    if not isinstance(table, dict):
        raise GpuledgerError(f"{path}: families is not a table", hint=hint)
    for family, patterns in table.items():
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise GpuledgerError(f"{path}: family '{family}' is not a list of patterns", hint=hint)
        for pattern in patterns:
            try:
                with warnings.catch_warnings():
                    # `[[a]` means what it says today; what a later Python will take it for is no news for our users
                    warnings.simplefilter("ignore", FutureWarning)
                    re.compile(pattern, re.IGNORECASE)  # as it is compiled where it is used
            except (re.error, OverflowError, RecursionError) as error:
                raise GpuledgerError(f"{path}: '{pattern}' is no regular expression: {error}") from None
    return list(table.items())
