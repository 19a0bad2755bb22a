"""Reading and writing at positions along a dimension, and at masks: gather, scatter, index_add and their kind.

All of them stand on the primitives of ``indexing``; where a position is named twice, the last value written stays
(and it alone gets the gradient), and what is added adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module, backend_of
from ...core.errors import describe
from ...core.mutation import apply_inplace
from ...core.primitive import Primitive, apply, operand
from ...core.storage import storage_of
from ...core.tensor import Tensor, new_tensor
from ..shape.shape import expand, flatten, reshape
from ..shape.views import diagonal, narrow
from ..table.arguments import dimension, integer, number
from ..table.registry import inplace_method, numpy_names, operator
from .indexing import ERASE, Index, add_at, adding, index_of, reading, setting, written_value
from .scatter_reductions import SCATTER_AMAX, SCATTER_AMIN, SCATTER_PROD


class Write(NamedTuple):
    """A checked call that writes ``value`` at ``index`` of ``x``."""

    primitive: Primitive
    x: Tensor
    value: Any
    params: dict[str, Any]


def _result(write: Write) -> Tensor:
    return apply(write.primitive, (write.x, write.value), write.params)


def _in_place(name: str, prepare: Callable[..., Write]) -> None:
    """Give Tensor the method ``name_`` that does in place what ``prepare`` has checked."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        write = prepare(self, *args, **kwargs)
        apply_inplace(write.primitive, write.x, write.value, **write.params)
        return self

    method.__signature__ = signature(prepare).replace(return_annotation=Tensor)  # type: ignore[attr-defined]
    setattr(Tensor, name + "_", inplace_method(name, method))


# Checks


def _positions(name: str, index: Any, x: Tensor) -> Tensor:
    index = operand(index, "index")
    if index.array.dtype.kind not in "iu":
        raise RuntimeError(f"expected an integer dtype for index, got {describe(index)}")
    if backend_of(index.array) is not backend_of(x.array):
        raise RuntimeError(f"index is on {index.device}, input on {x.device}")
    return index


def _check_range(
    index: Tensor, low: int, length: int, dim: int, x: Tensor, error: type[Exception] = IndexError
) -> None:
    array = index.array
    if array.size:
        least, most = int(array.min().item()), int(array.max().item())
        if least < low or most >= length:
            wrong = least if least < low else most
            raise error(f"index {wrong} is out of bounds for dimension {dim} with size {length} of {describe(x)}")


def _same_dtype(x: Tensor, src: Any, argument: str) -> Tensor:
    src = operand(src, argument)
    if src.array.dtype != x.array.dtype:
        raise RuntimeError(f"input ({describe(x)}) and {argument} ({describe(src)}) must have the same dtype")
    return src


def _along(name: str, x: Tensor, dim: Any, index: Any) -> tuple[Index, Tensor]:
    """The Index that, for dimension 1 of three, stands for ``x[i, index[i, j, k], k]``; and the checked index."""
    place = dimension(dim, x.array.ndim)
    index = _positions(name, index, x)
    shape, own = index.array.shape, x.array.shape
    if len(shape) != len(own):
        raise RuntimeError(f"index {describe(index)} must have as many dimensions as {describe(x)}")
    if any(length > mine for d, (length, mine) in enumerate(zip(shape, own)) if d != place):
        raise RuntimeError(f"index {describe(index)} must not be larger than {describe(x)} except at dimension {place}")
    _check_range(index, 0, own[place] if own else 1, place, x, RuntimeError)
    if not own:
        return Index((Ellipsis,)), index
    return _mesh(index, place), index


def _mesh(index: Tensor, place: int) -> Index:
    array = index.array
    xp = array_module(array)
    key = tuple(
        [
            array if d == place else xp.arange(length).reshape(tuple([-1 if e == d else 1 for e in range(array.ndim)]))
            for d, length in enumerate(array.shape)
        ]
    )
    return Index(key, (storage_of(index),))


