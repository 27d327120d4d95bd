"""The options of every workload, and what they choose from by name. No torch: a command line is read without it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from gpuledger_workloads.decoder.size import checkpoint_option, size_options
from gpuledger_workloads.program import add_sizes, at_least, program, rank_options, streams_option, target_options
from gpuledger_workloads.serving.operating_point import LAUNCH, SMALL, room_options

ROUTINGS = ("random", "uniform", "power-law", "hot")  # see `mixture.routing`
EXPONENT = 1.2  # of power-law
MODE_NAMES = ("loop", "batched_gemm", "grouped")  # see `mixture.experts`
CHOICES = {**{name: (name,) for name in MODE_NAMES}, "both": ("loop", "batched_gemm"), "all": MODE_NAMES}
"""What --mode may say, and the modes that run."""
DISPATCH_NAMES = ("normal", "low-latency")  # see `mixture.exchange`


_MOE = """\
A mixture-of-experts layer on one device: router, softmax, top-k, dispatch, experts, combine.

  loop          expert after expert, and the host waits for the device before each
  batched_gemm  tokens padded to the fullest expert's number, one batched product
  grouped       tokens sorted by expert, one grouped product, no host wait

Prints per mode: the time of a pass (median, p10, p90, p99), launches, synchronisations and copies in it, the share of
rows that are padding, and what was reached in TFLOP/s and GB/s. The same for all: how uneven the experts' load is, and
the FLOP and bytes that no mode can do without. Results, of many tokens those of 64, are checked against
every expert by itself, in double precision.

examples:
  gpuledger bench moe --mode=all --routing=power-law
  gpuledger bench moe --mode=loop --num-experts=256 --experts-per-token=1 --batch-size=256 --hidden-dim=256
  gpuledger bench moe --mode=grouped --num-experts=256 --experts-per-token=8 --hidden-dim=7168 --batch-size=4096
  gpuledger capture nsys -- gpuledger bench moe --mode=loop --cuda-profiler
"""
MOE_SIZES = {
    "batch_size": (1024, 32, "tokens"),
    "hidden_dim": (2048, 64, "numbers of a token"),
    "num_experts": (64, 8, "experts"),
    "experts_per_token": (8, 2, "experts that a token goes to"),
}


def moe_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench moe`."""
    parser = program("moe", _MOE, iters=20, warmup=5)
    layer_options(parser)
    return parser


def layer_options(parser: argparse.ArgumentParser, least_tokens: int = 1) -> None:
    """Sizes, mode and routing: the same for one device and for many."""
    add_sizes(parser, MOE_SIZES, {"batch_size": least_tokens})
    parser.add_argument(
        "--ffn-dim", type=at_least(1), metavar="N", help="width inside an expert; default 2/7 of --hidden-dim"
    )
    parser.add_argument("--mode", choices=list(CHOICES), default="all", help="both: the first two; default all")
    parser.add_argument("--routing", choices=ROUTINGS, default="random", help="default random: the router's own")
    help_text = f"of --routing=power-law: how fast popularity falls; default {EXPONENT}"
    parser.add_argument("--exponent", type=float, default=EXPONENT, metavar="X", help=help_text)


_EP = """\
A mixture-of-experts layer with its experts spread over ranks: route, dispatch, compute, combine.

Ranks are started here, or by torchrun. A token is sent once to each rank that has one of its experts. Experts are
spread as evenly as their number allows; a rank may have no tokens.

Prints the time of a step (its slowest rank's: median, p10, p90, p99), the slowest rank, bytes sent between ranks, the
share of communication, how uneven ranks and experts are loaded, and a table of the ranks. Each rank checks its
results, those of 64 tokens where there are more, against an answer that needs no other rank.

examples:
  gpuledger bench ep --world-size=2 --backend=gloo
  gpuledger bench ep --world-size=3 --tokens-per-rank=64,0,7 --routing=power-law --mode=grouped
  gpuledger bench ep --world-size=2 --backend=nccl --mode=both --cuda-profiler
  torchrun --nproc-per-node=8 -m gpuledger_workloads.ep --batch-size=32 --num-experts=256 --hidden-dim=7168
"""


