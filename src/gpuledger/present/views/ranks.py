"""A job of many ranks as tables: what fixing saves, the ranks, their collectives, steps, and who was late when."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from gpuledger.analyse.ranks.collectives import CollectivesOfGroup
from gpuledger.analyse.ranks.fixing import Fix, FixKind
from gpuledger.analyse.ranks.rank import WorkPart
from gpuledger.analyse.ranks.rank_times import LateAt, Lateness, RankTimes, Straggler
from gpuledger.answers.several_profiles import JobAnswer
from gpuledger.findings.ranks import fix_name
from gpuledger.messages import say
from gpuledger.present.sheet import Cell, Column, Sheet, Unit
from gpuledger.trace.model import NotMeasured

_CAUSE: Final = {
    WorkPart.COMPUTE: say("compute"),
    WorkPart.COMM: say("communication"),
    WorkPart.COPY: say("copies"),
    WorkPart.HOST: say("host"),
    WorkPart.GARBAGE: say("garbage collection"),
    WorkPart.SYSTEM: say("OS calls"),
    WorkPart.THREAD: say("waiting on a thread"),
}

_LATE_AT: Final = {
    LateAt.COLLECTIVES: say("how late a rank reached a step's collectives, at most"),
    LateAt.STEPS: say("how much longer a step took than on the fastest rank"),
}


def job_sheets(answer: JobAnswer) -> list[Sheet]:
    """All tables about a job."""
    return [
        _fixing_sheet(answer),
        _ranks_sheet(answer.ranks),
        _collectives_sheet(answer.collectives),
        Sheet.of(
            "job_worst",
            say("Collectives with the longest waits"),
            (
                Column("at_ns", say("At"), Unit.INSTANT_NS, "begun_ns", detail=1),
                Column("step", say("Step"), Unit.ID, detail=2),
                Column("kind", say("Collective"), Unit.TEXT),
                Column("ordinal", say("No. in step"), Unit.COUNT),
                Column("group", say("Group"), Unit.TEXT, detail=3),
                Column("bytes", say("Bytes each"), Unit.BYTES, "mean_bytes", detail=4),
                Column("skew_ns", say("Skew"), Unit.NS),
                Column("wait_ns", say("Wait per rank"), Unit.NS, "wait_per_rank_ns"),
                Column("transfer_ns", say("Transfer"), Unit.NS, detail=5),
                Column("late_rank", say("Last to arrive"), Unit.TEXT),
            ),
            answer.worst,
        ),
        Sheet.of(
            "job_compute",
            say("Compute across ranks, per step"),
            (
                Column("family", say("Compute"), Unit.TEXT, lambda balance: balance.family or say("all")),
                Column("mean_ns", say("Mean"), Unit.NS, detail=1),
                Column("most_ns", say("Most"), Unit.NS),
                Column("most_rank", say("on"), Unit.TEXT),
                Column("imbalance", say("Max / mean"), Unit.RATIO),
            ),
            answer.balance,
        ),
        Sheet.of(
            "job_steps",
            say("Steps across ranks"),
            (
                Column("step", say("Step"), Unit.ID),
                Column("longest_ns", say("Longest"), Unit.NS),
                Column("slowest_rank", say("on"), Unit.TEXT),
                Column("median_ns", say("Median"), Unit.NS),
                Column("shortest_ns", say("Shortest"), Unit.NS, detail=1),
            ),
            answer.steps,
        ),
    ]


def _fixing_sheet(answer: JobAnswer) -> Sheet:
    """What saves the most at the median pace, then what still does; each with how long a step then takes."""
    job, fixed = answer.job, answer.fixed
    fixes: list[tuple[Fix, int]] = []
    step_ns = 0
    if not isinstance(fixed, NotMeasured):
        step_ns = fixed.step_ns
        lengths = accumulate((fix.then_ns for fix in fixed.in_order), int.__sub__, initial=step_ns)
        fixes = list(zip(fixed.in_order, list(lengths)[1:], strict=True))

    def saved_percent(row: tuple[Fix, int]) -> float:
        return 100 * (1 - row[1] / step_ns)

    def profile(row: tuple[Fix, int]) -> str | None:
        return job.ranks[row[0].number].profile if row[0].kind is FixKind.RANK else None

    return Sheet.of(
        "job_fixing",
        say("What fixing saves, per step, at the median pace"),
        (
            Column("fixed", say("Fixed"), Unit.TEXT, lambda row: fix_name(job, row[0])),
            Column("kind", say("Kind"), Unit.TEXT, lambda row: row[0].kind.value, detail=4),
            Column("alone_ns", say("Saves alone"), Unit.NS, lambda row: row[0].alone_ns),
            Column("then_ns", say("After those above"), Unit.NS, lambda row: row[0].then_ns),
            Column("step_ns", say("Step then"), Unit.NS, lambda row: row[1], detail=1),
            Column("saved_percent", say("Saved so far"), Unit.SHARE_PERCENT, saved_percent, detail=2),
            Column("cause", say("Cause"), Unit.TEXT, lambda row: _CAUSE[row[0].excess[0].part]),
            Column("longer_ns", say("longer by"), Unit.NS, lambda row: row[0].excess[0].longer_ns, detail=1),
            Column("profile", say("Profile"), Unit.TEXT, profile, detail=5),
        ),
        fixes,
    )


def _ranks_sheet(ranks: Sequence[RankTimes]) -> Sheet:
    def waiting(key: str, name: str, unit: Unit = Unit.NS, detail: int = 0) -> Column:
        return Column(key, name, unit, lambda rank: rank.waiting and getattr(rank.waiting, key), detail)

    return Sheet.of(
        "job_ranks",
        say("Ranks, per step"),
        (
            Column("rank", say("Rank"), Unit.TEXT, "label"),
            Column("profile", say("Profile"), Unit.TEXT, detail=5),
            Column("gpu", "GPU", Unit.TEXT, "gpu_name", detail=5),
            Column("steps", say("Steps"), Unit.COUNT, detail=4),
            Column("step_ns", say("Step"), Unit.NS, "median_step_ns"),
            Column("compute_ns", say("Compute"), Unit.NS),
            Column("exposed_comm_ns", say("Exposed comm"), Unit.NS, detail=2),
            Column("hidden_comm_ns", say("Hidden comm"), Unit.NS, detail=3),
            waiting("wait_ns", say("Waits")),
            waiting("transfer_ns", say("Transfers"), detail=1),
            waiting("late", say("Late"), Unit.COUNT, detail=1),
            waiting("caused_ns", say("Others wait for it"), detail=2),
            waiting("saves_ns", say("Fixing it saves"), detail=1),
            Column("matched", say("Matched"), Unit.COUNT, detail=2),
            Column("seen", say("of"), Unit.COUNT, detail=2),
            Column("clock_ahead_ns", say("Clock ahead"), Unit.NS, detail=3),
            Column("clock_residual_ns", say("give or take"), Unit.NS, detail=3),
        ),
        ranks,
    )


def _collectives_sheet(collectives: Sequence[CollectivesOfGroup]) -> Sheet:
    def figure(key: str, name: str, unit: Unit, field: str, detail: int = 0) -> Column:
        return Column(key, name, unit, lambda entry: entry.figures and getattr(entry.figures, field), detail)

    def late_percent(entry: CollectivesOfGroup) -> float | None:
        return None if entry.figures is None or entry.figures.late_rank is None else 100 * entry.figures.late_share

    def bus(entry: CollectivesOfGroup) -> float | None:
        rate = None if entry.figures is None else entry.figures.median_bus_bytes_per_s
        return None if rate is None else rate / 1e9

    return Sheet.of(
        "job_collectives",
        say("Collectives across ranks"),
        (
            Column("kind", say("Collective"), Unit.TEXT),
            Column("group", say("Group"), Unit.TEXT, detail=3),
            figure("ranks", say("Ranks"), Unit.COUNT, "ranks", detail=4),
            Column("matched", say("Matched"), Unit.COUNT, detail=2),
            Column("seen", say("of"), Unit.COUNT, detail=2),
            figure("bytes", say("Bytes each"), Unit.BYTES, "mean_bytes"),
            figure("transfer_ns", say("Transfer"), Unit.NS, "median_transfer_ns"),
            figure("wait_ns", say("Wait per rank"), Unit.NS, "wait_per_rank_ns"),
            figure("late_rank", say("Waited for most"), Unit.TEXT, "late_rank"),
            Column("late_percent", say("of the wait"), Unit.SHARE_PERCENT, late_percent, detail=1),
            Column("bus_gb_per_s", say("Bus"), Unit.GB_PER_S, bus),
        ),
        collectives,
    )


def lateness_words(late: Lateness) -> str:
    """What the numbers of lateness are."""
    return _LATE_AT[late.seen_at]


def lateness_sheet(late: Lateness) -> Sheet:
    """Who was late, and when: a row per rank, a column per step."""
    keys = [f"step_{step}_ns" for step in late.steps]
    columns = [Column(key, f"Step {step}", Unit.NS) for key, step in zip(keys, late.steps, strict=True)]
    rows: list[dict[str, Cell]] = [
        {"rank": rank, **dict(zip(keys, times, strict=True))}
        for rank, times in zip(late.ranks, late.late_ns.tolist(), strict=True)
    ]
    title = f"By rank and step: {lateness_words(late)}"
    return Sheet.of("fleet_late", title, (Column("rank", "Rank", Unit.TEXT), *columns), rows)


def straggler_sheet(stragglers: Sequence[Straggler]) -> Sheet:
    """The ranks that others waited for, the most waited for first."""

    def caused_percent(straggler: Straggler) -> float:
        return 100 * straggler.caused_ns / straggler.all_caused_ns if straggler.all_caused_ns else 0.0

    def saves_percent(straggler: Straggler) -> float | None:
        return None if straggler.saves_share is None else 100 * straggler.saves_share

    def compute_percent(straggler: Straggler) -> float | None:
        return None if straggler.compute_ratio is None else 100 * (straggler.compute_ratio - 1)

    return Sheet.of(
        "fleet_stragglers",
        say("Stragglers: ranks that others wait for"),
        (
            Column("rank", say("Rank"), Unit.TEXT, "label"),
            Column("late", say("Last to arrive"), Unit.COUNT),
            Column("of", say("of"), Unit.COUNT, "counted", detail=3),
            Column("caused_percent", say("Waited for"), Unit.SHARE_PERCENT, caused_percent, detail=1),
            Column("saves_percent", say("Step shorter by"), Unit.SHARE_PERCENT, saves_percent),
            Column("compute_percent", say("Extra compute"), Unit.CHANGE_PERCENT, compute_percent),
            Column("worst_step", say("Latest in step"), Unit.ID, lambda each: each.worst and each.worst.step, detail=1),
            Column("worst_ns", say("by"), Unit.NS, lambda each: each.worst and each.worst.late_ns, detail=2),
            Column("profile", say("Profile"), Unit.TEXT, detail=4),
        ),
        stragglers,
    )