def _vector(
    name: str, x: Tensor, dim: Any, index: Any, low: int = 0, error: type[Exception] = IndexError
) -> tuple[Index, int]:
    """The Index of the slices along ``dim`` at a vector of positions, and their number."""
    place = dimension(dim, x.array.ndim)
    index = _positions(name, index, x)
    if index.array.ndim > 1:
        raise IndexError(f"index is supposed to be a vector, got {describe(index)}")
    length = x.array.shape[place] if x.array.ndim else 1
    _check_range(index, -length if low < 0 else 0, length, place, x, error)
    array = index.array.reshape(-1)
    return Index((*(slice(None),) * place, array), (storage_of(index),)), array.size


# Reading

GATHER, INDEX_SELECT, TAKE, MASKED_SELECT, TAKE_ALONG_DIM = (
    reading(name) for name in ("gather", "index_select", "take", "masked_select", "take_along_dim")
)


@operator()
@numpy_names
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Elements picked along ``dim``: for dimension 1 of three, ``out[i, j, k] = input[i, index[i, j, k], k]``.

    Args:
        input: a Tensor.
        dim: the dimension.
        index: integers, with as many dimensions as the input, not longer than it in any other than ``dim``.
        sparse_grad: taken for PyTorch's sake; gradients are dense.

    Raises:
        RuntimeError: the index does not fit or is out of range.

    >>> rg.gather(rg.tensor([[1, 2], [3, 4]]), 1, rg.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    x = operand(input)
    place, _ = _along("gather", x, dim, index)
    return apply(GATHER, (x,), {"index": place})


@operator()
@numpy_names
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """As ``gather``, where input and indices broadcast against each other; without ``dim`` of the flattened input.

    Raises:
        RuntimeError: the shapes do not broadcast, or an index is out of range.

    >>> x = rg.tensor([[3, 1], [2, 4]])
    >>> rg.take_along_dim(x, rg.argsort(x, 1), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    name = "take_along_dim"
    x, index = operand(input), operand(indices, "indices")
    if dim is None:
        x, index, dim = flatten(x), flatten(index), 0
    place = dimension(dim, x.array.ndim)
    index = _positions(name, index, x)
    own, shape = list(x.array.shape), list(index.array.shape)
    if len(own) != len(shape):
        raise RuntimeError(f"input {describe(x)} and indices {describe(index)} differ in dimensions")
    for d, (length, other) in enumerate(zip(x.array.shape, index.array.shape)):
        if d != place:
            if length != other and 1 not in (length, other):
                raise RuntimeError(f"input {describe(x)} and indices {describe(index)} do not broadcast")
            own[d] = shape[d] = other if length == 1 else length
    _check_range(index, -own[place], own[place], place, x)
    return apply(TAKE_ALONG_DIM, (expand(x, own),), {"index": _mesh(expand(index, shape), place)})


@operator()
@numpy_names
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices along ``dim`` at a vector of positions, copied.

    Raises:
        IndexError: a position is negative or too large, or the index is no vector.
        RuntimeError: the index is not of integers.

    >>> rg.index_select(rg.tensor([[1, 2], [3, 4]]), 1, rg.tensor([1, 1]))
    tensor([[2, 2],
            [4, 4]])
    """
    x = operand(input)
    if not x.array.ndim:
        return reshape(index_select(reshape(x, (1,)), dim, index), ())
    return apply(INDEX_SELECT, (x,), {"index": _vector("index_select", x, dim, index)[0]})


@operator()
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements at positions of the flattened input, in the shape of ``index``; negative ones count from the end.

    Raises:
        IndexError: a position is out of range.

    >>> rg.take(rg.tensor([[1, 2], [3, 4]]), rg.tensor([0, -1]))
    tensor([1, 4])
    """
    x = operand(input)
    index = _positions("take", index, x)
    size = x.array.size
    _check_range(index, -size, size, 0, x)
    if not index.array.ndim:
        return reshape(take(x, reshape(index, (1,))), ())
    return apply(TAKE, (flatten(x),), {"index": Index((index.array,), (storage_of(index),))})


def _mask(mask: Any) -> Tensor:
    mask = operand(mask, "mask")
    if mask.array.dtype.kind != "b":
        raise RuntimeError(f"expected a bool Tensor for mask, got {describe(mask)}")
    return mask


def _broadcast_pair(x: Tensor, mask: Tensor) -> tuple[Tensor, Index]:
    """x and the mask in the shape they broadcast to, the mask as an Index."""
    try:
        shape = np.broadcast_shapes(x.array.shape, mask.array.shape)
    except ValueError:
        raise RuntimeError(f"input {describe(x)} and mask {describe(mask)} do not broadcast") from None
    if x.array.shape != shape:
        x = expand(x, shape)
    array = array_module(mask).broadcast_to(mask.array, shape)
    return x, Index((array,), (storage_of(mask),))


@operator()
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask holds, in one dimension, in row-major order; input and mask broadcast.

    Raises:
        RuntimeError: the mask is not of bools, or the shapes do not broadcast.

    >>> rg.masked_select(rg.tensor([1, 2, 3]), rg.tensor([True, False, True]))
    tensor([1, 3])
    """
    x, index = _broadcast_pair(operand(input), _mask(mask))
    return apply(MASKED_SELECT, (x,), {"index": index})


# Writing over

SCATTER, INDEX_COPY, INDEX_FILL, INDEX_PUT, PUT, MASKED_SCATTER, SELECT_SCATTER, SLICE_SCATTER = (
    setting(name)
    for name in (
        "scatter",
        "index_copy",
        "index_fill",
        "index_put",
        "put",
        "masked_scatter",
        "select_scatter",
        "slice_scatter",
    )
)
SCATTER_ADD, INDEX_ADD, INDEX_PUT_ADD, PUT_ADD = (
    adding(name) for name in ("scatter_add", "index_add", "index_put", "put")
)


def _source(name: str, x: Tensor, src: Any, index: Tensor) -> Tensor:
    """The part of ``src`` that the index names a place for."""
    src = _same_dtype(x, src, "src")
    shape, have = index.array.shape, src.array.shape
    if len(have) != len(shape) or any(length > mine for length, mine in zip(shape, have)):
        raise RuntimeError(f"index {describe(index)} must not be larger than src {describe(src)} in any dimension")
    return src if shape == have else src[tuple(map(slice, shape))]


def _scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Write:
    x = operand(input)
    if (src is None) == (value is None):
        raise TypeError("wanted src or value, one of them")
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce!r}")
    place, index = _along("scatter", x, dim, index)
    source = value if src is None else src
    if isinstance(source, (bool, int, float, complex)):
        source = written_value(x, source)
        if reduce is not None:
            xp = array_module(x)
            source = new_tensor(xp.full(index.array.shape, source, x.array.dtype))
    else:
        source = _source("scatter", x, source, index)
    if reduce == "multiply":
        return Write(SCATTER_PROD, x, source, {"index": place, "include_self": True})
    return Write(SCATTER if reduce is None else SCATTER_ADD, x, source, {"index": place})


