"""The workloads that JAX, HIPS autograd and MyGrad support, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from .workloads import Step, classes, floats


def mlp_weights() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Return the weights of 784-128-10 as ``same_weights`` draws them, transposed, with zero biases."""
    rng = np.random.default_rng(0)
    shapes = [(128, 784), (10, 128)]
    drawn = [(rng.standard_normal(shape) / np.sqrt(shape[1])).astype(np.float32) for shape in shapes]
    return [(w.T.copy(), np.zeros(len(w), np.float32)) for w in drawn]


def _jax_step(function: Callable[..., Any], arguments: Any) -> Step:
    import jax

    compiled = jax.jit(function)
    state = arguments

    def step() -> Any:
        nonlocal state
        loss, state = compiled(state)
        return jax.block_until_ready(loss)

    return step


def jax_mlp_small() -> Step:
    """MLP 784-128-10, as one compiled step."""
    import jax
    import jax.numpy as jnp

    x, y = jnp.asarray(floats(1, 32, 784)), jnp.asarray(classes(2, 10, 32))

    def loss_of(layers: Any) -> Any:
        (w1, b1), (w2, b2) = layers
        logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    def step(layers: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(layers)
        return loss, jax.tree.map(lambda p, g: p - 0.01 * g, layers, gradient)

    return _jax_step(step, mlp_weights())


def jax_elementwise() -> Step:
    """The chain on 4 million numbers, compiled."""
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(floats(1, 4_000_000))

    def step(state: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda x: (jnp.tanh(x * 1.5 + 0.5) * jax.nn.sigmoid(x)).mean())(state[0])
        return loss, (state[0], gradient)

    return _jax_step(step, (x, x))


def jax_chain() -> Step:
    """The chain of 8 x 8 matrices, compiled."""
    import jax
    import jax.numpy as jnp

    arrays = [jnp.asarray(floats(seed, 8, 8) / 3) for seed in range(1, 5)]

    def loss_of(values: Any) -> Any:
        x, w, s, b = values
        for _ in range(25):
            x = jnp.tanh((x @ w) * s + b)
        return x.sum()

    def step(state: Any) -> Any:
        loss, gradient = jax.value_and_grad(loss_of)(state[0])
        return loss, (state[0], gradient)

    return _jax_step(step, (arrays, arrays))


def autograd_mlp_small() -> Step:
    """MLP 784-128-10 in HIPS autograd."""
    import autograd.numpy as anp
    from autograd import grad

    x, y = floats(1, 32, 784), classes(2, 10, 32)
    layers = mlp_weights()
    last: list[Any] = [0.0]

    def loss_of(layers: Any) -> Any:
        (w1, b1), (w2, b2) = layers
        logits = anp.dot(anp.maximum(anp.dot(x, w1) + b1, 0), w2) + b2
        shifted = logits - logits.max(axis=1, keepdims=True)
        loss = -anp.mean(shifted[anp.arange(32), y] - anp.log(anp.sum(anp.exp(shifted), axis=1)))
        last[0] = getattr(loss, "_value", loss)
        return loss

    gradient = grad(loss_of)

    def step() -> Any:
        nonlocal layers
        found = gradient(layers)
        layers = [(w - 0.01 * gw, b - 0.01 * gb) for (w, b), (gw, gb) in zip(layers, found, strict=True)]
        return last[0]

    return step


def autograd_elementwise() -> Step:
    """The chain on 4 million numbers in HIPS autograd."""
    import autograd.numpy as anp
    from autograd import value_and_grad

    x = floats(1, 4_000_000)
    function = value_and_grad(lambda x: anp.mean(anp.tanh(x * 1.5 + 0.5) * (1 / (1 + anp.exp(-x)))))
    return lambda: function(x)[0]


def autograd_chain() -> Step:
    """The chain of 8 x 8 matrices in HIPS autograd."""
    import autograd.numpy as anp
    from autograd import value_and_grad

    arrays = [floats(seed, 8, 8) / 3 for seed in range(1, 5)]

    def loss_of(values: Any) -> Any:
        x, w, s, b = values
        for _ in range(25):
            x = anp.tanh(anp.dot(x, w) * s + b)
        return anp.sum(x)

    function = value_and_grad(loss_of)
    return lambda: function(arrays)[0]


def mygrad_elementwise() -> Step:
    """The chain on 4 million numbers in MyGrad."""
    import mygrad as mg
    from mygrad.nnet.activations import sigmoid

    x = mg.tensor(floats(1, 4_000_000))

    def step() -> Any:
        loss = (mg.tanh(x * 1.5 + 0.5) * sigmoid(x)).mean()
        loss.backward()
        return loss.item()

    return step


def mygrad_chain() -> Step:
    """The chain of 8 x 8 matrices in MyGrad."""
    import mygrad as mg

    x, w, s, b = [mg.tensor(floats(seed, 8, 8) / 3) for seed in range(1, 5)]

    def step() -> Any:
        y = x
        for _ in range(25):
            y = mg.tanh((y @ w) * s + b)
        loss = y.sum()
        loss.backward()
        return loss.item()

    return step


def _in_jax(workload: str) -> Callable[[], Step]:
    def make() -> Step:
        step: Step = getattr(import_module("benchmarks.in_jax"), workload)()
        return step

    return make


OTHERS: dict[tuple[str, str], Callable[[], Step]] = {
    **{("jax", name): _in_jax(name) for name in ("mlp_large", "gpt_small", "gpt_middle", "cnn", "lstm")},
    ("jax", "mlp_small"): jax_mlp_small,
    ("jax", "elementwise"): jax_elementwise,
    ("jax", "chain"): jax_chain,
    ("autograd", "mlp_small"): autograd_mlp_small,
    ("autograd", "elementwise"): autograd_elementwise,
    ("autograd", "chain"): autograd_chain,
    ("mygrad", "elementwise"): mygrad_elementwise,
    ("mygrad", "chain"): mygrad_chain,
}
