"""What torch 2.12 and later record of a graph's nodes while it is captured: a small JSON file in, names by node out.

`torch.cuda.graph_annotations.get_kernel_annotations()` maps each node's id to what `mark_kernels` said around it; the
file is that mapping, as JSON. The pickle of it is not read: opening one runs what is in it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import msgspec

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.read.source import look_at, opened
from gpuledger.units import bytes_text

_BEGINS: Final = re.compile(rb'\s*\{\s*"\d{1,20}"\s*:\s*[\[{"]')
_NAMED: Final = ("name", "str")
_MODULE: Final = "module_fqn"
_LARGEST_ID: Final = 1 << 63


def is_kernel_annotations(path: Path) -> bool:
    """Whether a file begins as such a mapping does; a trace's first key is no number."""
    return path.is_file() and _BEGINS.match(look_at(path).head) is not None


def kernel_annotations(path: Path, limits: Limits) -> dict[int, tuple[str, ...]]:
    """The names of each node, the outermost first."""
    source = look_at(path)
    if source.size > limits.event_bytes:
        raise UnreadableProfile(
            f"{source.name}: {bytes_text(source.size)}, and no file of annotations is larger than "
            f"{bytes_text(limits.event_bytes)}",
            hint=f"if this is one: --limit=event-bytes={source.size}",
        )
    with opened(source) as file:
        content = file.read()
    try:
        by_node = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableProfile(f"{source.name}: no whole mapping of nodes to names", found=str(error)) from None
    nodes = {int(node): _names(said) for node, said in by_node.items() if node.isascii() and node.isdigit()}
    return {node: names for node, names in nodes.items() if node < _LARGEST_ID}


def _names(said: Any) -> tuple[str, ...]:
    """A text, a mapping, or a list of those from nested scopes, the outermost first."""
    if isinstance(said, str):  # a stack is one text, the innermost first
        return tuple(line for line in reversed(said.splitlines()) if line)
    if isinstance(said, list):
        return tuple(name for scope in said for name in (_names(scope) if not isinstance(scope, list) else ()))
    if not isinstance(said, dict):
        return ()
    name = next((said[key] for key in _NAMED if isinstance(said.get(key), str)), None)
    module = said.get(_MODULE)
    path = tuple(part for part in module.split(".") if part) if isinstance(module, str) else ()
    if name is not None or path:
        return (*path, *((name,) if name else ()))
    return tuple(f"{key}={value}" for key, value in said.items() if isinstance(value, str | int))
