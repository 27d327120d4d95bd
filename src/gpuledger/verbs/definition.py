"""How a verb is declared: a typed function, from which the command line, the tool and the reference are made.

    def gaps(profile: Profile, *, least_ns: Annotated[int | None, Option("List ...")] = None,
             **asked: Unpack[ProfileOptions]) -> GapsAnswer:

A parameter without a default is an argument; keyword-only ones are options; `ProfileOptions` stands for those that all
verbs about a profile have. The docstring is the help. Nothing here, nor a verb's signature, loads what reads profiles.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from gpuledger.limits import Limits
from gpuledger.selection import Selection
from gpuledger.stages import Listener

if TYPE_CHECKING:
    from gpuledger.trace.model import Trace

    Profile = Trace | str | Path
else:
    Profile = object  # what a verb's signature says; nothing is loaded for it


class Option(NamedTuple):
    """What is said of an option besides its type and default."""

    help: str
    flag: str = ""
    """Where it is not made from the parameter's name."""
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    """Makes the value from a word of the command line; raises ValueError with a sentence."""
    completes: str = ""
    """What a shell offers for it: ranges, levels, files."""
    least: float | None = None
    most: float | None = None


class VerbArgument(NamedTuple):
    """What is said of an argument."""

    metavar: str
    required: bool = True


class ProfileOptions(TypedDict, total=False):
    """How a profile is read and cut into steps."""

    wanted: Selection
    names_from: Path | None
    limits: Limits
    progress: Listener