@operator(inplace=True)
@numpy_names
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Tensor:
    """A copy with elements written along ``dim``: for dimension 1 of 3, ``out[i, index[i, j, k], k] = src[i, j, k]``.

    Args:
        input: a Tensor.
        dim: the dimension.
        index: integers, with as many dimensions as the input.
        src: a Tensor at least as large as the index, of the input's dtype, or a number.
        value: a number, instead of ``src``.
        reduce: ``"add"`` or ``"multiply"`` instead of replacing.

    Raises:
        RuntimeError: index or src do not fit, an index is out of range, or the dtypes differ.

    >>> rg.scatter(rg.zeros(2, 3), 1, rg.tensor([[0], [2]]), 1.0)
    tensor([[1., 0., 0.],
            [0., 0., 1.]])
    """
    return _result(_scatter(input, dim, index, src, value=value, reduce=reduce))


def _scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Write:
    x = operand(input)
    place, index = _along("scatter_add", x, dim, index)
    return Write(SCATTER_ADD, x, _source("scatter_add", x, src, index), {"index": place})


@operator(inplace=True)
@numpy_names
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """As ``scatter``, but added: for dimension 1 of three, ``out[i, index[i, j, k], k] += src[i, j, k]``.

    Raises:
        RuntimeError: index or src do not fit, an index is out of range, or the dtypes differ.

    >>> rg.scatter_add(rg.zeros(3), 0, rg.tensor([0, 0, 2]), rg.ones(3))
    tensor([2., 0., 1.])
    """
    return _result(_scatter_add(input, dim, index, src))


