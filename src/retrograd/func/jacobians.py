"""Full Jacobians and Hessians: record the function once, then map over the standard basis with ``vmap``."""

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
from ..ops.table.documentation import like
from .forward import apply_jvp
from .function_graph import FunctionGraph, record
from .mapping import vmap
from .reverse import Argnums, apply_vjp, check_outputs, chosen_arguments, grad, points_of, vjp


@like(vjp, grad)
def jacrev(
    func: Callable[..., object], argnums: Argnums = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``func``, ``J[i, j] = df_i / dx_j``, in reverse mode.

    Use it for functions with fewer outputs than inputs: each row costs one backward pass. ``func`` runs once.

    Args:
        chunk_size: the number of rows to compute together, all by default. Smaller chunks need less memory.

    Returns:
        A function that returns, per output Tensor, a nest like the argument (a tuple of nests if ``argnums`` is a
        tuple) of Tensors of shape ``(*output.shape, *input.shape)``; with ``has_aux`` a pair ``(jacobian, aux)``.

    Raises:
        RuntimeError: ``argnums`` is out of range; an argument or an output is not real floating.
        ValueError: ``chunk_size`` is not positive; an argument contains an object that is not a Tensor or number.

    >>> from retrograd.func import jacrev
    >>> jacrev(lambda x: {"square": x**2, "sum": x.sum()})(rg.tensor([1.0, 2.0]))
    {'square': tensor([[2., 0.],
            [0., 4.]]), 'sum': tensor([1., 1.])}
    """
    return _transformed("jacrev", func, _by_rows, argnums, has_aux, chunk_size)


@like(jacrev, raises="RuntimeError, ValueError")
def jacfwd(
    func: Callable[..., object],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    chunk_size: int | None = None,
    randomness: str = "error",
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of ``func``, column by column, in forward mode.

    Use it for functions with fewer inputs than outputs.

    Args:
        chunk_size: the number of columns to compute together, all by default.
        randomness: accepted for compatibility; the function runs once, so all columns see the same random numbers.

    Returns:
        As for ``jacrev``.

    >>> from retrograd.func import jacfwd
    >>> jacfwd(lambda x: rg.stack([x, x**2, x**3]))(rg.tensor(2.0))
    tensor([ 1.,  4., 12.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"jacfwd: randomness must be 'error', 'different' or 'same', got {randomness!r}")
    return _transformed("jacfwd", func, _by_columns, argnums, has_aux, chunk_size)


def hessian(func: Callable[..., object], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of ``func``: ``jacfwd(jacrev(func))``.

    Args:
        func: takes and returns nests of Tensors, usually a 0-d Tensor.
        argnums: the arguments to differentiate with respect to, twice: an index or a tuple of indices.

    Returns:
        A function that returns, for each Tensor of the output and each Tensor of the argument, a nest with the
        argument's structure, whose leaves have shape ``(*output.shape, *input.shape, *input.shape)``.

    Raises:
        RuntimeError, ValueError: as for ``jacrev``.

    >>> from retrograd.func import hessian
    >>> hessian(lambda x: (x**3).sum())(rg.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return _transformed("hessian", _transformed("hessian", func, _by_rows, argnums), _by_columns, argnums)


def _transformed(
    transform: str,
    func: Callable[..., object],
    blocks_of: Callable[[FunctionGraph, list[Tensor], int | None], list[list[Tensor]]],
    argnums: Argnums,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Return the function that computes the Jacobian by ``_by_rows`` or ``_by_columns``; errors name ``transform``."""
    if chunk_size is not None and (not isinstance(chunk_size, int) or chunk_size < 1):
        raise ValueError(f"{transform}: chunk_size must be a positive int or None, got {chunk_size!r}")

    @functools.wraps(func)
    def jacobian(*args: object, **kwargs: object) -> Any:
        function, chosen, paths = chosen_arguments(transform, func, argnums, args, kwargs)
        points, structure = points_of(transform, chosen, paths)
        _check_real(transform, "argument", points)
        recorded = record(transform, function, points, structure, has_aux)
        if blocks_of is _by_rows:
            check_outputs(recorded)
        _check_real(transform, "output", recorded.outputs)
        blocks = [structure.unflatten(leaves) for leaves in blocks_of(recorded, points, chunk_size)]
        nest = recorded.structure.unflatten([block[0] for block in blocks] if isinstance(argnums, int) else blocks)
        return (nest, recorded.aux) if has_aux else nest

    return jacobian


def _by_rows(recorded: FunctionGraph, points: list[Tensor], chunk_size: int | None) -> list[list[Tensor]]:
    """Return for each output the derivatives with respect to each point, in reverse mode."""

    def rows(cotangents: list[Tensor]) -> list[Tensor]:
        return apply_vjp(recorded, cotangents, retain_graph=True)

    columns = recorded.keep_outside_history(_over_basis(rows, recorded.outputs, points, chunk_size))
    return [
        [column[start:stop].reshape((*y.shape, *x.shape)) for column, x in zip(columns, points, strict=True)]
        for y, start, stop in _offsets(recorded.outputs)
    ]


def _by_columns(recorded: FunctionGraph, points: list[Tensor], chunk_size: int | None) -> list[list[Tensor]]:
    """Return for each output the derivatives with respect to each point, in forward mode."""

    def columns(tangents: list[Tensor]) -> list[Tensor]:
        return apply_jvp(recorded, tangents)

    def block(rows: Tensor, x: Tensor, y: Tensor) -> Tensor:
        inputs, outputs = range(x.ndim), range(x.ndim, x.ndim + y.ndim)
        return rows.reshape((*x.shape, *y.shape)).permute((*outputs, *inputs))

    found = recorded.keep_outside_history(_over_basis(columns, points, recorded.outputs, chunk_size))
    return [
        [block(rows[start:stop], x, y) for x, start, stop in _offsets(points)]
        for y, rows in zip(recorded.outputs, found, strict=True)
    ]


def _check_real(transform: str, what: str, tensors: Sequence[Tensor]) -> None:
    """Raise an error for complex Tensors: only holomorphic functions have a complex Jacobian."""
    for x in tensors:
        if x.dtype.kind == "c":
            raise RuntimeError(
                f"{transform}: arguments and outputs must be real, got the {what} {describe(x)}; use vjp or jvp"
            )


def _offsets(tensors: Sequence[Tensor]) -> list[tuple[Tensor, int, int]]:
    stops = list(accumulate(prod(x.shape) for x in tensors))
    return list(zip(tensors, [0, *stops], stops, strict=False))


def _over_basis(
    function: Callable[[list[Tensor]], list[Tensor]],
    likes: Sequence[Tensor],
    results: Sequence[Tensor],
    chunk_size: int | None,
) -> list[Tensor]:
    """Return the values of a linear function at every vector of the standard basis, stacked.

    Args:
        function: maps Tensors like ``likes`` to Tensors like ``results``.
        likes: the Tensors whose elements, concatenated, are the coordinates.
        results: give the shapes and dtypes of the values where the basis is empty.
        chunk_size: the number of basis vectors per call; None means all.
    """
    places = _offsets(likes)
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
