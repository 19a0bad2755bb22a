"""Random Tensor programs, for tests of the compiler and other non-eager execution.

A seed determines a program: operators with views, in-place writes, broadcasting, reductions, products, random numbers
and control flow on shapes, on a pool of Tensors, some of which require grad. ``run`` returns everything observable: the
values of results, gradients, and arguments after the call. A ``rich`` program also has several dtypes, more views,
writes by indices and masks, and more random numbers; it may write results and arguments before its backward pass, and
differentiate gradients again.

Comparisons of two values add a small offset to one of them, because rounding would decide a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._generated import functional as F
from .._generated import toplevel as rg
from ..autograd import grad
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.make.generators import manual_seed

Draw = np.random.Generator

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda x: x.tanh(),
    "sigmoid": lambda x: x.sigmoid(),
    "exp": lambda x: (x.clamp(-3, 3)).exp(),
    "log": lambda x: (x.abs() + 0.5).log(),
    "sqrt": lambda x: (x * x + 0.1).sqrt(),
    "relu": lambda x: x.relu(),
    "gelu": lambda x: F.gelu(x),
    "neg": lambda x: -x,
    "affine": lambda x: 1.5 * x - 0.25,
    "power": lambda x: x**2,
    "quotient": lambda x: 1.0 / (x.abs() + 1.0),
    "masked": lambda x: rg.where(x > 0.1, x, 0.5 * x),
    "clamp": lambda x: x.clamp(min=-0.7, max=0.9),
    "softmax": lambda x: F.softmax(x, -1) if x.ndim else x,
    "cumsum": lambda x: x.cumsum(0) if x.ndim else x,
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "dropout": lambda x: F.dropout(x, 0.3),
    "noise": lambda x: x + 0.1 * rg.randn_like(x),
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]) if x.ndim and x.shape[-1] > 1 else x,
    "sorted": lambda x: x.sort(-1)[0] if x.ndim else x,
    "picked": lambda x: x[..., rg.arange(x.shape[-1] - 1, -1, -1)] if x.ndim else x,
    "half": lambda x: x.float().double() if x.dtype == np.float64 else x,
}
_RICH_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "counted": lambda x: (x > 0.1).long().cumsum(-1) * x if x.ndim else x,
    "whole": lambda x: x * ((3 * x + 0.017).floor().long() // 2),
    "bits": lambda x: ((x > 0.1) & (x < 2.1) | (x.abs() > 7.3)).double() * x,
    "mixed": lambda x: x + x.float(),
    "filled": lambda x: x.masked_fill(x > 0.1, 0.25),
    "shuffled": lambda x: x[rg.randperm(x.shape[0])] if x.ndim else x,
    "thrown": lambda x: x * rg.bernoulli(rg.full_like(x, 0.5)),
    "dice": lambda x: x + rg.randint(0, 5, x.shape),
    "uniform": lambda x: x * rg.rand(x.shape, dtype=x.dtype),
    "logsoftmax": lambda x: F.log_softmax(x, 0) if x.ndim else x,
    "silu": lambda x: F.silu(x),
    "number": lambda x: x * x.mean().item(),
    "ranked": lambda x: x * x.argsort(-1) if x.ndim else x,
}
_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y.abs() + 1.0),
    "maximum": lambda x, y: rg.maximum(x, y + 0.013),
    "minimum": lambda x, y: rg.minimum(x, y + 0.013),
    "where": lambda x, y: rg.where(x > y + 0.013, x, y * 2),
    "atan2": lambda x, y: rg.atan2(x, y.abs() + 1.0),
    "hypot": lambda x, y: rg.hypot(x + 2.0, y),
}


_RICH_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "lerp": lambda x, y: x + 0.3 * (y - x),
    "single": lambda x, y: x * y.float(),
    "scaled": lambda x, y: x * (y.detach() ** 2).mean().item(),
    "addcmul": lambda x, y: rg.addcmul(x, y, y, value=0.5),
    "logaddexp": lambda x, y: rg.logaddexp(x, y),
}


class FuzzedProgram:
    """The random program of a seed.

    Args:
        seed: determines the program and the values of its arguments.
        steps: the number of operators.
        varied: whether the sizes of arguments differ between calls.
        rich: whether to draw from all features; see the module.
        dtype: the dtype of the arguments.

    >>> from retrograd.testing.fuzzing import FuzzedProgram
    >>> program = FuzzedProgram(3)
    >>> len(program.run(program.function, 0)) == len(program.run(program.function, 0))
    True
    """

    def __init__(
        self, seed: int, steps: int = 12, varied: bool = False, rich: bool = False, dtype: Any = np.float64
    ) -> None:
        self.seed = seed
        self.dtype = dtype
        self.steps = steps
        self.varied = varied
        self.rich = rich
        self._unary = {**_UNARY, **_RICH_UNARY} if rich else _UNARY
        self._binary = {**_BINARY, **_RICH_BINARY} if rich else _BINARY
        rng = np.random.default_rng(seed)
        self.base = [int(rng.integers(1, 5)) for _ in range(3)]
        self.dims = []  # per argument: indices into the three base sizes, None for a dimension of size 1
        for _ in range(int(rng.integers(2, 5))):
            first = int(rng.integers(0, 3))
            self.dims.append([None if rng.random() < 0.2 else dim for dim in range(first, 3)])
        self.requires = [bool(rng.random() < 0.6) for _ in self.dims]
        self.walks = bool(rng.random() < 0.5)  # whether the program calls backward itself
        self.disturbs = rich and bool(rng.random() < 0.5)  # whether results are written before the backward pass
        self.twice = rich and bool(rng.random() < 0.3)  # whether gradients are differentiated again

    def arguments(self, number: int) -> list[Tensor]:
        """Return new arguments for the call with this number."""
        rng = np.random.default_rng([self.seed, number])
        base = [int(rng.integers(1, 7)) for _ in self.base] if self.varied else self.base
        shapes = [[1 if dim is None else base[dim] for dim in dims] for dims in self.dims]
        tensors = [new_tensor(rng.standard_normal(shape).astype(self.dtype)) for shape in shapes]
        for x, requires in zip(tensors, self.requires, strict=True):
            x.requires_grad = requires
        return tensors

    def function(self, *arguments: Tensor) -> Any:
        """Run the program. Its operators depend only on the seed and on shapes."""
        rng = np.random.default_rng([self.seed, 1 << 20])
        pool = [x * 1.0 if x.requires_grad and rng.random() < 0.7 else x for x in arguments]
        for _ in range(self.steps):
            result = self._step(rng, pool)
            if result is not None and result.numel() <= 512:
                pool.append(result)
        loss = pool[-1].sum()
        for x in pool[-4:-1]:
            loss = loss + (x * x).mean()
        if self.walks and loss.requires_grad:
            loss.backward()
            return loss.detach(), [x.detach() for x in pool[-3:]]
        return loss, pool[-1]

    def _step(self, rng: Draw, pool: Sequence[Tensor]) -> Tensor | None:
        def pick() -> Tensor:
            return pool[int(rng.integers(0, len(pool)))]

        kind = rng.random()
        x = pick()
        if kind < 0.3:
            return self._unary[str(rng.choice(list(self._unary)))](x)
        if kind < 0.5:
            y = pick()
            try:
                np.broadcast_shapes(x.shape, y.shape)
            except ValueError:  # control flow on shapes
                y = y.sum()
            return self._binary[str(rng.choice(list(self._binary)))](x, y)
        if kind < 0.62:
            return _reduction(rng, x)
        if kind < 0.8:
            return _rich_view(rng, x) if self.rich and rng.random() < 0.5 else _view(rng, x)
        if kind < 0.9:
            return _rich_write(rng, x, pick()) if self.rich and rng.random() < 0.5 else _write(rng, x, pick())
        return _product(rng, x, pick())

    def run(self, function: Callable[..., Any], number: int) -> list[Any]:
        """Return the results of a call, the gradients, and the arguments after the call, as arrays."""
        manual_seed(self.seed + number)
        arguments = self.arguments(number)
        result = function(*arguments)
        found = [_array(x) for x in _flat(result)]
        if not self.walks and result[0].requires_grad:
            total = result[0] + result[1].sum()
            if self.disturbs:
                for x in (*result, *arguments):
                    if 0 not in x.stride():  # elements of an expanded Tensor overlap in memory
                        x.detach().mul_(-3.0)
            if self.twice:
                leaves = [x for x in arguments if x.requires_grad]
                gradients = grad(total, leaves, create_graph=True, allow_unused=True)
                total = total + sum((g * g).sum() for g in gradients if g is not None)
            total.backward()
        found += [None if x.grad is None else _array(x.grad) for x in arguments]
        return found + [_array(x) for x in arguments]


def _flat(nest: Any) -> list[Tensor]:
    return [x for part in nest for x in _flat(part)] if isinstance(nest, (tuple, list)) else [nest]


def _array(x: Tensor) -> Any:
    return np.array(x.detach().numpy())


def _reduction(rng: Draw, x: Tensor) -> Tensor:
    name = str(rng.choice(["sum", "mean", "amax", "logsumexp", "var", "prod"]))
    if not x.ndim or name == "prod":
        return x.sum() if name != "prod" else x.tanh().prod()
    dim = int(rng.integers(0, x.ndim))
    keep = bool(rng.random() < 0.5)
    if name == "var":
        return x.var(dim, correction=0, keepdim=keep)
    return getattr(x, name)(dim, keepdim=keep)


def _view(rng: Draw, x: Tensor) -> Tensor:
    name = str(rng.choice(["T", "slice", "reshape", "expand", "unsqueeze", "select", "flip", "cat", "diagonal"]))
    if name == "unsqueeze" or not x.ndim:
        return x.unsqueeze(0)
    if name == "T":
        return x.transpose(0, -1)
    if name == "slice":
        return x[int(rng.integers(0, x.shape[0])) :]
    if name == "reshape":
        return x.reshape(-1) if rng.random() < 0.5 else x.reshape(x.shape[::-1])
    if name == "expand":
        return x.unsqueeze(0).expand(2, *x.shape)
    if name == "select":
        return x[int(rng.integers(0, x.shape[0]))]
    if name == "flip":
        return x.flip(0)
    if name == "diagonal" and x.ndim > 1:
        return x.diagonal()
    return rg.cat([x, x * 2], -1)


def _write(rng: Draw, x: Tensor, y: Tensor) -> Tensor:
    """Write to a copy of x, to a view of the copy, or to x itself if it is not a leaf."""
    target = x.clone() if x.is_leaf or rng.random() < 0.5 or 0 in x.stride() else x
    value = y.sum()
    kind = int(rng.integers(0, 4))
    if kind == 0:
        target.add_(value)
    elif kind == 1:
        target.mul_(0.5)
    elif kind == 2 and target.ndim:
        target[0] = value
    elif target.ndim:
        part = target.transpose(0, -1)[-1:]
        part.sub_(value)
    else:
        target.copy_(value)
    return target


def _rich_view(rng: Draw, x: Tensor) -> Tensor:
    name = str(rng.choice(["every other", "narrow", "movedim", "chunk", "unfold", "squeeze", "stack", "roll", "tril"]))
    if not x.ndim:
        return x.reshape(1, 1)
    if name == "every other":
        return x[..., ::2]
    if name == "narrow":
        return x.narrow(-1, 0, max(1, x.shape[-1] - 1))
    if name == "movedim":
        return x.movedim(0, -1)
    if name == "chunk":
        return x.chunk(2, 0)[-1]
    if name == "unfold":
        return x.unfold(0, min(2, x.shape[0]), 1)
    if name == "squeeze":
        return x.unsqueeze(1).squeeze()
    if name == "stack":
        return rg.stack([x, -x], int(rng.integers(0, x.ndim + 1)))
    if name == "tril" and x.ndim > 1:
        return x.tril()
    return x.roll(1, 0)


def _rich_write(rng: Draw, x: Tensor, y: Tensor) -> Tensor:
    target = x.clone() if x.is_leaf or rng.random() < 0.5 or 0 in x.stride() else x
    kind = int(rng.integers(0, 5))
    if not target.ndim:
        return target.add_(y.mean())
    if kind == 0:
        target.masked_fill_(target > 0.1, 0.5)
    elif kind == 1:
        target[..., ::2] = y.mean()
    elif kind == 2:
        target.index_add_(0, rg.zeros(target.shape[0]).long(), target.detach() * 0.5)
    elif kind == 3:
        target[rg.arange(target.shape[0] - 1, -1, -1)] = (target * 0.5).detach()
    else:
        target[target > 0.1] = 0.25
    return target


def _product(rng: Draw, x: Tensor, y: Tensor) -> Tensor:
    rows = x.reshape(-1, x.shape[-1]) if x.ndim else x.reshape(1, 1)
    columns = y.reshape(y.shape[0], -1) if y.ndim else y.reshape(1, 1)
    if rows.shape[1] == columns.shape[0]:
        return rows @ columns
    if rng.random() < 0.5:
        return rows.T @ rows
    with no_grad():
        weight = rg.ones(3, rows.shape[1], dtype=rows.dtype) * 0.3
    return F.linear(rows, weight)
