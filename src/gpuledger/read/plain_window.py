"""What the manifest beside a profile says: how long its window took without the profiler, or why that is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from gpuledger.capture.output_files import MANIFEST_SCHEMA, manifests_of
from gpuledger.messages import say
from gpuledger.system.opening import is_file, open_file, status_of
from gpuledger.trace.model import NO_MANIFEST, NotMeasured

MOST_BYTES: Final = 4_000_000
"""A larger file is no manifest of ours."""


def manifest_of(profile: Path) -> dict[str, Any] | NotMeasured:
    """The manifest of the capture that wrote this very file; else why there is none."""
    reason = NO_MANIFEST
    for path in manifests_of(profile):
        manifest = _manifest(path)
        if manifest is None:
            continue
        files = manifest.get("files")  # the capture must have written this very file: its name, and its size
        wanted = {"name": profile.name, "bytes": status_of(profile).st_size}
        if not isinstance(files, list) or wanted not in files:
            reason = NotMeasured(say("{manifest} describes another profile", manifest=path.name))
            continue
        return manifest
    return reason


def _manifest(path: Path) -> dict[str, Any] | None:
    if not is_file(path):  # a pipe of that name would be waited for
        return None
    try:
        with open_file(path) as file:
            content = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError, RecursionError):  # not ours to read, cut, or no JSON: there is none
        return None
    return content if isinstance(content, dict) and content.get("schema") == MANIFEST_SCHEMA else None


def plain_window_ns(manifest: dict[str, Any] | NotMeasured) -> int | NotMeasured:
    """The mean of the windows that a manifest holds."""
    if isinstance(manifest, NotMeasured):
        return manifest
    plain = manifest.get("plain")
    if not isinstance(plain, dict):
        return NotMeasured(say("the program was not run unprofiled before the capture"))
    windows = plain.get("window_ns")
    if isinstance(windows, list) and windows and all(type(time) is int and 0 < time < 10**18 for time in windows):
        return round(sum(windows) / len(windows))
    reason = plain.get("reason")
    if not isinstance(reason, str) or not reason:
        return NotMeasured(say("the unprofiled run before the capture has no readable time"))
    return NotMeasured(say("no unprofiled run was timed before the capture: {reason}", reason=reason))
