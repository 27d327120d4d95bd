"""Programs of libraries that keep a GPU busy and use it badly: what is told first, and whether its saving comes true.

Profiles and step times were made on an H200 with `captures/busy.sh`; the second of three rounds. See
docs/concepts/busy.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuledger import build_report, open_trace
from support.command import CAPTURES
from support.profiles.opened import plain

FIRST = {
    "llama_float32": "PRECISION",
    "bert_float32": "PRECISION",
    "vit_float32": "PRECISION",
    "float64_by_accident": "PRECISION",
    "eager_attention": "ATTENTION-UNFUSED",
    "gpt2_eager": "ATTENTION-UNFUSED",
    "bert_eager": "ATTENTION-UNFUSED",
    "resnet_nchw": "LAYOUT",
    "resnet_forward_nchw": "LAYOUT",
    "resnext_nchw": "LAYOUT",
    "kv_cat": "DEVICE-COPY",
    "contiguous_copies": "DEVICE-COPY",
    "repeated_keys": "DEVICE-COPY",
    "pointwise_chain": "UNFUSED-CHAIN",
    "gpt2_gelu": "UNFUSED-CHAIN",
    "llama_compiled": "UNFUSED-CHAIN",
    "adamw_foreach_off": "OPTIMIZER-UNFUSED",
    "wide_adamw": "OPTIMIZER-UNFUSED",
    "wide_sgd": "OPTIMIZER-UNFUSED",
    "expert_loop_gemms": "GEMM-LOOP",
    "adapters_loop": "GEMM-LOOP",
    "small_grid": "UNDER-FILLED",
}
MISSED = {"unet_channels_last": "DEVICE-COPY", "top_p_loop": "UNDER-FILLED"}
"""Named, but half as much again, and half as much, as fixing them saved."""

WITHIN = 0.25


@pytest.fixture(scope="module")
def busy() -> Path:
    return plain(CAPTURES / "busy.tar.xz") / "busy"


@pytest.fixture(scope="module")
def step_ns(busy: Path) -> dict[str, Any]:
    steps: dict[str, Any] = json.loads((busy / "step_ns.json").read_text())
    return steps


@pytest.mark.parametrize("program", FIRST | MISSED)
def test_the_first_finding_names_the_fault_and_its_saving_comes_true(
    program: str, busy: Path, step_ns: dict[str, Any]
) -> None:
    report = build_report(open_trace(busy / f"{program}.bad.sqlite", cache=False))
    first, device = report.findings[0], report.main_device
    assert first.code == (FIRST | MISSED)[program]
    bad, fixed = (step_ns[program][variant]["profiled"] for variant in ("bad", "fixed"))
    if program in FIRST:
        assert first.saving_ns / device.steady_ns == pytest.approx((bad - fixed) / bad, rel=WITHIN)


@pytest.mark.parametrize("program", ["llama_tuned", "resnet_tuned"])
def test_nothing_is_claimed_of_what_is_tuned(program: str, busy: Path) -> None:
    assert not build_report(open_trace(busy / f"{program}.tuned.sqlite", cache=False)).findings
