"""What every command line about profiles has: standard input as a profile, the cache, and what reading may cost.

A value that is none is refused before anything is read.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import click
from msgspec.structs import replace

from gpuledger.cli.completion import completion
from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS, EXPORTER, Limits
from gpuledger.system.kept_files import SETTING


class RareOption(click.Option):
    """An option that the help of a verb names and does not explain: `gpuledger help options` does."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        return super().get_help_record(ctx) if ctx.command.name == "options" else None


class VerbCommand(click.Command):
    """A command that remembers which of its options came when, and explains no rare options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args[: args.index("--")] if "--" in args else args
        given = [word.partition("=")[0] for word in words if word.startswith("--")]
        ctx.meta[__name__] = [option.removeprefix("--").replace("-", "_") for option in given]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        rare = [max(option.opts, key=len) for option in self.params if isinstance(option, RareOption)]
        if rare and self.name != "options":
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"More, see `gpuledger help options`: {', '.join(rare)}.")


def order_of_options(context: click.Context) -> list[str]:
    """Which of the options that may be given several times came when, where that matters to the command."""
    several = {parameter.name for parameter in context.command.params if getattr(parameter, "multiple", False)}
    return [option for option in context.meta.get(__name__, ()) if option in several]


def standard_input(context: click.Context, _: click.Parameter, profile: Path) -> Path:
    """A file that holds standard input where `-` was named, until the command ends; nothing of it goes to the cache."""
    if str(profile) != "-" or context.resilient_parsing:
        return profile
    if sys.stdin.isatty():
        raise GpuledgerError(
            "standard input is a terminal, and holds no profile",
            hint=f"pipe one in, e.g. `ssh node cat run.sqlite | gpuledger {context.command.name} -`, or name a file",
        )
    from gpuledger.system.files import spool_to_file

    _set_while_running(context, SETTING, "0")
    return context.with_resource(spool_to_file(sys.stdin.buffer))


def limit_parameters() -> list[click.Parameter]:
    """--limit, handed to the verb as `limits`; --exporter and --no-cache, settings of the process while it runs."""
    return [
        RareOption(
            ["--no-cache"],
            is_flag=True,
            expose_value=False,
            callback=lambda context, _, wanted: _set_while_running(context, SETTING, "0" if wanted else None),
            help="Read the profile itself: neither use nor write the cache.",
        ),
        RareOption(
            ["--exporter"],
            type=click.Choice(("native", "nsys")),
            expose_value=False,
            callback=lambda context, _, given: _set_while_running(context, EXPORTER, given),
            help="Who reads a .nsys-rep: gpuledger (native, the default), or the nsys on this machine.",
        ),
        RareOption(
            ["--limit", "limits"],
            multiple=True,
            metavar="NAME=VALUE",
            callback=_parse_limits,
            shell_complete=completion(lambda: _NAMES, "="),
            help="Change a limit on what reading may cost, e.g. rows-per-table=1e9; an unknown NAME lists them all.",
        ),
    ]


def _set_while_running(context: click.Context, setting: str, value: str | None) -> None:
    """Set it in the environment, where readers in whatever process look, until the command is done."""
    if value is None:
        return
    before = os.environ.get(setting)
    os.environ[setting] = value

    def put_back() -> None:
        if before is None:
            os.environ.pop(setting)
        else:
            os.environ[setting] = before

    context.call_on_close(put_back)


_NAMES: Final = {name.replace("_", "-"): name for name in Limits.__struct_fields__}
_VALUE: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:e\d{1,2})?)\s*(?P<prefix>[kMGT]?)(?P<unit>B|s|)")
_FACTORS: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


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
