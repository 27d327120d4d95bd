"""Why the GPU was idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Unpack

from gpuledger.units import parse_instant
from gpuledger.verbs.definition import Option, Profile, ProfileOptions

if TYPE_CHECKING:
    from gpuledger.present.views.gaps import GapsAnswer


def _length(text: str) -> int:
    length = parse_instant(text)
    if length < 0:
        raise ValueError(f"'{text}' is no length of time; write 1ms or 50us")
    return length


def gaps(
    profile: Profile,
    *,
    least_ns: Annotated[
        int | None,
        Option(
            "List every gap at least this long, e.g. 1ms or 50us; 0 lists all. Default: the 20 longest.",
            "--over",
            "LENGTH",
            _length,
        ),
    ] = None,
    **asked: Unpack[ProfileOptions],
) -> GapsAnswer:
    """Show why the GPU was idle in PROFILE: causes, triggers, launches, overlap, the longest gaps.

    A gap is a time in which nothing ran on a GPU: no kernel, no copy, no graph, on any stream, of any process. Its
    time is attributed to causes, which sum to it; its trigger is what to fix. Start and end of a gap are as --time
    takes them: --time='0.104316840 s:0.156453334 s' looks at one gap alone.

    Launch calls of CUDA and HIP are counted per step, graphs included. The queue is the time from a launch call's
    return to the kernel's start: long means that the host runs ahead, which is good. Exposed is what runs while
    nothing more important does: communication without compute, copies without either.

    \b
    Examples:
      gpuledger gaps run.sqlite
      gpuledger gaps run.sqlite --over=1ms
      gpuledger gaps run.sqlite --format=json | jq '.longest[0]'
    """
    from gpuledger.present.views.gaps import gaps_answer
    from gpuledger.verbs.profiles import read_devices

    return gaps_answer(*read_devices(profile, **asked), least_ns)
