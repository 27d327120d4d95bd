"""Chinese for the tables of steps and of the phases of a layer."""

from __future__ import annotations

from typing import Final

PHASES: Final[dict[str, str]] = {
    # present/views/steps
    "Busy": "忙碌",
    "Idle": "空闲",
    "GPU busy": "GPU 忙碌占比",
}
