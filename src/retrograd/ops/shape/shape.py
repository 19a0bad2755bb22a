"""Shapes: other views of the same elements, in the same order or with the dimensions permuted.

All of these are views wherever NumPy can give one: the result shares its memory with the input, as PyTorch's does.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...core.backward import unbroadcast
from ...core.devices import array_module
from ...core.dtypes import DType
from ...core.errors import describe, operator_error
from ...core.graph import new_node
from ...core.modes import modes, recording
from ...core.primitive import Primitive, operand, shares_memory
from ...core.storage import share
from ...core.tensor import Tensor, new_tensor
from ..table.arguments import dimension, dimensions, integers, only_keyword, tensor_list
from ..table.registry import named_errors, operator


def apply_view(primitive: Primitive, a: Any, params: dict[str, Any]) -> Tensor:
    """The fast path of ``apply`` for a view: one input, one output, and rules that read parameters and shapes only."""
    if not isinstance(a, Tensor):
        a = operand(a)
    x = a.array
    try:
        out = primitive.forward(x, **params)
    except Exception as error:
        raise operator_error(primitive.name, (a,), params, error) from None
    view = new_tensor(out)
    recording = modes.grad_enabled
    if recording and a._requires:
        plan = primitive.plans.get(1) or primitive.plan(1)
        shape = x.shape
        saved = (None, None, *[shape if name == "x_shape" else params[name] for name in primitive.layout[2:]])
        node = a._node
        view._node = new_node(plan, (a if node is None else node,), saved, out.shape, out.dtype)
        view._requires = True
    owner = out.base
    if out is x or owner is not None and (owner is x or owner is x.base or shares_memory(out, x)):
        share(view, a, recording)
    return view


# The same elements in the same order, under another shape


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape)


def _view(x: Any, shape: tuple[int, ...]) -> Any:
    out = x.reshape(shape)
    if x.size and not shares_memory(out, x):
        raise RuntimeError(
            "the shape is not compatible with the strides of the input (two dimensions that span "
            "non-contiguous memory would be merged); use reshape()"
        )
    return out


def _reshaping(name: str, forward: Any = _reshape) -> Primitive:
    return Primitive(name, forward, "x", [lambda g, x_shape: RESHAPE(g, shape=x_shape)], view=True)


RESHAPE: Primitive = _reshaping("reshape")
VIEW: Primitive = _reshaping("view", _view)
SQUEEZE: Primitive = _reshaping("squeeze")
UNSQUEEZE: Primitive = _reshaping("unsqueeze")
FLATTEN: Primitive = _reshaping("flatten")
UNFLATTEN: Primitive = _reshaping("unflatten")


def _checked_shape(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, in which NumPy would read any negative number as the one length to infer."""
    if shape and min(shape) < -1:
        raise RuntimeError(f"invalid length {min(shape)} in the shape {shape} for {describe(x)}")
    return shape


@operator()
def reshape(input: Tensor, *shape: Any, **keywords: Any) -> Tensor:
    """The same elements in row-major order under another shape; one length may be -1, to be inferred.

    A view where the strides allow it, else a copy. Called as ``reshape(x, (2, 3))`` or ``x.reshape(2, 3)``.

    Raises:
        RuntimeError: the number of elements differs.

    >>> rg.arange(6).reshape(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    if keywords:
        shape = (only_keyword("shape", shape, keywords),)
    x = operand(input)
    return apply_view(RESHAPE, x, {"shape": _checked_shape(x, integers(shape, "shape"))})


@operator(namespace="Tensor")
def view(self: Tensor, *shape: Any, **keywords: Any) -> Tensor:
    """The same memory under another shape (as ``reshape``, but never a copy) or read as another dtype.

    ``x.view(dtype)`` reinterprets the bytes, without a gradient; the last dimension changes with the elements' size.

    Raises:
        RuntimeError: the number of elements differs, or the strides do not allow a view.

    >>> rg.arange(6).view(3, 2).shape
    (3, 2)
    """
    if keywords:
        shape = (keywords.pop("dtype", None) or only_keyword("size", shape, keywords),)
    if len(shape) == 1 and isinstance(shape[0], (np.dtype, type)):
        return _view_as_dtype(self, np.dtype(shape[0]))
    return apply_view(VIEW, self, {"shape": _checked_shape(self, integers(shape))})


def _view_as_dtype(x: Tensor, dtype: DType) -> Tensor:
    try:
        alias = new_tensor(x.array.view(dtype))
    except (ValueError, TypeError) as error:
        raise RuntimeError(f"view({describe(x)}, dtype={dtype}): {error}") from None
    share(alias, x, related=False)
    return alias


@operator(namespace="Tensor")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """``self.view(other.shape)``.

    >>> rg.arange(4).view_as(rg.zeros(2, 2)).shape
    (2, 2)
    """
    return view(self, other.shape)


@operator(namespace="Tensor")
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """``self.reshape(other.shape)``.

    >>> rg.arange(4).reshape_as(rg.zeros(2, 2)).shape
    (2, 2)
    """
    return reshape(self, other.shape)


@operator()
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without the dimensions of length 1: all of them, or those of ``dim`` (a number or a tuple) that have length 1.

    Raises:
        IndexError: ``dim`` is out of range.

    >>> rg.squeeze(rg.zeros(2, 1, 3, 1)).shape, rg.squeeze(rg.zeros(2, 1, 3, 1), 1).shape
    ((2, 3), (2, 3, 1))
    """
    x = operand(input)
    shape = x.array.shape
    dims = range(len(shape)) if dim is None else dimensions(dim, len(shape))
    shape = tuple([length for place, length in enumerate(shape) if length != 1 or place not in dims])
    return apply_view(SQUEEZE, x, {"shape": shape})


