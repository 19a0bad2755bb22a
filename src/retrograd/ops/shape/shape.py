"""Reshaping: views with another shape or with permuted dimensions.

Results share the input's memory whenever NumPy can return a view, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal, overload

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import backend_of
from ...core.arrays.dtypes import DType, as_dtype
from ...core.errors import InvalidValue, describe, operator_error
from ...core.graph.modes import modes, unrecorded, watchers
from ...core.graph.nodes import NOTHING, Node, new_node, next_sequence
from ...core.graph.primitive import Primitive, apply, operand, select_plan
from ...core.tensor.storage import share, share_view, shares_memory
from ...core.tensor.tensor import Tensor, new_tensor
from ..table import batching
from ..table.arguments import dimension, dimensions, integers, only_keyword, tensor_list
from ..table.registry import operator
from ..table.types import Dims, DTypeLike, Operand, Size

_bare_tensor = Tensor.__new__


def apply_view(primitive: Primitive, a: Operand, params: dict[str, object]) -> Tensor:
    """Apply a view primitive with one input and output whose rules read only parameters and shapes.

    This is a fast path of ``apply``: views are frequent (every ``x[i]``, reshape and transpose), and the general path
    would double their cost. It adds entries to ``params``.
    """
    if not isinstance(a, Tensor):
        a = operand(a)
    if watchers:
        return apply(primitive, (a,), params)
    x = a.array
    try:
        out = primitive.forward(x, **params)
    except Exception as error:
        raise operator_error(primitive.name, (a,), params, error) from None
    view = _bare_tensor(Tensor)
    view.array = out
    view._grad = view._hooks = None
    recording = not unrecorded or modes.grad_enabled
    if recording and a._requires:
        try:
            plan = primitive.plans[1]
        except KeyError:
            plan = primitive.plan(1)
        params["x"] = params["ans"] = None
        params["x_shape"] = x.shape
        view._requires = True
        view._node = node = Node()
        node.plan = plan
        parent = a._node
        node.left = a if parent is None else parent
        node.right = node.more = None
        node.saved = primitive.by_layout(params)
        node.shape = out.shape
        node.dtype = out.dtype
        node.sequence = next_sequence()
        node.hooks = node.site = None
    else:
        view._requires = False
        view._node = None
    owner = out.base
    if out is x or owner is not None and (owner is x or owner is x.base) or shares_memory(out, x):
        share_view(view, a, recording)
    else:
        view._storage = view._base = None
    return view


def apply_views(primitive: Primitive, a: Tensor, params: dict[str, object]) -> tuple[Tensor, ...]:
    """``apply_view`` for a primitive with several outputs, each a view of the input in its dtype."""
    if watchers:
        return apply(primitive, (a,), params)
    x = a.array
    try:
        outs = primitive.forward(x, **params)
    except Exception as error:
        raise operator_error(primitive.name, (a,), params, error) from None
    recording = not unrecorded or modes.grad_enabled
    views = [new_tensor(out) for out in outs]
    if recording and a._requires:
        parent = a._node
        params["x"] = params["ans"] = None
        saved = primitive.by_layout(params)
        shapes, dtypes = tuple([out.shape for out in outs]), (x.dtype,) * len(outs)
        node = new_node(primitive.plan(1), (a if parent is None else parent,), saved, shapes, dtypes)
        for index, view in enumerate(views):
            view._requires = True
            view._node = new_node(select_plan(index), (node,), NOTHING, shapes[index], x.dtype)
    for view in views:
        share_view(view, a, recording)
    return tuple(views)


# Another shape with the same order of elements


def _reshape(x: Array, shape: tuple[int, ...]) -> Array:
    return x.reshape(shape)


def _view(x: Array, shape: tuple[int, ...]) -> Array:
    out = x.reshape(shape)
    if x.size and not shares_memory(out, x):
        raise RuntimeError(
            "the shape is not compatible with the strides of the input (two dimensions that span "
            "non-contiguous memory would be merged); use reshape()"
        )
    return out


def _reshaping(name: str, forward: Callable[..., Any] = _reshape) -> Primitive:
    return Primitive(
        name,
        forward,
        "x",
        [lambda g, x_shape: RESHAPE(g, shape=x_shape)],
        view=True,
        batch=batching.shaped(),
        computes="reshape",
    )


RESHAPE: Primitive = _reshaping("reshape")
VIEW: Primitive = _reshaping("view", _view)
SQUEEZE: Primitive = _reshaping("squeeze")
UNSQUEEZE: Primitive = _reshaping("unsqueeze")
FLATTEN: Primitive = _reshaping("flatten")
UNFLATTEN: Primitive = _reshaping("unflatten")


def _checked_shape(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape after a check: NumPy would infer a length for any negative number, not only -1."""
    if shape and min(shape) < -1:
        raise RuntimeError(f"invalid length {min(shape)} in the shape {shape} for {describe(x)}")
    return shape


