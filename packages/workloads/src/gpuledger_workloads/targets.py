"""What a run should reach: `NAME>=N` and `NAME<=N` in, a table with PASS or FAIL for each and one verdict out."""

from __future__ import annotations

import argparse
import difflib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuledger_workloads.program import read_object, refuse, wrong

_FORM = re.compile(r"\s*(\w+)\s*(>=|<=)\s*(\S+)\s*", re.ASCII)
_HINT = "NAME>=N asks for at least N, NAME<=N for at most N"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure of a result, by name, and what it should be at least (>=) or at most (<=), in the name's own unit."""

    name: str
    sign: str
    wanted: float

    def is_met(self, value: float) -> bool:
        """Whether that is enough. NaN never is."""
        return value >= self.wanted if self.sign == ">=" else value <= self.wanted


def parsed(text: str) -> Target | None:
    """`decode_tokens_per_s>=22000` as a target; None where it is none."""
    form = _FORM.fullmatch(text)
    if form is None:
        return None
    name, sign, number = form.groups()
    try:
        wanted = float(number)
    except ValueError:
        return None
    return Target(name, sign, wanted) if math.isfinite(wanted) else None


def target_options(parser: argparse.ArgumentParser) -> None:
    """--target, as often as there are, and --targets for a file of them."""
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="'NAME>=N'",
        help="a figure and what it should be at least, or with <= at most; repeat for more (quote it for a shell)",
    )
    parser.add_argument("--targets", metavar="FILE", help='a JSON file of such: {"ttft_p99_ms": "<=2000", ...}')


def targets_of(options: argparse.Namespace, names: Collection[str]) -> tuple[Target, ...]:
    """The targets that were asked for; each must be one of the figures that there will be."""
    targets = []
    for text in options.target:
        target = parsed(text)
        if target is None:
            wrong(f"--target={text}: not of the form NAME>=N or NAME<=N", hint=_HINT)
        targets.append(target)
    if options.targets is not None:
        for name, value in read_object(options.targets, "--targets").items():
            target = parsed(f"{name}{value}") if isinstance(value, str) else None
            if target is None:
                refuse(f"--targets: {options.targets}: {name} is not followed by a string with >= or <= and a number")
            targets.append(target)
    for target in targets:
        if target.name not in names:
            near = difflib.get_close_matches(target.name, names, n=1) or sorted(names)
            wrong(f"no figure is called {target.name} here", hint=f"there is {', '.join(near)}")
    return tuple(targets)


def judged(targets: Sequence[Target], result: Mapping[str, Any]) -> dict[str, Any]:
    """For a result: the table of targets and the verdict; nothing where there are none."""
    rows = [
        {
            "name": target.name,
            "wanted": f"{target.sign} {target.wanted:.15g}",
            "found": result[target.name],
            "verdict": "PASS" if target.is_met(result[target.name]) else "FAIL",
        }
        for target in targets
    ]
    if not rows:
        return {}
    return {"targets": rows, "verdict": "FAIL" if any(row["verdict"] == "FAIL" for row in rows) else "PASS"}
