"""An operating point, and whether it fits: sequences, lengths and limits in, pages, shares and batches out.

A point is how many sequences decode together on a node, how long the text before is, and how many tokens are made. Each
rank has its share of the sequences, and pages for their keys and values: a sequence takes whole pages for its text and
all that it will make. Nothing here needs a device, so that a point that cannot run is refused before anything is
allocated.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from gpuledger_workloads.decoder.size import DecoderSize, size_of
from gpuledger_workloads.program import at_least, wrong


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """Sequences of a node, tokens of text before each, tokens to make (the first by prefill, the rest by decode)."""

    batch: int
    context: int
    output: int


LAUNCH = OperatingPoint(256, 2000, 100)
SMALL = OperatingPoint(8, 48, 6)  # for a CPU


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """What there is: pages of a rank, tokens of a page, the longest sequence, most sequences, tokens of a prefill."""

    num_pages: int
    page_size: int
    max_seq_len: int
    max_batch_size: int
    max_prefill_tokens: int


@dataclass(frozen=True, slots=True)
class PrefillStep:
    """One prefill step of a rank: the tokens from `begin` to `end` of its sequences from `first` to `last`."""

    first: int
    last: int
    begin: int
    end: int

    @property
    def rows(self) -> slice:
        """The sequences."""
        return slice(self.first, self.last)


def room_options(
    parser: argparse.ArgumentParser, *, max_seq_len: int, max_batch_size: int, prefill_on_cpu: int
) -> None:
    """The limits of a server, and what else its command line has."""
    whole = at_least(1)
    parser.add_argument("--num-pages", type=whole, default=4096, metavar="N", help="KV pages of a rank; default 4096")
    parser.add_argument("--page-size", type=whole, default=64, metavar="N", help="tokens of a page; default 64")
    parser.add_argument(
        "--max-seq-len", type=whole, default=max_seq_len, metavar="N", help=f"text and output; default {max_seq_len}"
    )
    parser.add_argument(
        "--max-batch-size", type=whole, default=max_batch_size, metavar="N", help=f"sequences; default {max_batch_size}"
    )
    help_text = f"tokens read in one step by a rank; default 16384, on a CPU {prefill_on_cpu}"
    parser.add_argument("--max-prefill-tokens", type=whole, metavar="N", help=help_text)
    parser.add_argument(
        "--disable-prefix-cache", action="store_true", help="changes nothing: no prefixes are kept, all prompts differ"
    )


def room_of(options: argparse.Namespace, *, prefill_on_cpu: int) -> ServingLimits:
    """The limits that settled options ask for."""
    options.max_prefill_tokens = options.max_prefill_tokens or (16384 if options.device == "cuda" else prefill_on_cpu)
    return ServingLimits(
        options.num_pages, options.page_size, options.max_seq_len, options.max_batch_size, options.max_prefill_tokens
    )


def pages_for(tokens: int, page_size: int) -> int:
    """The pages that hold so many tokens of one sequence."""
    return -(-tokens // page_size)


def shares(batch: int, ranks: int) -> tuple[int, ...]:
    """How many sequences each rank has: as even as can be, the first ranks one more, and none if there are too few."""
    share, more = divmod(batch, ranks)
    return tuple(share + (rank < more) for rank in range(ranks))


def expect_fit(point: OperatingPoint, room: ServingLimits, ranks: int, *, sharded: int = 1) -> int:
    """The pages that the busiest rank needs; the program ends where these or anything else is more than there is.

    Sequences are spread over `ranks`; the pages of each over `sharded` ranks.
    """
    length = point.context + point.output
    if length > room.max_seq_len:
        wrong(
            f"{point.context:,} tokens of text and {point.output:,} of output are {length:,}, "
            f"more than --max-seq-len={room.max_seq_len}"
        )
    if point.batch > room.max_batch_size:
        wrong(f"{point.batch:,} sequences are more than --max-batch-size={room.max_batch_size}")
    pages, most = -(-pages_for(length, room.page_size) // sharded), max(shares(point.batch, ranks))
    needed = pages * most
    if needed > room.num_pages:
        wrong(
            f"KV pages of a rank: {most:,} x {pages:,} = {needed:,} are needed for {length:,} tokens in each sequence, "
            f"and --num-pages={room.num_pages}",
            hint=f"--num-pages={needed}, or fewer sequences on a rank",
        )
    return needed


def readings(sequences: int, context: int, most_tokens: int) -> tuple[PrefillStep, ...]:
    """The prefill steps of a rank: whole prompts while they fit together, else one prompt at a time, in chunks."""
    together = most_tokens // context
    if together:
        firsts = range(0, sequences, together)
        return tuple(PrefillStep(first, min(first + together, sequences), 0, context) for first in firsts)
    return tuple(
        PrefillStep(row, row + 1, begin, end) for row in range(sequences) for begin, end in chunks(context, most_tokens)
    )


def chunks(length: int, most: int) -> tuple[tuple[int, int], ...]:
    """Where each chunk of a text begins and ends."""
    return tuple((begin, min(begin + most, length)) for begin in range(0, length, most))


SPREAD = {"cuda": {"experts": 64, "top_k": 8, "ffn": 2048}, "cpu": {"experts": 8, "top_k": 2, "ffn": 32}}
"""Sizes of a mixture that --dispatch asks for and no option gives."""


def served_size(options: argparse.Namespace, **settled: int) -> DecoderSize:
    """How large the served model is, by settled options: with experts where --dispatch asks for them."""
    if options.dispatch and options.experts is None and not (options.config or options.ckpt):
        usual = SPREAD[options.device].items()
        settled |= {name: value for name, value in usual if getattr(options, name) is None}
    return size_of(options, **settled)
