"""Tensors that are copied on the GPU, into another layout or another place.

LAYOUT: tensors are brought from one layout into another.

Around convolutions run kernels such as `nchwToNhwcKernel` and `nhwcToNchwKernel`: cuDNN's tensor-core kernels want
channels last, and the program keeps them first.

DEVICE-COPY: tensors are copied within the GPU.

A tenth of the time and more goes to kernels that only copy: `CatArrayBatchedCopy`, `direct_copy_kernel`.
"""

from __future__ import annotations

from typing import Final

from gpuledger.analyse.light.wasted_work import remove_layout_conversions, remove_tensor_copies
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.kernels.rewrite import rewrite_rule
from gpuledger.messages import say

LAYOUT: Final = rewrite_rule(
    "LAYOUT",
    remove_layout_conversions,
    say("layout conversions between kernels"),
    say("one layout throughout: these kernels go away, and batch norms read contiguous memory"),
    FixWords.of(
        say("one layout throughout: channels last, where matrix units want it"),
        torch=say("model and inputs `.to(memory_format=torch.channels_last)`"),
        jax=say("NHWC in `dimension_numbers` of `lax.conv_general_dilated`"),
        tensorflow=say("`data_format='channels_last'` throughout"),
        tensorrt=say("give inputs and outputs the format that the engine's layers use (`--inputIOFormats`)"),
        cuda=say("`CUDNN_TENSOR_NHWC` for tensors and filters throughout"),
    ),
    say("of batch norms"),
)

MIN_COPIED_SHARE: Final = 0.1  # so much may be copied within the GPU: what is written into a cache is a copy as well

DEVICE_COPY: Final = rewrite_rule(
    "DEVICE-COPY",
    remove_tensor_copies,
    say("device-to-device tensor copies"),
    say("tensors are written in place or used as views: these kernels go away"),
    FixWords.of(
        say("write results where they are read"),
        torch=say("views instead of `.contiguous()` and `torch.cat`; write into preallocated buffers"),
        jax=say("`jax.lax.dynamic_update_slice` with donated buffers (`donate_argnums`)"),
        cupy=say("views instead of `concatenate` and `ascontiguousarray`; results into an `out=`"),
        julia=say("`@views` instead of slices and `cat`, which copy"),
    ),
    say("that read the copies"),
    least=MIN_COPIED_SHARE,
)
