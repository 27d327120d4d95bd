"""How a verb is declared: a typed function, from which the command line, the tool and the reference are made.

    def gaps(profile: Profile, *, least_ns: Annotated[int | None, Option("List ...")] = None,
             **asked: Unpack[ProfileOptions]) -> GapsAnswer:

A parameter without a default is an argument; keyword-only ones are options; `ProfileOptions` stands for those that all
verbs about a profile have. The docstring is the help. Nothing here, nor a verb's signature, loads what reads profiles.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict, Union, get_args, get_origin, get_type_hints

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
    """Where it is not made from the parameter's name; `-s --long` has both forms."""
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    """Makes the value from a word of the command line; raises ValueError with a sentence."""
    completes: str = ""
    """What a shell offers for it: ranges, levels, files."""
    least: float | None = None
    most: float | None = None
    environment: str = ""
    """The variable that it is taken from where it is not given."""


class VerbArgument(NamedTuple):
    """What is said of an argument."""

    metavar: str
    required: bool = True
    completes: str = ""


class ProfileOptions(TypedDict, total=False):
    """How a profile is read and cut into steps."""

    wanted: Selection
    names_from: Path | None
    limits: Limits
    progress: Listener


class VerbParameter(NamedTuple):
    """A parameter of a verb: its type without `None` and `Annotated`, and what is said of it."""

    name: str
    kind: Any
    said: Option | VerbArgument | None
    default: Any

    @property
    def flag(self) -> str:
        flag = self.said.flag if isinstance(self.said, Option) else ""
        return flag or f"--{self.name.replace('_', '-')}"


def parameters_of(verb: Callable[..., Any]) -> Iterator[VerbParameter]:
    """The parameters of a verb. The type of its result is not looked up: that would load what reads profiles."""
    space = sys.modules[verb.__module__].__dict__
    for parameter in inspect.signature(verb).parameters.values():
        annotation = eval(parameter.annotation, space)  # noqa: S307 - our own source
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            hints = get_type_hints(get_args(annotation)[0], include_extras=True)
            yield from (_parameter(name, hint, None) for name, hint in hints.items())
        else:
            yield _parameter(parameter.name, annotation, parameter.default)


def _parameter(name: str, annotation: Any, default: Any) -> VerbParameter:
    said = None
    if get_origin(annotation) is Annotated:
        annotation, *rest = get_args(annotation)
        said = next((part for part in rest if isinstance(part, Option | VerbArgument)), None)
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        annotation = kinds[0] if len(kinds) == 1 else annotation
    return VerbParameter(name, annotation, said, default)
