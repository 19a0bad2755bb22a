"""Random programs whose Python loops have many steps: what a step reads, and in which order, is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd as rg
from retrograd.func import grad

FEATURES = (
    "float", "index", "backward", "list", "branch", "nested", "in_place", "earlier", "first", "matrix", "scalar",
    "store", "power", "column", "number", "shared", "transposed", "partial",
)  # fmt: skip


class PythonLoop:
    """A function with a Python loop, drawn from a seed.

    Attributes:
        features: what the loop does, from ``FEATURES``.
        order: ``value``, ``gradient`` or ``second``, the gradient of a norm of the gradient.
        arguments, more: two sets of arguments.
    """

    def __init__(self, seed: int, dtype: Any = np.float64) -> None:
        rng = np.random.default_rng(seed)
        self.features = {name for name in FEATURES if rng.random() < 0.3}
        self.order = ("value", "gradient", "gradient", "second")[int(rng.integers(4))]
        self.steps = int(rng.integers(12, 50))
        self.size = int(rng.integers(3, 6))
        n, m = self.steps, self.size
        shapes = ((m,), (m, m), (n, m), ())

        def drawn() -> list[rg.Tensor]:
            return [rg.tensor((0.4 * rng.standard_normal(shape)).astype(dtype)) for shape in shapes]

        self.arguments, self.more = drawn(), drawn()

    def loss(self, u: rg.Tensor, weight: rg.Tensor, xs: rg.Tensor, s: rg.Tensor) -> rg.Tensor:
        has, n = self.features, self.steps
        found: list[rg.Tensor] = []
        table = rg.zeros(n, self.size, dtype=u.dtype)
        time, before, total = 0.0, u * 0.5, s * 1
        frozen = (weight * 0.1).tanh()
        for i in range(n):
            v = u * 0.9 + 0.05 * (u * s).sin()
            if "float" in has:
                v = v + time * 0.01
                time += 0.1
            if "index" in has:
                v = v + 0.1 * xs[i]
            if "backward" in has:
                v = v - 0.1 * xs[-1 - i] * u
            if "branch" in has:
                v = v.tanh() if i % 2 else v * 1.01
            if "nested" in has:
                for _ in range(3):
                    v = v - 0.1 * (v - u * 0.5)
            if "in_place" in has:
                w = v.clone()
                w[1:-1] += 0.1 * (v[2:] - 2 * v[1:-1] + v[:-2])
                w *= 0.99
                v = w
            if "earlier" in has:
                v, before = v + 0.1 * before, u
            if "first" in has and i == 0:
                v = v.exp() * 0.3
            if "matrix" in has:
                v = v + 0.1 * (frozen @ v)
            if "transposed" in has:
                v = v + 0.1 * (weight.T @ v).tanh()
            if "scalar" in has:
                total = total * 0.9 + (v * v).sum() * 0.1
                v = v * (1 + 0.1 * total.tanh())
            if "power" in has:
                v = v + 0.01 * v**2
            if "column" in has:
                v = v + 0.1 * xs[:, 0][i] * weight[0, 1]
            if "number" in has:
                v = v + 0.01 * float(i) / n
            if "store" in has:
                table[i] = v * 2
            if "list" in has:
                found.append(v if "partial" not in has or i % 3 else v * 2)
            u = v
        result = (u**2).sum() + total
        if found:
            result = result + (rg.stack(found) * rg.arange(float(n), dtype=u.dtype)[:, None]).sum() * 0.01
            if "shared" in has:
                result = result + (found[2] * found[-1]).sum() + found[n // 2].sum()
        if "store" in has:
            result = result + (table**2).mean()
        return result

    def function(self, *arguments: rg.Tensor) -> Any:
        if self.order == "value":
            return self.loss(*arguments)
        every = tuple(range(len(arguments)))
        if self.order == "gradient":
            return grad(self.loss, argnums=every)(*arguments)

        def norm(*arguments: rg.Tensor) -> rg.Tensor:
            return sum((g * g).sum() for g in grad(self.loss, argnums=every)(*arguments))  # type: ignore[return-value]

        return grad(norm, argnums=every)(*arguments)


def check_python_loop(seed: int, dtype: Any = np.float64) -> int:
    """Compare calls of a compiled program with eager calls; return the number of loops that were rolled."""
    program = PythonLoop(seed, dtype)
    tolerance = 2e-3 if dtype == np.float32 else 1e-9
    function = rg.compile(program.function, max_operators=1_000_000)
    for arguments in (program.arguments, program.more, program.arguments):
        wanted, got = program.function(*arguments), function(*arguments)
        pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
        for a, b in pairs:
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance)
    assert function.traces == 1 and function.entries, function.why
    return sum(step.kind == "rolled" for step in function.entries[0].trace.program.instructions)