@operator()
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of length 1 inserted at ``dim``.

    Raises:
        IndexError: ``dim`` is out of range.

    >>> rg.unsqueeze(rg.zeros(2, 3), 1).shape
    (2, 1, 3)
    """
    x = operand(input)
    shape = x.array.shape
    place = dimension(dim, len(shape) + 1)
    return apply_view(UNSQUEEZE, x, {"shape": (*shape[:place], 1, *shape[place:])})


@operator()
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """With the dimensions ``start_dim`` to ``end_dim`` (included) merged into one; 0-d becomes 1-d.

    Raises:
        IndexError: a dimension is out of range.
        RuntimeError: ``start_dim`` comes after ``end_dim``.

    >>> rg.flatten(rg.zeros(2, 3, 4), 1).shape
    (2, 12)
    """
    x = operand(input)
    shape = x.array.shape
    start, end = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if start > end:
        raise RuntimeError(f"start_dim {start_dim} comes after end_dim {end_dim} on {describe(x)}")
    return apply_view(FLATTEN, x, {"shape": (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :])})


@operator()
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, in row-major order; a view where the input is contiguous.

    >>> rg.ravel(rg.zeros(2, 3)).shape
    (6,)
    """
    return flatten(input)


@operator()
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """With the dimension ``dim`` split into several of the given sizes; one of them may be -1.

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


def _at_least(tensors: tuple[Any, ...], widen: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple([widen(x) for x in tensor_list(tensors[0])])
    results = [widen(operand(x)) for x in tensors]
    return results[0] if len(results) == 1 else tuple(results)


@operator(method=False)
def atleast_1d(*tensors: Any) -> Any:
    """Each Tensor with at least one dimension: 0-d becomes shape (1,). Several, or a list, give a tuple.

    >>> rg.atleast_1d(rg.tensor(3.0))
    tensor([3.])
    """
    return _at_least(tensors, lambda x: x if x.ndim else reshape(x, (1,)))


@operator(method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Each Tensor with at least two dimensions: shape (n,) becomes (1, n). Several, or a list, give a tuple.

    >>> rg.atleast_2d(rg.ones(2))
    tensor([[1., 1.]])
    """
    return _at_least(tensors, _two_dimensional)


def _two_dimensional(x: Tensor) -> Tensor:
    return x if x.ndim >= 2 else unsqueeze(x, 0) if x.ndim else reshape(x, (1, 1))


@operator(method=False)
def atleast_3d(*tensors: Any) -> Any:
    """Each Tensor with at least three dimensions: (n,) becomes (1, n, 1) and (m, n) becomes (m, n, 1).

    >>> rg.atleast_3d(rg.ones(2, 4)).shape
    (2, 4, 1)
    """
    return _at_least(tensors, lambda x: x if x.ndim >= 3 else unsqueeze(_two_dimensional(x), -1))


# The dimensions in another order

