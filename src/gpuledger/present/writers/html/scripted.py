"""What a page's scripts draw from: the timeline, the flame graph and the steps, each as one JSON document.

Columns of whole numbers are packed: each number is written seven bits to a byte, the lowest first, the top bit saying
that more follow (LEB128), after folding the sign into the lowest bit, and the bytes are base64; `scripts/packed.js`
reads it. A column of nothing but zeros is the empty text. Instants are told from the run's zero, as `--time` takes
them.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gpuledger.analyse.timeline.events import (
    COVER_BINS,
    EventFinder,
    Events,
    EventSource,
    EventTrack,
    FixedStretch,
    Stretch,
    cover,
    cover_edges,
    stream_cover,
)
from gpuledger.analyse.utilization.samples import GpuSamples, gpu_samples
from gpuledger.attribution.flame_trees import TreeKind
from gpuledger.catalog.gpu_metrics import MEMORY, GpuMetric
from gpuledger.catalog.kernel_names import without_ids
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.activity import State
from gpuledger.ledger.causes import CAUSES, TRIGGERS
from gpuledger.ledger.device import Device
from gpuledger.messages import Message, say
from gpuledger.present.document import FlameBlock, StepStrip, Tell, TimelineBlock
from gpuledger.present.palette import line_tone
from gpuledger.present.safe_text import visible
from gpuledger.present.terms import HOST_CALL, WAITING_CALL, event_codes, event_words, family_line, track_words
from gpuledger.present.writers.html.tables import cut, middle
from gpuledger.trace.keys import group
from gpuledger.trace.spans import Ints, Span, Spans
from gpuledger.trace.tables import Table
from gpuledger.units import count_text, instant_text, time_text

_MOST_GAPS: Final = 4_000
_MOST_SAMPLES: Final = 4_000
"""Of one stretch."""

_MOST_CAUSES: Final = 3
"""Of one gap, those with the most time."""

_LONGEST_EVENT_NAME: Final = 60
_MOST_NAMES: Final = 1_000
"""All names of events together have at most so many times the letters that one may have."""
_FRAME_NAME: Final = 0.3  # of the letters that a whole name may have

_SERIES: Final = (
    (say("SMs active"), "compute-gemm", (GpuMetric.SM_ACTIVE,)),
    (say("Tensor"), "compute-moe", (GpuMetric.TENSOR,)),
    (say("DRAM"), "bound-memory", MEMORY),
)
"""What is drawn of the samples: name, tone, counters that are added up."""

_TIMELINE_WORDS: Final = {
    "start": say("Start"),
    "length": say("Duration"),
    "stream": say("Stream"),
    "thread": say("Thread"),
    "launched_by": say("Launched by"),
    "launches": say("Launches"),
    "to_start": say("From launch to start"),
    "correlation": say("Correlation"),
    "size": say("Size"),
    "whole": say("Full name"),
    "idle": say("GPU idle"),
    "reason": say("Reason"),
    "cause": say("Causes"),
    "hits": say("{at} of {count}", at="{at}", count="{count}"),
    "no_hits": say("nothing found"),
    "shown_now": say("On the timeline: {what}", what="{what}"),
    "recorded": say("{row}, as recorded", row="{row}"),
    "only_wait": say("threads that only wait ({count}): {calls}", count="{count}", calls="{calls}"),
}
"""What the script says itself; names in braces are filled in by it."""


_TREE_KINDS: Final = {
    TreeKind.RANGES: say("range"),
    TreeKind.OPERATORS: say("operator"),
    TreeKind.FUNCTIONS: say("Python function"),
    TreeKind.CALL_STACKS: say("call stack"),
    TreeKind.SAMPLED_STACKS: say("sampled stack"),
    TreeKind.IDLE_STACKS: say("GPU idle time by host stack"),
    TreeKind.FAMILIES: say("kernel family"),
}
_OUTSIDE: Final = {
    TreeKind.RANGES: say("(in no range)"),
    TreeKind.OPERATORS: say("(in no operator)"),
    TreeKind.FUNCTIONS: say("(in no Python function)"),
}
"""What work that no place of a tree launched is under; of stacks, `_NO_STACK`."""
_NO_STACK: Final = say("(without a stack)")
_FLAME_WORDS: Final = {
    "host": say("host time"),
    "gpu": say("GPU time"),
    "samples": say("samples"),
    "whole": say("all"),
    "of_whole": say("{name}: {amount}, {share} of total", name="{name}", amount="{amount}", share="{share}"),
    "hits": say("{count} found, {share} of total", count="{count}", share="{share}"),
}
"""What the script says; the names in braces are filled in by it."""

_STEP_WORDS: Final = {
    "step": say("Step"),
    "line": say("Line"),
    "time": say("Time"),
    "share": say("Share"),
    "total": say("total"),
    "against": say("vs the median step"),
    "more": say("vs median"),
}


_BITS: Final = 7


def packed(values: NDArray[np.signedinteger]) -> str:
    """The column as text."""
    if not values.any():
        return ""
    wide = values.astype(np.int64)
    left = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    used = np.ones(len(left), np.int64)  # bytes of each number
    for bits in range(_BITS, int(left.max()).bit_length(), _BITS):
        used += left >= np.uint64(1 << bits)
    place = np.cumsum(used)
    written = np.empty(int(place[-1]), np.uint8)
    place -= used
    while len(left):
        more = np.flatnonzero(used > 1)
        written[place] = left & np.uint64(0x7F)
        written[place[more]] |= 0x80
        left, used, place = left[more] >> np.uint64(_BITS), used[more] - 1, place[more] + 1
    return base64.b64encode(written.tobytes()).decode()


def steps_between(values: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
    """How much each number is more than the one before it, the first more than 0: small numbers pack better."""
    return np.diff(values, prepend=0)


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def timeline_json(block: TimelineBlock, tell: Tell, letters: int) -> tuple[str, str]:
    """The first stretch with all names, and the other stretches, which the page ends with so that the first is there.

    `scripts/timeline_model.js` reads them. Whole names have at most so many letters.
    With many letters in all names, events whose names come later have none: a program may name every item anew.
    """
    writer = _TimelineWriter(block.report, block.finder, tell, letters)
    first, *others = [writer.stretch(stretch) for stretch in block.stretches]
    if block.fixed is not None:
        first["fixed"] = writer.fixed(block.stretches[0], block.fixed)
    model = {
        "rows": writer.rows.entries,
        "names": writer.names.entries,
        "waiting": writer.kinds.number(WAITING_CALL, tell(WAITING_CALL)),
        "blocking": writer.kinds.number(HOST_CALL, tell(HOST_CALL)),
        "bins": COVER_BINS,
        "kinds": writer.kinds.entries,
        "triggers": [[tell(trigger.label), f"idle-{trigger}"] for trigger in TRIGGERS],
        "causes": [[tell(cause.label), f"idle-{cause}"] for cause in CAUSES],
        "causes_of_gap": _MOST_CAUSES,
        "series": [[tell(name), tone] for name, tone, _ in _SERIES],
        "words": {key: tell(words) for key, words in _TIMELINE_WORDS.items()},
        "stretches": [first],
    }
    return _json(model), _json(others) if others else ""


def flame_json(block: FlameBlock, tell: Tell, letters: int) -> str:
    """The trees; `scripts/flame.js` reads it. A frame that is no kernel has no tone: the script colours it by name."""
    longest = int(_FRAME_NAME * letters)
    numbers: dict[tuple[str, str], int] = {}
    trees = []
    for tree in block.trees:
        outside = tell(_OUTSIDE.get(tree.kind, _NO_STACK))
        tones = {"": "", "copy": "copy"}
        tones |= {family: line_tone(family_line(family)) for family in set(tree.family) - tones.keys()}
        keys = [
            (visible(middle(name, longest)) or outside, tones[family] or ("" if name else "muted"))
            for name, family in zip(tree.names, tree.family, strict=True)
        ]
        trees.append(
            {
                "label": tell(_TREE_KINDS[tree.kind]),
                "counts_samples": tree.kind is TreeKind.SAMPLED_STACKS,
                "count": len(tree),
                "parent": packed(np.arange(len(tree)) - tree.parent),
                "name": packed(np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)),
                "host": packed(tree.host),
                "gpu": packed(tree.gpu_ns),
            }
        )
    words = {key: tell(text) for key, text in _FLAME_WORDS.items()}
    return _json({"names": [list(key) for key in numbers], "trees": trees, "words": words})


def steps_json(block: StepStrip, tell: Tell) -> str:
    """The ledger of every step that has a column; `scripts/step_ledger.js` reads it."""
    notes = [
        say("unusual") if odd else say("warm-up") if warm else ""
        for odd, warm in zip(block.unusual, block.warm_up, strict=True)
    ]
    return _json(
        {
            "lines": [[line, line_tone(line), tell(line.label)] for line in block.lines],
            "median_ns": block.median_ns,
            "median_lines_ns": [block.median_lines_ns.get(line, 0) for line in block.lines],
            "steps": [
                {"step": step, "note": tell(note), "ns": row}
                for step, note, row in zip(block.steps, notes, block.ns.tolist(), strict=True)
            ],
            "words": {key: tell(words) for key, words in _STEP_WORDS.items()},
        }
    )


class _NumberedThings:
    """Things in the order in which they were first met."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self._number: dict[Any, int] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._number

    def number(self, key: object, entry: object) -> int:
        if key not in self._number:
            self._number[key] = len(self.entries)
            self.entries.append(entry)
        return self._number[key]


