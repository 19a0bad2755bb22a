"""The training steps in plain JAX, compiled as a whole, with the weights, data and arithmetic of ``workloads``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .workloads import Step, classes, floats

Update = Callable[[Any, Any, Any], tuple[Any, Any]]


def weights(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Return the weights that ``same_weights`` draws for parameters of these shapes."""
    rng = np.random.default_rng(0)
    return [(rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32) for shape in shapes]


def compiled(function: Callable[..., Any], state: Any) -> Step:
    """Compile steps of a function that returns the loss and the next state."""
    run = jax.jit(function)

    def step() -> Any:
        nonlocal state
        loss, state = run(state)
        return jax.block_until_ready(loss)

    return step


def trained(loss_of: Callable[..., Any], parameters: Any, update: Update, beside: Any = None) -> Step:
    """Compile training steps; ``loss_of(parameters, beside)`` returns the loss and the next ``beside``."""

    def step(state: Any) -> Any:
        parameters, moments, beside = state
        (loss, beside), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters, beside)
        return loss, (*update(parameters, moments, gradients), beside)

    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return compiled(step, (parameters, (zeros, zeros, jnp.zeros(())), beside))


def rmsprop(lr: float, momentum: float) -> Update:
    """PyTorch's RMSprop."""

    def update(parameters: Any, moments: Any, gradients: Any) -> Any:
        squares, speeds, count = moments
        squares = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, squares, gradients)
        speeds = jax.tree.map(lambda b, g, v: momentum * b + g / (jnp.sqrt(v) + 1e-8), speeds, gradients, squares)
        return jax.tree.map(lambda p, b: p - lr * b, parameters, speeds), (squares, speeds, count)

    return update


def adam(lr: float, beta1: float = 0.9, beta2: float = 0.999, decay: float = 0.0, clip: float | None = None) -> Update:
    """PyTorch's Adam and AdamW, after clipping by the global norm."""

    def update(parameters: Any, moments: Any, gradients: Any) -> Any:
        means, squares, count = moments
        if clip is not None:
            norm = jnp.sqrt(sum((g * g).sum() for g in jax.tree.leaves(gradients)))
            gradients = jax.tree.map(lambda g: g * jnp.minimum(1.0, clip / (norm + 1e-6)), gradients)
        count = count + 1
        means = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, means, gradients)
        squares = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, squares, gradients)
        rate, root = lr / (1 - beta1**count), jnp.sqrt(1 - beta2**count)

        def moved(p: Any, m: Any, v: Any) -> Any:
            return p * (1 - lr * decay) - rate * m / (jnp.sqrt(v) / root + 1e-8)

        return jax.tree.map(moved, parameters, means, squares), (means, squares, count)

    return update


def cross_entropy(logits: Any, y: Any) -> Any:
    """The mean negative log-likelihood of the targets."""
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()


def mlp_large() -> Step:
    """MLP 784-1024-1024-1024-10."""
    x, y = jnp.asarray(floats(1, 512, 784)), jnp.asarray(classes(2, 10, 512))
    drawn = weights((1024, 784), (1024, 1024), (1024, 1024), (10, 1024))

    def loss_of(layers: Any, _: Any) -> Any:
        h = x
        for w, b in layers[:-1]:
            h = jax.nn.relu(h @ w.T + b)
        w, b = layers[-1]
        return cross_entropy(h @ w.T + b, y), None

    return trained(loss_of, [(w, np.zeros(len(w), np.float32)) for w in drawn], rmsprop(1e-4, 0.9))


