"""Chinese for the picture of a timeline that agents and people look at."""

from __future__ import annotations

from typing import Final

AGENTS: Final[dict[str, str]] = {
    # present/views/timeline_picture
    "{profile}, from {start}, {time}": "{profile}，从 {start} 起，{time}",
    "{count} events are drawn": "画出了 {count} 个事件",
    "{drawn}; {count} of {time} or less are not": "{drawn}；另有 {count} 个不超过 {time} 的事件未画出",
    "GPU {gpu} idle, by cause": "GPU {gpu} 空闲，按成因",
}
