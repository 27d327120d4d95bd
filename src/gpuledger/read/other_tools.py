"""Files of other profilers, told by what they hold: their first bytes in, what they are and a hint out.

Words that a tool writes into each of its files are evidence; the name of a file is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from gpuledger.errors import UnreadableProfile
from gpuledger.units import count_text

_AMD: Final = "it reads the database that this was made from (.db, .rpd), and what `rocprofv3 --sys-trace` writes"
_TORCH: Final = "record with `torch.profiler.profile`, and write it with its `export_chrome_trace`"
_XLA: Final = "give the .xplane.pb beside it, which holds more"

_TRACES: Final[tuple[tuple[tuple[bytes, ...], str, str], ...]] = (
    ((b'"BeginNs"', b'"DurationNs"'), "a trace of AMD's rocprof", _AMD),
    ((b"CPU HIP API", b"process_name"), "a trace of AMD's rocprof", _AMD),
    ((b'"name":"COPY"', b'"name":"GPU', b"process_name"), "a trace of AMD's rocprof", _AMD),
    ((b'"process_name"', b'"name":"GPU', b'"Hip '), "a trace of AMD's rpd (rocmProfileData)", _AMD),
    ((b'"process_sort_index"', b'"name":"GPU', b'"desc"'), "a trace of AMD's rpd (rocmProfileData)", _AMD),
    ((b"viztracer",), "a trace of VizTracer, which records Python and no GPU", _TORCH),
    ((b"/device:GPU:",), "a trace of JAX's or TensorFlow's profiler", _XLA),
    ((b"/device:TPU:",), "a trace of JAX's or TensorFlow's profiler, of a TPU", "only GPUs are supported"),
    ((b"/host:CPU",), "a trace of JAX's or TensorFlow's profiler", _XLA),
)
"""Of files with `traceEvents`: the words that must all be there."""

_KEYS: Final = {
    "nodes": ("an execution trace of PyTorch (ExecutionTraceObserver), which holds operators and no times", _TORCH),
    "stackFrames": ("a profile in Chrome's own form, without events of a GPU", _TORCH),
}
"""Of other JSON files, by a key at their top."""


def other_trace(name: str, text: bytes, seen: Mapping[str, int]) -> UnreadableProfile | None:
    """The refusal of events that no category of torch.profiler's is among; `seen` counts those that they have.

    `text` is how the file begins, and the keys beside its events. None where neither says anything: metadata alone.
    """
    for words, what, hint in _TRACES:
        if all(word in text for word in words):
            return UnreadableProfile(f"{name}: is {what}", found=_categories(seen), hint=hint)
    if not any(seen.keys()):
        return None
    return UnreadableProfile(f"{name}: a Chrome trace, but not of torch.profiler", found=_categories(seen), hint=_TORCH)


def _categories(seen: Mapping[str, int]) -> str:
    """The categories of most events."""
    most = sorted(seen.items(), key=lambda entry: -entry[1])[:6]
    return "events: " + ", ".join(f"{count_text(count)} of {name or 'no category'}" for name, count in most)


def other_json(keys: Collection[str]) -> tuple[str, str] | None:
    """What a JSON file with these keys is, and a hint."""
    return next((told for key, told in _KEYS.items() if key in keys), None)
