"""`--limit NAME=VALUE`: raise or lower one of the caps of `gpuledger.limits` for this call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import click

from gpuledger.cli.completion import words
from gpuledger.limits import DEFAULT_LIMITS, Limits

_NAMES = {field.name.replace("_", "-"): field.name for field in fields(Limits)}
_VALUE = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:e\d{1,2})?)\s*(?P<prefix>[kMGT]?)(?P<unit>B|s|)")
_FACTORS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def limit_option(verb: Callable[..., None]) -> Callable[..., None]:
    """--limit, handed to the verb as `limits`."""
    return click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_chosen,
        shell_complete=words(lambda: _NAMES, "="),
        help="Change a limit on what reading may cost, e.g. rows-per-table=1e9; an unknown NAME lists them all.",
    )(verb)


def _chosen(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> Limits:
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
