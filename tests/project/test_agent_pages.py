"""What agents are told is true: the commands and tool calls in AGENTS.md, llms.txt and their guide do what they say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from gpuledger.agents.answers import cleaned
from gpuledger.agents.calls import TOOLS
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.cli.main import verb_named
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.verbs import VERBS
from support.command import ROOT, gpuledger

AGENTS, LLMS = ROOT / "AGENTS.md", ROOT / "docs" / "llms.txt"
GUIDE, PROMISE = ROOT / "docs" / "guides" / "agents.md", ROOT / "docs" / "reference" / "json.md"
PAGES = (AGENTS, LLMS, GUIDE, PROMISE)
_CODE = re.compile(r"`([^`\n]+)`|```(?:sh|console)\n(.*?)```", re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Every `gpuledger VERB ...` on a page, in words, up to a pipe or a comment; `VERB` itself stands for any."""
    lines = [line for span, block in _CODE.findall(page.read_text()) for line in (span or block).splitlines()]
    found = [re.search(r"(?:^|\$ |-- )gpuledger ([a-z].*)", line.split(" | ")[0].split(" #")[0]) for line in lines]
    return [shlex.split(match[1]) for match in found if match is not None]


@cache
def printed(verb: str, profile: Path, *more: str) -> str:
    """What a verb prints as JSON."""
    return gpuledger(verb, profile, "--format=json", *more).stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_its_options_are_there(page: Path) -> None:
    told = commands(page)
    assert told or page is PROMISE
    for verb, *words in told:
        assert verb in VERBS, (page.name, verb)
        command = verb_named(verb)
        if isinstance(command, click.Group) and words:
            command = command.commands.get(words[0], command)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "--"}
        assert given <= known, (page.name, verb)


def test_the_keys_that_are_named_are_in_the_documents(decode: Path) -> None:
    rows = re.findall(
        r"^\|[^|]+\| `gpuledger (\w+) run\.sqlite[^`|]*` \| ([^|]*) \|$", AGENTS.read_text(), re.MULTILINE
    )
    assert len(rows) >= 6
    for verb, said in rows:
        more = ["--fix=HOST-LOAD"] if verb == "whatif" else []
        document = json.loads(printed(verb, decode, *more))
        for key in re.findall(r"`\.(\w+)", said):
            assert key in document, (verb, key)
        tables = {table["table"] for table in document.get("tables", []) if isinstance(table, dict)}
        assert set(re.findall(r"`(\w+_gpu0)`", said)) <= tables, verb


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_the_filters_find_something(decode: Path) -> None:
    filters = re.findall(r"^gpuledger (\w+) run\.sqlite --format=json \| jq '(.*)'$", AGENTS.read_text(), re.MULTILINE)
    assert len(filters) == 3
    for verb, pattern in filters:
        found = subprocess.run(
            ["jq", pattern], input=printed(verb, decode), capture_output=True, text=True, check=True
        ).stdout
        assert 100 < len(found) < 2_500


@pytest.mark.parametrize("block", re.findall(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL))
def test_a_configuration_starts_the_server(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [servers] = json.loads(block).values()
    server = servers["gpuledger"]
    verb, *folders = (re.sub(r"\$\{.*\}", ".", word) for word in server["args"])
    (tmp_path / "traces").mkdir()
    monkeypatch.chdir(tmp_path)
    context = verb_named(verb).make_context(verb, folders)  # refuses a folder that is not there
    assert (server["command"], len(context.params["folders"])) == ("gpuledger", 1)


def holds(answer: Any, shown: Any) -> bool:
    """Whether what is shown is in the answer: keys and rows may be left out."""
    if isinstance(shown, dict):
        return isinstance(answer, dict) and all(key in answer and holds(answer[key], shown[key]) for key in shown)
    if isinstance(shown, list):
        return isinstance(answer, list) and all(any(holds(item, wanted) for item in answer) for wanted in shown)
    return bool(answer == shown)


def test_the_conversation_is_true(decode: Path, tmp_path: Path) -> None:
    shutil.copy(decode, tmp_path / "run.sqlite")
    profiles = AgentProfiles(AllowedFolders([tmp_path]), DEFAULT_LIMITS)
    spoken = re.findall(r"```text\n(\w+) (\{.*?\})\n(\{.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(spoken) == 5
    for tool, arguments, shown in spoken:
        answer = cleaned(TOOLS[tool].answer(profiles, **json.loads(arguments)).content)
        assert holds(answer, json.loads(shown)), (tool, answer)


def test_the_way_to_validate_works(decode: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    gpuledger("report", decode, "-o", tmp_path / "report.json")
    [code] = re.findall(r"```python\n(.*?)```", PROMISE.read_text(), re.DOTALL)
    exec(compile(code, PROMISE.name, "exec"), {})