def ep_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench ep`."""
    parser = program("ep", _EP, iters=20, warmup=5)
    layer_options(parser, least_tokens=0)
    help_text = "tokens of each rank, such as 64,0,7, instead of --batch-size for all"
    parser.add_argument("--tokens-per-rank", type=_tokens, metavar="N,...", help=help_text)
    rank_options(parser, world_size=2)
    return parser


def _tokens(text: str) -> list[int]:
    counts = [int(count) for count in text.split(",")]
    if min(counts) < 0:
        raise argparse.ArgumentTypeError("a rank cannot have fewer than 0 tokens")
    return counts


_tokens.__name__ = "list of whole numbers"  # argparse names it where the text is none


_DECODE = """\
Decode with a Llama-like model, dense or a mixture in which all experts see all tokens, with random weights or those of
--ckpt: read a prompt, decode --warmup tokens, then read it again and decode --steps tokens, measured. Prints the time
to the first token (ttft), per further token (tpot), and between tokens as a reader sees it (itl), with percentiles, and
tokens per second. The last logits are checked against one pass over the whole text.

examples:
  gpuledger bench decode                                 eager: how much of a step is launching?
  gpuledger bench decode --graph                         the same step as one CUDA graph
  gpuledger bench decode --experts=8 --ffn=4096          a mixture of experts
  gpuledger bench decode --config=config.json --layers=4 sizes of a published model, fewer layers
  gpuledger capture nsys -- gpuledger bench decode --cuda-profiler
"""


def decode_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench decode`."""
    parser = program("decode", _DECODE, iters=20, warmup=5)
    parser.add_argument(
        "--steps", dest="iters", type=at_least(1), default=argparse.SUPPRESS, metavar="N", help="the same as --iters"
    )
    parser.add_argument("--graph", action="store_true", help="the decode step as a CUDA graph")
    parser.add_argument("--compile", action="store_true", help="the decode step through torch.compile, without ranges")
    parser.add_argument("--read-tokens", action="store_true", help="read every token on the host")
    checkpoint_option(parser)
    size_options(parser)
    return parser


SERVE_PREFILL_ON_CPU = 128
SERVE_FLAGS = {"batch": "decode_batch_size", "context": "decode_ctx_len", "output": "output_len"}
_SERVE = """\
Prefill and decode of a node at a fixed operating point, in lockstep over ranks, with random weights or those of --ckpt.
With --experts, or --dispatch alone, experts are spread over the ranks, and every layer sends tokens to them and back.
Prints tokens per second of the node, time to the first token, time between tokens, and what each rank worked and
waited. The launch point is 256 sequences, 2000 tokens of text, 100 of output; --point=any allows others, whose figures
do not compare with it. What cannot fit is refused before anything is allocated. --iters is how often all of it is done
and measured, --warmup how many decode steps come before. The exit code is 3 where a --target was missed.

examples:
  gpuledger bench serve --world-size=8                    the launch point on eight GPUs
  gpuledger bench serve --num-pages=8448                  the same on one: it has all 256 sequences
  gpuledger bench serve --mode=decode --point=any --output-len=32 --graph
  gpuledger bench serve --target='decode_tokens_per_s>=22000' --target='ttft_p99_ms<=2000'
  torchrun --nproc_per_node=8 -m gpuledger_workloads.serve --targets=targets.json
  gpuledger bench serve --device=cpu --world-size=2       a tiny model at a small point
  gpuledger bench serve --attention=mla --dispatch=low-latency --world-size=8 --ranks-as=streams --graph
                                                          experts over eight ranks, all of them on one GPU
  torchrun --nproc_per_node=8 -m gpuledger_workloads.serve --attention=sparse --dispatch=normal
