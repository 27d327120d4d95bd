"""The parts of the package that are compiled. Where there is no compiler the install goes on without them.

`GPULEDGER_PURE=1` leaves them out on purpose: the wheel for machines that no other wheel is for.
"""

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup

HOME = "https://github.com/gpuledger/gpuledger"


def _readme() -> str:
    """README.md with links that also lead somewhere from the page of an index of packages."""
    text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    text = re.sub(r'src="(?!https:)([^"]+)"', rf'src="{HOME}/raw/main/\1"', text)
    return re.sub(r"\]\((?!https:|#)([^)]+)\)", rf"]({HOME}/blob/main/\1)", text)


def _part(part: str, name: str, *sources: str, headers: tuple[str, ...]) -> Extension:
    folder = f"src/gpuledger/{part}/native"
    return Extension(
        f"gpuledger.{part}.native.{name}",
        sources=[f"{folder}/{each}" for each in sources],
        depends=[f"{folder}/{each}" for each in headers],
        extra_compile_args=["-O3", "-std=c11"],
        py_limited_api=True,
        optional=True,
    )


def _preloaded(name: str, source: str) -> Extension:
    """A library for the program that is captured, not for Python, but built and installed beside those that are."""
    return Extension(
        f"gpuledger.capture.native.{name}",
        sources=[f"src/gpuledger/capture/native/{source}"],
        extra_compile_args=["-O2", "-std=c11", "-fvisibility=hidden"],
        libraries=["dl"],
        py_limited_api=True,
        optional=True,
    )


def _compiled() -> list[Extension]:
    parts = [
        _part("trace", "_btree", "btree.c", "btree_module.c", headers=("btree.h", "watched.h")),
        _part(
            "trace",
            "_pickle_tree",
            "pickle_tree.c",
            "pickle_tree_module.c",
            headers=("pickle_tree.h", "watched.h"),
        ),
        _part(
            "trace",
            "_report_events",
            "report_events.c",
            "report_events_module.c",
            headers=("report_events.h", "watched.h"),
        ),
        _part("trace", "_sweep", "sweep.c", "sweep_module.c", headers=("sweep.h", "watched.h")),
        _part(
            "replay",
            "_replay",
            "replay.c",
            "prepare.c",
            "replay_module.c",
            headers=("replay.h", "prepare.h", "../../trace/native/watched.h"),
        ),
    ]
    if sys.platform == "linux":  # nothing is captured elsewhere
        parts.append(_preloaded("_plain_window", "plain_window.c"))
    return parts


readme = {"long_description": _readme(), "long_description_content_type": "text/markdown"}
if os.environ.get("GPULEDGER_PURE") == "1":
    setup(**readme)
else:
    setup(ext_modules=_compiled(), options={"bdist_wheel": {"py_limited_api": "cp311"}}, **readme)
