"""What a verb is about: the options and arguments that say which profile, which part of it, and how it is read.

A value that is none is refused before anything is read. What the shell offers after <TAB> is here too: click asks with
the words so far (see `docs/guides/terminal.md`); a profile that cannot be read offers nothing, the verb will say why.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem
from msgspec.structs import replace

from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS, EXPORTER, Limits
from gpuledger.system.kept_files import SETTING

Parsed = TypeVar("Parsed")
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_QUICKLY_READ: Final = 64 * 10**6
"""Bytes of a profile that is read while somebody waits for a word; SQLite is read quickly at any size."""

_SQLITE: Final = b"SQLite format 3\0"


def files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of files and folders, which the shell knows itself."""
    return [CompletionItem(incomplete, type="file")]


def finding_codes(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Codes that `explain` has a page for, each with its title."""
    from gpuledger.findings.pages import codes, page

    chosen = [code for code in codes() if code.startswith(incomplete.upper())]
    return [CompletionItem(code, help=page(code).splitlines()[0].partition(": ")[2]) for code in chosen]


def words(names: Callable[[], Iterable[str]], ending: str = "") -> Complete:
    """A fixed list of names, looked up when it is asked for."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(f"{name}{ending}") for name in names() if name.startswith(incomplete)]

    return complete


def range_patterns(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the profile's ranges, as regular expressions that match them."""
    patterns = [(name, re.escape(name).replace(r"\#", r"\d+")) for name in _range_names(context)]
    begun = [regex for name, regex in patterns if name.startswith(incomplete) or regex.startswith(incomplete)]
    return [CompletionItem(regex) for regex in begun]


def level_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the profile's ranges, numbers folded, as `gpuledger steps` lists what repeats."""
    return [CompletionItem(name) for name in _range_names(context) if name.startswith(incomplete)]


def _range_names(context: click.Context) -> list[str]:
    """Names of the ranges of the profile among the words so far, numbers folded; none where there is no such file."""
    profile = _named_profile(context)
    if profile is None:
        return []
    from gpuledger.catalog.kernel_names import without_ids, without_numbers
    from gpuledger.read import open_trace
    from gpuledger.trace.tables import Table

    try:
        ranges = open_trace(profile, only=(Table.RANGES,))[Table.RANGES]
    except GpuledgerError:
        return []
    kinds, _ = ranges.strings.kinds(ranges.codes("name"), lambda text: without_numbers(without_ids(text or "")))
    return sorted(name for name in kinds if name)


def _named_profile(context: click.Context) -> Path | None:
    """The first of the arguments that is a file which is read quickly.

    Words that click has not come to yet, as the option before them still lacks its value, are in `context.args`.
    """
    given: list[object] = []
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument):
            value = context.params.get(parameter.name or "")
            given += value if isinstance(value, tuple) else [value]
    paths = [Path(str(word)) for word in (*given, *context.args) if word]
    quick = (path for path in paths if path.is_file() and (path.stat().st_size <= _QUICKLY_READ or _is_sqlite(path)))
    return next(quick, None)


def _is_sqlite(path: Path) -> bool:
    from gpuledger.read.source import look_at

    return look_at(path).head.startswith(_SQLITE)


def profile_argument(verb: Callable[..., None], *, required: bool = True) -> Callable[..., None]:
    """PROFILE: whatever `open_trace` takes, or `-` for what arrives on standard input."""
    path = click.Path(path_type=Path)
    return click.argument("profile", type=path, required=required, callback=_or_stdin)(cache_option(verb))


def optional_profile_argument(verb: Callable[..., None]) -> Callable[..., None]:
    """The same for a verb that also answers without one."""
    return profile_argument(verb, required=False)


def _or_stdin(context: click.Context, _: click.Parameter, profile: Path) -> Path:
    """A file that holds standard input where `-` was named, until the command ends; nothing of it goes to the cache."""
    if str(profile) != "-" or context.resilient_parsing:
        return profile
    if sys.stdin.isatty():
        raise GpuledgerError(
            "standard input is a terminal, and holds no profile",
            hint=f"pipe one in, e.g. `ssh node cat run.sqlite | gpuledger {context.command.name} -`, or name a file",
        )
    from gpuledger.system.files import spool_to_file

    _without_cache(context, _, wanted=True)
    return context.with_resource(spool_to_file(sys.stdin.buffer))


def cache_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--no-cache, which the verb need not know of. It has it once, whichever of its other options brings it."""
    if any(parameter.name == "no_cache" for parameter in getattr(verb, "__click_params__", ())):
        return verb
    said = "Read the profile itself: neither use nor write the cache."
    return click.option("--no-cache", is_flag=True, expose_value=False, callback=_without_cache, help=said)(verb)


def _without_cache(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Through the environment, so that the processes that a verb starts know it too."""
    if not wanted:
        return
    before = os.environ.get(SETTING)
    os.environ[SETTING] = "0"

    def put_back() -> None:
        if before is None:
            del os.environ[SETTING]
        else:
            os.environ[SETTING] = before

    context.call_on_close(put_back)


def rank_step_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The same, of one rank where there are several."""
    said = "Only rank N of a profile or folder that holds several, as `gpuledger fleet` lists them; or `slowest`."
    option = click.option("--rank", metavar="N", callback=_rank, help=said)
    return option(step_options(verb, ("rank",)))


def _rank(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "slowest":
        return value
    if not value.isdecimal():
        raise click.BadParameter(f"{value!r}: expected a number, or slowest")
    return int(value[:9])


def step_options(verb: Callable[..., None], more: tuple[str, ...] = ()) -> Callable[..., None]:
    """What to look at and how to cut it into steps, handed to the verb as one `wanted`."""

    @functools.wraps(verb)
    def with_steps(*arguments: object, families: Path | None, **options: Any) -> None:
        from gpuledger.config import user_families
        from gpuledger.selection import Selection

        own = ("range_pattern", "kernel_pattern", "level", "device", "time_ns", "scope_pattern", *more)
        wanted = Selection(families=user_families(families), **{name: options.pop(name) for name in own})
        verb(*arguments, wanted=wanted, **options)

    file = click.Path(path_type=Path, dir_okay=False)
    options = (
        regex_option(
            "--step-range", "range_pattern", said="Steps are the NVTX ranges that match. Default: auto-detected."
        ),
        regex_option(
            "--step-kernel",
            "kernel_pattern",
            said="A step ends with each kernel whose name matches; argmax finds ArgMaxOps.",
        ),
        click.option(
            "--level",
            metavar="NAME",
            shell_complete=level_names,
            help="Use the level of this name as the step; `gpuledger steps` lists them.",
        ),
        click.option(
            "--time",
            "time_ns",
            metavar="A:B",
            callback=_stretch,
            help="Only from A to B, as printed: 0.5s:1.5s, '12.3 ms:', or integer ns. 0 is where GPU work starts.",
        ),
        regex_option(
            "--range",
            "scope_pattern",
            said="Only what was launched inside ranges that match; each instance is a step by default.",
        ),
        click.option("--device", type=int, metavar="N", help="Only GPU N."),
        click.option(
            "--families", type=file, help="TOML file with your own kernel families. Default: ./pyproject.toml."
        ),
        cache_option,
    )
    for option in reversed(options):
        with_steps = option(with_steps)
    return with_steps


def _stretch(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int | None, int | None] | None:
    if value is None:
        return None
    from gpuledger.units import parse_stretch

    try:
        return parse_stretch(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def one_by_one(
    parse: Callable[[str], Parsed],
) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], tuple[Parsed, ...]]:
    """The callback of an option that may be given several times: `parse` takes each value, or refuses it."""
    return lambda _, __, values: tuple(map(parse, values))


_OF_KERNELS: Final = ("--step-kernel", "--pattern", "--kernel")


def regex_option(
    name: str, variable: str | None = None, *, said: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`name` with a REGEX, handed to the verb as `variable`; None where it was not given.

    The shell completes names of ranges, but for options about kernels.
    """
    names = (name,) if variable is None else (name, variable)
    complete = None if name in _OF_KERNELS else range_patterns
    return click.option(
        *names,
        metavar="REGEX",
        callback=lambda _, __, pattern: pattern and checked_regex(pattern),
        help=said,
        shell_complete=complete,
    )


def checked_regex(pattern: str) -> str:
    """The same pattern, if it is one."""
    from gpuledger.regex import checked_regex as checked

    try:
        return checked(pattern)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_NAMES = {name.replace("_", "-"): name for name in Limits.__struct_fields__}


_VALUE = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:e\d{1,2})?)\s*(?P<prefix>[kMGT]?)(?P<unit>B|s|)")


