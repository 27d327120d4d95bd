"""The line of code that holds time: stretches of threads in, `file:line in function` out, and what it calls.

From samples of Python's stacks, each for the period between two looks. From torch's Python functions, which know when
each was called, but not from where: of those the line is where the function begins. The user's own frames come first:
the place is the innermost of them that still holds half of what its caller holds; `into` is what it calls of a library,
`caller` where it was called.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.attribution.lost_time import FEWEST_SAMPLES, ThreadTime, whole_ns
from gpuledger.catalog.kernel_names import without_numbers
from gpuledger.ledger.device import Device
from gpuledger.ledger.ranges import thread
from gpuledger.messages import Message, say
from gpuledger.regex import regex
from gpuledger.trace.keys import RowsByKey, group
from gpuledger.trace.model import Trace, os_pid, thread_number
from gpuledger.trace.spans import Ints, covered, total, union
from gpuledger.trace.tables import Table

GOES_ON: Final = 0.5
"""A frame that holds this share of what the one around it holds is the place, rather than the one around it."""

LEAST_OF_ALL: Final = 0.2  # a place holds at least this share of the whole
_FRAME: Final = regex(r"^(?P<function>.+) \((?P<file>[^()]+):(?P<line>-?\d+)\)$")
_FRAMEWORK: Final = regex(r"^(torch/|python\d|<|gpuledger/)")
"""Files of the framework and of Python itself: whoever calls them says more."""
_BUILT_IN: Final = regex(
    r"^<built-in (?:method (?P<method>\w+) of (?:type object|(?P<type>[\w.]+) object)|function (?P<function>\w+))"
)
_LOADER: Final = regex(r"\(torch/utils/data/dataloader\.py:")
_HANDS_ON: Final = regex(
    r"\((?:torch/(?:utils/_contextlib|nn/modules/module|amp/autocast_mode)|(?:python[\d.]+/)?contextlib)\.py:"
    r"|^nn\.Module: "
)
"""Decorators, and the call of a module: what they call says more."""
_PART_OF_STEP: Final = regex(r"\(torch/(?:nn/modules/module|optim/\w+|autograd/\w+|utils/checkpoint)\.py:")
"""What is called inside these goes around over layers, parameters or gradients; a loop of steps is outside of them."""
_INNER: Final = regex(r"(?:\.<locals>)?\.<(?:listcomp|genexpr|dictcomp|setcomp|lambda)>")


class LinePlace(Struct, frozen=True):
    """A line, and how much of what was looked at is there."""

    file: str
    line: int
    function: str
    amount_ns: int
    whole_ns: int
    into: str = ""  # the function of a library that most of the time there is in
    caller: str = ""  # `file:line` of the user's own frame around it
    frames: tuple[str, ...] = ()  # the user's own frames down to it, the outermost first
    is_exact: bool = True  # whether it is the very line; else where the function begins
    stack: tuple[str, ...] = ()  # all frames of the stack there that holds the most, the outermost first
    down_to: str = ""  # the innermost function of a package that still holds half of the time, where that is another

    @property
    def share(self) -> float:
        return self.amount_ns / max(self.whole_ns, 1)

    @property
    def at(self) -> str:
        """`file:line`; of a module's own code only the file, where the line is not known."""
        return self.file if self.line < 0 else f"{self.file}:{self.line}"

    @property
    def where(self) -> Message:
        """The place in words; the line comes before all that may be cut."""
        if self.is_exact:
            return say("at {at} in {function}", at=self.at, function=self.function)
        return say("in {function}, which begins at {at}", function=self.function, at=self.at)

    @property
    def whole(self) -> Message:
        """The place, what it calls, and where it is called."""
        where = say("{where} -> {into}", where=self.where, into=self.into) if self.into else self.where
        if self.down_to:
            where = say("{where} -> ... -> {into}", where=where, into=self.down_to)
        if is_in_loader(self.stack):
            where = say("{function} in {around}", function=where, around="torch.utils.data.DataLoader")
        return say("{where}, called from {caller}", where=where, caller=self.caller) if self.caller else where


def is_own(frame: str) -> bool:
    """Whether a frame is in the user's code. torch prints library files with their folders, user files and Python's own
    modules without. A file named by a hash was generated, by torch.compile for example."""
    file = _file(frame)
    if not file or "/" in file or file.startswith("<"):
        return False
    module = file.removesuffix(".py")
    return module not in sys.stdlib_module_names and without_numbers(module) != "#"


