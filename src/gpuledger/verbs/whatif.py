"""What the step waits for, and what changes would buy, alone and together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from gpuledger.errors import NothingRecorded, WrongCall
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.units import FACTORS, LONGEST_LAUNCH_NS, parse_instant, time_text
from gpuledger.verbs.definition import Option, OptionsInOrder, Profile, regex_option

if TYPE_CHECKING:
    from gpuledger.changes.changes import ProgramChange
    from gpuledger.ledger.books import LineKind
    from gpuledger.present.views.whatif import WhatIfAnswer

Change = tuple[str, Any]
"""What is done, and to what: ("fix", "HOST-SYNC"), ("speedup", ("gemm", 2)), ("remove", "sync"), ("hide",
LineKind.COMM), ("graph", "decode"), ("host", 1.5), ("launch_cost", 2_000) with a call's new length in ns,
("light", "gemm") and ("reachable", "gemm") with the kernels' pace."""


def _factor(text: str, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not FACTORS[0] <= number <= FACTORS[1]:
        raise ValueError(f"{expected}, from {FACTORS[0]:g} to {FACTORS[1]:,}")
    return number


def _speedup(text: str) -> tuple[str, float]:
    name, _, number = text.rpartition("=")
    return name, _factor(number if name else "", f"{text!r}: expected NAME=FACTOR, e.g. gemm=2")


def _host(text: str) -> float:
    return _factor(text, f"{text!r}: expected a factor, e.g. 2")


def _launch_cost(text: str) -> int:
    cost = parse_instant(text)
    if cost < 0:
        raise ValueError("a call cannot take less than no time")
    if cost > LONGEST_LAUNCH_NS:
        raise ValueError(f"{text!r}: no launch takes longer than {time_text(LONGEST_LAUNCH_NS)}")
    return cost


def _hidden_kind(text: str) -> LineKind:
    from gpuledger.ledger.books import EXPOSED

    kinds = {name: kind for kind, words in EXPOSED.items() for name in (str(kind), str(words))}
    if text not in kinds:
        raise ValueError(f"{text!r} is not one of {', '.join(map(repr, EXPOSED))}.")
    return kinds[text]


_CHANGES: Final = OptionsInOrder(
    {
        "fix": Option("Apply a finding's fix, e.g. HOST-SYNC.", metavar="CODE", completes="codes"),
        "speedup": Option(
            "Speed up a line, a range (with its host code and calls) or a kernel, e.g. gemm=2.",
            metavar="NAME=FACTOR",
            parse=_speedup,
        ),
        "light": Option(
            "Work at what the GPU's roofs allow, e.g. gemm: an upper bound. Needs shapes or samples.", metavar="NAME"
        ),
        "reachable": Option("The same at rates that programs reach, e.g. aten::mm.", metavar="NAME"),
        "remove": Option("Remove a cause of idle time, e.g. sync; or work, with its launches.", metavar="NAME"),
        "hide": Option("Overlap exposed work with compute.", metavar="comm|copy", parse=_hidden_kind),
        "graph": regex_option("Launch matching ranges, or each `step`, as a CUDA graph: an upper bound."),
        "host": Option("A faster host, e.g. 1.5.", metavar="FACTOR", parse=_host),
        "launch_cost": Option("Cost of each launch call, e.g. 2us.", metavar="TIME", parse=_launch_cost),
    }
)


def whatif(
    profile: Profile,
    changes: Annotated[Sequence[Change], _CHANGES] = (),
    *,
    wanted: Selection | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> WhatIfAnswer:
    """Show the critical path of PROFILE, and predict what changes would save, alone and together.

    Without changes: the critical path of the steady steps. What is not on it has slack: making it faster saves nothing.

    With changes the profile is replayed, with each change alone, then one after the other in the order given.

    Names are those that reports print; `line:NAME`, `range:NAME`, `kernel:NAME` and `operator:NAME` say which is meant.

    \b
    Examples:
      gpuledger whatif run.sqlite
      gpuledger whatif run.sqlite --fix=HOST-SYNC --speedup=gemm=2 --host=1.5
      gpuledger whatif run.sqlite --graph=decode --hide=comm
    """
    from gpuledger.changes.answer import answer
    from gpuledger.changes.changes import Changes
    from gpuledger.findings.profiled_run import diagnose
    from gpuledger.present.views.whatif import changes_answer, path_answer
    from gpuledger.replay.path_summary import path_summary
    from gpuledger.replay.scenario import ENOUGH_FOLLOWED, scenarios
    from gpuledger.trace.model import Trace
    from gpuledger.verbs.profiles import WHERE_SAMPLED, profile_name, read_profile

    name = profile_name(profile)
    if not isinstance(profile, Trace) and (printed := _of_tables(profile, name, changes, limits)) is not None:
        return printed
    asks_light = any(what in ("light", "reachable") for what, _ in changes)
    where_sampled = WHERE_SAMPLED if asks_light else None
    trace = read_profile(profile, where_sampled=where_sampled, wanted=wanted, limits=limits, progress=progress)
    run = diagnose(trace, name, wanted or Selection(), stage=progress.stage)
    if not changes:
        progress.stage("following the critical path")
        paths = [path_summary(trace, model) for model in scenarios(trace, run.devices, enough=ENOUGH_FOLLOWED)]
        return path_answer(name, paths, run.main_device, run.findings, trace.health, run.zero_ns)
    progress.stage("replaying the changes")
    known = Changes(trace, run.main_device, run.findings, sampled=True, use=run.use.get(run.main_device.gpu))
    made: list[ProgramChange] = []
    refused: list[NothingRecorded] = []
    for what, value in changes:
        try:
            made.append(known.speed_up(*value) if what == "speedup" else getattr(known, what)(value))
        except NothingRecorded as refusal:
            refused.append(refusal)
    replayed = answer(known.scenario, made, known.every_fix()) if made else None
    return changes_answer(name, replayed, refused, trace.health, run.zero_ns)


def _of_tables(profile: Any, name: str, changes: Sequence[Change], limits: Limits) -> WhatIfAnswer | None:
    """What the speed-up of ranges saves in tables that `nsys stats` printed; None where it is something else."""
    from gpuledger.analyse.diff.from_tables import side_of_tables
    from gpuledger.changes.answer import speed_up_of_tables
    from gpuledger.present.views.whatif import tables_answer
    from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries

    if not is_printed_tables(profile, limits=limits):
        return None
    if any(what != "speedup" for what, _ in changes):
        raise WrongCall("tables of `nsys stats` hold sums: only --speedup of a range can be answered")
    printed = open_summaries(profile, limits=limits)
    side = side_of_tables(printed, name)
    return tables_answer(name, [speed_up_of_tables(side, *named) for _, named in changes], printed.health)
