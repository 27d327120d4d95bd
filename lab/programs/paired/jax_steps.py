"""A training step in JAX, in two variants; in a process of its own, as JAX and torch each take the memory they want."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lab.programs.paired.program import Step, pair


def jax_block(device: str, fixed: bool) -> Step:
    """Waits for the loss of each step before it starts the next. Fixed: runs ahead."""
    jax: Any = import_module("jax")
    jnp: Any = import_module("jax.numpy")
    width, rows, layers = (1024, 512, 8) if device == "cuda" else (32, 8, 2)
    keys = jax.random.split(jax.random.PRNGKey(0), layers + 3)
    weights = [jax.random.normal(key, (width, width), jnp.bfloat16) * (2 / width) ** 0.5 for key in keys[:layers]]
    batches = [jax.random.normal(key, (rows, width), jnp.bfloat16) for key in keys[layers:]]

    def loss_of(weights: Any, batch: Any) -> Any:
        hidden = batch
        for weight in weights:
            hidden = jax.nn.relu(hidden @ weight)
        return (hidden.astype(jnp.float32) ** 2).mean()

    def updated(weights: Any, batch: Any) -> Any:
        loss, slopes = jax.value_and_grad(loss_of)(weights, batch)
        return [weight - 1e-3 * slope for weight, slope in zip(weights, slopes, strict=True)], loss

    compiled, state = jax.jit(updated), [weights]

    def step(index: int) -> Any:
        state[0], loss = compiled(state[0], batches[index % len(batches)])
        return loss if fixed else loss.block_until_ready()

    return step


PROGRAMS = (pair("jax_block", "waits for the loss of each step", "HOST-SYNC", "the waits return at once", jax_block),)
