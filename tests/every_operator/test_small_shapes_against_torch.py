"""The same calls in PyTorch and here, on 0-d and empty Tensors, axes of length 1, small integers and bad arguments.

Values, dtypes and gradients must agree, or the types of the errors.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.together import check_all

torch = pytest.importorskip("torch")


GENERATOR = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return np.asarray(GENERATOR.normal(size=shape))


def integers(*values: int, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype)


ZERO, ONE = np.array(0), np.array(1)
CLASSES = np.arange(3.0)


def edges() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    for x in (floats(5), floats(4, 5), integers(1, 4, 9), floats(2), floats(), floats(1)):
        yield "gradient without spacing", lambda m, x: m.gradient(x, spacing=None), (x,)
        yield "gradient along a dimension", lambda m, x: m.gradient(x, spacing=None, dim=0), (x,)
        yield "gradient of second order", lambda m, x: m.gradient(x, spacing=None, edge_order=2), (x,)
    for x in (floats(), floats(1), floats(4), floats(0), floats(3, 4), integers(1, 4, 9), np.array([True, False])):
        for part in (floats(), floats(2), floats(0), floats(3, 1), integers(5)):
            yield "diff with prepend", lambda m, x, part: m.diff(x, prepend=part), (x, part)
            yield "diff with append", lambda m, x, part: m.diff(x, n=2, append=part), (x, part)
            yield "diff of order 0", lambda m, x, part: m.diff(x, n=0, prepend=part), (x, part)
        yield "diff with a number", lambda m, x: m.diff(x, prepend=1.0), (x,)
        yield "diff of a broken order", lambda m, x: m.diff(x, 1.0), (x,)
    yield "cat promotes an empty Tensor", lambda m, x, y: m.cat([x, y]), (floats(0), integers(1, 2))
    for size in (-1, 0, 1, 2):
        for step in (0, 1, 2):
            yield (
                f"unfold {size} {step} of 0-d",
                lambda m, x, size=size, step=step: x.unfold(0, size, step),
                (floats(),),
            )
    yield from scattered()
    for x, y in (
        (floats(1, 3), floats(2, 3)),
        (floats(3, 1), floats(3, 4)),
        (floats(1), floats(3)),
        (floats(2, 1, 3), floats(3, 1, 2)),
        (floats(), floats()),
        (floats(2, 3), floats(4, 3)),
    ):
        for dims in (0, 1, 2, ([0], [0]), ([1], [1]), ([-1], [0]), ([0, 1], [0, 1]), ([0],), None):
            yield f"tensordot {dims}", lambda m, x, y, dims=dims: m.tensordot(x, y, dims), (x, y)
    for mode in ("constant", "reflect", "replicate", "circular"):
        for pad in (
            (),
            (0, 0),
            (-1, 2),
            (2, -1),
            (-1, -1),
            (-3, 0),
            (-4, 0),
            (-1, 1, 1, -1),
            (-1, -1, -1, -1),
            (1,),
            1,
        ):
            for x in (floats(1, 2, 3), floats(2, 3), floats(2, 0), floats(0, 2, 3), floats(1, 0, 3)):
                yield f"pad {mode} {pad}", lambda m, x, pad=pad, mode=mode: m.nn.functional.pad(x, pad, mode), (x,)
    for mode in ("reflect", "replicate"):
        for pad in ((3, -3), (-3, 3)):
            yield (
                f"pad {mode} {pad}",
                lambda m, x, p=pad, mode=mode: m.nn.functional.pad(x, p, mode),
                (floats(1, 2, 3),),
            )
    yield "pad with a value", lambda m, x: m.nn.functional.pad(x, (1, 1), "reflect", 2.0), (floats(1, 3),)
    yield from losses()
    yield from normalizations()
    yield from bags()
    for x in (floats(4), floats(3, 4)):
        for start, length in ((0, True), (True, 1), (0, 1.0), (-1, 1), (4, 0), (0, -1)):
            yield f"narrow {start} {length}", lambda m, x, s=start, n=length: m.narrow(x, 0, s, n), (x,)
        for start in (ONE, integers(1), np.array(True), np.array(1.0)):
            yield f"narrow from {start!r}", lambda m, x, start: m.narrow(x, 0, start, 1), (x, start)
    for x in (floats(), floats(4), floats(3, 4)):
        for args in (
            (True, 0),
            (1, True),
            (1, ()),
            (1, []),
            ((), ()),
            (1, 0),
            ((1, 2), (0, 0)),
            (1, (0, 1)),
            (1.0, 0),
            (1,),
        ):
            yield f"roll {args}", lambda m, x, args=args: m.roll(x, *args), (x,)


def scattered() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    for x in (floats(), floats(1), floats(3), floats(2, 3)):
        for index in (ZERO, integers(0), integers(0, 0), integers(), np.zeros((2, 2), np.int64), np.array(3)):
            yield "gather", lambda m, x, index: m.gather(x, 0, index), (x, index)
            yield "scatter a number", lambda m, x, index: m.scatter(x, 0, index, 2.0), (x, index)
            for src in (floats(), floats(1), floats(2), floats(2, 2)):
                if index.shape == (2, 2) and src.ndim == 1:
                    continue  # PyTorch reports that a dimension is out of range, we that the shapes do not match
                if index.size < 2:  # where a position repeats, ours has a gradient for the last value alone
                    yield "scatter", lambda m, x, index, src: m.scatter(x, 0, index, src), (x, index, src)
                    yield "scatter_", lambda m, x, index, src: (x * 1).scatter_(0, index, src), (x, index, src)
                yield "scatter_add", lambda m, x, index, src: m.scatter_add(x, 0, index, src), (x, index, src)
                for name in ("sum", "prod", "mean", "amax", "amin"):
                    if name == "prod" and src.size != index.size:
                        continue  # what the index does not reach has a gradient in PyTorch
                    yield (
                        f"scatter_reduce {name}",
                        lambda m, x, index, src, name=name: m.scatter_reduce(
                            x, 0, index, src, name, include_self=False
                        ),
                        (x, index, src),
                    )
    for dtype in (np.uint8, np.int8, np.int16, np.int32, np.bool_):
        index = np.zeros(1, dtype)
        yield f"gather by {index.dtype}", lambda m, x, index: m.gather(x, 0, index), (floats(3), index)
        yield f"index_select by {index.dtype}", lambda m, x, index: m.index_select(x, 0, index), (floats(3), index)
        x, src = np.array([100, 50, 1]).astype(dtype), np.array([100, 100, 7]).astype(dtype)
        for name in ("sum", "prod", "mean", "amax", "amin"):
            yield (
                f"scatter_reduce {name} of {index.dtype}",
                lambda m, x, index, src, name=name: m.scatter_reduce(x, 0, index, src, name),
                (x, integers(0, 0, 1), src),
            )


def losses() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    for reduction in ("none", "mean", "sum"):
        for x, y in ((floats(), ONE), (floats(1), ONE), (floats(3), integers(1, -1, 1))):
            yield (
                f"soft_margin_loss {reduction}",
                lambda m, x, y, r=reduction: m.nn.functional.soft_margin_loss(x, y, reduction=r),
                (x, y),
            )
        for name in ("multilabel_soft_margin_loss", "kl_div", "binary_cross_entropy_with_logits"):
            for x, y in ((floats(), floats()), (floats(2), ONE), (floats(1), floats()), (floats(3), floats(3))):
                yield (
                    f"{name} {reduction}",
                    lambda m, x, y, n=name, r=reduction: getattr(m.nn.functional, n)(x, y, reduction=r),
                    (x, y),
                )
        for name in ("multi_margin_loss", "multilabel_margin_loss", "nll_loss", "cross_entropy"):
            for x, y in (
                (floats(), ZERO),
                (floats(1), ZERO),
                (floats(1), integers(0)),
                (CLASSES, ONE),
                (CLASSES, integers(1)),
            ):
                yield (
                    f"{name} {reduction}",
                    lambda m, x, y, n=name, r=reduction: getattr(m.nn.functional, n)(x, y, reduction=r),
                    (x, y),
                )


def normalizations() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    for shape in ((0, 3), (0, 3, 4), (2, 3, 0), (2, 3)):
        for training in (True, False):
            yield (
                f"batch_norm training={training}",
                lambda m, x, w, training=training: m.nn.functional.batch_norm(x, None, None, w, training=training),
                (floats(*shape), floats(3)),
            )


def bags() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    table, index, offsets = floats(5, 3), integers(1, 2, 4, 4), integers(0, 2)
    for mode in ("sum", "mean", "max"):
        yield (
            f"embedding_bag {mode} in the older order",
            lambda m, w, i, o, mode=mode: m.nn.functional.embedding_bag(w, i, o, mode=mode),
            (table, index, offsets),
        )
        yield (
            f"embedding_bag {mode} of a matrix in the older order",
            lambda m, w, i, mode=mode: m.nn.functional.embedding_bag(w, i, mode=mode),
            (table, index.reshape(2, 2)),
        )


def outcome(library: Any, function: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """The results and gradients as arrays, or the type of the error."""
    tensors = [library.tensor(x) for x in inputs]
    for x in tensors:
        if x.is_floating_point():
            x.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function(library, *tensors)
        except Exception as error:
            return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
        results = list(found) if isinstance(found, (tuple, list)) else [found]
        values = [y.detach().numpy() for y in results]
        try:
            for y in results:
                if y.requires_grad:
                    weights = np.cos(np.arange(float(y.numel()))).reshape(tuple(y.shape))
                    (y * library.tensor(weights)).sum().backward()
        except RuntimeError:
            if library is torch:  # whose scatter gives src a gradient of the index's shape
                return values, None
            raise
    return values, [np.zeros(tuple(x.shape)) if x.grad is None else x.grad.numpy() for x in tensors]


EDGES: dict[str, list[tuple[Callable[..., Any], tuple[Any, ...]]]] = {}
for name, *call in edges():
    EDGES.setdefault(name, []).append(tuple(call))


@pytest.mark.parametrize("name", EDGES)
def test_small_shapes_and_bad_arguments_are_taken_as_in_pytorch(name):
    calls = EDGES[name]
    check_all((f"call {index}", partial(check_call, *call)) for index, call in enumerate(calls))


def check_call(function: Callable[..., Any], inputs: tuple[Any, ...]) -> None:
    ours, theirs = outcome(rg, function, inputs), outcome(torch, function, inputs)
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs, inputs
        return
    for got, wanted in zip(ours[0], theirs[0], strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), inputs
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)
    for got, wanted in zip(ours[1], theirs[1] or ours[1], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


def test_embedding_bag_warns_of_the_older_order():
    with pytest.warns(UserWarning, match="embedding_bag"):
        rg.nn.functional.embedding_bag(rg.ones(3, 2), rg.tensor([[0, 1]]))


def test_numpy_takes_along_an_axis_by_small_integers():
    x = rg.tensor([[3.0, 1.0], [2.0, 4.0]])
    assert np.take_along_axis(x, np.array([[1], [0]], np.int8), 1).tolist() == [[1.0], [2.0]]
