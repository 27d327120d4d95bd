"""Traces of a job that never ran."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from support.command import ROOT


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_ranks", ROOT / "benchmarks" / "gen_ranks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gen_ranks"] = module
    spec.loader.exec_module(module)
    return module
