"""Transposes and permutations of dimensions, as views."""

from __future__ import annotations

from functools import lru_cache

from ...core.errors import describe
from ...core.graph.primitive import Primitive, operand
from ...core.tensor.tensor import Tensor, tensor_method
from ..table import batching
from ..table.arguments import dimension, dimensions, integers, only_keyword
from ..table.registry import operator
from ..table.types import Dims, Size
from .shape import apply_view

TRANSPOSE: Primitive = Primitive(
    "transpose",
    lambda x, dim0, dim1: x.swapaxes(dim0, dim1),
    "x",
    [lambda g, dim0, dim1: TRANSPOSE(g, dim0=dim0, dim1=dim1)],
    view=True,
    batch=batching.along("dim0", "dim1"),
)
PERMUTE: Primitive = Primitive(
    "permute",
    lambda x, dims: x.transpose(dims),
    "x",
    [lambda g, dims: PERMUTE(g, dims=inverse(dims))],
    view=True,
    batch=lambda call: (
        call.below([call.full(0)], {"dims": (0, *batching.moved(call.params["dims"], call.ndim()))})
        if call.ndim()
        else call.full(0)
    ),
)


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """Return the inverse of a permutation."""
    places = [0] * len(permutation)
    for place, source in enumerate(permutation):
        places[source] = place
    return tuple(places)


@operator(aliases=("swapaxes", "swapdims"), raises="dimension")
def transpose(input: Tensor, *dims: Size | None, **keywords: Size) -> Tensor:
    """``out[.., j, .., i, ..] = input[.., i, .., j, ..]``: a view with two dimensions exchanged.

    NumPy's forms are accepted, too: ``x.transpose()`` reverses the dimensions; a tuple, or a number per dimension (if
    there are not two), specifies a permutation.

    Derivative: ``g`` with the same dimensions exchanged.
    Shape: any; the lengths of the two dimensions are exchanged.

    Args:
        dims: ``dim0, dim1``, also by these names.

    Raises:
        RuntimeError: the numbers are not a permutation of the dimensions.

    >>> rg.zeros(2, 3, 4).transpose(0, 2).shape, rg.zeros(2, 3, 4).transpose((1, 2, 0)).shape
    ((4, 3, 2), (3, 4, 2))
    """
    x = operand(input)
    if keywords:
        dims = _two_keywords(dims, keywords)
    if len(dims) != 2:
        if not dims or dims == (None,):
            return apply_view(PERMUTE, x, {"dims": tuple(range(x.array.ndim))[::-1]})
        return permute(x, *[dim for dim in dims if dim is not None])
    ndim = x.array.ndim
    dim0, dim1 = dimension(dims[0], ndim), dimension(dims[1], ndim)
    if not ndim:
        return apply_view(PERMUTE, x, {"dims": ()})
    return apply_view(TRANSPOSE, x, {"dim0": dim0, "dim1": dim1})


def _two_keywords(dims: tuple[Size | None, ...], keywords: dict[str, Size]) -> tuple[Size | None, ...]:
    for names in (("dim0", "dim1"), ("axis0", "axis1"), ("axis1", "axis2")):
        rest = names[len(dims) :]
        if rest and set(rest) == set(keywords):
            return (*dims, *[keywords[name] for name in rest])
    raise TypeError(f"expected dim0 and dim1, got {len(dims)} positional arguments and {', '.join(keywords)}")


@operator()
def t(input: Tensor) -> Tensor:
    """``out[j, i] = input[i, j]``: the transpose of a matrix, as a view.

    Derivative: the transpose of ``g``.
    Shape: (m, n) to (n, m); (n,) and () are unchanged.

    Raises:
        RuntimeError: there are more than two dimensions.

    >>> rg.zeros(2, 3).t().shape
    (3, 2)
    """
    x = operand(input)
    if x.ndim > 2:
        raise RuntimeError(f"expected at most 2 dimensions, got {describe(x)}; use mT or transpose()")
    return apply_view(PERMUTE, x, {"dims": tuple(range(x.ndim))[::-1]})


@operator(raises="dimension", shape="permuted")
def permute(input: Tensor, *dims: Size, **keywords: Size) -> Tensor:
    """``out.shape[i] = input.shape[dims[i]]``: a view with permuted dimensions.

    Derivative: ``g`` with its dimensions in the inverse order.

    Args:
        dims: the input dimension of each dimension of the result, as separate arguments or as a sequence.

    Raises:
        RuntimeError: ``dims`` is not a permutation of the dimensions.

    >>> rg.zeros(2, 3, 4).permute(2, 0, 1).shape
    (4, 2, 3)
    """
    if keywords:
        dims = (only_keyword("dims", dims, keywords),)
    x = operand(input)
    order = integers(dims, "dims")
    if len(order) != x.array.ndim:
        raise RuntimeError(f"dims {order} must name each of the {x.array.ndim} dimensions of {describe(x)} once")
    return apply_view(PERMUTE, x, {"dims": _from_front(order, x.array.ndim)})


_from_front = lru_cache(maxsize=256)(dimensions)


@operator(aliases=("moveaxis",), raises="dimension", shape="permuted")
def movedim(input: Tensor, source: Dims, destination: Dims) -> Tensor:
    """``input`` with some dimensions moved to other positions, as a view; the others keep their order.

    Derivative: ``g`` with the dimensions moved back.

    Args:
        source: the dimensions to move.
        destination: the position of each of these dimensions in the result.

    Raises:
        RuntimeError: source and destination differ in length, or a dimension is repeated.

    >>> rg.movedim(rg.zeros(2, 3, 4), 0, -1).shape
    (3, 4, 2)
    """
    x = operand(input)
    sources, places = dimensions(source, x.ndim), dimensions(destination, x.ndim)
    if len(sources) != len(places):
        raise RuntimeError(f"source {source} and destination {destination} differ in length")
    if not x.ndim:
        return apply_view(PERMUTE, x, {"dims": ()})
    order = [dim for dim in range(x.ndim) if dim not in sources]
    for place, dim in sorted(zip(places, sources, strict=True)):
        order.insert(place, dim)
    return apply_view(PERMUTE, x, {"dims": tuple(order)})


def _matrix_transpose(self: Tensor) -> Tensor:
    """The transpose of the last two dimensions; RuntimeError for a vector. A 0-d Tensor is returned unchanged."""
    ndim = self.array.ndim
    if not ndim:
        return _reversed_dimensions(self)
    if ndim < 2:
        raise RuntimeError(f"mT: expected at least 2 dimensions, got {describe(self)}")
    return apply_view(TRANSPOSE, self, {"dim0": ndim - 2, "dim1": ndim - 1})


def _reversed_dimensions(self: Tensor) -> Tensor:
    """The dimensions in reverse order, the transpose of a matrix."""
    return apply_view(PERMUTE, self, {"dims": tuple(range(self.array.ndim))[::-1]})


def _conjugated(x: Tensor) -> Tensor:
    return x.conj() if x.array.dtype.kind == "c" else x


def _adjoint(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix; RuntimeError if the Tensor does not have two dimensions."""
    if self.array.ndim not in (0, 2):
        raise RuntimeError(f"H: expected a matrix, got {describe(self)}; use mH")
    return _conjugated(_reversed_dimensions(self))


def _matrix_adjoint(self: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    return _conjugated(_matrix_transpose(self))


for _name, _function in (
    ("T", _reversed_dimensions),
    ("mT", _matrix_transpose),
    ("H", _adjoint),
    ("mH", _matrix_adjoint),
):
    tensor_method(property(_function), _name)