def _index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Write:
    x = operand(input)
    source = _slices("index_add", x, dim, index, source, RuntimeError)
    place, _ = _vector("index_add", x, dim, index, error=RuntimeError)
    return Write(INDEX_ADD, x, source if alpha == 1 else source * alpha, {"index": _or_whole(place, x)})


def _or_whole(index: Index, x: Tensor, count: int = 1) -> Index:
    """The index; for a 0-d Tensor its one element, or with a count of 0 nothing."""
    if x.array.ndim:
        return index
    return Index((Ellipsis,)) if count else Index((array_module(x).zeros((), np.bool_),))


def _slices(name: str, x: Tensor, dim: Any, index: Any, source: Any, error: type[Exception]) -> Tensor:
    """The source, which must have a slice of x's shape for every position."""
    _, count = _vector(name, x, dim, index, error=error)
    source = _same_dtype(x, source, "source")
    if not x.array.ndim:
        if source.array.size != 1 or count != 1:
            raise error(f"wanted one position and one element for a 0-d input, got {describe(source)}")
        return reshape(source, ())
    place = dimension(dim, x.array.ndim)
    wanted = (*x.array.shape[:place], count, *x.array.shape[place + 1 :])
    if source.array.ndim == 0 and count == 1 and prod(wanted) == 1:
        return reshape(source, wanted)
    if source.array.shape != wanted:
        raise error(f"source must have shape {wanted} for {count} positions in {describe(x)}, got {describe(source)}")
    return source


@operator(inplace=True)
@numpy_names
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy with ``alpha`` times the slices of ``source`` added at a vector of positions along ``dim``.

    Raises:
        RuntimeError: source does not fit, a position is out of range, or the dtypes differ.

    >>> rg.index_add(rg.zeros(3), 0, rg.tensor([0, 0]), rg.tensor([1.0, 2.0]))
    tensor([3., 0., 0.])
    """
    return _result(_index_add(input, dim, index, source, alpha=alpha))


def _index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Write:
    x = operand(input)
    source = _slices("index_copy", x, dim, index, source, IndexError)
    return Write(INDEX_COPY, x, source, {"index": _or_whole(_vector("index_copy", x, dim, index)[0], x)})


@operator(inplace=True)
@numpy_names
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy with the slices of ``source`` written at a vector of positions along ``dim``.

    Raises:
        IndexError: source does not fit, or a position is out of range.
        RuntimeError: the dtypes differ.

    >>> rg.index_copy(rg.zeros(3), 0, rg.tensor([2, 0]), rg.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return _result(_index_copy(input, dim, index, source))


def _index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Write:
    x = operand(input)
    place, count = _vector("index_fill", x, dim, index, low=-1)
    if isinstance(value, Tensor) and value.array.ndim:
        raise RuntimeError(f"wanted a number or 0-d Tensor for value, got {describe(value)}")
    value = written_value(x, number(value, "value"))
    return Write(INDEX_FILL, x, value, {"index": _or_whole(place, x, count)})


@operator(inplace=True)
@numpy_names
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy with the slices at a vector of positions along ``dim`` filled with a number or 0-d Tensor.

    Raises:
        IndexError: a position is out of range.
        RuntimeError: the value has dimensions.

    >>> rg.index_fill(rg.zeros(3), 0, rg.tensor([0, 2]), 5.0)
    tensor([5., 0., 5.])
    """
    return _result(_index_fill(input, dim, index, value))


