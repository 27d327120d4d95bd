"""SQL through the tools: the rows of the verb, in pages, and refusals in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuledger.agents.answers import cleaned
from gpuledger.agents.calls import TOOLS
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS
from support.command import CAPTURES, gpuledger
from support.profiles.opened import plain


@pytest.fixture(scope="module")
def profiles() -> AgentProfiles:
    return AgentProfiles(AllowedFolders([plain(CAPTURES / "attn.sqlite.xz").parent]), DEFAULT_LIMITS)


def told(profiles: AgentProfiles, tool: str, **arguments: Any) -> dict[str, Any]:
    content: dict[str, Any] = cleaned(TOOLS[tool].answer(profiles, **arguments).content)
    return content


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT name, count(*), sum(duration_ns) FROM kernels GROUP BY name ORDER BY 3 DESC, 1",
        "SELECT cause, sum(duration_ns) FROM gaps GROUP BY cause ORDER BY 2 DESC",
        "SELECT code, saving_ns FROM findings",
    ],
)
def test_a_question_has_the_rows_of_the_verb(profiles: AgentProfiles, sql: str) -> None:
    handle = told(profiles, "open_profile", path="attn.sqlite")["handle"]
    printed = cleaned(json.loads(gpuledger("query", plain(CAPTURES / "attn.sqlite.xz"), sql, "--format=json").stdout))
    met: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        said = told(profiles, "query", handle=handle, sql=sql, offset=offset, limit=3)
        assert said["columns"] == printed["columns"]
        met += said["rows"]
        offset = said["next_offset"]
    assert met == printed["rows"]
    assert met


@pytest.mark.parametrize(
    "sql",
    ["DROP TABLE kernels", "SELECT * FROM '/etc/passwd'", "SELECT * FROM nothing", "COPY kernels TO 'x.csv'", "", ";"],
)
def test_what_is_no_question_is_refused(profiles: AgentProfiles, sql: str, tmp_path: Path) -> None:
    handle = told(profiles, "open_profile", path="attn.sqlite")["handle"]
    with pytest.raises(GpuledgerError):
        told(profiles, "query", handle=handle, sql=sql)


def test_the_tables_are_listed_with_what_they_mean(profiles: AgentProfiles) -> None:
    listed = told(profiles, "query_tables")["tables"]
    assert {"kernels", "gaps", "steps", "findings"} <= listed.keys()
    for name in listed:
        assert told(profiles, "query_tables", table=name)["columns"]
    with pytest.raises(GpuledgerError, match="no table"):
        told(profiles, "query_tables", table="nothing")
