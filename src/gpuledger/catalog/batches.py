"""The batch that a serving engine writes into the name of a step: a range's name in, requests and tokens out.

Engines name the range around each step after what it computes, so the digits of these names are the figures. A spelling
is a line of the table below; what it does not say stays `UNKNOWN`, which is not 0.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from gpuledger.regex import regex

UNKNOWN: Final = -1


class Batch(Struct, frozen=True):
    """What one step computes. `UNKNOWN` where the name does not say."""

    engine: str
    prefill_requests: int
    prefill_tokens: int
    decode_requests: int
    decode_tokens: int
    """As many as requests; more where several are guessed for each (speculative decoding)."""
    padded: int = UNKNOWN
    """The batch size of the CUDA graph that the step is padded to."""
    context_tokens: int = UNKNOWN
    """Tokens whose keys and values attention reads, of all requests together."""
    pairs: int = UNKNOWN
    """Pairs of new tokens and tokens before them that attention of prefill computes."""


_SPELLINGS: Final = (
    # as TraceLens has vLLM and SGLang write it: sq are new tokens, sk those that attention reads, sqsk pairs of both
    ("vLLM", "execute_{}_context_{c}(sq{ct}sk{ck}sqsq{}sqsk{pairs})_generation_{g}(sq{gt}sk{gk}sqsq{}sqsk{})"),
    ("vLLM", "execute_context_{c}({ct})_generation_{g}({gt})"),
    ("vLLM", "execute_new_{c}_cached_{g}"),  # 0.9 to 0.11
    ("TensorRT-LLM", "[Executor] _forward_step {}: {c} ctx reqs, {ct} ctx tokens, {g} gen reqs"),
    ("TensorRT-LLM", "[Executor] _forward_step {}: {c} ctx reqs, {g} gen reqs"),
    ("TensorRT-LLM", "[Executor] _forward_step: {c} ctx reqs, {g} gen reqs"),
)
"""Engines, and how they call a step: `c` requests that read prompts, `g` that decode, and the tokens of each."""


def _reader(spelling: str) -> re.Pattern[str]:
    pattern = re.escape(spelling).replace(r"\{\}", r"\d{1,12}")
    return regex("^" + re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\d{1,12})", pattern))


_READERS: Final = tuple((engine, _reader(spelling)) for engine, spelling in _SPELLINGS)

# SGLang: step[DECODE bs=64], step[EXTEND bs=2 toks=14721], step[MIXED bs=2 c=1 g=1 c_sq=5 ...]
# ATOM: decode[bs=117/128 tok=117 d=117], prefill[bs=2 tok=14721 ctx=[7803, 6918]]; ours: bench:decode[bs=64 tok=64]
_BRACKET: Final = regex(r"^(?:bench:|eager_)?(?P<word>step|prefill|decode)\[(?P<mode>[A-Z_]+(?= ))?(?P<said>.*)")
_SAID: Final = regex(r"(?<![\w/])(\w+)=(\d{1,12})(?:/(\d{1,12}))?")
_READS: Final = ("EXTEND", "SPLIT_PREFILL", "prefill")
_WRITES: Final = ("DECODE", "TARGET_VERIFY", "decode")
"""The modes of SGLang that compute tokens of requests; drafts and idle steps belong to those around them."""


@lru_cache(maxsize=4096)
def batch_of(name: str) -> Batch | None:
    """What a step of this name computes; None where it is no engine's step."""
    for engine, pattern in _READERS:
        if (match := pattern.match(name)) is not None:
            said = {key: int(number) for key, number in match.groupdict().items()}
            reading, writing, tokens = said["c"], said["g"], said.get("ct", UNKNOWN) if said["c"] else 0
            context = said["ck"] + said["gk"] if "ck" in said else UNKNOWN
            pairs = said.get("pairs", UNKNOWN)
            return Batch(engine, reading, tokens, writing, said.get("gt", writing), UNKNOWN, context, pairs)
    match = _BRACKET.match(name)
    return None if match is None else _bracketed(match)


def _bracketed(match: re.Match[str]) -> Batch | None:
    word, mode = match["word"], match["mode"] or match["word"]
    engine = "SGLang" if word == "step" else "gpuledger bench" if match[0].startswith("bench:") else "ATOM"
    parts = {key: (int(number), int(pad or UNKNOWN)) for key, number, pad in _SAID.findall(match["said"])}
    if "bs" not in parts:
        return None

    def said(*keys: str, default: int = UNKNOWN) -> int:
        return next((parts[key][0] for key in keys if key in parts), default)

    size, padded = parts["bs"]
    context, pairs = said("sk"), said("c_sqsk", "sqsk" if mode in _READS else "c_sqsk")
    if context == UNKNOWN and {"c_sk", "g_sk"} & set(parts):
        context = said("c_sk", default=0) + said("g_sk", default=0)
    if mode in _READS:
        return Batch(engine, size, said("toks", "tok", "c_sq"), 0, 0, padded, context, pairs)
    if mode == "MIXED" or said("p", default=0) > 0:
        reading, writing = said("c", "p"), said("g", "d")
        tokens = said("c_sq"), said("g_sq", default=writing)
        if tokens[0] == UNKNOWN and UNKNOWN not in (said("tok"), tokens[1]):
            tokens = said("tok") - tokens[1], tokens[1]
        if UNKNOWN in (reading, writing):
            return Batch(engine, size, UNKNOWN, 0, 0, padded, context, pairs)
        return Batch(engine, reading, tokens[0], writing, tokens[1], padded, context, pairs)
    if mode in _WRITES:
        return Batch(engine, 0, 0, size, said("tok", "g_sq", default=size), padded, context, 0)
    return None


_PARTS: Final = (
    ("detokenizing", regex(r"detok|stream_output|process_(?:batch_)?(?:outputs?|result)|handle_responses", re.I)),
    ("sampling", regex(r"sampl|argmax|logits_process", re.I)),
    (
        "scheduling",
        regex(r"(?<![a-z])_?schedul(?!er)|get_(?:next|new)_batch|(?:fetch|recv|add|update)_(?:new_)?requests", re.I),
    ),
    (
        "preparing inputs",
        regex(r"prepare_?(?:tp_)?inputs?|_?update_states|init_forward_metadata|worker_batch|build_attn", re.I),
    ),
)


@lru_cache(maxsize=4096)
def scheduler_part(name: str) -> str:
    """What an engine does for its requests in a range or function of this name; empty where that is not known."""
    function = name.rpartition("): ")[2]  # of a Python frame, `engine/scheduler.py(12): schedule`
    return next((part for part, pattern in _PARTS if pattern.search(function)), "")
