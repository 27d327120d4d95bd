"""All tools, in the order in which an agent is told of them."""

from __future__ import annotations

from typing import Final

from gpuledger.agents.tools import comparing, opening, pictures, querying, reporting, tables
from gpuledger.agents.tools.tool import AgentTool

TOOLS: Final[dict[str, AgentTool]] = {
    tool.name: tool for family in (opening, reporting, tables, comparing, querying, pictures) for tool in family.TOOLS
}