def _index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Write:
    x = operand(input)
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"argument 'indices' must be a tuple of Tensors, not {type(indices).__name__}")
    key = tuple([slice(None) if each is None else operand(each, "indices") for each in indices])
    values = _same_dtype(x, values, "values")
    index = index_of(x, key)
    if values.array.ndim > x.array[index.key].ndim:
        raise RuntimeError(f"values {describe(values)} do not broadcast to the elements at the indices")
    values = written_value(x, values)
    return Write(INDEX_PUT_ADD if accumulate else INDEX_PUT, x, values, {"index": index})


@operator(inplace=True)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with ``out[indices] = values``, or ``+=`` with ``accumulate``, where repeated positions add up.

    Args:
        input: a Tensor.
        indices: a tuple of Tensors of integers or bools, one per dimension; None stands for a whole dimension.
        values: a Tensor of the input's dtype that broadcasts to the indexed elements.
        accumulate: add instead of replacing.

    Raises:
        IndexError: a position is out of range.
        RuntimeError: the values do not broadcast, or the dtypes differ.

    >>> rg.index_put(rg.zeros(3), (rg.tensor([0, 0]),), rg.tensor([1.0, 2.0]), accumulate=True)
    tensor([3., 0., 0.])
    """
    return _result(_index_put(input, indices, values, accumulate))


def _put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Write:
    x = operand(input)
    index = _positions("put", index, x)
    source = _same_dtype(x, source, "source")
    if source.array.size != index.array.size:
        raise IndexError(f"source {describe(source)} must have as many elements as index {describe(index)}")
    size = x.array.size
    _check_range(index, -size, size, 0, x)
    if not x.array.ndim or not size:
        x = reshape(x, (size,))
    xp = array_module(x)
    flat = index.array.reshape(-1)
    key = xp.unravel_index(xp.where(flat < 0, flat + size, flat), x.array.shape) if size else (flat,)
    return Write(PUT_ADD if accumulate else PUT, x, flatten(source), {"index": Index(tuple(key))})


@operator(inplace=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with ``source`` written (or added) at positions of the flattened input; negative ones count from the end.

    Raises:
        IndexError: a position is out of range, or index and source differ in number.
        RuntimeError: the dtypes differ.

    >>> rg.put(rg.zeros(2, 2), rg.tensor([0, -1]), rg.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return reshape(_result(_put(input, index, source, accumulate)), operand(input).array.shape)


def _masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Write:
    x, mask = operand(input), _mask(mask)
    source = _same_dtype(x, source, "source")
    x, index = _broadcast_pair(x, mask)
    count = int(index.key[0].sum().item())
    if source.array.size < count:
        raise RuntimeError(f"source {describe(source)} has fewer elements than the {count} the mask selects")
    return Write(MASKED_SCATTER, x, narrow(flatten(source), 0, 0, count), {"index": index})


def _masked_scatter_in_place(input: Tensor, mask: Tensor, source: Tensor) -> Write:
    write = _masked_scatter(input, mask, source)
    if write.x.array.shape != input.array.shape:
        raise RuntimeError(f"mask {describe(mask)} does not broadcast to the written Tensor {describe(input)}")
    return write


@operator(inplace=True)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy with the elements of ``source``, in order, where the mask holds; input and mask broadcast.

    Raises:
        RuntimeError: the source has too few elements, the mask is not of bools, or the dtypes differ.

    >>> rg.masked_scatter(rg.zeros(3), rg.tensor([True, False, True]), rg.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    return _result(_masked_scatter(input, mask, source))


for _name, _prepare in (
    ("scatter", _scatter),
    ("scatter_add", _scatter_add),
    ("index_add", _index_add),
    ("index_copy", _index_copy),
    ("index_fill", _index_fill),
    ("index_put", _index_put),
    ("put", _put),
    ("masked_scatter", _masked_scatter_in_place),
):
    _in_place(_name, _prepare)


# A slice replaced


def _replaced(primitive: Primitive, x: Tensor, src: Any, key: tuple[Any, ...]) -> Tensor:
    src = operand(src, "src")
    shape = x.array[key].shape
    if src.array.shape != shape:
        raise RuntimeError(f"expected src to have shape {shape}, the slice's, got {describe(src)}")
    return apply(primitive, (x, src), {"index": Index(key)})


@operator()
@numpy_names
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with ``src`` as the slice at ``index`` along ``dim``.

    Raises:
        RuntimeError: src has not the slice's shape.
        IndexError: ``index`` is out of range.

    >>> rg.select_scatter(rg.zeros(2, 2), rg.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    x = operand(input)
    place = dimension(dim, x.array.ndim)
    position = integer(index, "index")
    if not x.array.ndim or not -x.array.shape[place] <= position < x.array.shape[place]:
        raise IndexError(f"index {position} is out of range of dimension {dim} of {describe(x)}")
    return _replaced(SELECT_SCATTER, x, src, (*(slice(None),) * place, position, Ellipsis))


@operator()
@numpy_names
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with ``src`` as the slices ``start:end:step`` along ``dim``.

    Raises:
        RuntimeError: src has not the slices' shape, or step is not positive.

    >>> rg.slice_scatter(rg.zeros(4), rg.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    x = operand(input)
    if not x.array.ndim or step <= 0:
        raise RuntimeError(f"wanted at least 1 dimension and step > 0, got {describe(x)} and step {step}")
    place = dimension(dim, x.array.ndim)
    return _replaced(SLICE_SCATTER, x, src, (*(slice(None),) * place, slice(start, end, step), Ellipsis))


@operator()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with ``src`` as the diagonal (see ``diagonal``).

    Raises:
        RuntimeError: src has not the diagonal's shape.

    >>> rg.diagonal_scatter(rg.zeros(2, 2), rg.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    out = operand(input).clone()
    part, src = diagonal(out, offset, dim1, dim2), operand(src, "src")
    if src.array.shape != part.array.shape:
        raise RuntimeError(f"expected src to have shape {part.array.shape}, the diagonal's, got {describe(src)}")
    part.copy_(src)
    return out


# Reductions of all that is written to one place


@operator(inplace=True, note="amax, amin: the gradient is divided equally among all that equal the extreme value")
@numpy_names
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """As ``scatter``, but all values for one place are reduced, with the input's unless ``include_self`` is False.

    Args:
        input: a Tensor.
        dim: the dimension.
        index: integers, with as many dimensions as the input.
        src: a Tensor of the input's dtype at least as large as the index.
        reduce: ``"sum"``, ``"prod"``, ``"mean"``, ``"amax"`` or ``"amin"``.
        include_self: whether the input's element takes part where something is written.

    Raises:
        RuntimeError: index or src do not fit, an index is out of range, the dtypes differ, or the reduction is unknown.

    >>> rg.scatter_reduce(rg.ones(2), 0, rg.tensor([0, 0, 1]), rg.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([6., 4.])
    """
    x = operand(input)
    place, index = _along("scatter_reduce", x, dim, index)
    src = _source("scatter_reduce", x, src, index)
    if reduce in ("sum", "mean"):
        total = apply(SCATTER_ADD, (x if include_self else apply(ERASE, (x,), {"index": place}), src), {"index": place})
        return total if reduce == "sum" else _divided(total, place, include_self, index)
    primitives = {"prod": SCATTER_PROD, "amax": SCATTER_AMAX, "amin": SCATTER_AMIN}
    if reduce not in primitives:
        raise RuntimeError(f"reduce must be sum, prod, mean, amax or amin, got {reduce!r}")
    return apply(primitives[reduce], (x, src), {"index": place, "include_self": include_self})


def _divided(total: Tensor, place: Index, include_self: bool, index: Tensor) -> Tensor:
    """Sums as means: divided by the number of elements at each place."""
    xp = array_module(total)
    count = xp.full(total.array.shape, 1 if include_self else 0, total.array.dtype)
    add_at(count, place, xp.ones(index.array.shape, total.array.dtype))
    count = xp.maximum(count, 1)
    if total.array.dtype.kind in "iu":
        return new_tensor(total.array // count)
    return total / new_tensor(count)
