"""How a verb is declared: a typed function, from which its command line, help, completion and tool are made.

    def gaps(profile: Profile, *, least_ns: Annotated[int | None, Option("List ...")] = None,
             **asked: Unpack[ProfileOptions]) -> GapsAnswer:

`Option` and `VerbArgument` say what is said of a parameter. Some types stand for what many verbs have: `Profile` for
the argument PROFILE, `Selection` for the options in SELECTION, `Limits` for those about reading, `Listener` for who
waits. Other parameters are for Python alone. The docstring is the help. Nothing here loads what reads profiles.
"""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from gpuledger.limits import Limits
from gpuledger.regex import checked_regex
from gpuledger.selection import SLOWEST, Selection
from gpuledger.stages import Listener

if TYPE_CHECKING:
    from gpuledger.trace.model import Trace

    Profile = Trace | str | Path
else:
    Profile = object  # what a verb's signature says; nothing is loaded for it

REQUIRED: Final = inspect.Parameter.empty
"""The default of a parameter that has none."""

Complete = str | Callable[[], Iterable[str]]
"""What a shell offers: files, ranges or levels of the profile, codes of findings; or names, when they are asked for."""


class Option(NamedTuple):
    """What is said of an option besides its type and default."""

    help: str
    flag: str = ""
    """Where it is not made from the parameter's name; `-s --long` has both forms."""
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    """Makes the value from a word of the command line; raises ValueError with a sentence."""
    completes: Complete = ""
    least: int | None = None
    most: int | None = None
    """Of a number; of a text, in letters."""
    above: int | None = None
    """What a number must be more than."""
    environment: str = ""
    """The variable that it is taken from where it is not given."""
    bare: str | None = None
    """The value where it is given without one."""
    prints: Callable[[], str] | None = None
    """What is printed instead of an answer."""
    is_rare: bool = False
    """Whether `gpuledger help options` explains it, and the help of a verb only names it."""


def regex_option(help_: str, completes: Complete = "", flag: str = "", *, is_rare: bool = False) -> Option:
    """An option whose value is a regular expression."""
    return Option(help_, flag, "REGEX", checked_regex, completes, most=200, is_rare=is_rare)


class VerbArgument(NamedTuple):
    """What is said of an argument."""

    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    completes: Complete = ""


class OptionsInOrder(NamedTuple):
    """Options that together make one parameter: pairs of an option's name and value, as they were given."""

    options: Mapping[str, Option]


class SelectionOptions(NamedTuple):
    """The options of a selection that a verb has, by name, where it has not all."""

    names: tuple[str, ...]


class PerProfile:
    """Of limits: the time to read holds for each profile, as a folder may have any number, and not for the verb."""


class VerbParameter(NamedTuple):
    """A parameter of a verb: its type without `None` and `Annotated`, and what is said of it."""

    name: str
    kind: Any
    said: Any = None
    default: Any = None

    @property
    def flags(self) -> list[str]:
        flags = self.said.flag.split() if isinstance(self.said, Option) else []
        return flags or [f"--{self.name.replace('_', '-')}"]

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def selection_options(self) -> list[VerbParameter]:
        """Of a selection the options that it is made from."""
        names = self.said.names if isinstance(self.said, SelectionOptions) else SELECTION
        return [SELECTION[name] for name in names]


def _rank(text: str) -> int | str:
    if text == SLOWEST:
        return text
    if not text.isdecimal():
        raise ValueError(f"{text!r}: expected a number, or slowest")
    return int(text[:9])


def _stretch(text: str) -> tuple[int | None, int | None]:
    from gpuledger.units import parse_stretch

    return parse_stretch(text)