@operator(derivative="reshaped", shape="to shape")
def reshape(input: Tensor, *shape: Size, **keywords: Size) -> Tensor:
    """``out.ravel() == input.ravel()``: the same elements in row-major order under another shape.

    A view if the strides allow it, else a copy. Call it as ``reshape(x, (2, 3))`` or ``x.reshape(2, 3)``.

    Args:
        shape: the lengths, as separate arguments or as a sequence; one may be -1 and is inferred.

    Raises:
        RuntimeError: the number of elements differs, or several lengths are negative.

    >>> rg.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if keywords:
        shape = (only_keyword("shape", shape, keywords),)
    x = operand(input)
    return apply_view(RESHAPE, x, {"shape": _checked_shape(x, integers(shape, "shape"))})


@operator(namespace="Tensor", shape="to shape")
def view(self: Tensor, *shape: Size | DTypeLike, **keywords: Any) -> Tensor:
    """``out.ravel() == self.ravel()``: the same memory with another shape or dtype.

    Like ``reshape``, but never copies. ``x.view(dtype)`` reinterprets the bytes of the last dimension.

    Derivative: ``g`` in the input's shape; none for another dtype.
    Dtype: any, preserved, or the given one.

    Args:
        shape: the lengths, as separate arguments or as a sequence, one of which may be -1; or a dtype.

    Raises:
        RuntimeError: the number of elements differs, or the strides do not allow a view.

    >>> rg.arange(6).view(3, 2).shape
    (3, 2)
    """
    if keywords:
        shape = (keywords.pop("dtype", None) or only_keyword("size", shape, keywords),)
    if len(shape) == 1 and isinstance(shape[0], (np.dtype, type)):
        return _view_as_dtype(self, as_dtype(shape[0]))
    return apply_view(VIEW, self, {"shape": _checked_shape(self, integers(shape))})


def _view_as_dtype(x: Tensor, dtype: DType) -> Tensor:
    try:
        alias = new_tensor(x.array.view(dtype))
    except (ValueError, TypeError) as error:
        raise RuntimeError(f"view({describe(x)}, dtype={dtype}): {error}") from None
    if dtype.itemsize > x.array.dtype.itemsize:
        steps = (backend_of(x.array).address(x.array), *x.array.strides[:-1])
        if steps[0] % dtype.alignment or any(step % dtype.itemsize for step in steps[1:]):
            raise RuntimeError(
                f"view({describe(x)}, dtype={dtype}): the first element and the strides, {x.array.strides} bytes, "
                f"must lie at multiples of {dtype.itemsize} bytes; use .contiguous()"
            )
    share(alias, x, related=False)
    return alias


@operator(namespace="Tensor", dtype="same", like=view, args="other shape")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """``self.view(other.shape)``.

    Derivative: ``g`` in the shape of ``self``; none to ``other``.
    Shape: any to the shape of ``other``, with the same number of elements.

    >>> rg.arange(4).view_as(rg.zeros(2, 2)).shape
    (2, 2)
    """
    return view(self, other.shape)


@operator(namespace="Tensor", like=view_as)
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """``self.reshape(other.shape)``.

    Raises:
        RuntimeError: the number of elements differs.

    >>> rg.arange(4).reshape_as(rg.zeros(2, 2)).shape
    (2, 2)
    """
    return reshape(self, other.shape)


@operator(derivative="reshaped")
def squeeze(input: Tensor, dim: Dims | None = None) -> Tensor:
    """``input`` without its dimensions of length 1, as a view.

    Shape: any; dimensions of length 1, or those in ``dim`` of length 1, are removed.

    Args:
        dim: the dimensions to remove if they have length 1; None for all.

    Raises:
        RuntimeError: a dimension is given twice.

    >>> rg.squeeze(rg.zeros(2, 1, 3, 1)).shape, rg.squeeze(rg.zeros(2, 1, 3, 1), 1).shape
    ((2, 3), (2, 3, 1))
    """
    x = operand(input)
    shape = x.array.shape
    dims = range(len(shape)) if dim is None else dimensions(dim, len(shape))
    shape = tuple([length for place, length in enumerate(shape) if length != 1 or place not in dims])
    return apply_view(SQUEEZE, x, {"shape": shape})


@operator(derivative="reshaped")
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """``input`` with a dimension of length 1 inserted, as a view.

    Shape: any; the result has one more dimension.

    Args:
        dim: the position of the new dimension in the result.

    >>> rg.unsqueeze(rg.zeros(2, 3), 1).shape
    (2, 1, 3)
    """
    x = operand(input)
    shape = x.array.shape
    place = dimension(dim, len(shape) + 1)
    return apply_view(UNSQUEEZE, x, {"shape": (*shape[:place], 1, *shape[place:])})


@operator(raises="dimension", derivative="reshaped")
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """``input`` with adjacent dimensions merged into one, in row-major order.

    A view if the strides allow it, else a copy; ``input`` itself if only one dimension is merged.

    Shape: any; ``start_dim`` to ``end_dim`` become one dimension, 0-d becomes 1-d.

    Args:
        start_dim: the first dimension to merge.
        end_dim: the last one, included.

    Raises:
        RuntimeError: ``start_dim`` comes after ``end_dim``.

    >>> rg.flatten(rg.zeros(2, 3, 4), 1).shape
    (2, 12)
    """
    x = operand(input)
    shape = x.array.shape
    start, end = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if start > end:
        raise RuntimeError(f"start_dim {start_dim} comes after end_dim {end_dim} on {describe(x)}")
    if start == end and shape:
        return x
    return apply_view(FLATTEN, x, {"shape": (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])})


@operator(derivative="reshaped")
def ravel(input: Tensor, *, order: Literal["C", "F"] = "C") -> Tensor:
    """``input.flatten()``: all elements in one dimension, in row-major order.

    A view if the input is contiguous, else a copy.

    Shape: any to (n,), n the number of elements.

    Args:
        order: NumPy's argument, ``"F"`` for column-major order.

    Raises:
        ValueError: the order is not supported.

    >>> rg.ravel(rg.zeros(2, 3)).shape
    (6,)
    >>> rg.tensor([[1, 2], [3, 4]]).ravel(order="F")
    tensor([1, 3, 2, 4])
    """
    x = operand(input)
    if order not in ("C", "F"):
        raise InvalidValue(f"order must be 'C' or 'F', got {order!r}")
    if order == "F":
        x = x.permute(tuple(range(x.array.ndim))[::-1])
    x = x.contiguous()
    return apply_view(VIEW, x, {"shape": x.array.shape}) if x.array.ndim == 1 else flatten(x)


@operator(derivative="reshaped")
def unflatten(input: Tensor, dim: int, sizes: Size) -> Tensor:
    """``input`` with one dimension split into several, as a view.

    Shape: (*, n, *) to (*, *sizes, *), where the sizes multiply to n.

    Args:
        dim: the dimension to split.
        sizes: the new lengths; one may be -1 and is inferred.

    Raises:
        RuntimeError: the sizes do not multiply to the length of ``dim``.

    >>> rg.unflatten(rg.zeros(2, 12), 1, (3, -1)).shape
    (2, 3, 4)
    """
    x = operand(input)
    shape = x.array.shape
    place = dimension(dim, len(shape))
    lengths = _checked_shape(x, integers((sizes,), "sizes"))
    if not lengths:
        raise RuntimeError("sizes must not be empty")
    known = prod(length for length in lengths if length != -1)
    missing = lengths.count(-1)
    if missing > 1 or (known == 0 or shape[place] % known if missing else known != shape[place]):
        raise RuntimeError(f"sizes {lengths} do not multiply to the length of dim {dim} of {describe(x)}")
    lengths = tuple([shape[place] // known if length == -1 else length for length in lengths])
    return apply_view(UNFLATTEN, x, {"shape": (*shape[:place], *lengths, *shape[place + 1 :])})


def _at_least(
    tensors: tuple[Operand | Sequence[Operand], ...], widen: Callable[[Tensor], Tensor]
) -> Tensor | tuple[Tensor, ...]:
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple([widen(x) for x in tensor_list(tensors[0])])
    results = [widen(operand(x)) for x in tensors]
    return results[0] if len(results) == 1 else tuple(results)


@overload
def atleast_1d(tensor: Operand, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[Operand], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(first: Operand, second: Operand, /, *others: Operand) -> tuple[Tensor, ...]: ...
@operator(method=False, derivative="reshaped")
def atleast_1d(*tensors: Operand | Sequence[Operand]) -> Tensor | tuple[Tensor, ...]:
    """``x.reshape(1)`` of numbers: each Tensor with at least one dimension, as a view.

    Shape: () becomes (1,); others are unchanged.

    Args:
        tensors: Tensors as separate arguments, or a list of Tensors.

    Returns: a Tensor for a single argument, a tuple for several arguments or a list.

    Raises:
        TypeError: an argument is not a Tensor, array or number.

    >>> rg.atleast_1d(rg.tensor(3.0))
    tensor([3.])
    """
    return _at_least(tensors, lambda x: x if x.ndim else reshape(x, (1,)))


@overload
def atleast_2d(tensor: Operand, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[Operand], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(first: Operand, second: Operand, /, *others: Operand) -> tuple[Tensor, ...]: ...
@operator(method=False, like=atleast_1d)
def atleast_2d(*tensors: Operand | Sequence[Operand]) -> Tensor | tuple[Tensor, ...]:
    """``x[None]`` of vectors: each Tensor with at least two dimensions, as a view.

    Shape: () becomes (1, 1), (n,) becomes (1, n); others are unchanged.

    >>> rg.atleast_2d(rg.ones(2))
    tensor([[1., 1.]])
    """
    return _at_least(tensors, _two_dimensional)


def _two_dimensional(x: Tensor) -> Tensor:
    return x if x.ndim >= 2 else unsqueeze(x, 0) if x.ndim else reshape(x, (1, 1))


@overload
def atleast_3d(tensor: Operand, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[Operand], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(first: Operand, second: Operand, /, *others: Operand) -> tuple[Tensor, ...]: ...
@operator(method=False, like=atleast_1d)
def atleast_3d(*tensors: Operand | Sequence[Operand]) -> Tensor | tuple[Tensor, ...]:
    """``x[..., None]`` of matrices: each Tensor with at least three dimensions, as a view.

    Shape: () becomes (1, 1, 1), (n,) becomes (1, n, 1), (m, n) becomes (m, n, 1); others are unchanged.

    >>> rg.atleast_3d(rg.ones(2, 4)).shape
    (2, 4, 1)
    """
    return _at_least(tensors, lambda x: x if x.ndim >= 3 else unsqueeze(_two_dimensional(x), -1))
