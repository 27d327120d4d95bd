"""Whether a run is faster than another, by how much, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.verbs.definition import Option, Profile, VerbArgument, regex_option

if TYPE_CHECKING:
    from gpuledger.present.views.compare.diff import DiffAnswer


def _gate(text: str) -> str:
    """The same expression, if it is one."""
    from gpuledger.analyse.diff.gate import GRAMMAR, BadExpression, parse_gate

    try:
        parse_gate(text)
    except BadExpression as error:
        raise ValueError(f"{error}\n\n{GRAMMAR}") from None
    return text


def diff(
    before: Annotated[Profile, VerbArgument("BEFORE", completes="files")],
    after: Annotated[Profile | None, VerbArgument("[AFTER]", completes="files")] = None,
    wanted: Selection | None = None,
    *,
    gates: Annotated[
        tuple[str, ...],
        Option(
            "Exit with 3 if this holds, e.g. 'step>2%', 'launches>0', 'kernel:flash>5%'; may be given several times.",
            "--fail-on",
            "GATE",
            _gate,
        ),
    ] = (),
    undecided: Annotated[
        Literal["fail", "pass"], Option("What an undecided gate counts as; by default it passes.")
    ] = "pass",
    control: Annotated[
        str | None,
        regex_option("Ranges whose code did not change. Default: found by their calls.", "ranges"),
    ] = None,
    anyway: Annotated[
        bool, Option("Compare even if the two are unlike: another GPU, other kernels, no steps.")
    ] = False,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> DiffAnswer:
    """Tell whether AFTER is faster than BEFORE, by how much, how sure that is, and why.

    Each is a profile, a folder or glob of several runs of the same, a baseline saved with --save-baseline, tables that
    `nsys stats` printed, or the JSON of `gpuledger time`; that of two operations holds both sides. The difference of
    the usual step is split into parts that sum to it: number of kernel calls, time per call, other kernels, exposed
    communication and copies, idle time by what set it off. Steps are resampled for an interval; a difference inside
    the noise is called no change.

    \b
    Gates (--fail-on) are WHAT[:REGEX]>LIMIT:
      WHAT   step, compute, comm, copy, idle[:CAUSE], family:REGEX,
             kernel:REGEX, range:REGEX, call:REGEX (time);
             launches (a count); copied, memory (bytes)
      LIMIT  a number with %, ns, us, ms, s, B, kB, MB or GB behind it
    A gate fails if the whole interval of the change is beyond the limit,
    passes if the whole is within, and is undecided else.

    \b
    Examples:
      gpuledger diff before.sqlite after.sqlite
      gpuledger diff 'before/*.sqlite' 'after/*.sqlite' -o diff.html
      gpuledger diff timed.json
      gpuledger diff run.sqlite --save-baseline=base.json
      gpuledger diff base.json run.sqlite --fail-on='step>2%' --junit=diff.xml
      gpuledger diff base.json run.sqlite --fail-on='step>2%' --comment
    """
    from gpuledger.analyse.diff.compare import compare as compare_sides
    from gpuledger.analyse.diff.gate import outcome, parse_gate
    from gpuledger.present.views.compare.diff import diff_answer
    from gpuledger.trace.model import Trace
    from gpuledger.verbs.compared_sides import pair_of_timings, read_sides

    if after is not None:
        sides = read_sides(before, after, wanted or Selection(), limits, progress)
    else:
        pair = None if isinstance(before, Trace) else pair_of_timings(before, limits)
        if pair is None:
            raise GpuledgerError("one side alone cannot be compared", hint="give two, or a timing of two operations")
        sides = pair
    found = compare_sides(*sides, anyway=anyway, control=control)
    return diff_answer(found, [outcome(parse_gate(gate), found, undecided=undecided) for gate in gates])


compare = diff  # as Python programs call it
