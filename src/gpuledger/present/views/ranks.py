"""A job of many ranks as tables: the ranks, their collectives, the worst of those, and steps across ranks."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.ranks.collectives import CollectivesOfGroup, collectives_by_group, worst_collectives
from gpuledger.analyse.ranks.fixing import Fix, Fixing, FixKind
from gpuledger.analyse.ranks.job import Job, compute_balance, steps_across_ranks
from gpuledger.analyse.ranks.rank import WorkPart
from gpuledger.analyse.ranks.rank_times import RankTimes, rank_times
from gpuledger.findings.ranks import fix_name
from gpuledger.messages import say
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import NotMeasured

_RANK: Final = (
    Column("rank", say("Rank"), Unit.TEXT),
    Column("profile", say("Profile"), Unit.TEXT, detail=5),
    Column("gpu", "GPU", Unit.TEXT, detail=5),
    Column("steps", say("Steps"), Unit.COUNT, detail=4),
    Column("step_ns", say("Step"), Unit.NS),
    Column("compute_ns", say("Compute"), Unit.NS),
    Column("exposed_comm_ns", say("Exposed comm"), Unit.NS, detail=2),
    Column("hidden_comm_ns", say("Hidden comm"), Unit.NS, detail=3),
    Column("wait_ns", say("Waits"), Unit.NS),
    Column("transfer_ns", say("Transfers"), Unit.NS, detail=1),
    Column("late", say("Late"), Unit.COUNT, detail=1),
    Column("caused_ns", say("Others wait for it"), Unit.NS, detail=2),
    Column("saves_ns", say("Fixing it saves"), Unit.NS, detail=1),
    Column("matched", say("Matched"), Unit.COUNT, detail=2),
    Column("seen", say("of"), Unit.COUNT, detail=2),
    Column("clock_ahead_ns", say("Clock ahead"), Unit.NS, detail=3),
    Column("clock_residual_ns", say("give or take"), Unit.NS, detail=3),
)
_FIXED: Final = (
    Column("fixed", say("Fixed"), Unit.TEXT),
    Column("kind", say("Kind"), Unit.TEXT, detail=4),
    Column("alone_ns", say("Saves alone"), Unit.NS),
    Column("then_ns", say("After those above"), Unit.NS),
    Column("step_ns", say("Step then"), Unit.NS, detail=1),
    Column("saved_percent", say("Saved so far"), Unit.SHARE_PERCENT, detail=2),
    Column("cause", say("Cause"), Unit.TEXT),
    Column("longer_ns", say("longer by"), Unit.NS, detail=1),
    Column("profile", say("Profile"), Unit.TEXT, detail=5),
)
_CAUSE: Final = {
    WorkPart.COMPUTE: say("compute"),
    WorkPart.COMM: say("communication"),
    WorkPart.COPY: say("copies"),
    WorkPart.HOST: say("host"),
    WorkPart.GARBAGE: say("garbage collection"),
    WorkPart.SYSTEM: say("OS calls"),
    WorkPart.THREAD: say("waiting on a thread"),
}
_COLLECTIVE: Final = (
    Column("kind", say("Collective"), Unit.TEXT),
    Column("group", say("Group"), Unit.TEXT, detail=3),
    Column("ranks", say("Ranks"), Unit.COUNT, detail=4),
    Column("matched", say("Matched"), Unit.COUNT, detail=2),
    Column("seen", say("of"), Unit.COUNT, detail=2),
    Column("bytes", say("Bytes each"), Unit.BYTES),
    Column("transfer_ns", say("Transfer"), Unit.NS),
    Column("wait_ns", say("Wait per rank"), Unit.NS),
    Column("late_rank", say("Waited for most"), Unit.TEXT),
    Column("late_percent", say("of the wait"), Unit.SHARE_PERCENT, detail=1),
    Column("bus_gb_per_s", say("Bus"), Unit.GB_PER_S),
)
_SINGLE: Final = (
    Column("at_ns", say("At"), Unit.INSTANT_NS, detail=1),
    Column("step", say("Step"), Unit.ID, detail=2),
    Column("kind", say("Collective"), Unit.TEXT),
    Column("ordinal", say("No. in step"), Unit.COUNT),
    Column("group", say("Group"), Unit.TEXT, detail=3),
    Column("bytes", say("Bytes each"), Unit.BYTES, detail=4),
    Column("skew_ns", say("Skew"), Unit.NS),
    Column("wait_ns", say("Wait per rank"), Unit.NS),
    Column("transfer_ns", say("Transfer"), Unit.NS, detail=5),
    Column("late_rank", say("Last to arrive"), Unit.TEXT),
)
_STEP: Final = (
    Column("step", say("Step"), Unit.ID),
    Column("longest_ns", say("Longest"), Unit.NS),
    Column("slowest_rank", say("on"), Unit.TEXT),
    Column("median_ns", say("Median"), Unit.NS),
    Column("shortest_ns", say("Shortest"), Unit.NS, detail=1),
)
_FAMILY: Final = (
    Column("family", say("Compute"), Unit.TEXT),
    Column("mean_ns", say("Mean"), Unit.NS, detail=1),
    Column("most_ns", say("Most"), Unit.NS),
    Column("most_rank", say("on"), Unit.TEXT),
    Column("imbalance", say("Max / mean"), Unit.RATIO),
)


def job_sheets(job: Job, fixed: Fixing | NotMeasured) -> list[Sheet]:
    """All tables about a job."""
    return [
        _fixing_sheet(job, fixed),
        Sheet("job_ranks", say("Ranks, per step"), _RANK, tuple(map(_rank, rank_times(job, fixed)))),
        Sheet(
            "job_collectives",
            say("Collectives across ranks"),
            _COLLECTIVE,
            tuple(map(_collective, collectives_by_group(job))),
        ),
        _worst_sheet(job),
        _balance_sheet(job),
        _steps_sheet(job),
    ]


def _fixing_sheet(job: Job, fixed: Fixing | NotMeasured) -> Sheet:
    """What saves the most at the median pace, then what still does."""
    rows: list[tuple[Cell, ...]] = []
    if not isinstance(fixed, NotMeasured):
        step = fixed.step_ns
        for fix in fixed.in_order:
            step -= fix.then_ns
            rows.append(_fix(job, fixed, fix, step))
    return Sheet("job_fixing", say("What fixing saves, per step, at the median pace"), _FIXED, tuple(rows))


def _fix(job: Job, fixed: Fixing, fix: Fix, step_ns: int) -> tuple[Cell, ...]:
    return (
        fix_name(job, fix),
        fix.kind.value,
        fix.alone_ns,
        fix.then_ns,
        step_ns,
        100 * (1 - step_ns / fixed.step_ns),
        _CAUSE[fix.excess[0].part],
        fix.excess[0].longer_ns,
        job.ranks[fix.number].profile if fix.kind is FixKind.RANK else None,
    )


def _rank(rank: RankTimes) -> tuple[Cell, ...]:
    waiting = rank.waiting
    return (
        rank.label,
        rank.profile,
        rank.gpu_name,
        rank.steps,
        rank.median_step_ns,
        rank.compute_ns,
        rank.exposed_comm_ns,
        rank.hidden_comm_ns,
        waiting.wait_ns if waiting else None,
        waiting.transfer_ns if waiting else None,
        waiting.late if waiting else None,
        waiting.caused_ns if waiting else None,
        waiting.saves_ns if waiting else None,
        rank.matched,
        rank.seen,
        rank.clock_ahead_ns,
        rank.clock_residual_ns,
    )


def _collective(entry: CollectivesOfGroup) -> tuple[Cell, ...]:
    figures = entry.figures
    if figures is None:
        return (entry.kind, entry.group, None, entry.matched, entry.seen, None, None, None, None, None, None)
    rate = figures.median_bus_bytes_per_s
    return (
        entry.kind,
        entry.group,
        figures.ranks,
        entry.matched,
        entry.seen,
        figures.mean_bytes,
        figures.median_transfer_ns,
        figures.wait_per_rank_ns,
        figures.late_rank,
        None if figures.late_rank is None else 100 * figures.late_share,
        None if rate is None else rate / 1e9,
    )


def _worst_sheet(job: Job) -> Sheet:
    rows = tuple(
        (
            collective.begun_ns,
            collective.step,
            collective.kind,
            collective.ordinal,
            collective.group,
            collective.mean_bytes,
            collective.skew_ns,
            collective.wait_per_rank_ns,
            collective.transfer_ns,
            collective.late_rank,
        )
        for collective in worst_collectives(job)
    )
    return Sheet("job_worst", say("Collectives with the longest waits"), _SINGLE, rows)


def _balance_sheet(job: Job) -> Sheet:
    rows = tuple(
        (entry.family or say("all"), entry.mean_ns, entry.most_ns, entry.most_rank, entry.imbalance)
        for entry in compute_balance(job)
    )
    return Sheet("job_compute", say("Compute across ranks, per step"), _FAMILY, rows)


def _steps_sheet(job: Job) -> Sheet:
    rows = tuple(
        (step.step, step.longest_ns, step.slowest_rank, step.median_ns, step.shortest_ns)
        for step in steps_across_ranks(job)
    )
    return Sheet("job_steps", say("Steps across ranks"), _STEP, rows)