def own_frames(frames: Sequence[str]) -> list[str]:
    """The user's own functions among these; where there are none, those of packages; else any of Python."""
    python = [frame for frame in frames if _file(frame)]
    packages = (frame for frame in python if not _FRAMEWORK.match(_file(frame)))
    return list(filter(is_own, python)) or list(packages) or python


def frames_of_models(frames: Sequence[str]) -> list[str]:
    """Of a stack, the innermost first, those of a package's modules which the user's innermost line calls. That line
    says `model(x)`, of whatever the model does."""
    line = next((depth for depth, frame in enumerate(frames) if is_own(frame)), 0)
    call = max((depth for depth in range(line) if "(torch/nn/modules/module.py:" in frames[depth]), default=0)
    return [frame for frame in frames[:call] if _package(_file(frame))]


def frames_of_loop(frames: Sequence[str]) -> tuple[str, ...]:
    """Of a stack, the innermost first, those that a loop of steps may be in: no framework, and no part of one step."""
    inside = (depth for depth in reversed(range(len(frames))) if _PART_OF_STEP.search(frames[depth]))
    around = frames[next(inside, -1) + 1 :]
    return tuple(frame for frame in around if _file(frame) and not _FRAMEWORK.match(_file(frame)))


def is_in_loader(frames: Iterable[str]) -> bool:
    """Whether a stack is that of torch's data loader."""
    return any(map(_LOADER.search, frames))


def sampled_line(trace: Trace, parts: Sequence[ThreadTime]) -> LinePlace | None:
    """The line that most of this time was in, by the samples of Python's stacks; None where none was taken then. A
    thread that runs no Python, as autograd's, stands for the one that its process began with, which waits for it."""
    if Table.SAMPLES not in trace.tables:
        return None
    weights = sampled_stacks(trace, parts)
    if not weights:
        first = [replace(part, tid=os_pid(part.pid), thread=_first_thread(part.pid)) for part in parts]
        weights = sampled_stacks(trace, [part for part in first if part.thread not in {p.thread for p in parts}])
    if not weights:
        return None
    paths = {stack: trace.stacks.texts(stack, trace.strings)[::-1] for stack in weights}
    return heaviest_line([(paths[stack], weight) for stack, weight in weights.items()])


def _first_thread(pid: int) -> int:
    return int(thread_number(np.array([pid]), np.array([os_pid(pid)]))[0])


def sampled_stacks(trace: Trace, parts: Sequence[ThreadTime]) -> dict[int, int]:
    """The stacks of Python in which these threads were then, and the time that their samples stand for."""
    if Table.SAMPLES not in trace.tables:
        return {}
    samples = trace[Table.SAMPLES]
    samples = samples.where((samples["stack"] >= 0) & (samples.codes("source") == trace.strings.code("python")))
    if not len(samples):
        return {}
    weight, by_thread = np.zeros(len(samples), np.int64), RowsByKey.of(thread(samples))
    for part in parts:
        mine = by_thread.rows(part.thread)
        if not len(mine):
            continue
        start, end = samples["start_ns"][mine], samples["end_ns"][mine] + 1
        period = int(np.median(np.diff(start))) if len(mine) > 1 else 1
        inside = covered(part.spans, start, end) / (end - start)  # of each sample's own stretch
        weight[mine] += (inside * (end - start + max(period, 1))).astype(np.int64)
    held = np.flatnonzero(weight)
    if len(held) < FEWEST_SAMPLES:
        return {}
    first, number = group(samples["stack"][held])
    sums = np.bincount(number, weights=weight[held], minlength=len(first)).astype(np.int64)
    return dict(zip(samples["stack"][held[first]].tolist(), sums.tolist(), strict=True))


