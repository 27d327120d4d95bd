"""What NVIDIA's library says of a report of Nsight Compute, asked once for the same bytes.

Asking starts a process that loads the library: seconds, each time. All else of reading a report happens as ever. The
tests of that reading (`tests/read`) ask each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

from gpuledger.limits import Limits
from gpuledger.read.ncu import rep_file
from gpuledger.read.source import Source

_ANSWERS: dict[tuple[str, ...], bytes] = {}


@contextmanager
def asked_once() -> Iterator[None]:
    """While this is entered, an answer that is known is not asked for again."""
    ask = rep_file._ask

    def remembered(source: Source, arguments: Sequence[str | Path], limits: Limits) -> None:
        report, answer, *settings = arguments
        key = (sha256(Path(report).read_bytes()).hexdigest(), *map(str, settings))
        if key in _ANSWERS:
            Path(answer).write_bytes(_ANSWERS[key])
            return
        ask(source, arguments, limits)
        _ANSWERS[key] = Path(answer).read_bytes()

    with patch.object(rep_file, "_ask", remembered):
        yield
