"""What findings about the wrong work share: kernels that would be shorter or gone if their work were done another way.

They are told by names, sizes and by what follows what (`analyse.light`): less sure than what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from gpuledger.analyse.light.kernel_light import LightSource, kernel_light
from gpuledger.analyse.light.reachable import LightRoof
from gpuledger.analyse.light.steady_kernels import KernelSavings, SteadyKernels
from gpuledger.catalog.kernel_names import cut_label, label
from gpuledger.findings.finding import MAX_EXAMPLES, MIN_EVIDENCE_SHARE, Evidence, Finding, is_significant
from gpuledger.findings.fix_words import FixWords
from gpuledger.findings.fixes import Fixes
from gpuledger.findings.rule import OneGpu, Rule
from gpuledger.findings.words import count_words, per_step
from gpuledger.ledger.causes import Cause
from gpuledger.messages import Message, joined, say
from gpuledger.replay.edits import Edit, with_durations
from gpuledger.trace.keys import Positions, group, is_among
from gpuledger.trace.spans import Span
from gpuledger.trace.statistics import largest
from gpuledger.units import share_text

KernelRewrite = Callable[[SteadyKernels], KernelSavings]
"""Says which steady kernels would be shorter or gone if their work were done another way."""

MIN_REWRITE_SHARE: Final = 0.03  # of the time: what would save less is no matter
MAX_NAMES: Final = 3  # kernels that are named


class RewriteWords(Struct, frozen=True):
    """What kernels do, what is assumed of those that would run instead, and what to change."""

    doing: Message
    assumption: Message
    fix: FixWords
    beside: Message | None = None  # what the kernels are that only become shorter with them


def _shorter_another_way(
    way: KernelRewrite, words: Mapping[str, RewriteWords], least: float, rule: Rule[OneGpu], subject: OneGpu
) -> Sequence[Finding]:
    device, scene, work = subject.device, subject.scenario, subject.fixes.work
    chosen = subject.fixes.busy.once(way)
    if not len(chosen):
        return ()
    took = (work.end_ns - work.start_ns)[chosen.operations]
    less = (took - chosen.duration_ns).sum() + _between_ns(subject, chosen)
    meant = np.ones(len(chosen), np.bool_) if chosen.are_meant is None else chosen.are_meant
    time, beside, lost = (scene.of_steady(int(amount)) for amount in (took[meant].sum(), took[~meant].sum(), less))
    if lost < least * device.steady_ns:
        return ()
    edit = rule.edit_of(subject)
    saving = subject.saved_ns(edit, lost)
    if not is_significant(device, saving):
        return ()
    said = words[chosen.kind]
    claim = say(
        "{doing}: {kernels}, {time}",
        doing=said.doing,
        kernels=_count_words(subject, int(meant.sum())),
        time=per_step(device, time),
    )
    if beside and said.beside is not None:
        others, more = _count_words(subject, int((~meant).sum())), per_step(device, beside)
        claim = say(
            "{claim}, and {kernels} {beside}, {time}", claim=claim, kernels=others, beside=said.beside, time=more
        )
    evidence = (
        *_evidence(subject, chosen.operations[meant], time / device.steady_ns),
        *_of_light(subject, chosen.operations[meant]),
    )
    faster = rule.finding(device, claim, evidence, saving, said.assumption, explains=lost, edit=edit)
    confidence = faster.confidence if chosen.was_sampled else say("medium")  # by their names
    return [replace(faster, fix=said.fix, confidence=confidence)]


def do_another_way(fixes: Fixes, way: KernelRewrite) -> Edit:
    """Kernels take as long as another way of doing their work would, or do not run and are not launched."""
    chosen = fixes.busy.once(way)
    stays = chosen.duration_ns > 0
    gone = fixes.not_launched(np.sort(chosen.operations[~stays]))
    return lambda graph: with_durations(gone(graph), chosen.operations[stays], chosen.duration_ns[stays])


def _count_words(subject: OneGpu, count: int) -> Message:
    """How many kernels of the replayed steps there are in all."""
    count = round(count * subject.device.step_count / subject.scenario.part.steps)
    return count_words(subject.device, count, say("kernel"), say("kernels"))


def _between_ns(subject: OneGpu, chosen: KernelSavings) -> int:
    """What the device takes to get to those kernels that would not run."""
    device, gaps = subject.device, subject.device.ledger.gaps
    own = np.concatenate([device.gaps_of(trigger) for trigger in (Cause.TURNAROUND, Cause.GRAPH)])
    here, operations = subject.scenario.part.places(gaps.after[own])
    gone = is_among(operations, chosen.operations[chosen.duration_ns == 0])
    return int(gaps.length_ns[own[here]][gone].sum())


def _evidence(subject: OneGpu, operations: Positions, share: float) -> tuple[Evidence, ...]:
    """The kernels that take the most of it."""
    work, strings = subject.fixes.work, subject.trace.strings
    took = (work.end_ns - work.start_ns)[operations]
    first_of_name, number = group(work.name[operations])
    codes = work.name[operations[first_of_name]]
    by_name = np.bincount(number, weights=took)
    names = [strings.text(int(code)) or "" for code in codes[np.argsort(-by_name, kind="stable")]]
    shown = list(dict.fromkeys(cut_label(label(name)) for name in names))[:MAX_NAMES]
    rows = operations[largest(took, MAX_EXAMPLES)]
    first = int(rows[0])
    return (
        Evidence(
            say("{share} of the time in {names}", share=share_text(share), names=joined(say(", "), shown)),
            span=Span(int(work.start_ns[first]), int(work.end_ns[first])),
            pid=int(work.pid[first]),
            kernel=names[0],
            correlations=tuple(work.gathered_at("correlation", rows).tolist()),
            count=len(operations),
            share=share if share >= MIN_EVIDENCE_SHARE else None,
            of=say("the time"),
        ),
    )


_BY: Final = {
    LightSource.SHAPES: say("by the shapes of their operators"),
    LightSource.SAMPLES: say("by samples of the GPU's counters"),
    LightSource.NCU: say("by Nsight Compute's counters"),
    LightSource.LAUNCH: say("by the size of their launches"),
}


def _of_light(subject: OneGpu, operations: Positions) -> tuple[Evidence, ...]:
    """How far they are from what the GPU could do, where that is known of most of their time."""
    kernels = subject.fixes.busy
    light, mine = kernels.once(kernel_light), kernels.place_of(operations)
    known, took = mine & light.is_known & (light.light_ns > 0), kernels.took_ns  # 0: the work is not needed at all
    if 2 * took[known].sum() <= took[mine].sum():
        return ()
    share = float(light.light_ns[known].sum() / max(took[known].sum(), 1))
    source = LightSource(int(np.bincount(light.source[known], took[known]).argmax()))
    is_memory = bool(took[known & (light.roof == LightRoof.MEMORY)].sum() * 2 > took[known].sum())
    roof = say("the memory's bandwidth") if is_memory else say("the arithmetic peak")
    sentence = say("they reach {share} of {roof}, {by}", share=share_text(share), roof=roof, by=_BY[source])
    return (Evidence(sentence, count=int(np.count_nonzero(mine))),)


def rewrite_rule_by_kind(
    code: str, way: KernelRewrite, words: Mapping[str, RewriteWords], least: float = MIN_REWRITE_SHARE
) -> Rule[OneGpu]:
    """A rule about kernels that another way of doing their work would make shorter; words by what is found."""
    find, general = partial(_shorter_another_way, way, words, least), next(iter(words.values()))
    return Rule(code, find, general.fix, edit=partial(do_another_way, way=way), is_estimate=True)


def rewrite_rule(
    code: str,
    way: KernelRewrite,
    doing: Message,
    assumption: Message,
    fix: FixWords,
    beside: Message | None = None,
    *,
    least: float = MIN_REWRITE_SHARE,
) -> Rule[OneGpu]:
    """The same where there is one kind, and so one wording."""
    return rewrite_rule_by_kind(code, way, {"": RewriteWords(doing, assumption, fix, beside)}, least)
