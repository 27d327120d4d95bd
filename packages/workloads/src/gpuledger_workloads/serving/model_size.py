"""How large a served model is: options in, a `DecoderSize` out, with experts where --dispatch asks for them."""

from __future__ import annotations

import argparse

from gpuledger_workloads.decoder.size import DecoderSize, size_of

SPREAD = {"cuda": {"experts": 64, "top_k": 8, "ffn": 2048}, "cpu": {"experts": 8, "top_k": 2, "ffn": 32}}
"""Sizes of a mixture that --dispatch asks for and no option gives."""


def served_size(options: argparse.Namespace, **settled: int) -> DecoderSize:
    """The size that settled options ask for."""
    if options.dispatch and options.experts is None and not (options.config or options.ckpt):
        usual = SPREAD[options.device].items()
        settled |= {name: value for name, value in usual if getattr(options, name) is None}
    return size_of(options, **settled)