"""


def serve_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench serve`."""
    parser = program("serve", _SERVE, iters=1, warmup=3)
    parser.add_argument(
        "--mode", choices=["all", "prefill", "decode"], default="all", help="what is measured; default all"
    )
    parser.add_argument(
        "--point", choices=["launch", "any"], help="launch: no other point; default launch, on a CPU any"
    )
    whole = at_least(1)
    for name, what in (("batch", "sequences of the node"), ("context", "tokens of text"), ("output", "tokens to make")):
        help_text = f"{what}; default {getattr(LAUNCH, name)}, on a CPU {getattr(SMALL, name)}"
        parser.add_argument(f"--{SERVE_FLAGS[name].replace('_', '-')}", type=whole, metavar="N", help=help_text)
    room_options(parser, max_seq_len=32768, max_batch_size=256, prefill_on_cpu=SERVE_PREFILL_ON_CPU)
    parser.add_argument(
        "--disable-chunked-prefill", action="store_true", help="refuse prompts longer than --max-prefill-tokens"
    )
    parser.add_argument("--graph", action="store_true", help="the decode step as a CUDA graph")
    parser.add_argument(
        "--dispatch",
        choices=DISPATCH_NAMES,
        help="how decode sends tokens to experts; normal: the host reads how many, and as many are sent; low-latency: "
        "always the same number, and no host waits; default normal where there are --experts",
    )
    checkpoint_option(parser)
    target_options(parser)
    rank_options(parser)
    streams_option(parser)
    size_options(parser, "batch", "prompt")
    return parser


TRANSPORT_SIZES = {
    "decode_batch_size": (256, 64, "tokens of all ranks together"),
    "hidden_size": (7168, 256, "numbers per token"),
    "num_experts": (256, 32, "experts of all ranks together"),
    "topk": (8, 4, "experts per token"),
}

_TRANSPORT = """\
Time what moves tokens between the ranks of an expert-parallel MoE layer at a decode point, without the model: layout
(which token goes to which rank), dispatch (counts and tokens, a token once per rank) and combine (back, and summed).

Prints median, p10, p90 and p99 of each phase over the slowest rank of each iteration, remote and local bytes, the
bandwidth of dispatch, ranks per token, and a table of ranks. Sums are checked against x times the sum of the weights.

Routing: random draws the experts of a token anew for each token; uniform gives all experts the same work, and each
token to as many ranks as it can. Mode: normal tells ranks how much comes, which the host reads, and sends that;
low-latency sends always the same number of rows, and no host waits.

examples:
  gpuledger bench transport --world-size=2 --backend=gloo
  gpuledger bench transport --mode=normal --decode-batch-size=256 --hidden-size=7168 --num-experts=256 --topk=8 \\
      --routing=random --warmup-iters=20 --iters=200
  gpuledger bench transport --mode=low-latency --world-size=8 --ranks-as=streams
  torchrun --nproc_per_node=8 -m gpuledger_workloads.transport --routing=uniform
"""


def transport_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench transport`."""
    parser = program("transport", _TRANSPORT, iters=200, warmup=20)
    parser.add_argument(
        "--warmup-iters", dest="warmup", type=at_least(0), default=argparse.SUPPRESS, metavar="N", help="as --warmup"
    )
    parser.add_argument(
        "--mode",
        choices=DISPATCH_NAMES,
        default="normal",
        help="normal: counts are exchanged and read, then exactly those rows; low-latency: always the same number of "
        "rows, and no host waits; default normal",
    )
    add_sizes(parser, TRANSPORT_SIZES)
    parser.add_argument("--routing", choices=["random", "uniform"], default="random", help="default random")
    rank_options(parser)
    streams_option(parser)
    return parser


_BARRIER = """\
Time barriers between the ranks of one node: phase (the host counts, and passes the number) against tag (the number
lives in memory, and the barrier adds 1), called one by one against replayed as a CUDA graph. A check with late ranks
shows which of them may be replayed: phase may not.

Prints median, p10, p90 and p99 of a barrier in microseconds for each, how often a rank got past it that should have
waited, and whether it is safe to replay. Ranks are processes with a GPU each; where GPUs are too few, streams of one
process on one GPU. On a CPU they are processes, and recorded calls stand for a graph. Before each step, ranks meet over
gloo, unless --backend says otherwise; that is not timed.

examples:
  gpuledger bench barrier --world-size=2 --device=cpu
  gpuledger bench barrier --world-size=8 --ranks-as=streams
  torchrun --nproc_per_node=8 -m gpuledger_workloads.barrier
"""


def barrier_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench barrier`."""
    parser = program("barrier", _BARRIER, iters=100, warmup=10)
    rank_options(parser, world_size=2)
    parser.add_argument(
        "--ranks-as", choices=["processes", "streams"], help="default: processes, if there are GPUs for all"
    )
    parser.add_argument("--per-step", type=at_least(1), default=16, metavar="N", help="barriers in a row; default 16")
    parser.add_argument(
        "--checks", type=at_least(1), default=12, metavar="N", help="rounds with a late rank; default 12"
    )
    parser.add_argument(
        "--patience", type=at_least(1), default=20, metavar="S", help="a rank waits so long, about; default 20"
    )
    return parser


LONGCTX_PREFILL_ON_CPU = 512
LONGCTX_LENGTHS = {
    "prompt_len": (128000, 600, "tokens of the prompt"),
    "output_len": (16, 4, "tokens to make"),
    "chunk_size": (2048, 64, "tokens of a chunk"),
}

_LONGCTX = """\
Read a long prompt in chunks and decode a few tokens after it, with random weights or those of --ckpt: does it hold,
does it stall, does it slow down? Prints tokens per second by position, the slowdown from the first chunk to the last,
the cache's bytes and peak memory. Too few KV pages are refused before anything is allocated; logits that are not
finite, chunks that disagree with the prompt read at once, and a chunk that does not end within --stall-timeout seconds
end it with exit code 1. Ranks share the keys and values of the text; each has the whole model, its experts too. --iters
is how often the prompt is read, --warmup how many chunks are read before.