def layer_norm(x: Any, weight: Any) -> Any:
    """Normalization over the last dimension without a bias."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / jnp.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * weight


def gpt(layers: int, channels: int, heads: int, length: int, batch: int, vocabulary: int = 65) -> Step:
    """A decoder-only transformer with AdamW and clipping."""
    c, width = channels, channels // heads
    block = [(3 * c, c), (c, c), (4 * c, c), (c, 4 * c)]
    token, position, *drawn, head = weights((vocabulary, c), (length, c), *block * layers, (vocabulary, c))
    ones = np.ones(c, np.float32)
    parameters = {
        "token": token, "position": position, "head": head, "norm": ones,
        "blocks": [(ones, ones, *drawn[4 * index : 4 * index + 4]) for index in range(layers)],
    }  # fmt: skip
    x, y = jnp.asarray(classes(1, vocabulary, batch, length)), jnp.asarray(classes(2, vocabulary, batch * length))
    seen = jnp.tril(jnp.ones((length, length), bool))

    def loss_of(p: Any, _: Any) -> Any:
        h = p["token"][x] + p["position"]
        for norm1, norm2, qkv, projection, up, down in p["blocks"]:
            parts = (layer_norm(h, norm1) @ qkv.T).reshape(batch, length, 3, heads, width)
            q, k, v = parts.transpose(2, 0, 3, 1, 4)
            scores = jnp.where(seen, q @ k.swapaxes(-1, -2) / np.sqrt(width), -jnp.inf)
            mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, c)
            h = h + mixed @ projection.T
            h = h + jax.nn.gelu(layer_norm(h, norm2) @ up.T, approximate=False) @ down.T
        logits = layer_norm(h, p["norm"]) @ p["head"].T
        return cross_entropy(logits.reshape(-1, vocabulary), y), None

    return trained(loss_of, parameters, adam(1e-3, 0.9, 0.99, decay=0.1, clip=1.0))


def gpt_small() -> Step:
    """GPT of 4 layers."""
    return gpt(layers=4, channels=128, heads=4, length=64, batch=12)


def gpt_middle() -> Step:
    """GPT of 6 layers."""
    return gpt(layers=6, channels=384, heads=6, length=256, batch=4)


def cnn() -> Step:
    """CNN 1-32-64 with batch norm, whose running statistics are carried along with the parameters."""
    x, y = jnp.asarray(floats(1, 64, 1, 28, 28)), jnp.asarray(classes(2, 10, 64))
    first, second, head = weights((32, 1, 3, 3), (64, 32, 3, 3), (10, 64 * 49))

    def zeros(n: int) -> Any:
        return np.zeros(n, np.float32)

    blocks = [(w, zeros(len(w)), np.ones(len(w), np.float32), zeros(len(w))) for w in (first, second)]
    statistics = [(zeros(n), np.ones(n, np.float32)) for n in (32, 64)]

    def loss_of(p: Any, statistics: Any) -> Any:
        h, following = x, []
        for (w, b, scale, shift), (mean, var) in zip(p["blocks"], statistics, strict=True):
            h = jax.lax.conv_general_dilated(h, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
            h = h + b[:, None, None]
            m, v = h.mean((0, 2, 3)), h.var((0, 2, 3))
            count = h.size / h.shape[1]
            following.append((0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v * count / (count - 1)))
            h = (h - m[:, None, None]) / jnp.sqrt(v + 1e-5)[:, None, None] * scale[:, None, None]
            h = jax.nn.relu(h + shift[:, None, None])
            h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        w, b = p["head"]
        return cross_entropy(h.reshape(64, -1) @ w.T + b, y), following

    return trained(loss_of, {"blocks": blocks, "head": (head, zeros(10))}, adam(1e-3), statistics)


def lstm() -> Step:
    """LSTM 128-256 over 64 steps, with ``scan``."""
    x, y = jnp.asarray(floats(1, 32, 64, 128)), jnp.asarray(classes(2, 65, 32 * 64))
    from_input, from_state, head = weights((1024, 128), (1024, 256), (65, 256))
    zeros = np.zeros(1024, np.float32)

    def loss_of(p: Any, _: Any) -> Any:
        w, u, b, c, head, bias = p

        def cell(state: Any, given: Any) -> Any:
            h, kept = state
            i, f, g, o = jnp.split(given + h @ u.T + c, 4, 1)
            kept = jax.nn.sigmoid(f) * kept + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(kept)
            return (h, kept), h

        start = jnp.zeros((32, 256)), jnp.zeros((32, 256))
        _, hidden = jax.lax.scan(cell, start, (x @ w.T + b).swapaxes(0, 1))
        return cross_entropy((hidden.swapaxes(0, 1) @ head.T + bias).reshape(-1, 65), y), None

    parameters = (from_input, from_state, zeros, zeros, head, np.zeros(65, np.float32))
    return trained(loss_of, parameters, adam(1e-3))