TRANSPOSE: Primitive = Primitive(
    "transpose",
    lambda x, dim0, dim1: x.swapaxes(dim0, dim1),
    "x",
    [lambda g, dim0, dim1: TRANSPOSE(g, dim0=dim0, dim1=dim1)],
    view=True,
)
PERMUTE: Primitive = Primitive(
    "permute", lambda x, dims: x.transpose(dims), "x", [lambda g, dims: PERMUTE(g, dims=inverse(dims))], view=True
)


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes the given one."""
    places = [0] * len(permutation)
    for place, source in enumerate(permutation):
        places[source] = place
    return tuple(places)


@operator(aliases=("swapaxes", "swapdims"))
def transpose(input: Tensor, *dims: Any, **keywords: Any) -> Tensor:
    """With two dimensions exchanged: ``transpose(x, dim0, dim1)``, as PyTorch's.

    NumPy's forms are taken, too: ``x.transpose()`` reverses the dimensions, and a tuple, or as many numbers as a
    Tensor has dimensions (unless these are two), gives them a new order.

    Raises:
        IndexError: a dimension is out of range.
        RuntimeError: the new order does not name every dimension once.

    >>> rg.zeros(2, 3, 4).transpose(0, 2).shape, rg.zeros(2, 3, 4).transpose((1, 2, 0)).shape
    ((4, 3, 2), (3, 4, 2))
    """
    x = operand(input)
    if keywords:
        dims = _two_keywords(dims, keywords)
    if len(dims) != 2:
        if not dims or dims == (None,):
            return apply_view(PERMUTE, x, {"dims": tuple(range(x.array.ndim))[::-1]})
        return permute(x, *dims)
    ndim = x.array.ndim
    dim0, dim1 = dimension(dims[0], ndim), dimension(dims[1], ndim)
    if not ndim:
        return apply_view(PERMUTE, x, {"dims": ()})
    return apply_view(TRANSPOSE, x, {"dim0": dim0, "dim1": dim1})


def _two_keywords(dims: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    for names in (("dim0", "dim1"), ("axis0", "axis1"), ("axis1", "axis2")):
        rest = names[len(dims) :]
        if rest and set(rest) == set(keywords):
            return (*dims, *[keywords[name] for name in rest])
    raise TypeError(f"wanted dim0 and dim1, got {len(dims)} numbers and {', '.join(keywords)}")


@operator()
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; fewer than two dimensions are left as they are.

    Raises:
        RuntimeError: there are more than two dimensions.

    >>> rg.zeros(2, 3).t().shape
    (3, 2)
    """
    x = operand(input)
    if x.ndim > 2:
        raise RuntimeError(f"wanted at most 2 dimensions, got {describe(x)}; use mT or transpose()")
    return apply_view(PERMUTE, x, {"dims": tuple(range(x.ndim))[::-1]})


@operator()
def permute(input: Tensor, *dims: Any, **keywords: Any) -> Tensor:
    """With the dimensions in a new order: dimension i of the result is ``dims[i]`` of the input.

    Raises:
        RuntimeError: ``dims`` does not name every dimension once.
        IndexError: a dimension is out of range.

    >>> rg.zeros(2, 3, 4).permute(2, 0, 1).shape
    (4, 2, 3)
    """
    if keywords:
        dims = (only_keyword("dims", dims, keywords),)
    x = operand(input)
    order = integers(dims, "dims")
    if len(order) != x.array.ndim:
        raise RuntimeError(f"dims {order} must name each of the {x.array.ndim} dimensions of {describe(x)} once")
    return apply_view(PERMUTE, x, {"dims": dimensions(order, x.array.ndim)})


@operator(aliases=("moveaxis",))
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """With the dimensions ``source`` moved to the places ``destination``; the others keep their order.

    Raises:
        RuntimeError: they differ in number, or name a dimension twice.

    >>> rg.movedim(rg.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    x = operand(input)
    sources, places = dimensions(source, x.ndim), dimensions(destination, x.ndim)
    if len(sources) != len(places):
        raise RuntimeError(f"source {source} and destination {destination} differ in number")
    if not x.ndim:
        return apply_view(PERMUTE, x, {"dims": ()})
    order = [dim for dim in range(x.ndim) if dim not in sources]
    for place, dim in sorted(zip(places, sources, strict=True)):
        order.insert(place, dim)
    return apply_view(PERMUTE, x, {"dims": tuple(order)})


def _matrix_transpose(self: Tensor) -> Tensor:
    """The matrices of the last two dimensions, transposed. RuntimeError for fewer than two dimensions."""
    ndim = self.array.ndim
    if ndim < 2:
        raise RuntimeError(f"mT: wanted at least 2 dimensions, got {describe(self)}")
    return apply_view(TRANSPOSE, self, {"dim0": ndim - 2, "dim1": ndim - 1})


def _reversed_dimensions(self: Tensor) -> Tensor:
    """The dimensions in reverse order: the transpose of a matrix."""
    return apply_view(PERMUTE, self, {"dims": tuple(range(self.array.ndim))[::-1]})


def _conjugated(x: Tensor) -> Tensor:
    return x.conj() if x.array.dtype.kind == "c" else x


def _adjoint(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix. RuntimeError for other than two dimensions."""
    if self.array.ndim not in (0, 2):
        raise RuntimeError(f"H: wanted a matrix, got {describe(self)}; use mH")
    return _conjugated(_reversed_dimensions(self))


