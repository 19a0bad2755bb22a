"""Compare transforms with torch.func and JAX: per-example gradients, Hessian, Hessian-vector products, Jacobian.

Each library runs in its own process with two threads, alternating; medians are compared. Libraries that are not
installed are skipped. JAX runs each function compiled as a whole (``jax``), and eagerly (``jax-eager``).
Hessian-vector products use each library's own method: ``hvp`` here, the gradient of ``<gradient, v>`` with
torch.func, forward over reverse with JAX.

    python benchmarks/transforms.py [--rounds 7] [--libraries retrograd torch] [--only MLP Hessian]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

LIBRARIES = ("retrograd", "torch", "jax", "jax-eager")
BATCH = 64
Step = Callable[[], Any]


def numbers(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def labels(seed: int, count: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, count, shape)


# Retrograd and PyTorch, with the same code


def module_steps(library: str) -> dict[str, Step]:
    """Return the workloads of a library with torch's names."""
    if library == "torch":
        import torch as lib

        lib.set_num_threads(2)
    else:
        import retrograd as lib  # type: ignore[no-redef]

    import importlib

    func = importlib.import_module(f"{lib.__name__}.func")
    nn, tensor = lib.nn, lib.tensor
    cross_entropy = nn.functional.cross_entropy
    lib.manual_seed(0)

    def state_of(module: Any) -> dict[str, Any]:
        return {name: value.detach() for name, value in module.named_parameters()}

    def per_example(module: Any, x: Any) -> Step:
        state, y = state_of(module), tensor(labels(1, 10, BATCH))

        def loss(state: Any, x: Any, y: Any) -> Any:
            return cross_entropy(func.functional_call(module, state, (x[None],)), y[None])

        gradients = func.vmap(func.grad(loss), in_dims=(None, 0, 0))
        return lambda: gradients(state, x, y)

    mlp = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    cnn = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 10),
    )  # fmt: skip

    small = nn.Sequential(nn.Linear(16, 40), nn.Tanh(), nn.Linear(40, 8))  # 1,008 parameters
    names, shapes = zip(*[(name, tuple(value.shape)) for name, value in small.named_parameters()], strict=True)
    flat = lib.cat([value.detach().reshape(-1) for value in small.parameters()])
    inputs, targets = tensor(numbers(2, BATCH, 16)), tensor(labels(3, 8, BATCH))

    def small_loss(flat: Any) -> Any:
        parts = lib.split(flat, [int(np.prod(shape)) for shape in shapes])
        state = {name: part.reshape(shape) for name, part, shape in zip(names, parts, shapes, strict=True)}
        return cross_entropy(func.functional_call(small, state, (inputs,)), targets)

    wide = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256))
    wide_state, point = state_of(wide), tensor(numbers(4, 256))

    layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
    layer.train()
    words = tensor(numbers(5, 16, 64, 128))
    layer_state = state_of(layer)
    directions = {name: lib.ones_like(value) for name, value in layer_state.items()}

    def layer_loss(state: Any) -> Any:
        return (func.functional_call(layer, state, (words,)) ** 2).mean()

    layer_gradient = func.grad(layer_loss)

    def inner(state: Any) -> Any:
        gradient = layer_gradient(state)
        return sum((gradient[name] * directions[name]).sum() for name in gradient)

    def product() -> Any:
        if hasattr(func, "hvp"):
            return func.hvp(layer_loss, (layer_state,), (directions,))[1]
        return func.grad(inner)(layer_state)

    return {
        "gradients per example, MLP": per_example(mlp, tensor(numbers(6, BATCH, 784))),
        "gradients per example, CNN": per_example(cnn, tensor(numbers(7, BATCH, 1, 28, 28))),
        "Hessian by 1,008 parameters": lambda: func.hessian(small_loss)(flat),
        "Jacobian of 256 to 256": lambda: func.jacrev(lambda x: func.functional_call(wide, wide_state, (x,)))(point),
        "gradient, transformer": lambda: layer_gradient(layer_state),
        "Hessian-vector product, transformer": product,
    }


def retrograd_steps() -> dict[str, Step]:
    return module_steps("retrograd")


def torch_steps() -> dict[str, Step]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    steps = module_steps("torch")
    product = steps["Hessian-vector product, transformer"]

    def twice_differentiable() -> Any:
        with sdpa_kernel(SDPBackend.MATH):  # PyTorch's fused attention has no second derivative
            return product()

    return steps | {"Hessian-vector product, transformer": twice_differentiable}


