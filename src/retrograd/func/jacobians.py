"""Jacobians and Hessians as a whole: products with every vector of the standard basis at once, from one record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Any

from ..core.errors import describe
from ..core.tensor.tensor import Tensor
from ..ops.make.filled import zeros
from ..ops.make.ranges import arange
from ..ops.shape.joining import cat
from .batching import vmap
from .forward import pushed
from .record import record
from .reverse import Argnums, check_outputs, chosen_arguments, points_of, pulled


def jacrev(
    func: Callable[..., Any], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """The function that gives the Jacobian of ``func``, row by row: ``J[i, j] = df_i / dx_j``, in reverse mode.

    For functions with fewer outputs than inputs; each row costs a walk over the graph, which is recorded once.

    Args:
        func: nests of Tensors to one; with ``has_aux`` to a pair of this and of anything.
        argnums: the arguments to differentiate by: a number, negative from the end, or a tuple of them.
        has_aux: whether ``func`` returns such a pair.
        chunk_size: the number of rows to compute together; all of them by default. Less needs less memory.

    Returns:
        A function of the arguments of ``func``: for each Tensor of the output a nest like the argument (a tuple of
        them, for a tuple of numbers) of Tensors of shape ``(*output.shape, *input.shape)``; with ``has_aux`` a pair
        of this and of the second part.

    Raises:
        RuntimeError: ``argnums`` names no argument; an argument or an output is not real floating.
        ValueError: ``chunk_size`` is not positive; an argument holds something that is no Tensor, array or number.

    >>> from retrograd.func import jacrev
    >>> jacrev(lambda x: {"square": x**2, "sum": x.sum()})(rg.tensor([1.0, 2.0]))
    {'square': tensor([[2., 0.],
            [0., 4.]]), 'sum': tensor([1., 1.])}
    """
    return _by_rows("jacrev", func, argnums, has_aux, chunk_size)


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """As ``jacrev``, column by column in forward mode: for functions with fewer inputs than outputs.

    Args:
        func, argnums, has_aux: as for ``jacrev``.
        chunk_size: the number of columns to compute together; all of them by default.
        randomness: taken for PyTorch's sake: the function runs once, so its random numbers are the same for all.

    Returns:
        What ``jacrev`` does.

    Raises:
        RuntimeError, ValueError: as for ``jacrev``.

    >>> from retrograd.func import jacfwd
    >>> jacfwd(lambda x: rg.stack([x, x**2, x**3]))(rg.tensor(2.0))
    tensor([ 1.,  4., 12.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"jacfwd: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    return _by_columns("jacfwd", func, argnums, has_aux, chunk_size)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The function that gives the second derivatives of ``func``: ``jacfwd(jacrev(func))``.

    Args:
        func: nests of Tensors to one, of a single element as a rule.
        argnums: the arguments to differentiate by, twice: a number or a tuple of them.

    Returns:
        A function of the arguments of ``func``: for each Tensor of the output and each of the argument a nest like the
        argument of Tensors of shape ``(*output.shape, *input.shape, *input.shape)``.

    Raises:
        RuntimeError, ValueError: as for ``jacrev``.

    >>> from retrograd.func import hessian
    >>> hessian(lambda x: (x**3).sum())(rg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return _by_columns("hessian", _by_rows("hessian", func, argnums), argnums)


def _by_rows(
    transform: str, func: Callable[..., Any], argnums: Argnums, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """``jacrev``, under the name of whoever calls it."""
    _check_chunk(transform, chunk_size)

    @functools.wraps(func)
    def jacobian(*args: object, **kwargs: object) -> Any:
        function, chosen, paths = chosen_arguments(transform, func, argnums, args, kwargs)
        points, structure = points_of(transform, chosen, paths)
        _check_real(transform, "argument", points)
        recorded = record(transform, function, points, structure, has_aux)
        check_outputs(recorded)
        _check_real(transform, "output", recorded.outputs)

        def rows(cotangents: list[Tensor]) -> list[Tensor]:
            return pulled(recorded, cotangents, retain_graph=True)

        columns = recorded.attached_only(_over_basis(rows, recorded.outputs, points, chunk_size))
        blocks = []
        for y, start, stop in _places(recorded.outputs):
            leaves = [
                column[start:stop].reshape((*y.shape, *x.shape)) for column, x in zip(columns, points, strict=True)
            ]
            block = structure.unflatten(leaves)
            blocks.append(block[0] if isinstance(argnums, int) else block)
        nest = recorded.structure.unflatten(blocks)
        return (nest, recorded.aux) if has_aux else nest

    return jacobian


def _by_columns(
    transform: str, func: Callable[..., Any], argnums: Argnums, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """``jacfwd``, under the name of whoever calls it."""
    _check_chunk(transform, chunk_size)

    @functools.wraps(func)
    def jacobian(*args: object, **kwargs: object) -> Any:
        function, chosen, paths = chosen_arguments(transform, func, argnums, args, kwargs)
        points, structure = points_of(transform, chosen, paths)
        _check_real(transform, "argument", points)
        recorded = record(transform, function, points, structure, has_aux)
        _check_real(transform, "output", recorded.outputs)

        def columns(tangents: list[Tensor]) -> list[Tensor]:
            return pushed(recorded, tangents)

        places = _places(points)
        blocks = []
        found = recorded.attached_only(_over_basis(columns, points, recorded.outputs, chunk_size))
        for y, rows in zip(recorded.outputs, found, strict=True):
            leaves = []
            for x, start, stop in places:
                inputs, outputs = range(x.ndim), range(x.ndim, x.ndim + y.ndim)
                leaves.append(rows[start:stop].reshape((*x.shape, *y.shape)).permute((*outputs, *inputs)))
            block = structure.unflatten(leaves)
            blocks.append(block[0] if isinstance(argnums, int) else block)
        nest = recorded.structure.unflatten(blocks)
        return (nest, recorded.aux) if has_aux else nest

    return jacobian


def _check_real(transform: str, what: str, tensors: Sequence[Tensor]) -> None:
    """Refuse complex numbers: a derivative by one of them is no number, unless the function is holomorphic."""
    for x in tensors:
        if x.dtype.kind == "c":
            raise RuntimeError(
                f"{transform}: wanted real arguments and outputs, got the {what} {describe(x)}; use vjp or jvp"
            )


def _check_chunk(transform: str, chunk_size: int | None) -> None:
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(f"{transform}: chunk_size must be a positive int or None, got {chunk_size!r}")


def _places(tensors: Sequence[Tensor]) -> list[tuple[Tensor, int, int]]:
    """Each Tensor with the first and the last but one of its elements' numbers, counted through all Tensors."""
    stops = list(accumulate(prod(x.shape) for x in tensors))
    return list(zip(tensors, [0, *stops], stops, strict=False))


def _over_basis(
    function: Callable[[list[Tensor]], list[Tensor]],
    likes: Sequence[Tensor],
    results: Sequence[Tensor],
    chunk_size: int | None,
) -> list[Tensor]:
    """A linear function at every vector of the standard basis of the space that ``likes`` span, stacked.

    Args:
        function: Tensors like ``likes`` to Tensors like ``results``.
        likes: the Tensors whose elements, together, are the coordinates.
        results: see above.
        chunk_size: how many vectors are made at a time; all of them with None.
    """
    places = _places(likes)
    count = places[-1][2] if places else 0
    chunks: list[list[Tensor]] = []
    for begin in range(0, count, chunk_size or max(count, 1)):
        numbers = arange(begin, min(begin + (chunk_size or count), count))
        basis = []
        for x, start, stop in places:
            ones = numbers.to(x.device)[:, None] == arange(start, stop, device=x.device)
            basis.append(ones.astype(x.dtype).reshape((len(numbers), *x.shape)))
        chunks.append(vmap(function)(basis))
    if not chunks:
        return [zeros(0, *x.shape, dtype=x.dtype, device=x.device) for x in results]
    return [column[0] if len(column) == 1 else cat(column) for column in zip(*chunks, strict=True)]