def idle_stacks(trace: Trace, device: Device) -> dict[int, int]:
    """The GPU's idle time by the stack of Python that the thread was in that ended each gap; none without samples."""
    if Table.SAMPLES not in trace.tables or not len(trace[Table.SAMPLES]):
        return {}
    gaps, host, stacks = device.ledger.gaps, device.host, Counter[int]()
    launched = np.flatnonzero(gaps.call >= 0)
    for number, mine in RowsByKey.of(host.thread_of_call[gaps.call[launched]]):
        call, of_thread = gaps.call[launched[mine[0]]], launched[mine]
        idle = union(gaps.start_ns[of_thread], gaps.end_ns[of_thread])
        pid, tid = (int(host.calls[name][call]) for name in ("pid", "tid"))
        weights = sampled_stacks(trace, [ThreadTime(int(host.threads[number]), pid, tid, idle)])
        whole = sum(weights.values())
        for stack, weight in weights.items():
            stacks[stack] += weight * total(idle) // whole
    return dict(stacks)


def idle_lines(trace: Trace, device: Device) -> tuple[LinePlace, ...]:
    """The GPU's idle time by the innermost line of the user's own code, the most first."""
    stacks, lines = idle_stacks(trace, device), dict[str, LinePlace]()
    whole = sum(stacks.values())
    for stack, time_ns in stacks.items():
        place = heaviest_line([(trace.stacks.texts(stack, trace.strings)[::-1], max(time_ns, 1))])
        if place is not None:
            known = lines.get(place.at)
            lines[place.at] = replace(
                known or place, amount_ns=time_ns + (known.amount_ns if known else 0), whole_ns=whole
            )
    return tuple(sorted(lines.values(), key=lambda line: (-line.amount_ns, line.at)))


class LineRuns(Struct, frozen=True, eq=False):
    """At which line a thread was, from the first look that found it there to the first that did not."""

    start_ns: Ints
    end_ns: Ints
    texts: tuple[str, ...]
    text: Ints  # of each run, a position in `texts`


def line_runs(trace: Trace, device: Device) -> LineRuns | None:
    """Where the thread was that launches most of a GPU's work; None where it was not sampled."""
    launched = device.work.of(device.gpu).launch
    if Table.SAMPLES not in trace.tables or not (launched >= 0).any():
        return None
    thread_of = device.host.thread_of_call[launched[launched >= 0]]
    launching = int(device.host.threads[int(np.bincount(thread_of).argmax())])
    samples = trace[Table.SAMPLES]
    is_python = (samples["stack"] >= 0) & (samples.codes("source") == trace.strings.code("python"))
    samples = samples.where(is_python & (thread(samples) == launching))
    if len(samples) < FEWEST_SAMPLES:
        return None
    first, number = group(samples["stack"])
    places = [
        heaviest_line([(trace.stacks.texts(stack, trace.strings)[::-1], 1)])
        for stack in samples["stack"][first].tolist()
    ]
    texts = ["" if place is None else f"{place.at} {place.function}" for place in places]
    distinct_texts = tuple(dict.fromkeys(texts))
    text = np.array([distinct_texts.index(text) for text in texts])[number]
    start = samples["start_ns"]
    begins = np.flatnonzero(np.append(True, text[1:] != text[:-1]))
    return LineRuns(start[begins], np.append(start[begins[1:]], samples["end_ns"][-1]), distinct_texts, text[begins])


