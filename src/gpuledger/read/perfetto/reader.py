"""Perfetto trace (.pftrace) -> Trace: what `gpuledger export` writes, rocprofv3's and torch's, also gzipped.

They say the same in three ways. Of ours and rocprofv3's, GPU work are slices on tracks, told by their category; torch's
are stages of a GPU. Of ours, what gpuledger itself worked out (lines, gaps, steps, counters) is left alone. A trace in
which nothing ran on a GPU, such as Android's, is refused.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.errors import UnreadableProfile
from gpuledger.limits import Limits
from gpuledger.messages import say
from gpuledger.read.assembled import Columns, RawTables, copy_columns, value_by_key
from gpuledger.read.perfetto.packets import PerfettoPackets, PerfettoSlices, PerfettoTrack
from gpuledger.read.protobuf import Damage
from gpuledger.read.request import Format, Progress, WantedColumns, counted
from gpuledger.read.source import Source, in_time, opened
from gpuledger.read.stream import PlainFile, cut_off, too_large, unpacked
from gpuledger.regex import regex
from gpuledger.trace.keys import group, occurrences
from gpuledger.trace.model import Gpu, Origin, Process, Trace
from gpuledger.trace.spans import Ints
from gpuledger.trace.tables import NOT_RECORDED, Table
from gpuledger.units import bytes_text

_GPU: Final = regex(r"(?:^|\s)GPU (?P<number>\d{1,6})(?: \((?P<name>.*)\))?$")
_STREAM: Final = regex(r"(?:stream|STREAM \[\"|QUEUE \[) ?(?P<number>\d{1,18})")
_CONTEXT: Final = regex(r" in context (?P<number>\d{1,18})$")
_AGENT: Final = regex(r"(?P<number>\d{1,6})\D*$")
_THREAD: Final = regex(r"^THREAD \d+ \((?P<number>\d{1,10})\)")
_SHAPE: Final = regex(r"(\d{1,9}) x (\d{1,9}) x (\d{1,9})")

_WORK: Final = {
    "kernel": Table.KERNELS,
    "kernel_dispatch": Table.KERNELS,
    "Kernel": Table.KERNELS,
    "copy": Table.COPIES,
    "memset": Table.COPIES,
    "memory_copy": Table.COPIES,
    "Memcpy": Table.COPIES,
    "Memset": Table.COPIES,
    "graph": Table.GRAPHS,
}
_CALLS: Final = {layer: layer for layer in ("runtime", "driver", "os", "cublas", "cudnn")} | {
    "hip_api": "runtime",
    "hsa_api": "driver",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
}
_RANGES: Final = {kind: kind for kind in ("push_pop", "start_end", "mark", "op", "python")} | {
    "cpu_op": "op",
    "python_function": "python",
    "user_annotation": "push_pop",
    "marker_api": "push_pop",
    "rccl_api": "push_pop",
    "rocdecode_api": "push_pop",
    "rocjpeg_api": "push_pop",
}
_OVERHEADS: Final = frozenset(("profiler", "overhead"))
_SHOWN_AGAIN: Final = frozenset(("line", "idle", "step", "critical path", "finding", "health", "Annotation"))
"""What gpuledger worked out of the rest, and torch's ranges as GPUs saw them."""


def is_perfetto(head: bytes) -> bool:
    """Whether something begins as a Perfetto trace: a packet of fields that no plane of XLA's begins with."""
    length = 2 + (head[1:2] >= b"\x80") + (head[2:3] >= b"\x80" and head[1:2] >= b"\x80")
    first = head[length : length + 1]
    return head[:1] == b"\n" and bool(first) and (first[0] >= 0x80 or first[0] >> 3 in (6, 8, 10, 11, 12, 13))