class _TimelineWriter:
    """Writes stretches, and remembers the rows and names that they share."""

    def __init__(self, report: ProfiledRun, finder: EventFinder, tell: Tell, letters: int) -> None:
        self._report, self._finder, self._tell, self._letters = report, finder, tell, letters
        self.rows, self.names, self.kinds = _NumberedThings(), _NumberedThings(), _NumberedThings()
        self._written = 0
        self._samples: dict[int, GpuSamples] = {}
        for device in report.devices:
            self.rows.number(("idle", device.gpu), ["idle", self._of_gpu(say("Idle"), device)])
        for device in report.devices:
            trace = report.trace
            samples = gpu_samples(trace, device.gpu) if Table.METRICS in trace.tables else None
            if isinstance(samples, GpuSamples):
                self._samples[device.gpu] = samples
                self.rows.number(("use", device.gpu), ["use", self._of_gpu(say("Utilization"), device)])

    def _of_gpu(self, what: Message, device: Device) -> str:
        if len(self._report.devices) == 1:
            return self._tell(what)
        return self._tell(say("{what}, GPU {gpu}", what=what, gpu=device.gpu))

    def stretch(self, stretch: Stretch) -> dict[str, Any]:
        events = stretch.events
        count, least = count_text(events.left_out), time_text(events.least_ns)
        left_out = say("{count} events of {time} or less are not drawn.", count=count, time=least)
        hidden = (
            {
                str(self.rows.number(track, self._row(track))): _packed_cover(shares)
                for track, shares in stream_cover(self._finder, events).items()
            }
            if events.left_out
            else {}
        )
        return {
            "label": self._tell(_title(stretch, self._report.zero_ns)),
            "note": self._tell(left_out) if events.left_out else "",
            "core": self._instants(stretch.core),
            "span": self._instants(events.span),
            **self._events(events),
            **({"cover": hidden} if hidden else {}),
            "gaps": [self._gaps(device, events.span) for device in self._report.devices],
            "use": [self._use(gpu, samples, events.span) for gpu, samples in self._samples.items()],
        }

    def fixed(self, stretch: Stretch, fixed: FixedStretch) -> dict[str, Any]:
        """The same stretch with a finding fixed: other times of the same events."""
        start_ns = stretch.events.span.start_ns
        before, after = (time_text(core.end_ns - core.start_ns) for core in (stretch.core, fixed.core))
        note = say(
            "Replayed with {code} fixed, not recorded: {before} becomes {after}.",
            code=fixed.code,
            before=before,
            after=after,
        )
        return {
            "note": self._tell(note),
            "core": self._instants(fixed.core),
            "start": packed(steps_between(fixed.start_ns - start_ns)),
            "length": packed(fixed.end_ns - fixed.start_ns),
            "lane": packed(fixed.lane),
            "gaps": [
                {
                    "row": self.rows.number(("idle", device.gpu), None),
                    "start": packed(steps_between(idle.start_ns - start_ns)),
                    "length": packed(idle.end_ns - idle.start_ns),
                    "count": len(idle),
                }
                for device, idle in zip(self._report.devices, fixed.idle, strict=True)
            ],
        }

    def _instants(self, span: Span) -> list[int]:
        return [span.start_ns - self._report.zero_ns, span.end_ns - self._report.zero_ns]

    def _events(self, events: Events) -> dict[str, Any]:
        counts = np.bincount(events.track, minlength=len(events.tracks)).tolist()
        rows = [self.rows.number(track, self._row(track)) for track in events.tracks]
        correlation, since_launch, size = self._launched(events)
        return {
            "tracks": [list(pair) for pair in zip(rows, counts, strict=True)],
            "start": packed(steps_between(events.start_ns - events.span.start_ns)),
            "length": packed(events.end_ns - events.start_ns),
            "lane": packed(events.lane),
            "name": packed(self._names(events)),
            "correlation": packed(steps_between(correlation)),
            "launch": packed(steps_between(events.launch)),
            "since": packed(since_launch),
            "size": packed(size),
        }

    def _row(self, track: EventTrack) -> list[str]:
        """What a thread or a stream is called."""
        return ["thread" if track.is_thread else "stream", self._tell(track_words(self._report, track))]

    def _launched(self, events: Events) -> tuple[Ints, Ints, Ints]:
        """Of each record its correlation (-1: none), the time since its launch call (-1: unknown), and bytes copied."""
        finder = self._finder
        correlation, since, size = (np.full(len(events), value, np.int64) for value in (-1, -1, 0))
        calls, work = events.of(EventSource.CUDA_CALL), events.of(EventSource.GPU_WORK)
        correlation[calls] = finder.cuda_calls["correlation"][events.row[calls]]
        rows = events.row[work]
        correlation[work] = finder.work.gathered_at("correlation", rows)
        launch = finder.work.launch[rows]
        launched = np.flatnonzero(work)[launch >= 0]
        begun = finder.cuda_calls["start_ns"][launch[launch >= 0]]
        since[launched] = np.maximum(events.start_ns[launched] - begun, 0)
        copied = np.flatnonzero(work)[finder.work.state[rows] == State.COPY]
        size[copied] = self._report.trace[Table.COPIES]["bytes"][finder.work.row_at(events.row[copied])]
        return correlation, since, np.maximum(size, 0)

    def _names(self, events: Events) -> Ints:
        """For each record the number of its name."""
        codes, kinds = event_codes(self._finder, events)
        first, group_of = group(events.source, codes, kinds)
        strings = self._report.trace.strings
        numbers = [
            self._name(EventSource(source), strings.text(code), kind)
            for source, code, kind in np.stack((events.source, codes, kinds), axis=1)[first].tolist()
        ]
        return np.array(numbers, np.int64)[group_of]

    def _name(self, source: EventSource, text: str | None, kind: int) -> int:
        """A name's number: what it is called in short and in whole, its tone, and what kind of thing it is."""
        if source is EventSource.RANGE and text:
            text = without_ids(text) or text
        key = source, text, kind
        if key in self.names:  # most names are of every stretch
            return self.names.number(key, None)
        is_full = self._written > _MOST_NAMES * self._letters
        if is_full and (key := (source, None, kind)) in self.names:
            return self.names.number(key, None)
        short, tone, words = event_words(self._finder, source, text, kind)
        shown = "…" if is_full else visible(middle(short, _LONGEST_EVENT_NAME))
        whole = "" if is_full else cut(text or "", self._letters, self._tell)
        self._written += len(shown) + len(whole)
        entry = [shown, "" if whole == shown else whole, tone, self.kinds.number(words, self._tell(words))]
        return self.names.number(key, entry)

    def _gaps(self, device: Device, span: Span) -> dict[str, Any]:
        gaps = device.ledger.gaps
        first = int(np.searchsorted(gaps.end_ns, span.start_ns, side="right"))
        last = int(np.searchsorted(gaps.start_ns, span.end_ns))
        here, hidden = np.arange(first, max(first, last)), {}
        if len(here) > _MOST_GAPS:
            idle = Spans(gaps.start_ns[here], gaps.end_ns[here])
            hidden = {"cover": _packed_cover(cover(idle, cover_edges(span)))}
            here = np.sort(here[np.argsort(-gaps.length_ns[here], kind="stable")[:_MOST_GAPS]])
        amounts = np.stack([gaps.by_cause.of(cause)[here] for cause in CAUSES], axis=1)
        most = np.argsort(-amounts, axis=1, kind="stable")[:, :_MOST_CAUSES]
        calls = _NumberedThings()
        draining = [calls.number(gaps.draining[call], gaps.draining[call]) for call in gaps.drained_by[here].tolist()]
        return {
            "row": self.rows.number(("idle", device.gpu), None),
            "start": packed(steps_between(gaps.start_ns[here] - span.start_ns)),
            "length": packed(gaps.length_ns[here]),
            "trigger": packed(gaps.trigger[here].astype(np.int64)),
            "drainer": packed(np.array(draining, np.int64)),
            "calls": calls.entries,
            "cause": packed(most.reshape(-1)),
            "amount": packed(np.take_along_axis(amounts, most, axis=1).reshape(-1)),
            "count": len(here),
            **hidden,
        }

    def _use(self, gpu: int, samples: GpuSamples, span: Span) -> dict[str, Any]:
        first, last = np.searchsorted(samples.stamp_ns, span)
        every = max(-(-int(last - first) // _MOST_SAMPLES), 1)
        here = slice(max(int(first) - 1, 0), int(last), every)
        values = [
            sum((samples.values[metric][here] for metric in metrics if metric in samples.values), np.zeros(1, np.int64))
            for _, _, metrics in _SERIES
        ]
        stamps = samples.stamp_ns[here]
        return {
            "row": self.rows.number(("use", gpu), None),
            "period": samples.period_ns * every,
            "count": len(stamps),
            "start": packed(steps_between(stamps - span.start_ns)),
            "values": [packed(np.broadcast_to(np.minimum(column, 100), len(stamps))) for column in values],
        }


def _title(stretch: Stretch, zero_ns: int) -> Message:
    """What a stretch is called in the list of them."""
    time = time_text(stretch.core.end_ns - stretch.core.start_ns)
    if stretch.step is None:
        return say("From {start}, {time}", start=instant_text(stretch.core.start_ns - zero_ns), time=time)
    if stretch.is_median:
        return say("Median step, number {step}: {time}", step=stretch.step, time=time)
    if stretch.is_worst:
        return say("Longest step, number {step}: {time}", step=stretch.step, time=time)
    return say("Step {step}: {time}", step=stretch.step, time=time)


def _packed_cover(shares: NDArray[np.float64]) -> str:
    """Shares in steps of half a percent."""
    return packed(np.rint(200 * shares).astype(np.int64))