def heaviest_line(stacks: Sequence[tuple[Sequence[str], int]], *, is_exact: bool = True) -> LinePlace | None:
    """Of stacks, the outermost frame first, and what each weighs: the line that holds the most, as above."""
    whole = sum(weight for _, weight in stacks)
    own = _own_positions(stacks)
    chosen, depth, held = list(range(len(stacks))), 0, whole
    while True:
        inner = Counter[str]()
        for stack in chosen:
            if depth < len(own[stack]):
                inner[stacks[stack][0][own[stack][depth]]] += stacks[stack][1]
        frame, weight = max(inner.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        if weight < max(LEAST_OF_ALL * whole, GOES_ON * held if depth else 0, 1):
            break
        chosen = [stack for stack in chosen if depth < len(own[stack]) and stacks[stack][0][own[stack][depth]] == frame]
        depth, held = depth + 1, weight
    if not depth:
        return None
    frames, positions = stacks[chosen[0]][0], own[chosen[0]][:depth]
    path = tuple(frames[position] for position in positions)
    inside = Counter[str]()
    for stack in chosen:
        below = own[stack][depth - 1] + 1
        while below + 1 < len(stacks[stack][0]) and _HANDS_ON.search(stacks[stack][0][below]):
            below += 1
        if below < len(stacks[stack][0]) and below not in own[stack]:
            inside[stacks[stack][0][below]] += stacks[stack][1]
    into, most = max(inside.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    most_of_it = max(chosen, key=lambda stack: stacks[stack][1])
    deepest = _deepest([(stacks[stack][0][own[stack][depth - 1] + 1 :], stacks[stack][1]) for stack in chosen], held)
    place = _place(path, into if 2 * most >= held else "", held, whole, is_exact=is_exact)
    if place is None:
        return None
    is_further = place.into and deepest.partition(" ")[0] != place.into.partition(" ")[0]  # in another file
    down_to = deepest if is_further else ""
    return replace(place, stack=tuple(stacks[most_of_it][0]), down_to=down_to)


def _deepest(below: Sequence[tuple[Sequence[str], int]], held: int) -> str:
    """Of what is called below a line, the innermost function of a package that holds half of what the line does."""
    name, level = "", 0
    while True:
        inner = Counter[str]()
        for frames, weight in below:
            if level < len(frames):
                inner[frames[level]] += weight
        frame, most = max(inner.items(), key=lambda item: (item[1], item[0]), default=("", 0))
        if 2 * most < held or not most:
            return name
        below = [(frames, weight) for frames, weight in below if level < len(frames) and frames[level] == frame]
        name, level = _called(frame) if _package(_file(frame)) else name, level + 1


def _own_positions(stacks: Sequence[tuple[Sequence[str], int]]) -> list[list[int]]:
    """Of each stack the frames that are the user's; without a file of theirs, those of the package that began it."""
    files = [[_file(frame) for frame in frames] for frames, _ in stacks]
    packages = [next(filter(None, map(_package, names)), "") for names in files]
    found = [[position for position, frame in enumerate(frames) if is_own(frame)] for frames, _ in stacks]
    if not any(found):  # an engine that is installed, or a program that torch tells with its folders
        found = [
            [position for position, file in enumerate(names) if package and _package(file) == package]
            for names, package in zip(files, packages, strict=True)
        ]
    if not any(found):
        found = [[position for position, file in enumerate(names) if file] for names in files]
    return found


def _file(frame: str) -> str:
    match = _FRAME.match(frame)
    return match["file"] if match else ""


def _package(file: str) -> str:
    """The outermost folder of a file; none for those of the framework and of Python itself."""
    package, _, inside = file.partition("/")
    return package if inside and package not in sys.stdlib_module_names and not _FRAMEWORK.match(file) else ""


def _place(path: tuple[str, ...], into: str, held_ns: int, whole: int, *, is_exact: bool) -> LinePlace | None:
    match = _FRAME.match(path[-1])
    if match is None:
        return None
    function, line = _shown(match["function"]), int(match["line"])
    is_module = function == "<module>" and not is_exact  # torch says at which line it found it, not where it went on
    around = [
        other
        for frame in path[:-1]
        if (other := _FRAME.match(frame)) and (other["file"], other["line"]) != (match["file"], match["line"])
    ]
    caller = f"{around[-1]['file']}:{around[-1]['line']}" if around else ""
    return LinePlace(
        match["file"],
        -1 if is_module else line,
        function,
        held_ns,
        whole,
        _called(into),
        caller,
        path,
        is_exact=is_exact,
    )


def _shown(function: str) -> str:
    """A function without what is around it, and comprehensions by the function that they are in."""
    return _INNER.sub("", function).rpartition("<locals>.")[2] or function


def _called(frame: str) -> str:
    """What a library's frame is called: its file and function; of a built-in function what it is a method of."""
    if match := _FRAME.match(frame):
        return "" if match["file"].startswith("<") else f"{match['file']} {_shown(match['function'])}"
    if match := _BUILT_IN.match(frame):
        return match["function"] or ".".join(filter(None, (match["type"], match["method"])))
    return ""


def function_line(path: Sequence[str], amount_ns: int, parts: Sequence[ThreadTime]) -> LinePlace | None:
    """The place of nested functions as torch records them, the outermost first: where the innermost own one begins."""
    place = heaviest_line([(path, max(amount_ns, 1))], is_exact=False)
    if place is None or not (is_own(place.frames[-1]) or _package(place.file)):
        return None
    return replace(place, amount_ns=amount_ns, whole_ns=whole_ns(parts), caller="")
