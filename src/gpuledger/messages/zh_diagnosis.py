"""Chinese of the diagnosis benchmark (`present/views/diagnosis`)."""

from __future__ import annotations

from typing import Final

DIAGNOSIS: Final[dict[str, str]] = {
    "{faults} faults, {controls} controls": "{faults} 个有问题的程序，{controls} 个对照",
    "names the fault first in {first}, in its first three in {three}": "首条即指出问题 {first}，前三条内指出 {three}",
    "savings within 25 % in {count}": "收益误差在 25 % 以内 {count}",
    "false claims in {count}": "误报 {count}",
    "{tool}: {told}.": "{tool}：{told}。",
    "built on": "据此制定",
    "adjusted after": "事后调整过",
    "not used": "未使用",
    "Faults": "问题",
    "Named first": "首条",
    "First": "首条即中",
    "Top 3": "前 3 条内",
    "Right area": "方向正确",
    "Measured savings": "实测收益",
    "Within 25 %": "误差 25 % 内",
    "Median error": "误差中位数",
    "Controls": "对照",
    "False claims": "误报",
    "Tool": "工具",
    "All cases": "全部用例",
    "Case group": "分组",
    "Our rules": "我们的规则",
    "By group": "按分组",
    "Case": "用例",
    "Accepted": "正确答案",
    "Said": "预测",
    "Measured": "实测",
    "Cases, {tool}": "用例，{tool}",
    "Cases": "用例",
    "not answered": "未回答",
    "false claim": "误报",
    "no false claim": "无误报",
    "missed": "未指出",
    "named first": "首条",
    "place {place}": "第 {place} 条",
    "{tool} does not answer {count} cases; they count as missed.": "{tool} 有 {count} 个用例未回答，均计为未指出。",
    "{tool} uses words that are in no list of causes, and count as wrong: {words}.": (
        "{tool} 用了原因列表之外的说法，均计为错误：{words}。"
    ),
}
