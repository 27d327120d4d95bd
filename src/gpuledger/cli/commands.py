"""The command of a verb, made from its function: parameters become arguments and options, the docstring the help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from gpuledger.cli.inputs import (
    files,
    level_names,
    limit_option,
    names_option,
    profile_argument,
    range_patterns,
    rank_step_options,
)
from gpuledger.cli.output import Output, page_options
from gpuledger.verbs.definition import Option, Profile, VerbArgument, VerbParameter, parameters_of

_COMPLETES = {"": None, "files": files, "ranges": range_patterns, "levels": level_names}


def command_of(verb: Callable[..., Any], name: str = "", show: Callable[..., None] | None = None) -> click.Command:
    """The command line of a verb that answers.

    `show` has options of its own about the answer, and is called with the verb, the output and all that was asked.
    """
    parameters = list(parameters_of(verb))
    names = {parameter.name for parameter in parameters}

    def run(output: Output, **asked: Any) -> None:
        if "progress" in names:
            asked["progress"] = output.progress
        if show is None:
            output.show(verb(**asked).document())
        else:
            show(verb, output, **asked)

    run.__click_params__ = getattr(show, "__click_params__", [])  # type: ignore[attr-defined]
    decorated: Any = page_options(run)
    if "limits" in names:
        decorated = limit_option(decorated)
    if "names_from" in names:
        decorated = names_option(decorated)
    if "wanted" in names:
        decorated = rank_step_options(decorated)
    for parameter in reversed(parameters):
        if parameter.kind is Profile and parameter.said is None:
            decorated = profile_argument(decorated)
        elif parameter.said is not None:
            decorated = _declared(parameter)(decorated)
    return click.command(name or verb.__name__.replace("_", "-"), help=inspect.getdoc(verb))(decorated)


def _declared(parameter: VerbParameter) -> Callable[[Any], Any]:
    """One argument or option."""
    said, kind, several = parameter.said, parameter.kind, get_origin(parameter.kind) is tuple
    if several:
        kind = get_args(kind)[0]
    given: dict[str, Any] = {"type": _click_type(kind, said)}
    if isinstance(said, VerbArgument):
        given["nargs"] = -1 if several else 1
        if not said.required and not several:
            given["default"] = parameter.default
        given["shell_complete"] = _COMPLETES[said.completes]
        return click.argument(parameter.name, metavar=said.metavar, required=said.required, **given)
    assert said is not None  # noqa: S101 - who calls has looked
    if kind is bool:
        return click.option(*parameter.flag.split(), parameter.name, is_flag=True, help=said.help)
    is_required = parameter.default is inspect.Parameter.empty
    if said.parse is not None:
        given = {"callback": _parsed(said.parse, several=several)}
    return click.option(
        *parameter.flag.split(),
        parameter.name,
        help=said.help,
        metavar=said.metavar,
        default=None if several or is_required else parameter.default,
        required=is_required,
        envvar=said.environment or None,
        show_envvar=bool(said.environment),
        multiple=several,
        shell_complete=_COMPLETES[said.completes],
        **given,
    )


def _click_type(kind: Any, said: Option | VerbArgument | None) -> Any:
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Path:
        return click.Path(path_type=Path)
    if isinstance(said, Option) and (said.least is not None or said.most is not None):
        bounds: Any = click.IntRange if kind is int else click.FloatRange
        return bounds(said.least, said.most)
    return kind if kind in (int, float) else str


def _parsed(parse: Callable[[str], Any], *, several: bool) -> Callable[..., Any]:
    """A value, or each of several, from the words of the command line."""

    def one(word: str) -> Any:
        try:
            return parse(word)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    def all_of(_: click.Context, __: click.Parameter, given: Any) -> Any:
        if several:
            return tuple(map(one, given or ()))
        return None if given is None else one(given)

    return all_of
