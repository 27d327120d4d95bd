"""Wrong options of workloads: refused in a sentence before anything is built or started."""

from __future__ import annotations

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from support.programs.workload_result import found_by

pytest.importorskip("torch")

REFUSED = re.findall(r"^\| `(.*?)` \| (.*) \|$", Path(__file__).with_name("refused.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_options_that_cannot_be_are_refused_before_anything_is_built(
    options: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workload, *words = shlex.split(options)
    module = import_module(f"gpuledger_workloads.{workload}")
    for name in ("build", "over_ranks", "over_group"):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("it was begun"), raising=False)
    with pytest.raises(SystemExit) as end:
        found_by(workload, *words)
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert "error: " in err
    assert said in err
