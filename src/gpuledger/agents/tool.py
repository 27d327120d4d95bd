"""One tool: its name, what it says of itself, its arguments, and the function that answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gpuledger.agents.answers import AgentAnswer

HANDLE: Final = {"type": "string", "description": "What open_profile gave, e.g. p1."}
DEVICE: Final = {"type": "integer", "minimum": 0, "description": "Only GPU N. Default: the one to look at first."}
OFFSET: Final = {"type": "integer", "minimum": 0, "description": "Rows to leave out: the next_offset of an answer."}
LIMIT: Final = {"type": "integer", "minimum": 1, "maximum": 200, "description": "Most rows of a table."}


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A function `(profiles, **arguments) -> AgentAnswer`; its name and docstring are the tool's."""

    answer: Callable[..., AgentAnswer]
    arguments: Mapping[str, Mapping[str, Any]]
    """The JSON schema of each."""
    required: tuple[str, ...] = ("handle",)
    title: str = field(kw_only=True)

    @property
    def name(self) -> str:
        return self.answer.__name__

    @property
    def description(self) -> str:
        """What an agent reads before it chooses."""
        return inspect.cleandoc(self.answer.__doc__ or "")

    @property
    def schema(self) -> dict[str, Any]:
        """Of all arguments together."""
        return {
            "type": "object",
            "properties": {name: dict(schema) for name, schema in self.arguments.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }
