"""What Python gets from a verb is what the command line writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuledger as package
from gpuledger.errors import GpuledgerError
from gpuledger.present.views.shown import ShownResult
from support.command import CAPTURES, gpuledger
from support.profiles.opened import plain


def capture(name: str) -> Path:
    return plain(CAPTURES / f"{name}.xz")


Answering = Callable[[str], ShownResult]

ONE_PROFILE: dict[str, tuple[list[str], Answering]] = {
    "report": ([], package.report),
    "info": ([], package.info),
    "stats": (["--report=cuda_api_sum"], lambda path: package.stats(path, ["cuda_api_sum"])),
    "gaps": (["--over=1ms"], lambda path: package.gaps(path, least_ns=1_000_000)),
    "steps": ([], package.steps),
    "memory": ([], package.memory),
    "ranges": (["--phase=experts=mlp"], lambda path: package.ranges(path, phases=(("experts", "mlp"),))),
    "ops": ([], package.ops),
    "kernels": ([], package.kernels),
    "whatif": (
        ["--host=2", "--speedup=gemm=3", "--fix=NO-SUCH"],
        lambda path: package.whatif(path, [("host", 2.0), ("speedup", ("gemm", 3.0)), ("fix", "NO-SUCH")]),
    ),
}


@pytest.mark.usefixtures("profiles_read_once")
@pytest.mark.parametrize("verb", ONE_PROFILE)
def test_python_gets_the_document_that_the_command_writes(verb: str) -> None:
    profile = str(capture("decode.sqlite"))
    options, ask = ONE_PROFILE[verb]
    answer = ask(profile)
    printed = json.loads(gpuledger(verb, profile, *options, "--format=json").stdout)
    assert json.loads(json.dumps(answer.to_dict())) == printed
    assert answer.headline


def test_python_gets_what_diff_and_align_write() -> None:
    attn, decode = (str(capture(name)) for name in ("attn.sqlite", "decode.sqlite"))
    diff = gpuledger("diff", attn, decode, "--anyway", "--format=json")
    assert json.loads(json.dumps(package.diff(attn, decode, anyway=True).to_dict())) == json.loads(diff.stdout)
    align = gpuledger("align", attn, decode, "--range=attention", "--format=json")
    answer = package.align(attn, decode, range_pattern="attention")
    assert json.loads(json.dumps(answer.to_dict())) == json.loads(align.stdout)


def test_python_gets_what_fleet_writes() -> None:
    path = str(capture("decode.sqlite"))
    answer = package.fleet(path, workers=0)
    assert answer.profiles == 1
    told = gpuledger("fleet", path, "--workers=0", "--format=json").stdout
    assert json.loads(json.dumps(answer.to_dict())) == json.loads(told)


def test_a_trace_that_was_read_answers_as_its_file_does() -> None:
    path = capture("decode.sqlite")
    trace = package.open_trace(path)
    for ask in (package.gaps, package.whatif):
        of_trace, of_file = (ask(profile).to_dict() for profile in (trace, path))
        assert of_trace | {"profile": path.name} == of_file


def test_changes_that_cannot_be_made_are_told_and_raised_where_nothing_is_left() -> None:
    answer = package.whatif(capture("decode.sqlite"), [("fix", "NO-SUCH")])
    assert not answer.changes
    assert "NO-SUCH" in answer.refused[0].claim


def test_one_side_alone_is_refused() -> None:
    with pytest.raises(GpuledgerError, match="one side alone"):
        package.diff(capture("decode.sqlite"))
    with pytest.raises(GpuledgerError, match="one side alone"):
        package.align(capture("decode.sqlite"))


def test_the_public_names_are_there() -> None:
    for name in dir(package):
        assert getattr(package, name) is not None
    assert sorted(package._HOMES) == dir(package)
