"""Chinese for names inside graphs from a second file."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, str]] = {
    # analyse/operators/names_from
    (
        "names inside graphs are from {file}: {named} of {count} kernels and copies in graphs have one, "
        "{share} of their time"
    ): "graph 内的名称取自 {file}：graph 内 {count} 个 kernel 与拷贝中有 {named} 个有名称，占其时间的 {share}",
    "{told}; for {count} several places fit, and only the names that these agree on are given": (
        "{told}；其中 {count} 个有多处吻合，只给出各处一致的名称"
    ),
    # present/views/answers
    "GPU {gpu}: inside graphs, operators with the most GPU self time: {largest}, of {time}.": (
        "GPU {gpu}：graph 内 GPU 自身时间最多的算子：{largest}，共 {time}。"
    ),
}