_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def limit_option(verb: Callable[..., None]) -> Callable[..., None]:
    """As `limits_option`, and the verb has `read-seconds` for each profile that it is given, whatever it does."""

    @functools.wraps(verb)
    def in_time(*arguments: object, limits: Limits, **options: Any) -> None:
        import time

        from gpuledger.trace.deadline import until

        context = click.get_current_context()
        given = [options.get(each.name or "") for each in context.command.params if isinstance(each, click.Argument)]
        count = sum(len(value) if isinstance(value, tuple | list) else value is not None for value in given)
        seconds = limits.read_seconds * max(count, 1)

        def too_slow() -> GpuledgerError:
            return GpuledgerError(
                f"{context.command.name}: took more than {seconds:g} s and was stopped",
                hint=f"--limit=read-seconds={4 * limits.read_seconds:g} waits longer",
            )

        with until(time.monotonic() + seconds, too_slow):
            verb(*arguments, limits=limits, **options)

    return limits_option(in_time)


def limits_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--limit, handed to the verb as `limits`; and --exporter, which is a setting of the process while it runs."""
    exporter = click.option(
        "--exporter",
        type=click.Choice(("native", "nsys")),
        expose_value=False,
        callback=_set_exporter,
        help="Who reads a .nsys-rep: gpuledger (native, the default), or the nsys on this machine.",
    )
    return exporter(_limits_only(verb))


def _set_exporter(context: click.Context, _: click.Parameter, given: str | None) -> None:
    """Readers, in whatever process, look at the environment; it is put back when the command is done."""
    if given is None:
        return
    before = os.environ.get(EXPORTER)
    os.environ[EXPORTER] = given

    def put_back() -> None:
        os.environ.pop(EXPORTER)
        if before is not None:
            os.environ[EXPORTER] = before

    context.call_on_close(put_back)


def _limits_only(verb: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_parse_limits,
        shell_complete=words(lambda: _NAMES, "="),
        help="Change a limit on what reading may cost, e.g. rows-per-table=1e9; an unknown NAME lists them all.",
    )(verb)


def _parse_limits(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Limits:
    chosen = DEFAULT_LIMITS
    for each in given:
        name, _equals, text = each.partition("=")
        field = _NAMES.get(name.strip().replace("_", "-"))
        if field is None:
            raise click.BadParameter(f"no limit {name!r}; there are {', '.join(_NAMES)}.")
        value: Any = _value(name, field, text.strip())
        chosen = replace(chosen, **{field: value})
    return chosen


def _value(name: str, field: str, text: str) -> int | float:
    match = _VALUE.fullmatch(text)
    unit = {"bytes": "B", "seconds": "s"}.get(field.rpartition("_")[2], "")
    if match is None or match["unit"] not in ("", unit):
        example = {"B": "500MB", "s": "60"}.get(unit, "1000")
        raise click.BadParameter(f"{text!r} is no value of {name}; write e.g. {name}={example}.")
    value = float(match["number"]) * _FACTORS[match["prefix"]]
    return value if unit == "s" else round(value)


def undecided_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--undecided, handed to the verb under its own name."""
    return click.option(
        "--undecided",
        type=click.Choice(("fail", "pass")),
        default="pass",
        show_default=True,
        help="What a gate makes of UNDECIDED: the interval holds the limit.",
    )(verb)


def names_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--names-from, handed to the verb as `names_from`."""
    return click.option(
        "--names-from",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Name the kernels inside CUDA graphs after another trace of the same program: one in which the graph is "
        "captured, or runs without a graph; or after torch's JSON of kernel annotations.",
    )(verb)


class InOrder(click.Command):
    """A command that remembers which of its options came when."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args[: args.index("--")] if "--" in args else args
        given = [word.partition("=")[0] for word in words if word.startswith("--")]
        ctx.meta[__name__] = [option.removeprefix("--").replace("-", "_") for option in given]
        return super().parse_args(ctx, args)


def order_of_options(context: click.Context) -> list[str]:
    """Which of the options that may be given several times came when, where that matters to the command."""
    several = {parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)}
    return [option for option in context.meta.get(__name__, ()) if option in several]


def in_order(values: Mapping[str, Iterable[Any]]) -> list[tuple[str, Any]]:
    """The values of several options, each with its option's name, as they were given."""
    left = {option: iter(given) for option, given in values.items()}
    return [(option, next(left[option])) for option in order_of_options(click.get_current_context()) if option in left]
