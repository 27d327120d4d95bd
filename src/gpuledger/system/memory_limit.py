"""A bound on what this process may take besides what it has, for as long as something runs that nobody can bound.

The system refuses memory beyond it, which the code that asked hears as a failure of its own. Linux keeps such a bound;
where there is none, nothing is done.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATM = Path("/proc/self/statm")


@contextmanager
def at_most(more_bytes: int) -> Iterator[None]:
    """What is done meanwhile, by all threads together, gets no more than so many bytes of address space."""
    taken = _taken_bytes()
    if taken is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    known = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([taken + more_bytes, *known]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _taken_bytes() -> int | None:
    """The address space of this process; None where that is not known."""
    try:
        return int(_STATM.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return None