class PerfettoReader:
    """A Perfetto trace with GPU work -> Trace."""

    name = "perfetto"
    formats = (
        Format(
            ".pftrace, also gzipped",
            "`gpuledger export`, `rocprofv3 --output-format pftrace`, torch.profiler",
            "of 2026; no public one with GPU work",
            "synchronizations, allocations, counters; names of GPUs but in ours",
        ),
    )

    def recognises(self, source: Source) -> bool:
        return is_perfetto(source.head)

    def read(self, source: Source, wanted: WantedColumns, limits: Limits, progress: Progress) -> Trace:
        if source.size > limits.unpacked_bytes:
            raise too_large(source.name, limits.unpacked_bytes)
        with in_time(source.name, limits), opened(source) as file:
            _, stream = unpacked(PlainFile(file), source.name, limits)
            content = stream.read()
            raw = RawTables(source.name, wanted, limits)
            try:
                reading = _PerfettoReading(PerfettoPackets(content, raw.codes), raw)
                progress("packets", reading.packets.count)
                raw.notes += stream.end_notes or reading.packets.is_cut * [cut_off(say("the last packet breaks off"))]
                return reading.trace(limits)
            except Damage:
                raise UnreadableProfile(
                    f"{source.name}: a damaged Perfetto trace",
                    found=f"{bytes_text(len(content))}, whose messages do not end where they should",
                    hint="copy it again from where it was recorded",
                ) from None


def _as_usual(values: Ints, track: Ints) -> Ints:
    """The same, and where nothing is known what most rows of its track have."""
    known = np.flatnonzero(values != NOT_RECORDED)
    first, pair = group(track[known], values[known])
    often = np.argsort(np.bincount(pair, minlength=len(first)), kind="stable")  # the most frequent is the last to stay
    usual = dict(zip(track[known[first[often]]].tolist(), values[known[first[often]]].tolist(), strict=True))
    tracks, number = group(track)
    of_track = np.array([usual.get(uuid, NOT_RECORDED) for uuid in track[tracks].tolist()], np.int64)
    return np.where(values != NOT_RECORDED, values, of_track[number]) if len(values) else values