class _SelectionOptions(TypedDict):
    step_range: Annotated[str, regex_option("Steps are the NVTX ranges that match. Default: auto-detected.", "ranges")]
    step_kernel: Annotated[
        str, regex_option("A step ends with each kernel whose name matches; argmax finds ArgMaxOps.", is_rare=True)
    ]
    level: Annotated[
        str,
        Option(
            "Use the level of this name as the step; `gpuledger steps` lists them.",
            metavar="NAME",
            completes="levels",
            most=200,
            is_rare=True,
        ),
    ]
    time: Annotated[
        str,
        Option(
            "Only from A to B, as printed: 0.5s:1.5s, '12.3 ms:', or integer ns. 0 is where GPU work starts.",
            metavar="A:B",
            parse=_stretch,
            most=200,
        ),
    ]
    range: Annotated[
        str,
        regex_option("Only what was launched inside ranges that match; each instance is a step by default.", "ranges"),
    ]
    device: Annotated[int, Option("Only GPU N.", metavar="N")]
    rank: Annotated[
        str,
        Option(
            "Only rank N of a profile or folder that holds several, as `gpuledger fleet` lists them; or `slowest`.",
            metavar="N",
            parse=_rank,
            is_rare=True,
        ),
    ]
    families: Annotated[
        Path, Option("TOML file with your own kernel families. Default: ./pyproject.toml.", is_rare=True)
    ]


WithoutRank = Annotated[
    Selection, SelectionOptions(tuple(name for name in _SelectionOptions.__annotations__ if name != "rank"))
]
"""A selection of a verb about all ranks."""


def selection_of(given: Mapping[str, Any]) -> Selection:
    """The selection that options make, and the user's kernel families."""
    from gpuledger.config import user_families

    return Selection(
        range_pattern=given.get("step_range"),
        kernel_pattern=given.get("step_kernel"),
        level=given.get("level"),
        families=user_families(given.get("families")),
        device=given.get("device"),
        time_ns=given.get("time"),
        rank=given.get("rank"),
        scope_pattern=given.get("range"),
    )


NamesFrom = Annotated[
    Path | None,
    Option(
        "Name the kernels inside CUDA graphs after another trace of the same program: one in which the graph is "
        "captured, or runs without a graph; or after torch's JSON of kernel annotations.",
        completes="files",
        metavar="FILE",
        is_rare=True,
    ),
]


class ProfileOptions(TypedDict, total=False):
    """How a profile is read and cut into steps."""

    wanted: Selection
    names_from: NamesFrom
    limits: Limits
    progress: Listener


class PythonOnly:
    """The type of a parameter that only Python programs give, as it is not loaded for a command line."""


class _AnnotationNames(dict[str, Any]):
    """The names of a module; those that only type checkers load stand for `PythonOnly`."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, PythonOnly)


def parameters_of(function: Callable[..., Any]) -> Iterator[VerbParameter]:
    """The parameters of a function. The type of its result is not looked up."""
    names = _AnnotationNames(sys.modules[function.__module__].__dict__)
    for parameter in inspect.signature(function).parameters.values():
        hint = eval(parameter.annotation, {}, names)  # noqa: S307 - our own source
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            yield parameter_of(parameter.name, hint, parameter.default)
        elif get_args(hint):  # Unpack of a TypedDict
            yield from options_of(get_args(hint)[0]).values()


def parameter_of(name: str, hint: Any, default: Any) -> VerbParameter:
    """Of a union the part that says something is what the command line gives; the others are for Python."""
    said = None
    for _ in range(2):  # `Annotated[kind, said] | None`, or `Annotated[kind | None, said]`
        if get_origin(hint) in (Union, UnionType):
            kinds = [kind for kind in get_args(hint) if kind is not NoneType]
            declared = [kind for kind in kinds if get_origin(kind) is Annotated]
            hint = declared[0] if declared else kinds[0] if len(kinds) == 1 else hint
        if get_origin(hint) is Annotated:
            hint, said, *_ = get_args(hint)
    if isinstance(said, Option | VerbArgument) and hint is PythonOnly:
        raise TypeError(f"the type of {name} is not imported at run time")
    return VerbParameter(name, hint, said, default)


def options_of(options: Any) -> dict[str, VerbParameter]:
    """The options that the fields of a type declare, by name; none is required."""
    hints = get_type_hints(options, include_extras=True)
    return {name: parameter_of(name, hint, None) for name, hint in hints.items()}


SELECTION: Final = options_of(_SelectionOptions)
"""The options of a selection: which part of a profile to look at, and what a step is."""