def _matrix_adjoint(self: Tensor) -> Tensor:
    """The matrices of the last two dimensions, conjugated and transposed."""
    return _conjugated(_matrix_transpose(self))


for _name, _function in (
    ("T", _reversed_dimensions),
    ("mT", _matrix_transpose),
    ("H", _adjoint),
    ("mH", _matrix_adjoint),
):
    setattr(Tensor, _name, property(_function))


def _reshaping_method(name: str, function: Any) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if modes.grad_enabled and self._requires and self._node is None:
            raise RuntimeError("a leaf Tensor that requires grad cannot change its shape in place")
        with recording(self._node is not None):  # the history, where there is one, has the shape, too
            view = function(self, *args, **kwargs)
        self.array = view.array
        if self._node is not None:
            self._node = view._node
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of ``{name[:-1]}``: this Tensor itself takes the new shape, on the same memory."
    return named_errors(name, method)


_changed: Any
for _name, _changed in (
    ("squeeze", squeeze),
    ("unsqueeze", unsqueeze),
    ("transpose", transpose),
    ("swapaxes", transpose),
    ("swapdims", transpose),
    ("t", t),
):
    setattr(Tensor, _name + "_", _reshaping_method(_name + "_", _changed))


# The same elements repeated, without a copy

EXPAND: Primitive = Primitive(
    "expand",
    lambda x, shape: x[...] if x.shape == shape else array_module(x).broadcast_to(x, shape),
    "x",
    [lambda g, x_shape: unbroadcast(g, x_shape)],
    view=True,
)


@operator(namespace="Tensor")
def expand(self: Tensor, *sizes: Any, **keywords: Any) -> Tensor:
    """A view in which dimensions of length 1 are repeated to the given lengths; -1 keeps a length.

    New dimensions may be put in front. Since elements share memory, the result cannot be written in place.

    Raises:
        RuntimeError: a dimension of another length than 1 would have to change, or there are too few lengths.

    >>> rg.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if keywords:
        sizes = (only_keyword("size", sizes, keywords),)
    lengths = integers(sizes)
    own = self.array.shape
    new = len(lengths) - len(own)
    if new < 0 or any(length < (0 if place < new else -1) for place, length in enumerate(lengths)):
        raise RuntimeError(
            f"expand({describe(self)}, {lengths}): wanted at least {len(own)} lengths, -1 only where one exists"
        )
    shape = tuple([own[place - new] if length == -1 else length for place, length in enumerate(lengths)])
    return apply_view(EXPAND, self, {"shape": shape})


@operator(namespace="Tensor")
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """``self.expand(other.shape)``.

    >>> rg.ones(1, 2).expand_as(rg.zeros(3, 2)).shape
    (3, 2)
    """
    return expand(self, other.shape)


@operator()
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """As ``input.expand(size)``.

    >>> rg.broadcast_to(rg.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(operand(input), size)


@operator(method=False)
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Each Tensor expanded to the shape they broadcast to.

    Raises:
        RuntimeError: the shapes do not broadcast.

    >>> [x.shape for x in rg.broadcast_tensors(rg.zeros(3, 1), rg.zeros(2))]
    [(3, 2), (3, 2)]
    """
    inputs = [operand(x, "tensors") for x in tensors]
    try:
        shape = np.broadcast_shapes(*[x.array.shape for x in inputs])
    except ValueError:
        raise RuntimeError(f"the shapes do not broadcast: {', '.join(map(describe, inputs))}") from None
    return tuple([apply_view(EXPAND, x, {"shape": shape}) for x in inputs])


@operator(namespace="Tensor")
def sum_to_size(self: Tensor, *size: Any, **keywords: Any) -> Tensor:
    """Summed over the dimensions along which ``size`` broadcasts to the shape of this Tensor.

    Raises:
        RuntimeError: ``size`` does not broadcast to the shape.

    >>> rg.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    if keywords:
        size = (only_keyword("size", size, keywords),)
    shape, own = integers(size), self.array.shape
    new = len(own) - len(shape)
    if new < 0 or any(length not in (1, own[place + new]) for place, length in enumerate(shape)):
        raise RuntimeError(f"{shape} does not broadcast to the shape of {describe(self)}")
    dims = [*range(new), *[place + new for place, length in enumerate(shape) if length != own[place + new]]]
    return reshape(self.sum(tuple(dims)), shape) if dims else reshape(self, shape)
