"""A verb is declared once: the command line and the tool of a function with a parameter of each kind."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack

import pytest
from click.testing import CliRunner

from gpuledger.agents.answers import AgentAnswer, tool_of
from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.cli.commands import command_of
from gpuledger.errors import GpuledgerError
from gpuledger.limits import DEFAULT_LIMITS
from gpuledger.selection import Selection
from gpuledger.verbs.definition import Option, OptionsInOrder, Profile, ProfileOptions, VerbArgument, parameters_of

if TYPE_CHECKING:
    from gpuledger.trace.model import Trace

SEEN: list[dict[str, Any]] = []


def _even(text: str) -> int:
    if int(text) % 2:
        raise ValueError(f"{text} is odd")
    return int(text)


def toy(  # noqa: PLR0913
    profile: Profile,
    more: Annotated[tuple[str, ...], VerbArgument("[MORE]...")] = (),
    *,
    count: Annotated[int, Option("How many.", least=2, most=5)] = 3,
    rate: Annotated[float | None, Option("How fast.", above=0)] = None,
    even: Annotated[int | None, Option("Which.", "--pair", "N", _even)] = None,
    kind: Annotated[Literal["a", "b"], Option("Kind.", "-k --kind")] = "a",
    is_loud: Annotated[bool, Option("Loud.")] = False,
    names: Annotated[tuple[str, ...], Option("Names.", "--name")] | Sequence[str] = (),
    changes: Annotated[Any, OptionsInOrder({"fix": Option("A fix."), "double": Option("A pair.", parse=_even)})] = (),
    from_python: Trace | None = None,
    **asked: Unpack[ProfileOptions],
) -> None:
    """Do nothing."""
    SEEN.append({**locals(), **asked})


WANTED = Selection("a", "b", "c", device=0, time_ns=(1, 2), rank=3, scope_pattern="d")
PLAIN: dict[str, Any] = {
    "profile": Path("x"),
    "more": (),
    "count": 3,
    "rate": None,
    "even": None,
    "kind": "a",
    "is_loud": False,
    "names": (),
    "changes": [],
    "from_python": None,
    "wanted": Selection(),
    "names_from": None,
}


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("", {}),
        ("y z", {"more": ("y", "z")}),
        ("--count=2 --rate=0.5 --pair=4", {"count": 2, "rate": 0.5, "even": 4}),
        ("--count=5 -k b --is-loud", {"count": 5, "kind": "b", "is_loud": True}),
        ("--name=b --name=a", {"names": ("b", "a")}),
        ("--fix=p --double=2 --fix=q", {"changes": [("fix", "p"), ("double", 2), ("fix", "q")]}),
        ("--double 4 -- --fix=q", {"changes": [("double", 4)], "more": ("--fix=q",)}),
        (
            "--step-range=a --step-kernel=b --level=c --time=1:2 --range=d --device=0 --rank=3 --names-from=e",
            {"wanted": WANTED, "names_from": Path("e")},
        ),
        ("--rank=slowest", {"wanted": Selection(rank="slowest")}),
    ],
)
def test_words_become_arguments(words: str, given: dict[str, Any], tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):  # which has no pyproject.toml
        ran = CliRunner().invoke(command_of(toy), ["x", *words.split()], catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    seen = SEEN.pop()
    assert {name: seen.get(name) for name in PLAIN} == PLAIN | given
    assert seen["limits"] == DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--count=1", "1 is not in the range 2<=x<=5"),
        ("--count=6", "6 is not in the range 2<=x<=5"),
        ("--rate=0", "0.0 is not in the range x>0"),
        ("--pair=3", "Invalid value for '--pair': 3 is odd"),
        ("--double=5", "Invalid value for '--double': 5 is odd"),
        ("--kind=c", "'c' is not one of 'a', 'b'"),
        ("--range=(", "'(' is no regular expression"),
        ("--rank=first", "'first': expected a number, or slowest"),
        ("--limit=rows=1", "no limit 'rows'; there are read-seconds,"),
        ("--limit=gpus=1s", "'1s' is no value of gpus; write e.g. gpus=1000."),
        ("--from-python=1", "No such option '--from-python'"),
        ("--format=json", "No such option '--format'"),  # it shows nothing
    ],
)
def test_a_word_that_is_no_value_is_refused(words: str, sentence: str) -> None:
    ran = CliRunner().invoke(command_of(toy), ["x", words])
    assert (ran.exit_code, sentence in " ".join(ran.output.split())) == (2, True), ran.output
    assert SEEN == []


def test_help_explains_its_own_options_and_names_the_rare_ones() -> None:
    said = " ".join(CliRunner().invoke(command_of(toy), ["--help"]).output.split())
    assert "Do nothing." in said
    assert "--pair N Which." in said
    assert "[2<=x<=5]" in said
    assert "Only rank N" not in said
    assert "More, see `gpuledger help options`: --names-from, --step-kernel, --level, --rank, --families," in said


def test_a_hook_replaces_and_adds_parameters() -> None:
    def counted(*, count: Annotated[int, Option("How many.")] = 1) -> int:
        """Count."""
        return count

    def show(verb: Any, _: Any, *, twice: Annotated[bool, Option("Twice.")] = False, **asked: Any) -> None:
        SEEN.append({"counted": verb(**asked) * (2 if twice else 1)})

    words = ["--count=4", "--twice", "--format=csv"]
    assert CliRunner().invoke(command_of(counted, show=show), words, catch_exceptions=False).exit_code == 0
    assert SEEN.pop() == {"counted": 8}


def tool(
    profiles: AgentProfiles,
    count: Annotated[int, Option("How many.", least=2, most=5)],
    even: Annotated[int | None, Option("Which.", parse=_even)] = None,
    kind: Annotated[Literal["a", "b"], Option("Kind.")] = "a",
    names: Annotated[tuple[str, ...], Option("Names.", most=7)] = (),
    changes: Annotated[Any, OptionsInOrder({"fix": Option("A fix.", metavar="CODE")})] = (),
) -> AgentAnswer:
    """Say what was given."""
    return AgentAnswer({"count": count, "even": even, "kind": kind, "names": names, "changes": changes})


def test_the_schema_of_a_tool_is_that_of_its_function() -> None:
    text = {"type": "string"}
    assert tool_of(tool, "Tool").schema == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 2, "maximum": 5, "description": "How many."},
            "even": {"type": ["integer", "string"], "description": "Which."},
            "kind": {"enum": ["a", "b"], "description": "Kind."},
            "names": {"type": "array", "items": text, "maxItems": 7, "description": "Names."},
            "changes": {"type": "array", "items": text, "maxItems": 20, "description": "fix=CODE: A fix."},
        },
        "required": ["count"],
        "additionalProperties": False,
    }


def test_a_tool_parses_what_the_command_line_would(tmp_path: Path) -> None:
    asking, profiles = tool_of(tool, "Tool"), AgentProfiles(AllowedFolders([tmp_path]), DEFAULT_LIMITS)
    given = {"count": 2, "even": 4, "names": ["a"], "changes": ["fix=A=B"]}
    expected = {"count": 2, "even": 4, "kind": "a", "names": ("a",), "changes": [("fix", "A=B")]}
    assert asking.ask(profiles, given).content == expected
    for wrong, sentence in (({"even": "3"}, "3 is odd"), ({"changes": ["x=1"]}, "'x=1': there are fix=")):
        with pytest.raises(GpuledgerError, match=sentence):
            asking.ask(profiles, {"count": 2, **wrong})


def test_an_option_whose_type_is_not_there_at_run_time_is_a_bug() -> None:
    def wrong(*, trace: Annotated[Trace | None, Option("A trace.")] = None) -> None: ...

    with pytest.raises(TypeError, match="trace"):
        list(parameters_of(wrong))
