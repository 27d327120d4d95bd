"""Whether a mock of one operation runs what the operation runs in the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from gpuledger.errors import WrongCall
from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.selection import Selection
from gpuledger.stages import NOBODY, Listener
from gpuledger.verbs.definition import NamesFrom, Option, Profile, SelectionOptions, VerbArgument, regex_option

if TYPE_CHECKING:
    from gpuledger.analyse.align.checks import KnownDifferences
    from gpuledger.present.views.compare.align import AlignAnswer


def align(
    mock: Annotated[str, VerbArgument(completes="files")] | Profile,
    model: Annotated[tuple[str, ...], VerbArgument("[E2E]...", completes="files")] | Profile | Sequence[str] = (),
    *,
    range_pattern: Annotated[
        str | None,
        regex_option("The operation is what ranges that match launch.", "ranges", "--range"),
    ] = None,
    kernel_pattern: Annotated[
        str | None,
        regex_option("The operation is the kernels whose names match, on both sides.", flag="--pattern"),
    ] = None,
    mock_range: Annotated[
        str | None,
        regex_option("A forward of the mock is a range that matches. Default: a step.", "ranges"),
    ] = None,
    wanted: Annotated[Selection | None, SelectionOptions(("step_range", "step_kernel"))] = None,
    tier: Annotated[
        Literal["mock", "same-module"],
        Option("How close latencies must be: a mock within 10 % (the default), or the same module within 1 %."),
    ] = "mock",
    known: KnownDifferences | None = None,
    forwards: tuple[int | None, int | None] = (None, None),
    names_from: NamesFrom = None,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> AlignAnswer:
    """Check that MOCK, one operation in isolation, runs the same kernels as in the model of E2E, as fast.

    Finds the operation in the profile of the whole model, lays one forward of each side by side, and asks seven
    questions: kernel names, calls per forward, missing kernels, extra kernels, latency, CUDA graphs, launch shape.
    Each passes, warns, fails or is undecided with its figures, and says what to do. Only steady steps count; the first
    forward is left out, and the one with the median GPU time stands for the others.

    E2E may be several profiles, a folder or a glob, one per rank: each forward counts where it computes the longest.
    Both sides may also be what `nsys stats --report=cuda_gpu_kern_sum` printed, or the JSON of `gpuledger time`, which
    for two operations is one file; what these cannot tell is not measured.

    \b
    Examples:
      gpuledger align attn.sqlite model.sqlite --range=attention
      gpuledger align attn.json graph.json --range=attn --names-from=capture.json
      gpuledger align attn.sqlite model.sqlite --pattern='flash|fmha'
      gpuledger align attn.json.gz ranks/ --known=known.toml --gate
      gpuledger align timed.json --tier=same-module
      gpuledger align mock.csv model.csv --forwards-mock=20 --forwards-e2e=160
    """
    from gpuledger.analyse.align.alignment import alignment
    from gpuledger.analyse.align.checks import TIERS
    from gpuledger.analyse.align.checks import KnownDifferences as Differences
    from gpuledger.analyse.align.operation_kernels import Isolation
    from gpuledger.present.views.compare.align import align_answer
    from gpuledger.trace.model import Trace
    from gpuledger.verbs.aligned_sides import aligned_sides

    if range_pattern is not None and kernel_pattern is not None:
        raise WrongCall("--range, --pattern and --auto are three ways to find the operation: give one")
    isolation = Isolation("auto")
    if range_pattern is not None:
        isolation = Isolation("range", range_pattern)
    elif kernel_pattern is not None:
        isolation = Isolation("pattern", kernel_pattern)
    ours, theirs, health = aligned_sides(
        mock,
        [model] if isinstance(model, Trace | str | Path) else list(model),
        isolation,
        mock_range,
        wanted or Selection(),
        forwards,
        {"names_from": names_from, "limits": limits, "progress": progress},
    )
    return align_answer(alignment(ours, theirs, isolation, TIERS[tier], known or Differences()), health)
