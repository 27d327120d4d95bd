"""The command of a verb, made from its function: parameters become arguments and options, the docstring the help.

What the types of parameters stand for (see `verbs.definition`) is made here: a selection of several options, limits and
their deadline, standard input as a profile, and the output that an answer is shown on.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from gpuledger.cli.completion import completion
from gpuledger.cli.inputs import RareOption, VerbCommand, limit_parameters, order_of_options, standard_input
from gpuledger.cli.main import load
from gpuledger.cli.output import WORDS, Output, answer_into, output_parameters
from gpuledger.errors import GpuledgerError
from gpuledger.limits import Limits
from gpuledger.selection import Selection
from gpuledger.stages import Listener
from gpuledger.trace.deadline import until
from gpuledger.verbs.definition import (
    Option,
    OptionsInOrder,
    PerProfile,
    Profile,
    VerbArgument,
    VerbParameter,
    parameters_of,
    selection_of,
)


def command_of(
    verb: Callable[..., Any],
    name: str = "",
    show: Callable[..., None] | None = None,
    *,
    has_page: bool = True,
    is_english: bool = False,
    kind: type[VerbCommand] = VerbCommand,
    **settings: Any,
) -> click.Command:
    """The command of a function. What it returns is shown; one that returns nothing shows for itself.

    `show` has options of its own, which may replace some of the verb's, and is called with the verb, the output and all
    that was asked.
    """
    declared = {parameter.name: parameter for of in (verb, show) if of is not None for parameter in parameters_of(of)}
    by_kind = {parameter.kind: parameter for parameter in declared.values()}
    is_shown = verb.__annotations__.get("return") != "None"
    has_output = is_shown or Output in by_kind
    shared = [by_kind[kind] for kind in (Selection, Limits) if kind in by_kind]
    own = [parameter for parameter in declared.values() if parameter not in shared]
    parameters = [made for parameter in (*own, *shared) for made in _parameters(parameter)]
    if has_output:
        parameters += output_parameters(has_page=has_page, is_english=is_english)

    def answered(**asked: Any) -> None:
        context = click.get_current_context()
        _gather_options(declared.values(), asked)
        with _deadline(context, asked.get("limits"), by_kind):
            if has_output:
                answer_into(context, asked, act, has_page=has_page)
            else:
                verb(**asked)

    def act(output: Output, **asked: Any) -> None:
        if Limits in by_kind:  # it reads profiles
            load("numpy")
        if Listener in by_kind:
            asked[by_kind[Listener].name] = output.progress
        if show is not None:
            show(verb, output, **asked)
        elif is_shown:
            output.show(verb(**asked).document())
        else:
            verb(output=output, **asked)

    options = [parameter for parameter in parameters if isinstance(parameter, click.Option)]
    arguments = [parameter for parameter in parameters if isinstance(parameter, click.Argument)]
    name = name or verb.__name__.replace("_", "-")
    return kind(name, params=[*arguments, *options], help=inspect.getdoc(verb), callback=answered, **settings)


def _gather_options(declared: Iterable[VerbParameter], asked: dict[str, Any]) -> None:
    """Make one value of the options that together are one parameter."""
    for parameter in declared:
        if isinstance(parameter.said, OptionsInOrder):
            asked[parameter.name] = _in_order({option: asked.pop(option) for option in parameter.said.options})
        elif parameter.kind is Selection:
            chosen = {option.name: asked.pop(option.name) for option in parameter.selection_options}
            asked[parameter.name] = selection_of(chosen)


def _in_order(values: Mapping[str, tuple[Any, ...]]) -> list[tuple[str, Any]]:
    """The values of several options, each with its option's name, as they were given."""
    left = {option: iter(given) for option, given in values.items()}
    return [(option, next(left[option])) for option in order_of_options(click.get_current_context()) if option in left]


def _deadline(
    context: click.Context, limits: Limits | None, by_kind: Mapping[Any, VerbParameter]
) -> AbstractContextManager[None]:
    """The verb has `read-seconds` for each profile that it is given, whatever it does."""
    if limits is None or isinstance(by_kind[Limits].said, PerProfile):
        return nullcontext()
    words = [word for word in context.command.params if isinstance(word, click.Argument)]
    arguments = [context.params.get(word.name or "") for word in words]
    count = sum(len(value) if isinstance(value, tuple) else value is not None for value in arguments)
    seconds = limits.read_seconds * max(count, 1)

    def too_slow() -> GpuledgerError:
        return GpuledgerError(
            f"{context.command.name}: took more than {seconds:g} s and was stopped",
            hint=f"--limit=read-seconds={4 * limits.read_seconds:g} waits longer",
        )

    return until(time.monotonic() + seconds, too_slow)


