"""How a frame of Python is written: where a file lies is left out, what it belongs to is kept."""

from __future__ import annotations

import pytest

from gpuledger.attribution.lines import frames_of_loop, frames_of_models, own_frames
from gpuledger.trace.strings import python_frame

OWN = {
    "/home/user/train.py": "train.py",
    "D:\\Dev\\work\\train.py": "train.py",
    "/home/user/ipykernel_114/3105878423.py": "notebook cell 3105878423",
    "C:\\Users\\user\\AppData\\Local\\Temp\\ipykernel_9\\310.py": "notebook cell 310",
    "<ipython-input-12-3f5ab>": "notebook cell 12",
}
OTHERS = {
    "/opt/env/lib/python3.10/site-packages/torch/nn/modules/module.py": "torch/nn/modules/module.py",
    "D:\\Dev\\.venv\\Lib\\site-packages\\torch\\functional.py": "torch/functional.py",
    "/opt/env/lib/python3.10/site-packages/ipykernel_launcher.py": "site-packages/ipykernel_launcher.py",
    "/opt/env/lib/python3.10/asyncio/events.py": "python3.10/asyncio/events.py",
    "C:\\Python311\\Lib\\asyncio\\events.py": "python3/asyncio/events.py",
    "<string>": "<string>",
}


@pytest.mark.parametrize(("file", "shown"), (OWN | OTHERS).items())
def test_a_file_is_told_without_where_it_lies(file: str, shown: str) -> None:
    assert python_frame("f", file, 7) == f"f ({shown}:7)"


def test_a_cell_of_a_notebook_is_the_users_own() -> None:
    own, others = ([python_frame("f", file, 7) for file in files] for files in (OWN, OTHERS))
    assert own_frames(own + others) == own


def test_a_loop_of_steps_is_outside_of_modules_and_optimizers() -> None:
    files = ("model.py", "/site-packages/torch/nn/modules/module.py", "train.py", "/site-packages/lib/run.py")
    assert frames_of_loop([python_frame("f", file, 7) for file in files]) == ("f (train.py:7)", "f (lib/run.py:7)")
    assert frames_of_loop(["f (train.py:7)", "at::empty"]) == ("f (train.py:7)",)
    assert frames_of_loop(["f (train.py:7)", "f (torch/autograd/function.py:288)"]) == ()


def test_the_line_that_calls_a_packages_model_is_led_by_what_the_model_does() -> None:
    layer, outer, called = (
        "forward (transformers/modeling_llama.py:216)",
        "forward (peft/peft_model.py:1430)",
        "_call_impl (torch/nn/modules/module.py:1527)",
    )
    cell = "<module> (notebook cell 7:21)"
    silu = "silu (torch/nn/functional.py:2072)"
    assert frames_of_models([silu, layer, called, outer, called, cell]) == [layer, outer]
    own = "forward (model.py:4)"
    assert frames_of_models([silu, own, called, outer, called, cell]) == []
    assert frames_of_models(["conv (torch/nn/modules/conv.py:549)", called, cell]) == []
    assert frames_of_models(["einsum (einops/einops.py:916)", own, called, cell]) == []