class _PerfettoReading:
    def __init__(self, packets: PerfettoPackets, raw: RawTables) -> None:
        self.packets, self._raw = packets, raw
        self._seen: Counter[str] = Counter()
        self._gpus: dict[int, Gpu] = {}
        self._numbers_of_gpus: dict[int, int] = {}

    def trace(self, limits: Limits) -> Trace:
        stages = self.packets.stages()
        slices = self.packets.slices(ends_first=bool(len(stages)))
        for rows in (slices, stages):
            texts, (categories, counts) = list(self._raw.codes), occurrences(rows.category)
            for code, count in zip(categories.tolist(), counts.tolist(), strict=True):
                self._seen[texts[code] if code >= 0 else "no category"] += count
        if not any(map(self._is_known, self._seen)):
            self._refuse_others()
        self._host(slices)
        self._work(slices, *self._launching_processes(slices, slices, "flow"))
        self._work(stages, *self._launching_processes(slices, stages, "event"))
        unknown = [name for name in self._seen if not self._is_known(name)]
        self._raw.notes += counted(
            "events-unknown", sum(self._seen[name] for name in unknown), kind=", ".join(sorted(unknown)[:4])
        )
        if self.packets.compressed:
            self._raw.notes += counted("events-unknown", self.packets.compressed, kind="compressed packets")
        self._raw.notes += counted("events-unreadable", self.packets.unpaired)
        named = {track.pid: track.process for track in self.packets.tracks.values() if track.process and track.pid >= 0}
        agents = bool(self._seen.keys() & {"kernel_dispatch", "memory_copy", "hip_api", "hsa_api"})
        origin = Origin(
            tool="rocprofv3" if agents else "torch.profiler" if len(stages) else "gpuledger export",
            container="pftrace",
            gpus=self._raw.place_on_gpus(self._gpus, 0 if agents else limits.gpus),
            processes=tuple(Process(pid, name) for pid, name in sorted(named.items())),
            source_rows=tuple(sorted(self._seen.items())),
        )
        return self._raw.trace(origin, min(named, default=0))

    @staticmethod
    def _is_known(category: str) -> bool:
        return any(category in known for known in (_WORK, _CALLS, _RANGES, _OVERHEADS, _SHOWN_AGAIN))

    def _refuse_others(self) -> None:
        most = ", ".join(f"{count:,} of {name}" for name, count in self._seen.most_common(6))
        raise UnreadableProfile(
            f"{self._raw.name}: is a Perfetto trace, and holds no GPU work",
            found=f"slices: {most}" if most else "no slices",
            hint="it reads Perfetto traces of `gpuledger export`, rocprofv3 and torch.profiler",
        )

    def _coded(self, meanings: dict[str, str], category: Ints) -> Ints:
        """The codes of what categories mean; NOT_RECORDED for the others."""
        codes = self._raw.codes
        known = {codes[name]: codes[meaning] for name, meaning in meanings.items() if name in codes}
        first, number = group(category)
        return np.array([known.get(code, NOT_RECORDED) for code in category[first].tolist()], np.int64)[number]

    def _threads(self, track: Ints) -> tuple[Ints, Ints]:
        """Process and thread of each row, by its track or those above it."""
        first, number = group(track)
        places = [self._thread(int(uuid)) for uuid in track[first].tolist()]
        pid, tid = (np.array([place[side] for place in places], np.int64) for side in (0, 1))
        return pid[number], tid[number]

    def _thread(self, uuid: int) -> tuple[int, int]:
        pid = tid = NOT_RECORDED
        for track in self._upwards(uuid):
            pid = track.pid if pid == NOT_RECORDED else pid
            tid = track.tid if tid == NOT_RECORDED else tid
            if tid == NOT_RECORDED and (match := _THREAD.match(track.name)):
                tid = int(match["number"])
        return pid, tid

    def _upwards(self, uuid: int) -> list[PerfettoTrack]:
        """A track and those above it."""
        above = list[PerfettoTrack]()
        while uuid in self.packets.tracks and len(above) < 8:
            above.append(self.packets.tracks[uuid])
            uuid = above[-1].parent
        return above

    def _host(self, slices: PerfettoSlices) -> None:
        """Calls, ranges and the profiler's own time."""
        said, codes, count = slices.arguments, self._raw.codes, len(slices)
        pid, tid = self._threads(slices.track)
        start, end = self._times(slices)
        whole = said.texts("whole_name", count=count)
        common = {
            "start_ns": start,
            "end_ns": end,
            "pid": pid,
            "tid": tid,
            "name": np.where(whole >= 0, whole, slices.name),
        }
        layer, kind = self._coded(_CALLS, slices.category), self._coded(_RANGES, slices.category)
        calls = common | {
            "layer": layer,
            "correlation": said.numbers("correlation", "corr_id", count=count),
            "result": said.numbers("result", count=count),
        }
        ranges = common | {
            "kind": kind,
            "domain": np.maximum(said.texts("domain", count=count), codes[""]),
            "inputs": said.texts("inputs", count=count),
        }
        marked = np.where(kind == codes["push_pop"], np.where(end == start, codes["mark"], kind), kind)
        overhead = np.isin(slices.category, [codes[name] for name in _OVERHEADS if name in codes])
        for table, columns, chosen in (
            (Table.CALLS, calls, layer >= 0),
            (Table.RANGES, ranges | {"kind": marked}, kind >= 0),
            (Table.OVERHEADS, common, overhead),
        ):
            self._raw.add(table, columns, chosen)

    def _times(self, slices: PerfettoSlices) -> tuple[Ints, Ints]:
        """rocprofv3 says both times of a slice, also where Perfetto's nesting would cut it."""
        begin, end = (slices.arguments.numbers(name, count=len(slices)) for name in ("begin_ns", "end_ns"))
        return np.where(begin >= 0, begin, slices.start_ns), np.where(end >= 0, end, slices.end_ns)

    def _launching_processes(self, slices: PerfettoSlices, work: PerfettoSlices, link: str) -> tuple[Ints, Ints]:
        """Process and number of the call that launched each row, where an arrow leads from it."""
        is_call = (self._coded(_CALLS, slices.category) >= 0) & (getattr(slices, link) != 0)
        keys, pid = getattr(slices, link)[is_call], self._threads(slices.track[is_call])[0]
        correlation = slices.arguments.numbers("correlation", "corr_id", count=len(slices))[is_call]
        wanted = getattr(work, link)  # 0 is no key, as calls without an arrow are not among them
        return value_by_key(wanted, keys, pid), value_by_key(wanted, keys, correlation)

    def _work(self, rows: PerfettoSlices, pid: Ints, launch: Ints) -> None:
        said, codes, count = rows.arguments, self._raw.codes, len(rows)
        table = self._coded({name: table.value for name, table in _WORK.items()}, rows.category)
        start, end = self._times(rows)
        device, stream, context = self._queues(rows)
        correlation = said.numbers("correlation", "corr_id", count=count)
        common: Columns = {
            "start_ns": start,
            "end_ns": end,
            "pid": _as_usual(pid, rows.track),
            "device": device,
            "stream": stream,
            "context": context,
            "correlation": np.where(correlation >= 0, correlation, launch),
            "graph": said.numbers("graph", "graph id", count=count),
            "graph_node": said.numbers("graph_node", "graph node id", count=count),
            "graph_exec": said.numbers("graph_exec", count=count),
        }
        name = said.texts("kernel", count=count)
        kernels = common | {
            "name": np.where(name >= 0, name, rows.name),
            "grid": self._shape(rows, "grid"),
            "block": self._shape(rows, "block"),
            "registers": said.numbers("registers_per_thread", count=count),
            "smem_static_bytes": said.numbers("smem_static_bytes", count=count),
            "smem_dynamic_bytes": said.numbers("smem_dynamic_bytes", count=count),
        }
        copies = common | self._copy_kinds(rows) | {"bytes": said.numbers("bytes", "copy_bytes", count=count)}
        for own, columns in ((Table.KERNELS, kernels), (Table.COPIES, copies), (Table.GRAPHS, common)):
            self._raw.add(own, columns, table == codes.get(own.value, -2))

    def _copy_kinds(self, rows: PerfettoSlices) -> Columns:
        """Kind and memories of copies: as told, where they are, else by the name."""
        first, number = group(rows.name)
        texts = list(self._raw.codes)
        names = [texts[code] if code >= 0 else "" for code in rows.name[first].tolist()]
        kinds = copy_columns(self._raw, number, names)
        ours = np.array([self._raw.codes[name] if "-to-" in name else NOT_RECORDED for name in names], np.int64)[number]
        kinds["kind"] = np.where(ours >= 0, ours, kinds["kind"])
        for column, argument in (("src_kind", "from"), ("dst_kind", "to")):
            told = rows.arguments.texts(argument, count=len(rows))
            kinds[column] = np.where(told >= 0, told, kinds[column])
        return kinds

    def _shape(self, rows: PerfettoSlices, name: str) -> NDArray[np.int64]:
        """Sizes of a launch: as one text of ours, or in three numbers of torch's."""
        count = len(rows)
        sizes = np.stack([rows.arguments.numbers(f"{name} {letter}", count=count) for letter in "xyz"], axis=1)
        text = rows.arguments.texts(name, count=count)
        texts = list(self._raw.codes)
        for code in np.unique(text[text >= 0]).tolist():
            if match := _SHAPE.fullmatch(texts[code]):
                sizes[text == code] = [int(number) for number in match.groups()]
        return sizes

    def _queues(self, rows: PerfettoSlices) -> tuple[Ints, Ints, Ints]:
        """GPU, stream and context of each row, by its track, or what it says of itself."""
        said, count = rows.arguments, len(rows)
        first, number = group(rows.track)
        tracks = [self._upwards(int(uuid)) for uuid in rows.track[first].tolist()]
        names = [above[0].name if above else "" for above in tracks]
        stream, context = (
            np.array([int(match["number"]) if (match := of.search(name)) else NOT_RECORDED for name in names], np.int64)
            for of in (_STREAM, _CONTEXT)
        )
        gpu = np.array([self._gpu(above) for above in tracks], np.int64)
        agent = said.texts("agent", "dst_agent", count=count)
        texts = list(self._raw.codes)
        for code in np.unique(agent[agent >= 0]).tolist():
            match = _AGENT.search(texts[code])
            agent[agent == code] = int(match["number"]) if match else NOT_RECORDED
        told = said.numbers("stream_ID", "stream id", count=count)
        device = np.where(rows.gpu >= 0, rows.gpu, np.where(agent >= 0, agent, gpu[number]))
        return device, np.where(told >= 0, told, stream[number]), context[number]

    def _gpu(self, above: list[PerfettoTrack]) -> int:
        """The number of the GPU that a track is of; where several of a job have one number, each gets its own."""
        for track in above[1:]:
            if match := _GPU.search(track.name):
                uuid = next(uuid for uuid, known in self.packets.tracks.items() if known is track)
                if uuid not in self._numbers_of_gpus:
                    taken, number = set(self._numbers_of_gpus.values()), int(match["number"])
                    self._numbers_of_gpus[uuid] = number if number not in taken else max(taken) + 1
                    if match["name"]:
                        self._gpus[self._numbers_of_gpus[uuid]] = Gpu(match["name"])
                return self._numbers_of_gpus[uuid]
        return NOT_RECORDED
