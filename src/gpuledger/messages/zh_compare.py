"""Chinese of `diff` and `align`. One line per English template, in the order of the modules that say them."""

from __future__ import annotations

from typing import Final

COMPARE: Final[dict[str, str]] = {
    # analyse/align
    "{state}: {evidence}{also}.": "{state}：{evidence}{also}。",
    "known: {sentence} ({reason})": "已知：{sentence}（{reason}）",
    "known difference no longer present: {difference}": "已知差异不再出现：{difference}",
    "ALIGNED IN TIME: a call of the mock takes {ratio} x the model's{but}.": (
        "耗时对齐：mock 单次调用的耗时是模型的 {ratio} 倍{but}。"
    ),
    "ALIGNED: the mock runs what the model runs{but}.": "对齐：mock 运行的 kernel 与模型一致{but}。",
    "ALIGNED: the mock runs what the model runs, in {ratio} x its time{but}.": (
        "对齐：mock 运行的 kernel 与模型一致，耗时是模型的 {ratio} 倍{but}。"
    ),
    "; see also {checks}": "；另见：{checks}",
    "NOT ALIGNED": "未对齐",
    "ALIGNED WITH REMARKS": "基本对齐（有差异）",
    "; known: {checks}": "；已知差异：{checks}",
    "; {checks} could not be checked": "；无法判断：{checks}",
    "CUDA graphs": "CUDA graph 行为",
    "calls per forward": "单次 forward 调用次数",
    "missing kernels": "缺失的 kernel",
    "extra kernels": "多余的 kernel",
    "launch shape": "launch 形状",
    "latency per forward": "单次 forward 延迟",
    "{ours} in the mock is {theirs} in the model: another kernel of the same family": (
        "mock 中是 {ours}，模型中是 {theirs}：同一类别的另一个 kernel"
    ),
    "the mock runs {ours} where the model runs {theirs}": "mock 运行 {ours}，模型在同一位置运行 {theirs}",
    "{kernel}: {mock} in the mock, {e2e} in the model": "{kernel}：mock 为 {mock}，模型为 {e2e}",
    "grid and block are not recorded": "没有记录 grid 和 block",
    "{kernel} has other template arguments in the model than in the mock": "{kernel} 在模型中的模板参数与 mock 不同",
    "{ours} in the mock is {theirs} in the model: other template arguments or another tile": (
        "mock 中是 {ours}，模型中是 {theirs}：模板参数或 tile 不同"
    ),
    "only {whose} runs {kernel}; the other side runs something else there": (
        "只有{whose}运行 {kernel}，另一侧在同一位置运行别的 kernel"
    ),
    "{what} {kernel}: {share} of the operation's time": "{what} {kernel}：占该 Op 时间的 {share}",
    "{share} of time": "占时间的 {share}",
    "{count} of {of} kernels in a graph": "{of} 个 kernel 中有 {count} 个在 graph 内",
    "in a graph": "在 graph 内运行",
    "eager": "eager 方式",
    "no kernel has the same name on both sides": "没有两侧同名的 kernel",
    "{count} of {main} main the same": "主要 kernel {count}/{main} 一致",
    "{count} of {main}": "{count}/{main} 个",
    "{kernel}: called {mock} x in the mock's forward, {e2e} x in the model's": (
        "{kernel}：每次 forward 的调用次数，mock {mock} 次，模型 {e2e} 次"
    ),
    "{count} of {of} kernels": "{count}/{of} 个 kernel",
    "the mock does not run": "mock 没有运行",
    "the model does not run": "模型没有运行",
    "the model's table does not say which of its other kernels belong to the operation": (
        "模型的统计表没有说明其余 kernel 中哪些属于该 Op"
    ),
    "{count} missing": "缺 {count} 个",
    "{count} extra": "多 {count} 个",
    "what ran in a graph is unknown": "不知道哪些 kernel 在 graph 内运行",
    "the mock runs {ours}, the model {theirs}": "mock {ours}，模型{theirs}",
    "{count} of {of} the same": "{count}/{of} 个一致",
    "a timing does not tell which kernels ran": "计时结果不含 kernel 信息",
    "the model": "模型",
    "the mock": "mock 侧",
    "mock": "mock 侧",
    "model": "模型侧",
    "{sentence}, perhaps by other operations": "{sentence}（可能来自其他 Op）",
    "{profile}: {count} GPUs in use; GPU {gpu}, the busiest, is taken as the mock": (
        "{profile}：有 {count} 块 GPU 在工作；取最忙的 GPU {gpu} 作为 mock"
    ),
    "{profile}: {forwards} ({how}); means of the whole profile": (
        "{profile}：{forwards}（{how}）；取整个 profile 的平均值"
    ),
    "given": "由用户给定",
    "by the greatest common divisor of the main kernels' calls": "取主要 kernel 调用次数的最大公约数",
    "by the calls of the mock's longest kernel": "按 mock 中最长 kernel 的调用次数",
    "{names} and {count} more": "{names} 等（另有 {count} 个）",
    "{profile}: left out because they run in fewer than half of the forwards: {kernels}": (
        "{profile}：以下 kernel 出现在不到一半的 forward 中，已略去：{kernels}"
    ),
    "{mock} in the mock, {e2e} in the model: the mock is {ratio} (limit {limit} x)": (
        "mock 为 {mock}，模型为 {e2e}：mock {ratio}（限值 {limit}x）"
    ),
    "the same": "相同",
    "{ratio} x slower": "慢 {ratio}x",
    "{ratio} x faster": "快 {ratio}x",
    "P10 to P90 of the forwards: {mock} in the mock, {e2e} in the model": (
        "八成的 forward 耗时：mock 为 {mock}，模型为 {e2e}"
    ),
    "no kernel runs on both sides": "没有两侧都运行的 kernel",
    "the sum hides {kernel}": "总和掩盖了这一差异：{kernel}",
    "{time} ({ratio})": "{time}（{ratio}）",
    "{kernel}: {mock} in the mock, {e2e} in the model, {share} of the difference": (
        "{kernel}：mock 为 {mock}，模型为 {e2e}，占差异的 {share}"
    ),
    "a step of {profile} runs the same {kernels} several times: each repetition counts as a forward": (
        "{profile} 的一步把同样的 {kernels} 重复运行多次：每一次算一个 forward"
    ),
    "{profile}: no steps were found; {how} (--mock-range=REGEX overrides this)": (
        "{profile}：没有识别出步；{how}（可用 --mock-range=REGEX 另行指定）"
    ),
    "{profile}: no annotation matches '{pattern}'; matching operators or modules are taken as forwards": (
        "{profile}：没有标注匹配 '{pattern}'；以匹配的算子或模块作为 forward"
    ),
    "{profile}: left out because they do not match the pattern: {kernels}": (
        "{profile}：不匹配该模式，已略去：{kernels}"
    ),
    "{profile}: left out because they match the pattern outside the mock's sequence: {kernels}": (
        "{profile}：匹配该模式但不在 mock 的序列内，已略去：{kernels}"
    ),
    "{kernels} that repeat count as a forward": "以重复出现的 {kernels} 作为一个 forward",
    "the whole profile counts as one forward": "整个 profile 算一个 forward",
    "found by sequence: what the model runs before the mock's first kernel and after its last is not seen": (
        "按序列找到：模型在 mock 第一个 kernel 之前、最后一个 kernel 之后运行的内容看不到"
    ),
    "{profile}: looked for the operation among the first {count} kernels only": (
        "{profile}：只在前 {count} 个 kernel 中查找该 Op"
    ),
    "1 forward": "1 次 forward",
    "{count} forwards": "{count} 次 forward",
    "a forward has {mock} kernels in the mock and {e2e} in the model; {hint}": (
        "每次 forward 的 kernel 数：mock {mock} 个，模型 {e2e} 个；{hint}"
    ),
    "{which} waits {time} before {kernel} in {count} of {of} forwards": (
        "{which}在 {kernel} 之前等待 {time}（{of} 次 forward 中有 {count} 次）"
    ),
    "{which}: forwards in the last quarter of the steps are {share} shorter than in the first: "
    "the work changes over the run": "{which}：最后四分之一的步中 forward 比最初四分之一短 {share}：工作量随运行变化",
    "{which}: forwards in the last quarter of the steps are {share} longer than in the first: "
    "the work changes over the run, as with a growing KV length": (
        "{which}：最后四分之一的步中 forward 比最初四分之一长 {share}：工作量随运行变化，例如 KV 长度不断增长"
    ),
    "{which}: {what}": "{which}：{what}",
    "the one with the median GPU time represents them": "取 GPU 时间居中的一次作为代表",
    "the isolated part may be more than the operation: use a narrower range, or --auto": (
        "取出的可能不止该 Op：请用更窄的区间，或 --auto"
    ),
    "from first start to last end: {mock} in the mock, {e2e} in the model; the checks leave out the gaps between "
    "kernels": "从第一个 kernel 开始到最后一个结束：mock 为 {mock}，模型为 {e2e}；检查不计 kernel 间隙",
    "the model's find it ready": "模型中则已准备好",
    "{which} is never idle for 1 ms": "{which}没有超过 1 ms 的停顿",
    "{wait}, each the first of its step": "{wait}，均为该步的第一次",
    "the GPUs differ: {mock} in the mock, {e2e} in the model": "GPU 不同：mock 为 {mock}，模型为 {e2e}",
    "{count} kernels run at another place in the sequence, which no check counts": (
        "{count} 个 kernel 在序列中的位置不同，检查不计入"
    ),
    "the first left out": "不含第一次",
    "of {count} ranks, each layer is taken from the rank that computes longest: the others wait for it": (
        "{count} 个 rank 中取计算最久的一个：其他 rank 在等它"
    ),
    "{count} run another sequence of kernels": "{count} 次的 kernel 序列不同",
    "the mock's may be more than the operation, or hold it several times: --mock-range=REGEX cuts it": (
        "mock 可能不止该 Op，或把它运行了多次：可用 --mock-range=REGEX 截取"
    ),
    "in the model the first layer of a step does so for the others": "模型中由每步的第一层代其他层完成",
    "each forward of the mock pays for a first call (a plan, a module, as for a new length); {rest}": (
        "mock 的每次 forward 都付出首次调用的开销（如为新长度做 plan、加载模块）；{rest}"
    ),
    "{count} in each of {steps} steps": "{steps} 步中每步 {count} 次",
    "one per step": "每步一次",
    "no two run the same sequence of kernels": "没有两次的 kernel 序列相同",
    "it": "该 kernel",
    "The mock calls another implementation, or the model fuses what the mock runs separately: "
    "build the mock from the framework's own class, with the model's backend, data type and "
    "quantization.": (
        "mock 调用了另一种实现，或模型把 mock 分开运行的部分融合了：请用框架的官方实现类构建 mock，"
        "后端、数据类型和量化方式与模型一致。"
    ),
    "Libraries choose the tile by size, alignment and data type: give the mock the model's batch, sequence length, "
    "head counts, tensor-parallel split and data type.": (
        "库会按尺寸、对齐和数据类型选择 tile：请让 mock 的 batch、序列长度、head 数、TP 切分和数据类型与模型一致。"
    ),
    "The mock calls a kernel more often: move initialization, metadata and input preparation out "
    "of its forward, or batch what it runs one by one, as the model does.": (
        "mock 调用某个 kernel 的次数更多：把初始化、metadata 和输入准备移出 forward，或像模型那样合批执行。"
    ),
    "The mock calls a kernel less often: check the number of heads, experts, chunks and micro-batches per forward.": (
        "mock 调用某个 kernel 的次数更少：检查每次 forward 的 head、expert、chunk 和 micro-batch 数量。"
    ),
    "Something the operation depends on is not set up in the mock: the KV-cache manager, "
    "quantization, position embeddings, a communicator; or the model fuses it in.": (
        "mock 中缺少该 Op 依赖的子模块：KV Cache Manager、量化、位置编码、通信组；或者模型把它融合了。"
    ),
    "Look for initialization, input preparation or debugging code inside the mock's forward; if "
    "the model fuses it into another kernel, use the fused path. --mock-range=REGEX leaves out "
    "what surrounds the forward.": (
        "检查 mock 的 forward 中是否有初始化、输入准备或 debug 代码；若模型把它融合进别的 kernel，请改走融合路径。"
        "--mock-range=REGEX 可以排除 forward 前后的内容。"
    ),
    "Capture the mock's forward in a CUDA graph and time its replay, as the model does.": (
        "像模型那样把 mock 的 forward 捕获成 CUDA graph，对 graph replay 计时。"
    ),
    "The model runs without CUDA graphs: time the mock without one, or switch the model's on.": (
        "模型没有使用 CUDA graph：mock 也不要用，或在模型中打开 CUDA graph。"
    ),
    "Capture the same part of the operation in the graph on both sides.": "两侧把 Op 的同一部分捕获进 graph。",
    "The grid follows the sizes of the input: give the mock the model's batch, sequence and KV length and head "
    "counts.": "grid 由输入尺寸决定：请让 mock 的 batch、序列长度、KV 长度和 head 数与模型一致。",
    "The two profiles are of different GPUs: record both on the same one.": (
        "两个 profile 来自不同的 GPU：请在同一块 GPU 上采集。"
    ),
    "The kernels have the same launch shape and take less time. Most likely the mock, which "
    "repeats one layer, finds weights and inputs still in the GPU's cache, while in the model "
    "other layers run in between: rotate over several copies of the weights, or flush the cache "
    "between forwards. Otherwise compare the KV length, data types and clocks.": (
        "kernel 的 launch 方式相同，但耗时更短。最可能的原因是 mock 反复运行同一层，权重和输入还在 GPU 缓存里，"
        "而模型中间会运行其他层：请轮换使用多份权重，或在两次 forward 之间清空缓存。"
        "否则请对比 KV 长度、数据类型和频率。"
    ),
    "The kernels have the same launch shape and take more time: compare the KV length, data "
    "layout and clocks, and look for other work on the GPU at the same time.": (
        "kernel 的 launch 方式相同，但耗时更长：请对比 KV 长度、数据布局和频率，并检查 GPU 上是否同时有其他工作。"
    ),
    "The launch shapes differ, so the inputs differ: align these first, then compare times again.": (
        "launch 形状不同，说明输入不同：先对齐输入，再比较耗时。"
    ),
    "Launch shapes are unknown here, so compare the inputs first: batch, sequence and KV length, "
    "data types. Profiles have them; tables do not.": (
        "这里不知道 launch 形状，请先对比输入：batch、序列长度、KV 长度、数据类型。用 profile 代替统计表即可得知。"
    ),
    "The model replays a CUDA graph: time the mock's replay too.": (
        "模型运行的是 CUDA graph replay：mock 也应对 replay 计时。"
    ),
    "{grid} of {block}": "grid {grid}、block {block}（线程）",
    "{kernel} ({count} calls)": "{kernel}（{count} 次调用）",
    "unknown": "未知",
    # analyse/diff
    "kernels with a partner hold {before} of the kernel time before and {after} after": (
        "能配对的 kernel 占 kernel 时间：之前 {before}，之后 {after}"
    ),
    "Lost before: {loss}.": "“之前”的 profile 有丢失：{loss}。",
    "Lost after: {loss}.": "“之后”的 profile 有丢失：{loss}。",
    "1 GPU": "1 块 GPU",
    "{count} GPUs": "{count} 块 GPU",
    "{has} has steps ({source}), {lacks} has none": "{has} 有步（{source}），{lacks} 中没有识别出步",
    "they ran on different GPUs: {before}, {after}": "两次运行的 GPU 不同：{before}、{after}",
    "they used {before} and {after}": "两次运行分别用了 {before} 和 {after}",
    "their jobs have {before} and {after} ranks": "两个任务的 rank 数分别为 {before} 和 {after}",
    "they have too few kernels in common: {partners}": "两侧相同的 kernel 太少：{partners}",
    "Few kernels are the same, but the ranges are: {partners}.": "相同的 kernel 很少，但区间相同：{partners}。",
    "Steps are {before} before and {after} after: are they the same? --step-range defines them.": (
        "步的划分方式，之前：{before}；之后：{after}。两者是一回事吗？可用 --step-range 指定步。"
    ),
    "Recorded with different profilers ({before}, {after}): each slows the host in its own way.": (
        "用不同的 profiler 采集（{before}、{after}）：各自拖慢主机的方式不同。"
    ),
    "The GPUs' clocks differ: {before} and {after} MHz.": "GPU 频率不同：{before} 和 {after} MHz。",
    "The GPU model was not recorded, so it cannot be compared.": "没有记录 GPU 型号，无法比较。",
    "Profiles of several ranks are pooled like runs; `gpuledger fleet` shows who waits for whom.": (
        "多个 rank 的 profile 按多次运行合并；`gpuledger fleet` 说明谁在等谁。"
    ),
    "Compared anyway, though {reason}.": "仍然做了对比，尽管{reason}。",
    "Ranges matched because they were the only ones left: {ranges}.": "以下区间因只剩它们而视为同一个：{ranges}。",
    "`nsys stats` tables hold sums, which say nothing about noise": "`nsys stats` 的统计表只有总和，看不出噪声",
    "no steps were found; {count} or more runs per side would show the noise": (
        "没有识别出步；每侧至少 {count} 次运行才能看出噪声"
    ),
    "Step times are autocorrelated ({follows}: drift or throttling), so they carry less "
    "information than independent ones; the interval is wider for it.": (
        "相邻的步长度相关（自相关 {follows}：漂移或降频），信息量少于同样多的独立样本；区间因此更宽。"
    ),
    "Runs on one side differ by {time} (standard deviation) beyond what their steps explain; the "
    "interval is wider for it.": "同一侧各次运行的差异（标准差 {time}）超出步的波动；区间因此更宽。",
    "One run per side: the interval leaves out run-to-run variation; give a folder of runs.": (
        "每侧只有一次运行：区间不含多次运行之间的差异；请给出含多次运行的目录。"
    ),
    "No controls: {reason}.": "没有对照区间：{reason}。",
    "`nsys stats` tables have no steps, idle time, intervals or kernels by range.": (
        "`nsys stats` 的统计表不含步、空闲时间、置信区间以及区间内运行的内容。"
    ),
    "GPU {before} before is compared with GPU {after} after.": "之前的 GPU {before} 与之后的 GPU {after} 对比。",
    "GPU {gpu}, not shown: {before} -> {after} per step; --device={gpu} shows it.": (
        "GPU {gpu} 未显示：每步 {before} -> {after}；用 --device={gpu} 查看。"
    ),
    "Shares of ranges are of the time in the program's own ranges; those of libraries and setup are left out.": (
        "区间占比的分母是程序自身区间的时间：不含库自带的区间和初始化。"
    ),
    "the ranges that did not change took no time": "未改动的区间没有耗时",
    "no range is on both sides": "没有两侧都有的区间",
    "every range does the same on both sides, so none can serve as a control for another": (
        "每个区间在两侧做的事都相同，无法互为对照"
    ),
    "no range does the same on both sides without waiting for the GPU": "没有两侧做的事相同且不等待设备的区间",
    "tables do not show what runs in a range; --control names those that did not change": (
        "统计表不含区间内运行的内容；可用 --control 指定未改动的区间"
    ),
    "ranges of the same name changed by {least} to {most} %, so not all of them can be "
    "unchanged; --control names those that are": (
        "同名区间的变化从 {least} 到 {most} % 不等，不可能都未改动；可用 --control 指定未改动的区间"
    ),
    "no range on both sides matches '{pattern}'": "没有两侧都有且匹配 '{pattern}' 的区间",
    "their times per step are unknown": "没有逐步的时间",
    "only one step": "只有 1 步",
    "only {count} steps": "只有 {count} 步",
    "{steps} on one side; an interval needs {least}": "一侧{steps}；置信区间至少需要 {least} 步",
    "{steps} on one side": "一侧{steps}",
    # present/views/align
    "Checks": "检查结果",
    "PASS": "通过",
    "KNOWN": "已知",
    "WARN": "警告",
    "FAIL": "不通过",
    "NOT MEASURED": "未测量",
    "exact": "完全一致",
    "function": "同一函数",
    "family": "同一类别",
    "missing": "缺失",
    "inserted": "多出",
    "{before} against {after}": "{before} 与 {after} 对比",
    "{mock} of the mock and {e2e} of the model": "mock {mock}，模型 {e2e}",
    "isolated by pattern '{pattern}'": "按模式 '{pattern}' 取出",
    "isolated automatically": "自动取出",
    "isolated by range '{pattern}'": "按区间 '{pattern}' 取出",
    "same": "相同",
    "{count} more of the kind": "同类还有 {count} 条",
    "What to do: {remedy}": "处理办法：{remedy}",
    "{level}, moved": "{level}，位置不同",
    "differs": "不同",
    "Mock, GPU time per forward": "mock 每次 forward 的 GPU 时间",
    "Check": "检查项",
    "Verdict": "结论",
    "Mock": "mock 侧",
    "Model": "模型侧",
    "Kernel by kernel": "逐个 kernel 对照",
    "{title}: {verdict}": "{title}：{verdict}",
    "Notes": "说明",
    "Ratio": "比值",
    "Shape": "形状",
    "{count} more kinds of kernels, and single calls, are in CSV and JSON.": (
        "另有 {count} 种 kernel 以及每次调用的明细，见 CSV 和 JSON。"
    ),
    "Kernel of the mock": "mock 的 kernel",
    "of the model": "模型的 kernel",
    # present/views/diff
    "Careful: both sides run the same kernels equally often; only the host's speed differs. One "
    "run per side cannot tell a change in the program from a busier machine: give a folder of "
    "runs for each side.": (
        "注意：两侧运行的 kernel 及次数相同，只有主机的快慢不同。各一次运行无法区分是程序变了还是机器更忙："
        "请每侧给出含多次运行的目录。"
    ),
    "No change: {went}, {change} ({why})": "没有变化：{went}，{change}（{why}）",
    "No kernels in these tables: calls and ranges are compared, without a verdict": (
        "这些统计表中没有 kernel：只对比调用和区间，不给出结论"
    ),
    "Kernel time {times} per run ({change}). Sums do not tell how long a step takes: no verdict": (
        "每次运行的 kernel 时间 {times}（{change}）。总和看不出每步多长：不给出结论"
    ),
    "{times} per step": "每步 {times}",
    "{times} in total": "总计 {times}",
    "{much} faster: {went}{factor} ({sure})": "快了 {much}：{went}{factor}（{sure}）",
    "{much} slower: {went} ({sure})": "慢了 {much}：{went}（{sure}）",
    "less than {share}, {sure}": "小于 {share}，{sure}",
    "{sure}, which includes 0": "{sure}，包含 0",
    "no interval: {reason}": "没有置信区间：{reason}",
    "95 % interval {interval}": "95 % 置信区间 {interval}",
    "{low} to {high} {unit}": "{low} 至 {high} {unit}",
    "before: {side}": "之前：{side}",
    "after: {side}": "之后：{side}",
    "{name}, `nsys stats` tables": "{name}，nsys stats 的统计表",
    "GPU {gpu} of {count}": "{count} 块 GPU 中的 GPU {gpu}",
    "{count} runs": "{count} 次运行",
    "{count} steps ({source})": "{count} 步（{source}）",
    "the whole window: no steps were found": "整个窗口（没有识别出步）",
    "per step, ": "每步，",
    "kernel time, ": "kernel 时间，",
    "Time in launch calls: {change}; {number} from the number and kind of calls, {cost} from what each costs.": (
        "launch 调用的时间变化 {change}，其中 {number} 来自调用的次数和种类，{cost} 来自单次耗时。"
    ),
    "Kernels that changed most": "变化最大的 kernel",
    "CUDA calls that changed most, on the host": "变化最大的 CUDA 调用（主机侧）",
    "Ranges that changed most": "变化最大的区间",
    "{title}, per step": "{title}（每步）",
    "From before to after, part by part": "从之前到之后，逐部分",
    "{before} before, {after} after: {parts}": "之前 {before}，之后 {after}：{parts}",
    "before": "之前",
    "after": "之后",
    "new": "新增",
    "calls{per}": "调用次数{per}",
    "time in them{per}": "总耗时{per}",
    " per step": "（每步）",
    "time each": "单次耗时",
    "time per call": "单次耗时变化",
    "mix": "kernel 组成",
    "other compute": "其他计算",
    "unlike steps": "步的差异",
    "place": "位置",
    "name": "名称",
    "vanished": "消失",
    "numbers": "仅编号不同",
    "renamed": "改名",
    "control": "对照",
    "{count} new": "新增 {count} 种",
    "{count} gone": "消失 {count} 种",
    "most in {kernel}": "主要在 {kernel}",
    "started before the steps": "在步之前开始",
    "skew {times}": "偏斜 {times}",
    "peak in use": "最大占用",
    "TRIPPED": "触发",
    "passed: may be noise": "通过：可能是噪声",
    "passed": "通过",
    "did not change": "没有改动",
    "have the same name and number on both sides, and are taken to be unchanged": "两侧名称和次数相同，视为没有改动",
    "Controls: {ranges} {why}; their host time went {times} ({change})": (
        "对照区间：{ranges} {why}；其主机时间 {times}（{change}）"
    ),
    "{controls}, which may be noise: no correction.": "{controls}，可能是噪声：不做校正。",
    "{controls}, so the host itself was slower.": "{controls}，说明主机本身变慢了。",
    "{controls}, so the host itself was faster.": "{controls}，说明主机本身变快了。",
    "{controls} Corrected changes of ranges are shown next to the raw ones.": (
        "{controls}区间的校正值列在原始变化旁边。"
    ),
    "{controls} With host-caused idle time scaled to the speed before, {raw} becomes {corrected}.": (
        "{controls}把主机造成的空闲时间折算到之前的速度，{raw} 变为 {corrected}。"
    ),
    "Why ({whole}parts sum to the difference)": "差异来自哪里（{whole}各部分之和等于总差异）",
    "Compared": "对比对象",
    "Gates": "门禁",
    "No part differs.": "差异的每一部分都是 0。",
    "CUDA calls": "CUDA 调用",
    "CUDA call": "CUDA 调用",
    "Part": "部分",
    "Change": "变化",
    "What changed": "变化内容",
    "Time each": "单次耗时",
    "Host time": "主机时间",
    "Number": "次数",
    "Bytes": "字节数",
    "Gate": "门禁",
    "Before -> after": "之前 -> 之后",
    "Of the whole": "占整体",
    "Corrected": "校正后",
}
