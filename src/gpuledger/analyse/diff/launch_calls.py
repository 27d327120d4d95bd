"""Why the time in launch calls changed: by how many there are, or by what one takes."""

from __future__ import annotations

from gpuledger.analyse.diff.run_side import RunSide


def launch_split(before: RunSide, after: RunSide) -> tuple[float, float] | None:
    """The change per step, by number and kind of call and by what one takes; None where calls are not recorded.

    Functions are taken one by one, as in the parts of compute: a graph launch is no dearer kernel launch.
    """
    if before.launches is None or after.launches is None:
        return None
    calls_before = {call.name: call for call in before.launches.functions}
    calls_after = {call.name: call for call in after.launches.functions}
    by_number = by_cost = 0.0
    for name in dict.fromkeys((*calls_before, *calls_after)):
        old, new = calls_before.get(name), calls_after.get(name)
        n1, t1 = (old.calls / before.steps, old.time_ns / old.calls) if old is not None and old.calls else (0.0, 0.0)
        n2, t2 = (new.calls / after.steps, new.time_ns / new.calls) if new is not None and new.calls else (0.0, 0.0)
        if n1 and n2:
            by_number += (n2 - n1) * (t1 + t2) / 2
            by_cost += (t2 - t1) * (n1 + n2) / 2
        else:
            by_number += n2 * t2 - n1 * t1
    return by_number, by_cost
