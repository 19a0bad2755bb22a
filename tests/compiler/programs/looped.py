"""Random programs with ``scan``, compiled and compared with eager calls."""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd as rg
from retrograd.func import cond, fori_loop, grad, jvp, scan
from tests.compiler.programs.ways import compiling

UNARY = (
    rg.sin,
    rg.tanh,
    lambda x: x * 0.5,
    lambda x: x.exp().clamp(max=2.0),
    lambda x: -x,
    lambda x: (x * x + 1).log(),
)
BINARY = (rg.add, rg.sub, rg.mul, rg.maximum, lambda x, y: x / (y * y + 1), lambda x, y: rg.where(x > y, x, y * 0.3))
SQUARE = (
    lambda x: x @ x * 0.1, lambda x: x.T * 0.7, lambda x: x.sum(0) - x, lambda x: rg.roll(x, 1, 0), lambda x: x.flip(1),
    lambda x: rg.stack([x[0], *x[1:]]), lambda x: x.cumsum(0) * 0.3, lambda x: x.softmax(-1),
    lambda x: rg.linalg.inv(x * 0.05 + rg.eye(len(x), dtype=x.dtype)), lambda x: x.mean(1, keepdim=True) * x,
    lambda x: rg.linalg.solve(x * 0.05 + rg.eye(len(x), dtype=x.dtype), x), lambda x: x.relu(), lambda x: x.max() - x,
)  # fmt: skip


class LoopedProgram:
    """A loop with a random body over a matrix, a vector, a number and a counter."""

    def __init__(self, seed: int, dtype: Any = np.float64) -> None:
        rng = self.rng = np.random.default_rng([seed, 1 << 22])
        self.steps, self.size = int(rng.integers(1, 7)), int(rng.integers(2, 5))
        self.reverse = bool(rng.integers(2))
        self.checkpoint = (False, False, True, 2)[rng.integers(4)]
        self.order = ("value", "gradient", "tangent", "second")[rng.integers(4)]
        self.nested = rng.random() < 0.2
        self.counted = rng.random() < 0.3
        self.choices = rng.random((4, 6))
        n = self.size
        shapes = ((n, n), (n,), (), (self.steps, n), (n, n))
        self.arguments = [rg.tensor(rng.standard_normal(shape).astype(dtype) * 0.5) for shape in shapes]
        self.more = [rg.tensor(rng.standard_normal(shape).astype(dtype) * 0.5) for shape in shapes]

    def loss(
        self, matrix: rg.Tensor, vector: rg.Tensor, number: rg.Tensor, xs: rg.Tensor, weight: rg.Tensor
    ) -> rg.Tensor:
        scale = weight.abs().mean() + 0.5  # captured, and computed inside of the function

        def step(carry: Any, x: Any) -> Any:
            m, rest = carry
            for row in self.choices[:2]:
                m = SQUARE[int(row[0] * len(SQUARE))](m)
                m = BINARY[int(row[1] * len(BINARY))](m, weight if row[2] < 0.5 else x)
                m = UNARY[int(row[3] * len(UNARY))](m) * 0.5
            v = BINARY[int(self.choices[2, 0] * len(BINARY))](rest["v"] * scale, m @ x)
            s = UNARY[int(self.choices[2, 1] * len(UNARY))](rest["s"]) + m[0, -1] * number
            if self.choices[2, 2] < 0.3:
                s = cond(s > 0.1, lambda a: a * 0.5, lambda a: a - 0.2, s)
            if self.nested:
                v = scan(lambda a, b: (a * 0.5 + b * s, None), v, m)[0]
            if self.choices[2, 3] < 0.3:
                m[0] = v  # in place, on memory of the step
            k = rest["k"] + 1
            return (m, {"v": v.tanh(), "s": s, "k": k}), ((m * v).sum(0), None, s * k)

        start = (matrix * 1, {"v": vector, "s": number * 0.1, "k": rg.tensor(0)})
        (m, rest), (rows, _, numbers) = scan(step, start, xs, reverse=self.reverse, checkpoint=self.checkpoint)
        total = (m.sin() * rows.sum(0)).sum() + rest["v"].sum() * rest["k"] + (numbers * rest["s"]).sum()
        if self.counted:
            total = total + fori_loop(0, 3, lambda i, y: (y + weight[i % self.size] * i).tanh(), vector).sum()
        return total

    def function(self, *arguments: rg.Tensor) -> Any:
        every = tuple(range(len(arguments)))
        if self.order == "value":
            return self.loss(*arguments)
        if self.order == "gradient":
            return grad(self.loss, argnums=every)(*arguments)
        if self.order == "tangent":
            return jvp(self.loss, arguments, tuple([rg.ones_like(x) for x in arguments]))

        def norm(*arguments: rg.Tensor) -> rg.Tensor:
            return sum((g * g).sum() for g in grad(self.loss, argnums=every)(*arguments))  # type: ignore[return-value]

        return grad(norm, argnums=every)(*arguments)


def check_looped(seed: int, way: str = "usual", dtype: Any = np.float64) -> str:
    """Compare two calls of a compiled program with eager calls; return whether the loop was compiled."""
    program = LoopedProgram(seed, dtype)
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    with compiling(way, seed):
        function = rg.compile(program.function)
        for arguments in (program.arguments, program.more, program.arguments):
            wanted = _leaves(program.function(*arguments))
            got = _leaves(function(*arguments))
            for a, b in zip(got, wanted, strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        assert function.traces == 1 and function.entries, function.why
    steps = function.entries[0].trace.program.instructions
    return "rolled" if any(step.kind == "rolled" for step in steps) else "unrolled"


def _leaves(result: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(result, tuple):
        return [leaf for item in result for leaf in _leaves(item)]
    return [result.detach().numpy().copy()]