examples:
  gpuledger bench longctx                                       128,000 tokens, 16 more
  gpuledger bench longctx --prompt-len=163824 --chunk-size=8192 up to --max-seq-len
  gpuledger bench longctx --config=config.json --layers=2 --stall-timeout=30
  gpuledger bench longctx --device=cpu                          600 tokens, a tiny model
  gpuledger bench longctx --world-size=8 --ranks-as=streams --attention=mla
                                                                the text's keys and values over eight ranks
  torchrun --nproc_per_node=8 -m gpuledger_workloads.longctx --ckpt=DIR --attention=mla
"""


def longctx_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench longctx`."""
    parser = program("longctx", _LONGCTX, iters=1, warmup=1)
    add_sizes(parser, LONGCTX_LENGTHS)
    room_options(parser, max_seq_len=163840, max_batch_size=1, prefill_on_cpu=LONGCTX_PREFILL_ON_CPU)
    help_text = "seconds for a chunk, or to read the experts of a layer from --ckpt; default 120"
    parser.add_argument("--stall-timeout", type=at_least(1), default=120, metavar="S", help=help_text)
    rank_options(parser)
    streams_option(parser)
    checkpoint_option(parser)
    size_options(parser, "batch", "prompt")
    return parser


MOCK_PARTS = ("attention", "mlp", "layer")

_MOCK = """\
One part of the decoder alone, on the input that it has inside of the model.

  attention     norm, projections, rotary embedding, attention over the cache, sum
  mlp           norm, MLP or experts, sum
  layer         both

Prints the time of one forward. The output is checked against what the part gave inside of the model. Give the same
sizes and the same --steps as for `bench decode`: the cache's length depends on them.

examples:
  gpuledger bench mock --part=attention
  gpuledger capture nsys -o mock -- gpuledger bench mock --part=mlp --cuda-profiler
  gpuledger align mock.sqlite model.sqlite --range=attention --mock-range=attention"""


def mock_parser() -> argparse.ArgumentParser:
    """The options of `gpuledger bench mock`."""
    parser = program("mock", _MOCK, iters=20, warmup=5)
    parser.add_argument("--part", choices=MOCK_PARTS, default="attention", help="default attention")
    parser.add_argument("--steps", type=at_least(1), default=20, metavar="N", help="of the model to mock; default 20")
    size_options(parser, "layers")
    return parser


PARSERS: Final[Mapping[str, Callable[[], argparse.ArgumentParser]]] = {
    "moe": moe_parser,
    "ep": ep_parser,
    "decode": decode_parser,
    "serve": serve_parser,
    "transport": transport_parser,
    "barrier": barrier_parser,
    "longctx": longctx_parser,
    "mock": mock_parser,
}
"""Of each workload, which is the module of that name."""
