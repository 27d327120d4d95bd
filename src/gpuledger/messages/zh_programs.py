"""Chinese of what runs programs: `time` and `bench`. In the order of the modules that say it."""

from __future__ import annotations

from typing import Final

PROGRAMS: Final[dict[str, str]] = {
    # present/views/bench
    "What": "项目",
    "Result": "结果",
}