def jax_steps(compile: bool = True) -> dict[str, Step]:
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    def layers(*widths: int) -> Any:
        return [
            (jnp.asarray(numbers(i, m, n) / np.sqrt(m)), jnp.zeros(n))
            for i, (m, n) in enumerate(zip(widths, widths[1:]))
        ]

    def forward(activation: Any, layers: Any, x: Any) -> Any:
        for w, b in layers[:-1]:
            x = activation(x @ w + b)
        return x @ layers[-1][0] + layers[-1][1]

    def loss(logits: Any, y: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()

    def pooled(x: Any) -> Any:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def cnn_loss(state: Any, x: Any, y: Any) -> Any:
        x = x[None]
        for w, b in state[:2]:
            x = pooled(jax.nn.relu(jax.lax.conv(x, w, (1, 1), "VALID") + b[:, None, None]))
        return loss(x.reshape(-1) @ state[2][0] + state[2][1], y)

    mlp, small, wide = layers(784, 128, 64, 10), layers(16, 40, 8), layers(256, 256, 256)
    cnn = [
        (jnp.asarray(numbers(8, 8, 1, 3, 3)), jnp.zeros(8)),
        (jnp.asarray(numbers(9, 16, 8, 3, 3)), jnp.zeros(16)),
        (jnp.asarray(numbers(10, 400, 10)), jnp.zeros(10)),
    ]
    y = jnp.asarray(labels(1, 10, BATCH))
    inputs, targets = jnp.asarray(numbers(2, BATCH, 16)), jnp.asarray(labels(3, 8, BATCH))
    flat, unravel = ravel_pytree(small)

    def compiled(function: Any, *arguments: Any) -> Step:
        ready = jax.jit(function) if compile else function
        return lambda: jax.block_until_ready(ready(*arguments))

    def mlp_loss(state: Any, x: Any, y: Any) -> Any:
        return loss(forward(jax.nn.relu, state, x), y)

    def small_loss(flat: Any) -> Any:
        return loss(forward(jnp.tanh, unravel(flat), inputs), targets)

    def layer_loss(state: Any) -> Any:
        """The loss of a post-norm encoder layer of 128 channels and 4 heads, as PyTorch's."""

        def normalized(x: Any, w: Any, b: Any) -> Any:
            return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b

        (w_in, b_in), (w_out, b_out), (w1, b1), (w2, b2), first, second = state
        heads = (words @ w_in + b_in).reshape(16, 64, 3, 4, 32).transpose(2, 0, 3, 1, 4)
        q, k, v = heads
        p = jax.nn.softmax(q @ k.swapaxes(-1, -2) / 32**0.5)
        x = normalized(words + (p @ v).transpose(0, 2, 1, 3).reshape(16, 64, 128) @ w_out + b_out, *first)
        x = normalized(x + jax.nn.relu(x @ w1 + b1) @ w2 + b2, *second)
        return (x**2).mean()

    words = jnp.asarray(numbers(5, 16, 64, 128))
    norms = [(jnp.ones(128), jnp.zeros(128))] * 2
    layer_state = [*layers(128, 384), *layers(128, 128), *layers(128, 256), *layers(256, 128), *norms]
    directions = jax.tree.map(jnp.ones_like, layer_state)
    layer_gradient = jax.grad(layer_loss)

    def product(state: Any, directions: Any) -> Any:
        return jax.jvp(layer_gradient, (state,), (directions,))[1]

    def per_example(function: Any) -> Any:
        return jax.vmap(jax.grad(function), (None, 0, 0))

    return {
        "gradients per example, MLP": compiled(per_example(mlp_loss), mlp, jnp.asarray(numbers(6, BATCH, 784)), y),
        "gradients per example, CNN": compiled(
            per_example(cnn_loss), cnn, jnp.asarray(numbers(7, BATCH, 1, 28, 28)), y
        ),
        "Hessian by 1,008 parameters": compiled(jax.hessian(small_loss), flat),
        "Jacobian of 256 to 256": compiled(
            jax.jacrev(lambda x: forward(jnp.tanh, wide, x)), jnp.asarray(numbers(4, 256))
        ),
        "gradient, transformer": compiled(layer_gradient, layer_state),
        "Hessian-vector product, transformer": compiled(product, layer_state, directions),
    }


STEPS = {
    "retrograd": retrograd_steps,
    "torch": torch_steps,
    "jax": jax_steps,
    "jax-eager": partial(jax_steps, compile=False),
}


def measure(library: str, seconds: float, only: list[str]) -> dict[str, float]:
    """Return the median seconds of the workloads whose name contains one of the words, or of all without words."""
    found = {}
    for name, step in STEPS[library]().items():
        if only and not any(word in name for word in only):
            continue
        step()
        times: list[float] = []
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times) < 5:
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        found[name] = statistics.median(times)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="per workload, library and round")
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    parser.add_argument("--only", nargs="+", default=[], help="select workloads by words of their names")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker, options.seconds, options.only)))
        return
    environment = os.environ | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    measured: dict[str, dict[str, list[float]]] = {library: defaultdict(list) for library in LIBRARIES}
    libraries = list(options.libraries)
    passed = ["--seconds", str(options.seconds), *(["--only", *options.only] if options.only else [])]
    for _ in range(options.rounds):
        for library in list(libraries):
            run = subprocess.run(
                [sys.executable, __file__, "--worker", library, *passed],
                capture_output=True,
                text=True,
                env=environment,
            )
            if run.returncode:
                print(f"{library} skipped: {run.stderr.strip().splitlines()[-1]}")
                libraries.remove(library)
                continue
            for name, value in json.loads(run.stdout).items():
                measured[library][name].append(value)
    medians = {
        library: {name: statistics.median(times) for name, times in rows.items()} for library, rows in measured.items()
    }
    mine = medians[options.libraries[0]]
    for name, value in mine.items():
        others = [
            f"{value / rows[name]:.2f} of {library} ({rows[name] * 1e3:.2f} ms)"
            for library, rows in medians.items()
            if rows is not mine and name in rows
        ]
        print(f"{name}: {value * 1e3:.2f} ms" + "".join(f", {other}" for other in others))
    for library, rows in medians.items():
        if "Hessian-vector product, transformer" in rows and "gradient, transformer" in rows:
            ratio = rows["Hessian-vector product, transformer"] / rows["gradient, transformer"]
            print(f"{library}: a Hessian-vector product takes the time of {ratio:.2f} gradients")


if __name__ == "__main__":
    main()
