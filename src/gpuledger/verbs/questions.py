"""The verbs that ask one question of a profile, for each of its GPUs; `phases` and `critical` of its steady steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack

from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.diff.from_tables import side_of_tables
from gpuledger.analyse.path_summary import PathSummary, path_summary
from gpuledger.analyse.phase_costs import KnownJob, PhaseCosts, phase_costs, phase_waits, talking_ranks
from gpuledger.analyse.range_tree import RangeTree, range_shares
from gpuledger.answers.one_gpu import (
    OperatorsAnswer,
    operators_answer,
    ranges_answer,
)
from gpuledger.findings.profiled_run import columns_for
from gpuledger.jobs.run import fleet, job_profiles
from gpuledger.ledger.device import Device, analyse_devices
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.present.views.critical import critical_document
from gpuledger.present.views.operators import operators_tables
from gpuledger.present.views.phases import Waits, phases_document
from gpuledger.present.views.program_time import printed_ranges_sheet, ranges_tables
from gpuledger.present.views.shown import ShownAnswer
from gpuledger.present.views.tables import TableAnswer, answers_document, stretch_sheet, tables_document
from gpuledger.read import wanted_columns
from gpuledger.read.stats_text.tables import is_printed_tables, open_summaries
from gpuledger.replay.scenario import ENOUGH_FOLLOWED, scenarios
from gpuledger.selection import Selection
from gpuledger.stages import BOOKS, NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import Table
from gpuledger.verbs.profiles import WHERE_SAMPLED, Profile, ProfileReading, profile_name

Result = TypeVar("Result")

_TO_NAME_GRAPHS: Final = {**columns_for(), **wanted_columns((Table.CALLS,))}
"""The shapes of launches, and calls with the kernels that they name."""


class CommonOptions(TypedDict, total=False):
    """How a profile is read and cut into steps."""

    wanted: Selection
    names_from: Path | None
    limits: Limits
    progress: Listener


class Question(Struct, Generic[Result], frozen=True):
    """A question about one GPU: how it is answered, and how the answer is shown."""

    name: str
    answer: Callable[..., Result]  # from a trace and a device of it, and the options of the question
    tables: Callable[[Result], TableAnswer]
    reads_samples: bool = False
    names_graphs: bool = False  # by the shapes and names of launches, which the others do without

    def ask(
        self,
        profile: Profile,
        *,
        wanted: Selection | None = None,
        names_from: Path | None = None,
        limits: Limits = DEFAULT_LIMITS,
        progress: Listener = NOBODY,
        **own: Any,
    ) -> ShownAnswer[Result]:
        name = profile_name(profile)
        trace = ProfileReading(limits, progress, names_from, wanted.rank if wanted else None).trace(
            profile,
            _TO_NAME_GRAPHS if self.names_graphs or names_from is not None else columns_for(launches=False),
            WHERE_SAMPLED if self.reads_samples else {},
        )
        progress.stage(BOOKS)
        devices = analyse_devices(trace, name, wanted or Selection())
        results = tuple(self.answer(trace, device, **own) for device in devices)
        return ShownAnswer(
            results,
            lambda: answers_document(
                self.name, name, list(map(self._told, devices, results)), trace.health, devices[0].zero_ns
            ),
        )

    def of_gpu(self, trace: Trace, device: Device) -> TableAnswer:
        return self._told(device, self.answer(trace, device))

    def _told(self, device: Device, result: Result) -> TableAnswer:
        told = self.tables(result)
        shown = (stretch_sheet(sheet, has_steps=device.steps is not None) for sheet in told.shown or told.sheets)
        return replace(told, shown=tuple(shown))


_RANGES: Final = Question("ranges", ranges_answer, ranges_tables, reads_samples=True)
_OPS: Final = Question("ops", operators_answer, operators_tables, names_graphs=True)

QUESTIONS: Final[Mapping[str, Question[Any]]] = {question.name: question for question in (_RANGES, _OPS)}


def ranges(profile: Profile, **asked: Unpack[CommonOptions]) -> ShownAnswer[RangeTree] | ShownAnswer[None]:
    """Host and GPU time by NVTX range; also of tables that `nsys stats` printed."""
    limits = asked.get("limits", DEFAULT_LIMITS)
    if isinstance(profile, Trace) or not is_printed_tables(profile, limits=limits):
        return _RANGES.ask(profile, **asked)
    name, printed = profile_name(profile), open_summaries(profile, limits=limits)
    side = side_of_tables(printed, name, asked.get("wanted", Selection()).families)
    sheets = [printed_ranges_sheet(side, range_shares(side))]
    return ShownAnswer((), lambda: tables_document("ranges", name, sheets, printed.health, 0))


def ops(profile: Profile, **asked: Unpack[CommonOptions]) -> ShownAnswer[OperatorsAnswer]:
    """What each operator costs: host and GPU time, shapes, TFLOP/s, MFU, work in graphs."""
    return _OPS.ask(profile, **asked)


def phases(
    profile: Profile,
    *,
    named: Sequence[tuple[str, str]] = (),
    ranks: Sequence[str] = (),
    wanted: Selection | None = None,
    names_from: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> ShownAnswer[tuple[PhaseCosts, Waits]]:
    """What each phase of a layer costs, and the idle time inside and between phases.

    `named` are phases by name and regular expression, before those that are known; `ranks` are all profiles of the job.
    """
    name = profile_name(profile)
    columns = columns_for(launches=False) if names_from is None else _TO_NAME_GRAPHS
    trace = ProfileReading(limits, progress, names_from, wanted.rank if wanted else None).trace(profile, columns)
    progress.stage(BOOKS)
    devices = analyse_devices(trace, name, wanted or Selection())
    progress.clear()
    job = None
    if not isinstance(profile, Trace) and (ranks or talking_ranks(devices[0].work) > 1):
        job = _job(Path(profile), ranks, wanted or Selection(), limits)
    progress.stage("telling the phases apart")
    results = tuple((phase_costs(trace, device, named), phase_waits(trace, device, job, named)) for device in devices)
    return ShownAnswer(results, lambda: phases_document(name, results, trace.health, devices[0].zero_ns))


def _job(profile: Path, ranks: Sequence[str], wanted: Selection, limits: Limits) -> KnownJob:
    """The job that the profile is a part of, or all of, and which of its ranks are the profile's."""
    given = (*ranks, str(profile))
    [name] = [part.name for part in job_profiles(given, limits)[0] if part.address == str(profile.absolute())]
    job = fleet(given, wanted, count=None if ranks else 0, limits=limits).job
    return KnownJob(job, tuple(number for number, rank in enumerate(job.ranks) if rank.profile == name))


def critical(
    profile: Profile, *, wanted: Selection | None = None, limits: Limits = DEFAULT_LIMITS, progress: Listener = NOBODY
) -> ShownAnswer[PathSummary]:
    """The critical path: the host and GPU work that sets the step time."""
    name = profile_name(profile)
    trace = ProfileReading(limits, progress, rank=wanted.rank if wanted else None).trace(
        profile, columns_for(launches=False)
    )
    progress.stage(BOOKS)
    devices = analyse_devices(trace, name, wanted or Selection())
    progress.stage("following the critical path")
    summaries = tuple(path_summary(trace, model) for model in scenarios(trace, devices, enough=ENOUGH_FOLLOWED))
    return ShownAnswer(summaries, lambda: critical_document(name, summaries, trace.health, devices[0].zero_ns))
