"""One call of a tool: its name and arguments in, the answer or one sentence out; and the process that answers them.

A call may hold a pattern or a query of anybody's, about a file of anybody's. So it is answered by another process than
the one that talks to the agent: see `system.killable`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from gpuledger.agents import report_tools, table_tools, verb_tools
from gpuledger.agents.answers import AgentAnswer, AgentTool, cleaned
from gpuledger.agents.profiles import AgentProfiles
from gpuledger.errors import GpuledgerError
from gpuledger.read.request import Progress
from gpuledger.system.files import reason_of
from gpuledger.system.killable import Died, KillableWorker, Overdue
from gpuledger.trace.deadline import until

TOOLS: Final[dict[str, AgentTool]] = {
    tool.name: tool
    for tool in (*report_tools.TOOLS, *table_tools.TOOLS, *verb_tools.TOOLS, *report_tools.PICTURE_TOOLS)
}

CallResult = AgentAnswer | str
"""What it says, cleaned; or why it says nothing, one sentence."""

Answering = Callable[[str, Mapping[str, Any], Progress], CallResult]

_GRACE_S: Final = 1.0
"""What a call that is over its time has to say so itself."""


class CallsOutside:
    """Calls answered by another process, for as long as this is entered. Profiles stay open from one to the next."""

    def __init__(self, profiles: AgentProfiles) -> None:
        self._profiles: Final = profiles
        self._worker: Final = KillableWorker(_answer_with)

    def __enter__(self) -> Self:
        self._worker.start(self._profiles)
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.end()

    def __call__(self, name: str, given: Mapping[str, Any], tell: Progress) -> CallResult:
        seconds = self._profiles.limits.read_seconds
        try:
            answer: CallResult = self._worker.ask((name, given), seconds=seconds + _GRACE_S, tell=tell)
        except Overdue:
            return _refusal(_too_slow(name, seconds))
        except Died:
            return _refusal(GpuledgerError(f"{name}: not enough memory"))
        return answer


def _answer_with(profiles: AgentProfiles) -> Callable[..., tuple[CallResult, AgentProfiles]]:
    return lambda call, tell: (answered(profiles, call[0], call[1], tell), profiles)


def answered(profiles: AgentProfiles, name: str, given: Mapping[str, Any], tell: Progress) -> CallResult:
    """What a tool answers; whatever goes wrong is one sentence, as on the command line."""
    try:
        tool = _tool(name, given)
        seconds = profiles.limits.read_seconds
        with profiles.one_call(tell), until(time.monotonic() + seconds, lambda: _too_slow(name, seconds)):
            answer = tool.ask(profiles, given)
            return AgentAnswer(cleaned(answer.content), answer.picture)
    except GpuledgerError as error:
        return _refusal(error)
    except MemoryError:
        return _refusal(GpuledgerError(f"{name}: not enough memory"))
    except OSError as error:
        return _refusal(GpuledgerError(f"{name}: a file cannot be read: {reason_of(error)}"))
    except Exception as error:
        claim = f"{name}: internal error: {type(error).__name__}: {error}"
        return _refusal(GpuledgerError(claim, hint="this is a bug in gpuledger"))


def _tool(name: str, given: Mapping[str, Any]) -> AgentTool:
    tool = TOOLS.get(name)
    if tool is None:
        raise GpuledgerError(f"no tool {name!r}", found=f"there are {', '.join(TOOLS)}")
    wrong = best_match(Draft202012Validator(tool.schema).iter_errors(given))
    if wrong is not None:
        where = f"{wrong.json_path.removeprefix('$.')}: " if wrong.path else ""
        raise GpuledgerError(f"{name}: {where}{wrong.message}")
    return tool


def _refusal(error: GpuledgerError) -> str:
    found = f" ({'; '.join(error.found.splitlines())})" if error.found else ""
    hint = f". Hint: {error.hint}" if error.hint else ""
    sentence: str = cleaned(f"{error.claim}{found}{hint}")
    return sentence


def _too_slow(name: str, seconds: float) -> GpuledgerError:
    return GpuledgerError(
        f"{name}: took more than {seconds:g} s and was stopped",
        hint=f"`gpuledger mcp --limit=read-seconds={4 * seconds:g}` waits longer",
    )
