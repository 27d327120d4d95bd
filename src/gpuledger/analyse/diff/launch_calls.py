"""Why the time in launch calls changed: by how many there are, or by what one takes."""

from __future__ import annotations

from gpuledger.analyse.diff.run_side import RunSide


def launch_split(before: RunSide, after: RunSide) -> tuple[float, float] | None:
    """The change per step, by number and kind of call and by what one takes; None where calls are not recorded.

    Functions are taken one by one, as in the parts of compute: a graph launch is no dearer kernel launch.
    """
    if before.launches is None or after.launches is None:
        return None
    old = {call.name: call for call in before.launches.functions}
    new = {call.name: call for call in after.launches.functions}
    by_number = by_cost = 0.0
    for name in dict.fromkeys((*old, *new)):
        one, other = old.get(name), new.get(name)
        n1, t1 = (one.calls / before.steps, one.time_ns / one.calls) if one is not None and one.calls else (0.0, 0.0)
        n2, t2 = (
            (other.calls / after.steps, other.time_ns / other.calls)
            if other is not None and other.calls
            else (0.0, 0.0)
        )
        if n1 and n2:
            by_number += (n2 - n1) * (t1 + t2) / 2
            by_cost += (t2 - t1) * (n1 + n2) / 2
        else:
            by_number += n2 * t2 - n1 * t1
    return by_number, by_cost