def _parameters(parameter: VerbParameter) -> list[click.Parameter]:
    """What the command line has of one parameter: nothing, where it is for Python alone."""
    if parameter.kind is Profile and parameter.said is None:
        path = click.Path(path_type=Path)
        return [click.Argument(["profile"], type=path, required=parameter.is_required, callback=standard_input)]
    if isinstance(parameter.said, VerbArgument):
        return [_argument(parameter)]
    if isinstance(parameter.said, OptionsInOrder):
        return [_option(VerbParameter(name, tuple[str, ...], said)) for name, said in parameter.said.options.items()]
    if parameter.kind is Selection:
        return [_option(option) for option in parameter.selection_options]
    if parameter.kind is Limits:
        return limit_parameters()
    return [_option(parameter)] if isinstance(parameter.said, Option) else []


def _argument(parameter: VerbParameter) -> click.Argument:
    said, several = parameter.said, get_origin(parameter.kind) is tuple
    given: dict[str, Any] = {"type": _click_type(get_args(parameter.kind)[0] if several else parameter.kind, said)}
    if said.parse is not None:
        given = {"type": str, "callback": _parsed(said.parse, several=several)}
    return click.Argument(
        [parameter.name],
        metavar=said.metavar,
        required=parameter.is_required,
        nargs=-1 if several else 1,
        shell_complete=completion(said.completes),
        **given,
        **({} if parameter.is_required or several else {"default": parameter.default}),
    )


def _option(parameter: VerbParameter) -> click.Option:
    said, several = parameter.said, get_origin(parameter.kind) is tuple
    made: Any = RareOption if said.is_rare else click.Option
    names = [*parameter.flags, parameter.name]
    if said.prints is not None:
        printed = _printing(said.prints)
        return made(names, is_flag=True, is_eager=True, expose_value=False, callback=printed, help=said.help)  # type: ignore[no-any-return]
    if parameter.kind is bool:
        default = parameter.default if "/" in said.flag else bool(parameter.default)
        return made(names, is_flag=True, default=default, help=said.help)  # type: ignore[no-any-return]
    given: dict[str, Any] = {"type": _click_type(get_args(parameter.kind)[0] if several else parameter.kind, said)}
    if said.parse is not None:
        given = {"type": str, "callback": _parsed(said.parse, several=several)}
    if said.bare is not None:
        given |= {"is_flag": False, "flag_value": said.bare}
    return made(  # type: ignore[no-any-return]
        names,
        help=said.help,
        metavar=said.metavar,
        default=None if several or parameter.is_required else parameter.default,
        required=parameter.is_required,
        envvar=said.environment or None,
        show_envvar=bool(said.environment),
        multiple=several,
        shell_complete=completion(said.completes),
        **given,
    )


def _click_type(kind: Any, said: Option | VerbArgument) -> Any:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Path:
        return click.Path(path_type=Path, dir_okay=isinstance(said, VerbArgument) or said.completes == "files")
    if kind is int and isinstance(said, Option) and (said.least, said.most) != (None, None):
        return click.IntRange(said.least, said.most)
    if kind is float and isinstance(said, Option) and (said.least, said.above, said.most) != (None, None, None):
        least = said.least if said.above is None else said.above
        return click.FloatRange(least, said.most, min_open=said.above is not None)
    return kind if kind in (int, float) else str


def _parsed(parse: Callable[[str], Any], *, several: bool) -> Callable[..., Any]:
    """A value, or each of several, from the words of the command line."""

    def one(word: str) -> Any:
        try:
            return parse(word)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    def all_of(context: click.Context, parameter: click.Parameter, given: Any) -> Any:
        context.meta[f"{WORDS}.{parameter.name}"] = given
        if several:
            return tuple(map(one, given or ()))
        return one(given) if isinstance(given, str) else given

    return all_of


def _printing(text: Callable[[], str]) -> Callable[..., None]:
    def print_it(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            click.echo(text())
            context.exit()

    return print_it
