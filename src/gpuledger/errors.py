"""What can go wrong, as one small tree. The command line turns each into one sentence and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class GpuledgerError(Exception):
    """Something the user can act on: what, where, what was found, and what to do.

    `claim` is the sentence after `error:`. `found` is set under it, for the facts that led there.
    `hint` is the next thing to try. None of the three ends in a full stop.
    """

    exit_code = 1

    def __init__(self, claim: str, *, found: str = "", hint: str = "") -> None:
        super().__init__(claim)
        self.claim = claim
        self.found = found
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        """With all that it says, from one process to another."""
        return _same, (type(self), self.claim, self.found, self.hint)


def _same(kind: type[GpuledgerError], claim: str, found: str, hint: str) -> GpuledgerError:
    return kind(claim, found=found, hint=hint)


class WrongCall(GpuledgerError):
    """Options or arguments that do not go together."""

    exit_code = 2


class UnreadableProfile(GpuledgerError):
    """The file is not a profile, or not a whole one."""


class NothingRecorded(GpuledgerError):
    """The profile is fine, but it does not hold what the question is about."""


class MeansSeveral(NothingRecorded):
    """A name that stands for more than one thing."""


class MissingPackage(GpuledgerError):
    """An optional package is needed for this input."""


@contextmanager
def needing(package: str, what: str, install: str) -> Iterator[None]:
    """Around an import of a package that not everybody has: a sentence where it is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingPackage(
            f"{what} needs the package {package}, which is not installed", hint=f"`pip install {install}` installs it"
        ) from None


class TooManyPairs(GpuledgerError):
    """Rows that pair up far more often than there are rows: no recording does so, and memory would not hold them."""


class QueryRefused(GpuledgerError):
    """A question in SQL that cannot be answered: it is no question, asks for what is not there, or for too much."""


class OutputRefused(GpuledgerError):
    """The result cannot be written where it was asked for."""


class BooksDoNotBalance(GpuledgerError):
    """Our own arithmetic is wrong: lines that must sum to a whole do not. A bug, never the user's fault."""


class ToolFailed(GpuledgerError):
    """A program that we started did not do its work."""
