"""A job of many ranks as tables: the ranks, their collectives, the worst of those, and steps across ranks."""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.ranks.balance import compute_balance
from gpuledger.analyse.ranks.collectives import CollectivesOfGroup, collectives_by_group, worst_collectives
from gpuledger.analyse.ranks.job import Job
from gpuledger.analyse.ranks.rank_steps import steps_across_ranks
from gpuledger.analyse.ranks.rank_times import RankTimes, rank_times
from gpuledger.present.sheet import Cell, Column, Sheet, Unit

_RANK: Final = (
    Column("rank", "Rank", Unit.TEXT),
    Column("profile", "Profile", Unit.TEXT, detail=5),
    Column("gpu", "GPU", Unit.TEXT, detail=5),
    Column("steps", "Steps", Unit.COUNT, detail=4),
    Column("step_ns", "Step", Unit.NS),
    Column("compute_ns", "Compute", Unit.NS),
    Column("exposed_comm_ns", "Exposed comm", Unit.NS, detail=2),
    Column("hidden_comm_ns", "Hidden comm", Unit.NS, detail=3),
    Column("wait_ns", "Waits", Unit.NS),
    Column("transfer_ns", "Transfers", Unit.NS, detail=1),
    Column("late", "Late", Unit.COUNT, detail=1),
    Column("caused_ns", "Others wait for it", Unit.NS, detail=2),
    Column("buys_ns", "Fixing it buys", Unit.NS, detail=1),
    Column("matched", "Matched", Unit.COUNT, detail=2),
    Column("seen", "of", Unit.COUNT, detail=2),
    Column("clock_ahead_ns", "Clock ahead", Unit.NS, detail=3),
    Column("clock_residual_ns", "give or take", Unit.NS, detail=3),
)
_FIXED: Final = (
    Column("rank", "Rank", Unit.TEXT),
    Column("alone_ns", "Alone", Unit.NS),
    Column("together_ns", "With those above", Unit.NS),
    Column("together_percent", "of the waiting", Unit.SHARE_PERCENT, detail=1),
    Column("profile", "Profile", Unit.TEXT, detail=2),
)
_COLLECTIVE: Final = (
    Column("kind", "Collective", Unit.TEXT),
    Column("group", "Group", Unit.TEXT),
    Column("ranks", "Ranks", Unit.COUNT, detail=1),
    Column("matched", "Matched", Unit.COUNT),
    Column("seen", "of", Unit.COUNT, detail=4),
    Column("bytes", "Bytes each", Unit.BYTES, detail=2),
    Column("transfer_ns", "Transfer", Unit.NS),
    Column("wait_ns", "Wait per rank", Unit.NS),
    Column("late_rank", "Waited for most", Unit.TEXT),
    Column("late_percent", "of the wait", Unit.SHARE_PERCENT, detail=3),
    Column("bus_gb_per_s", "Bus", Unit.GB_PER_S, detail=1),
)
_SINGLE: Final = (
    Column("at_ns", "At", Unit.INSTANT_NS, detail=1),
    Column("step", "Step", Unit.ID, detail=2),
    Column("kind", "Collective", Unit.TEXT),
    Column("ordinal", "No. in step", Unit.COUNT),
    Column("group", "Group", Unit.TEXT, detail=3),
    Column("bytes", "Bytes each", Unit.BYTES, detail=4),
    Column("skew_ns", "Skew", Unit.NS),
    Column("wait_ns", "Wait per rank", Unit.NS),
    Column("transfer_ns", "Transfer", Unit.NS, detail=5),
    Column("late_rank", "Last to arrive", Unit.TEXT),
)
_STEP: Final = (
    Column("step", "Step", Unit.ID),
    Column("longest_ns", "Longest", Unit.NS),
    Column("slowest_rank", "on", Unit.TEXT),
    Column("median_ns", "Median", Unit.NS),
    Column("shortest_ns", "Shortest", Unit.NS, detail=1),
)
_FAMILY: Final = (
    Column("family", "Compute", Unit.TEXT),
    Column("mean_ns", "Mean", Unit.NS, detail=1),
    Column("most_ns", "Most", Unit.NS),
    Column("most_rank", "on", Unit.TEXT),
    Column("imbalance", "Most / mean", Unit.RATIO),
)


def job_sheets(job: Job) -> list[Sheet]:
    """All tables about a job."""
    return [
        _fixing_sheet(job),
        Sheet("job_ranks", "Ranks, per step", _RANK, tuple(map(_rank, rank_times(job)))),
        Sheet(
            "job_collectives",
            "Collectives across ranks",
            _COLLECTIVE,
            tuple(map(_collective, collectives_by_group(job))),
        ),
        _worst_sheet(job),
        _balance_sheet(job),
        _steps_sheet(job),
    ]


def _fixing_sheet(job: Job) -> Sheet:
    """The ranks most waited for, and what of the waiting goes if they come no later than the others do."""
    waited = job.fixing.waited_ns
    rows = tuple(
        (
            job.ranks[fixed.rank].label,
            job.buys_ns(job.fixing.alone_ns[fixed.rank]) // job.steps,
            job.buys_ns(fixed.together_ns) // job.steps,
            100 * fixed.together_ns / waited,
            job.ranks[fixed.rank].profile,
        )
        for fixed in job.fixing.together
    )
    return Sheet("job_fixing", "What fixing ranks buys, per step", _FIXED, rows)


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
        waiting.buys_ns if waiting else None,
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
    return Sheet("job_worst", "Collectives waited at the longest", _SINGLE, rows)


def _balance_sheet(job: Job) -> Sheet:
    rows = tuple(
        (entry.family or "all", entry.mean_ns, entry.most_ns, entry.most_rank, entry.imbalance)
        for entry in compute_balance(job)
    )
    return Sheet("job_compute", "Compute across ranks, per step", _FAMILY, rows)


def _steps_sheet(job: Job) -> Sheet:
    rows = tuple(
        (step.step, step.longest_ns, step.slowest_rank, step.median_ns, step.shortest_ns)
        for step in steps_across_ranks(job)
    )
    return Sheet("job_steps", "Steps across ranks", _STEP, rows)
