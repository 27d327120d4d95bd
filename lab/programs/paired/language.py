"""Language models of transformers, in two variants: a device in, the step to be repeated out.

The masks are given with four dimensions: made from fewer, they are looked at on the host, in each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
import torch.nn.functional as F  # type: ignore[import-not-found, unused-ignore]  # noqa: N812
from torch import Tensor, nn  # type: ignore[import-not-found, unused-ignore]

from gpuledger_workloads.common.cuda_graph import captured
from lab.programs.paired.program import PairedProgram, Step, pair
from lab.programs.paired.sizes import BATCHES, BF16, pinned, sized

STOPS = ("</s>", "###", "Observation:")


def causal_mask(length: int, device: str) -> Tensor:
    """Which positions see which, for all texts."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()[None, None]


def model_of(kind: str, device: str, *, layers: int, width: int, dtype: torch.dtype = BF16, **more: Any) -> Any:
    """A model of transformers: `Llama`, `Mixtral` (for causal language modelling) or `Bert`."""
    hub: Any = import_module("transformers")
    sizes = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": max(width // 128, 2),
        "intermediate_size": 4 * width,
        "vocab_size": sized(device, 32_000, 256),
        **more,
    }
    if kind != "Bert":
        sizes.setdefault("num_key_value_heads", max(width // 512, 1))
    config = getattr(hub, f"{kind}Config")(**sizes)
    torch.manual_seed(0)
    with torch.device(device):
        model = getattr(hub, "BertModel" if kind == "Bert" else f"{kind}ForCausalLM")(config)
    return model.to(dtype).eval()


def ids_of(model: Any, device: str, rows: int, length: int, count: int = BATCHES) -> list[Tensor]:
    """Batches of token ids."""
    chance = torch.Generator().manual_seed(1)
    return [
        torch.randint(0, model.config.vocab_size, (rows, length), generator=chance).to(device) for _ in range(count)
    ]


def logits_of(model: Any, ids: Tensor, mask: Tensor) -> Tensor:
    """One forward pass."""
    logits: Tensor = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    return logits


def decoding(device: str, then: Callable[[int, Tensor], Tensor]) -> Step:
    """A few tokens of greedy decoding of many texts; `then` makes of a place and its tokens those that go on."""
    model = model_of("Llama", device, layers=4, width=sized(device, 4096, 256))
    rows, tokens = sized(device, 1024, 4), 4
    firsts = ids_of(model, device, rows, 1)
    masks = [torch.ones(rows, 1, 1, length + 1, dtype=torch.bool, device=device) for length in range(tokens)]
    places = [torch.full((rows, 1), length, device=device) for length in range(tokens)]

    def step(index: int) -> Tensor:
        token, cache = firsts[index % BATCHES], None
        for number, (place, mask) in enumerate(zip(places, masks, strict=True)):
            said = model(
                input_ids=token, past_key_values=cache, attention_mask=mask, position_ids=place, use_cache=True
            )
            cache, token = said.past_key_values, then(number, said.logits[:, -1].argmax(-1, keepdim=True))
        logits: Tensor = said.logits
        return logits

    return step


def hf_tolist(device: str, fixed: bool) -> Step:
    """Takes each decoded token through a Python list, as a streaming server does. Fixed: it stays on the device."""
    return decoding(device, lambda _, token: token if fixed else torch.tensor(token.tolist(), device=device))


def hf_stop_strings(device: str, fixed: bool) -> Step:
    """Looks on the host, after each token, which texts hold a stop string. Fixed: on the device, for a stop token."""
    words, texts = [f"{number:x} " for number in range(32_000)], list[str]()
    ended, ended_there = list[bool](), list[Tensor]()

    def then(place: int, token: Tensor) -> Tensor:
        if fixed:
            ended_there[:] = [token == 0 if place == 0 else ended_there[0] | (token == 0)]
        else:
            spoken = [words[number] for number in token.flatten().tolist()]
            texts[:] = spoken if place == 0 else [(text + word)[-64:] for text, word in zip(texts, spoken, strict=True)]
            ended[:] = [any(stop in text for stop in STOPS) for text in texts]
        return token

    return decoding(device, then)


def hf_graph(device: str, fixed: bool) -> Step:
    """A small model on short texts: the host launches more slowly than the device computes."""
    length = 32
    model = model_of("Llama", device, layers=sized(device, 16, 2), width=sized(device, 1024, 256))
    batches, mask = ids_of(model, device, 4, length), causal_mask(length, device)
    ids = batches[0].clone()

    def work() -> Tensor:
        return logits_of(model, ids, mask)

    run = captured(work) if fixed and device == "cuda" else work

    def step(index: int) -> Tensor:
        ids.copy_(batches[index % BATCHES])
        return run()

    return step


def hf_moe(device: str, fixed: bool) -> Step:
    """Experts in transformers' Python loop, which asks the device for each expert's tokens. Fixed: a grouped matmul."""
    length = sized(device, 256, 8)
    more = {"num_local_experts": sized(device, 16, 4), "num_experts_per_tok": 2}
    width, how = sized(device, 1024, 64), "grouped_mm" if fixed else "eager"
    model = model_of("Mixtral", device, layers=sized(device, 4, 2), width=width, experts_implementation=how, **more)
    batches, mask = ids_of(model, device, 4, length), causal_mask(length, device)
    return lambda index: logits_of(model, batches[index % BATCHES], mask)


def hf_autocast(device: str, fixed: bool) -> Step:
    """float32 weights, cast by autocast for each matmul of each step. Fixed: kept in bfloat16."""
    length = sized(device, 256, 64)
    dtype = BF16 if fixed else torch.float32
    model = model_of("Llama", device, layers=sized(device, 4, 2), width=sized(device, 4096, 256), dtype=dtype)
    batches, mask = ids_of(model, device, 8, length), causal_mask(length, device)

    def step(index: int) -> Tensor:
        with nullcontext() if fixed else torch.autocast(device, dtype=BF16):
            return logits_of(model, batches[index % BATCHES], mask)

    return step


def bert_of(device: str) -> tuple[Any, list[list[list[int]]], int]:
    """A model of sentences, and batches of sentences as lists of token ids, as a tokenizer gives them."""
    rows, length = sized(device, 256, 8), sized(device, 64, 8)
    model = model_of("Bert", device, layers=sized(device, 12, 2), width=sized(device, 768, 256))
    return model, [batch.tolist() for batch in ids_of(model, "cpu", rows, length)], length


def bert_hidden(model: Any, ids: Tensor) -> Tensor:
    """One forward pass over whole sentences."""
    mask = torch.ones(len(ids), 1, ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device)
    hidden: Tensor = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return hidden


def bert_transfers(device: str, fixed: bool) -> Step:
    """Sends sentences to the device one by one. Fixed: all of them in one copy from pinned memory."""
    model, texts, _ = bert_of(device)
    ready = [pinned(torch.tensor(text), device) for text in texts]

    def step(index: int) -> Tensor:
        if fixed:
            ids = ready[index % BATCHES].to(device, non_blocking=True)
        else:
            ids = torch.stack([torch.tensor(text, device=device) for text in texts[index % BATCHES]])
        return bert_hidden(model, ids)

    return step


def bert_one_by_one(device: str, fixed: bool) -> Step:
    """Runs sixteen sentences one after the other. Fixed: in one batch."""
    model, texts, _ = bert_of(device)
    batches = [torch.tensor(text[:16], device=device) for text in texts]

    def step(index: int) -> Tensor:
        ids = batches[index % BATCHES]
        return bert_hidden(model, ids) if fixed else torch.cat([bert_hidden(model, row[None]) for row in ids])

    return step


def llama_training(
    device: str, update: Callable[[Any], Callable[[], object]], layers: int | None = None, width: int | None = None
) -> Step:
    """Forward, backward and what `update` does then, of a deep and narrow model unless told; the output is the loss."""
    length = sized(device, 256, 8)
    layers, width = layers or sized(device, 12, 2), width or sized(device, 768, 256)
    model = model_of("Llama", device, layers=layers, width=width).train()
    batches, mask = ids_of(model, device, sized(device, 8, 2), length), causal_mask(length, device)
    finish = update(model)

    def step(index: int) -> Tensor:
        ids = batches[index % BATCHES]
        with torch.enable_grad():
            logits = logits_of(model, ids, mask)
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        finish()
        model.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def adamw(fused: bool, model: Any) -> Callable[[], object]:
    """What updates a model: in one kernel, or parameter by parameter."""
    how: dict[str, bool] = {"fused": True} if fused else {"foreach": False, "fused": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **how)
    return lambda: optimizer.step()


def adamw_loop(device: str, fixed: bool) -> Step:
    """AdamW parameter by parameter. Fixed: fused."""
    return llama_training(device, partial(adamw, fixed))


def grad_norms(device: str, fixed: bool) -> Step:
    """Reads each parameter's gradient norm to clip by their root of squares. Fixed: torch clips, and reads nothing."""

    def update(model: Any) -> Callable[[], object]:
        parameters: Sequence[Tensor] = list(model.parameters())
        optimizer = torch.optim.SGD(parameters, lr=1e-4, foreach=True)

        def clip() -> None:
            if fixed:
                nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            else:
                size = math.sqrt(
                    sum(weight.grad.norm().item() ** 2 for weight in parameters if weight.grad is not None)
                )
                torch._foreach_mul_([weight.grad for weight in parameters], min(1.0, 1.0 / (size + 1e-6)))
            optimizer.step()

        return clip

    return llama_training(device, update)


PROGRAMS: tuple[PairedProgram, ...] = (
    pair(
        "hf_tolist",
        "takes each decoded token through a Python list",
        "HOST-SYNC",
        "the waits, the reads and the copies of the tokens go, with the code that makes them",
        hf_tolist,
    ),
    pair(
        "adamw_loop",
        "updates parameters one by one",
        "LAUNCH-BOUND",
        "the optimizer's kernels become a few: launching them costs nothing; an upper bound without its range",
        adamw_loop,
    ),
    pair(
        "hf_moe",
        "loops over experts, asking the device for each one's tokens",
        "LAUNCH-BOUND",
        "the waits and reads go, and the experts' kernels become a few: waits and launches together; a bound",
        hf_moe,
    ),
    pair(
        "hf_autocast", "casts weights in each step", "CAST", "the kernels that cast go, and their launches", hf_autocast
    ),
    pair(
        "grad_norms",
        "reads the gradient norm of each parameter",
        "HOST-SYNC",
        "the waits and the reads go, with the code that makes them; the norms' kernels become one",
        grad_norms,
    ),
    pair(
        "bert_transfers",
        "sends sentences one by one",
        "HOST-COPY",
        "the copies become one, which the host does not wait for",
        bert_transfers,
    ),
    pair(
        "hf_graph",
        "launches a small model kernel by kernel",
        "LAUNCH-BOUND",
        "launching costs nothing, kernels follow each other as nodes of a graph do: the whole step as a graph",
        hf_graph,
    ),
    pair(
        "bert_one_by_one",
        "runs sentences one after the other",
        "LAUNCH-BOUND",
        "none that is exact: other kernels run after the fix; launching for nothing bounds what launches cost",
        bert_one_by_one,
    ),
    pair(
        "hf_stop_strings",
        "looks for stop strings after each token",
        "HOST-CODE",
        "the waits and the reads of the tokens go, with the code that looks at them",
        hf_stop_strings,
    ),
)
