"""Chinese of `fleet`: jobs of many ranks. One line per English template, in the order of the modules that say them."""

from __future__ import annotations

from typing import Final

RANKS: Final[dict[str, str]] = {
    # present/views/fleet
    "first": "前",
    "worst by {column}": "最差（按“{column}”）",
    "{title}: the {shown} {which}, of {count}": "{title}（共 {count} 行，显示{which}的 {shown} 行）",
    # present/views/lateness
    "Rank": "rank 编号",
    "Last to arrive": "最后到达",
    "of": "共",
    "Waited for": "被等待",
    "Fixing it buys": "修好可省",
    "More compute": "计算多出",
    "Latest in step": "最晚的步",
    "by": "晚",
    "Profile": "profile 文件",
    "Stragglers: ranks that others wait for": "掉队者（straggler）：其他 rank 在等的 rank",
    # present/views/page/fleet_page
    "Ranks": "rank 数",
    "Profiles": "profile 数",
    "Who is late, and when": "谁在什么时候迟到",
    "There is none.": "没有。",
    "Not measured: neither collectives nor steps were matched across ranks.": (
        "未测量：各 rank 之间的集合通信和步都没有匹配上。"
    ),
    "Failed: {count}": "失败：{count} 个",
    # present/views/ranks
    "Compute": "计算",
    "Exposed comm": "暴露的通信",
    "Hidden comm": "被掩盖的通信",
    "Transfers": "传输",
    "Late": "迟到次数",
    "Others wait for it": "其他 rank 等它",
    "Clock ahead": "时钟超前",
    "give or take": "误差",
    "Alone": "只修它",
    "With those above": "连同以上各 rank",
    "of the waiting": "占等待时间",
    "Collective": "集合通信",
    "Group": "通信组",
    "Bytes each": "每次字节数",
    "Wait per rank": "每 rank 等待",
    "Waited for most": "被等最多",
    "of the wait": "占等待",
    "Bus": "总线带宽",
    "At": "时刻",
    "No. in step": "步内序号",
    "Skew": "到达时差",
    "Longest": "最长",
    "Shortest": "最短",
    "Mean": "平均",
    "Most": "最多",
    "Most / mean": "最多/平均",
    "What fixing ranks buys, per step": "修好哪些 rank 能省多少（每步）",
    "Collectives waited at the longest": "等待最久的集合通信",
    "Compute across ranks, per step": "各 rank 的计算（每步）",
    "Steps across ranks": "各步在各 rank 上的耗时",
    "Ranks, per step": "各 rank（每步）",
    "Collectives across ranks": "各 rank 间的集合通信",
}
