"""Chinese for use of the GPU from samples."""

from __future__ import annotations

from typing import Final

USE: Final[dict[str, str]] = {
    # trace/tables
    "one value of one counter of a GPU, sampled; start_ns and end_ns are its timestamp": (
        "GPU 某个计数器的一次采样值；start_ns 与 end_ns 均为其时间戳"
    ),
    # analyse/use
    "no counter of GPU {gpu} that we know was sampled": "GPU {gpu} 上没有采样到已知的计数器",
    "GPU {gpu} was sampled less than twice": "GPU {gpu} 的采样不足两次",
    "no kernel of GPU {gpu} was sampled": "GPU {gpu} 上没有采样到任何 kernel",
    "GPU {gpu} was sampled {count} times while its kernels ran": "GPU {gpu} 的 kernel 运行期间只采样了 {count} 次",
    # present/views/kernel_use
    "SMs active": "SM 活跃",
    "Issue": "发射",
    "Tensor": "Tensor Core 单元",
    "Warps": "warp 驻留",
    "DRAM read": "显存读",
    "DRAM write": "显存写",
    "warps": "warp 驻留",
    "{counter} {share}": "{counter} {share}",
    "{counter} {share} ({low} to {high})": "{counter} {share}（{low} 至 {high}）",
    "{low} to {high} %": "{low} 至 {high} %",
    "{percent} %": "{percent} %",
    "({count} more kernels)": "（另有 {count} 个 kernel）",
    "Use of GPU {gpu} by kernel, from {count} samples every {period} (shares of kernel time; percent of what the "
    "GPU could do while the kernel ran)": (
        "各 kernel 对 GPU {gpu} 的利用率，来自每 {period} 一次的 {count} 个采样"
        "（占 kernel 时间的比例；百分比以 kernel 运行期间 GPU 的能力为 100 %）"
    ),
    "GPU {gpu}, while its kernels ran, of what it could do: {figures}.": (
        "GPU {gpu} 在 kernel 运行期间的利用率：{figures}。"
    ),
    "Most time: {kernel}, {share} of kernel time: {figures}.": (
        "耗时最多：{kernel}，占 kernel 时间 {share}：{figures}。"
    ),
    "The clock was held down: {mean} MHz on average while kernels ran, {lowest} MHz at the lowest, "
    "of {highest} MHz.": "时钟受限：kernel 运行期间平均 {mean} MHz，最低 {lowest} MHz，最高可达 {highest} MHz。",
}
