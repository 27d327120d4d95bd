"""What a profile holds, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.stages import NOBODY, Listener
from gpuledger.verbs.definition import Option, Profile

if TYPE_CHECKING:
    from gpuledger.present.views.info import InfoAnswer
    from gpuledger.trace.model import Trace


def info(
    profile: Profile,
    *,
    verbose: Annotated[
        bool, Option("Also the profile's own tables, the command line, host and environment.", "-v --verbose")
    ] = False,
    limits: Limits = DEFAULT_LIMITS,
    progress: Listener = NOBODY,
) -> InfoAnswer:
    """Show what is in PROFILE, what is missing, and what that means.

    Prints the tool and its version, GPUs, processes, the time span, the rows of every table, and the profile's
    health: what was lost, and what nsys itself warned about. Command lines and environment variables only with
    --verbose. Of a file that cannot be read, it says what it is and what to do with it.

    \b
    Examples:
      gpuledger info run.sqlite
      gpuledger info --formats
      gpuledger info run.sqlite --format=json | jq .tables
      gpuledger info run_pqtdir
    """
    from gpuledger.present.views.info import info_answer
    from gpuledger.read.cache import kept_of_profile
    from gpuledger.trace.model import Trace
    from gpuledger.trace.tables import Table
    from gpuledger.verbs.profiles import profile_name, read_profile

    trace = read_profile(profile, tuple(Table), limits=limits, progress=progress)
    progress.stage("taking stock")
    kept = None if isinstance(profile, Trace) else kept_of_profile(profile)
    return info_answer(profile_name(profile), _shareable(trace) if verbose else trace, kept, verbose=verbose)


def _shareable(trace: Trace) -> Trace:
    """The same with a command and an environment that others may see."""
    from msgspec.structs import replace

    from gpuledger.capture.secrets import shareable_command, shareable_value

    private = trace.origin.private
    settings = ((key, *value.partition("=")) for key, value in private.environment)
    variables = tuple((key, f"{name}{sign}{shareable_value(name, value)}") for key, name, sign, value in settings)
    told = replace(private, command=tuple(shareable_command(private.command)), environment=variables)
    return replace(trace, origin=replace(trace.origin, private=told))
