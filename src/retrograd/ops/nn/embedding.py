"""Look up rows of a table: embedding, embedding_bag and one_hot."""

from __future__ import annotations

from typing import Any
from warnings import warn

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import all_examples, array_module, backend_of, extent, lie_within
from ...core.arrays.dtypes import FLOATING, DType
from ...core.arrays.unbuffered import ufunc_at
from ...core.errors import InvalidValue, describe
from ...core.graph.modes import modes
from ...core.graph.plan import Values
from ...core.graph.primitive import Primitive, apply, operand
from ...core.source_location import user_level
from ...core.tensor.storage import storage_of
from ...core.tensor.tensor import Tensor, new_tensor
from ..indexing.index_write import INDEX_ADD
from ..indexing.indexing import ACCUMULATE, READ, Index, add_at, read_at
from ..indexing.selection import where
from ..shape.shape import unsqueeze
from ..table.batching import called_per_example, composed
from ..table.elementwise_primitives import KEEP
from ..table.registry import also_named, operator
from ..table.types import Operand


def _embedding_rule(g: Array, index: Index, padding: int | None, by_frequency: bool, x_shape: tuple[int, ...]) -> Array:
    """Add rows of g at their indices, except for the padding; ``by_frequency`` divides by the number of lookups."""
    positions = index.key[0]
    xp = array_module(positions)
    if padding is not None:
        g = KEEP(g, xp.broadcast_to((positions != padding)[..., None], g.shape))
    if by_frequency:
        counts = xp.bincount(positions.reshape(-1), minlength=x_shape[0])
        g = g * (1 / counts[positions])[..., None].astype(g.dtype)
    return ACCUMULATE(g, index=index, shape=x_shape)


def _embedding_composite(x: Tensor, index: Index, padding: int | None, by_frequency: bool) -> Tensor:
    """Look up rows in plain operators whose gradient treats the padding and the frequency like the rule."""
    rows, positions = apply(READ, (x,), {"index": index}), index.key[0]
    if by_frequency:
        counts = array_module(positions).bincount(positions.reshape(-1), minlength=x.array.shape[0])
        share = new_tensor((1 / counts[positions])[..., None].astype(x.array.dtype))
        rows = rows.detach() + (rows - rows.detach()) * share
    return rows if padding is None else where(new_tensor((positions == padding)[..., None]), rows.detach(), rows)


EMBEDDING: Primitive = Primitive(
    "embedding",
    lambda x, index, padding, by_frequency: read_at(x, index),
    "x",
    [_embedding_rule],
    batch=composed(_embedding_composite),
    bfloat16="native",
)


def _add_rows(g: Array, values: Values, total: Array | None) -> Array | None:
    """Add the rows of g to the gradient that a table shared with another layer, such as the last one, already has."""
    index, padding, by_frequency = [values[EMBEDDING.position[name]] for name in ("index", "padding", "by_frequency")]
    if total is None or padding is not None or by_frequency or total.dtype is not g.dtype:
        return None
    add_at(total, index, g)
    return total


EMBEDDING.in_place = _add_rows


def _positions(input: Operand, weight: Tensor, error: type[Exception] = IndexError) -> Tensor:
    index = operand(input)
    if index.array.dtype.kind not in "iu":
        raise RuntimeError(f"expected integers for input, got {describe(index)}")
    if weight.array.ndim != 2:
        raise RuntimeError(f"weight must be 2-D, got {describe(weight)}")
    if backend_of(index.array).name != backend_of(weight.array).name:
        raise RuntimeError(f"input is on {index.device}, weight on {weight.device}")
    if all_examples(index.array).size and not lie_within(index.array, weight.array.shape[0]):
        low, high = extent(index.array)
        if low < 0 or high >= weight.array.shape[0]:
            raise error(f"index {low if low < 0 else high} is out of range for weight {describe(weight)}")
    return index


def _padding(padding_idx: int | None, weight: Tensor) -> int | None:
    rows = weight.array.shape[0]
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise RuntimeError(f"padding_idx {padding_idx} must be within the rows of weight {describe(weight)}")
    return padding_idx + rows * (padding_idx < 0)


def _limit_norms(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale looked-up rows whose norm exceeds the limit, in place and without recording; tangents are not scaled."""
    xp = array_module(weight)
    weight = weight.detach()
    if modes.level is not None:  # indices or rows may differ between examples
        looked_up = (index.reshape(-1, 1) == new_tensor(xp.arange(weight.array.shape[0]))).any(0)
        norms = new_tensor(xp.linalg.norm(weight.array, norm_type, axis=1))
        weight.mul_(where(looked_up & (norms > max_norm), max_norm / (norms + 1e-7), 1.0).unsqueeze(1))
        return
    rows = xp.unique(index.array)
    values = weight.array[rows]
    norms = xp.linalg.norm(values, norm_type, axis=1)
    too_long = norms > max_norm
    if bool(too_long.any()):
        factors = max_norm / (norms[too_long] + 1e-7)
        weight[new_tensor(rows[too_long])] = new_tensor((values[too_long] * factors[:, None]).astype(values.dtype))


@operator(namespace="nn.functional", method=False)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """``weight[input]``: the rows of a table at the given numbers.

    Derivative: weight: for each row, the sum of ``g`` over its positions in the input, 0 for ``padding_idx``; dense.
    Shape: input ``(*)`` and weight ``(V, D)`` to ``(*, D)``.
    Dtype: the weight's; the input holds integers.

    Args:
        input: numbers from 0 to V - 1.
        weight: the table.
        padding_idx: a row that gets no gradient.
        max_norm: looked-up rows with a larger norm are first scaled to this norm, in place.
        norm_type: the order p of that norm.
        scale_grad_by_freq: divide a row's gradient by how often it was looked up.

    Raises:
        IndexError: a number is out of range.
        RuntimeError: the input does not hold integers, weight is not a matrix, or ``padding_idx`` is out of range.

    >>> F.embedding(rg.tensor([1, 0]), rg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    weight = operand(weight, "weight")
    index = _positions(input, weight)
    padding = _padding(padding_idx, weight)
    if max_norm is not None:
        _limit_norms(weight, index, max_norm, norm_type)
    place = Index((index.array,), (storage_of(index),))
    return apply(EMBEDDING, (weight,), {"index": place, "padding": padding, "by_frequency": scale_grad_by_freq})


@operator(namespace="nn.functional", method=False, like=embedding)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """``sum_k weight[input_k]`` over each bag of rows of a table, or their mean or maximum; zeros for an empty bag.

    The older order of arguments, ``embedding_bag(weight, input, ...)``, is accepted with a warning.

    Derivative: weight: as in ``embedding``, where each row of a bag gets ``g``, for the mean divided by the size of the
    bag; for the maximum, the first of a bag's equal elements gets ``g``. per_sample_weights: ``sum(g
    weight[input_k])``.
    Shape: input ``(bags, n)``, or ``(n,)`` divided by ``offsets``, and weight ``(V, D)`` to ``(bags, D)``.
    Dtype: the weight's, real floating; the input holds integers.

    Args:
        offsets: where each bag starts in a vector.
        max_norm, norm_type, scale_grad_by_freq: as in ``embedding``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        per_sample_weights: factors of the rows, of the input's shape, for ``mode="sum"``.
        include_last_offset: whether the last of ``offsets`` is the end of the last bag instead of another start.
        padding_idx: a row that bags leave out.

    Raises:
        ValueError: the mode is unknown, or input, offsets and per_sample_weights do not match in shape.
        NotImplementedError: ``per_sample_weights`` are given with a mode other than sum.
        RuntimeError: a number is out of range, weight is not floating, the input does not hold integers,
            ``per_sample_weights`` have another dtype than weight, or ``offsets`` do not start at 0 or decrease.

    >>> F.embedding_bag(rg.tensor([[0, 1]]), rg.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
    tensor([[4., 6.]])
    """
    input, weight = operand(input), operand(weight, "weight")
    if weight.array.dtype == np.int64 and input.array.dtype.kind in FLOATING:
        warn(
            "embedding_bag: its arguments are now (input, weight, ...), not (weight, input, ...)",
            stacklevel=user_level(),
        )
        input, weight = weight, input
    if weight.array.dtype.kind not in FLOATING:
        raise RuntimeError(f"weight must be floating, got {describe(weight)}")
    if weight.array.ndim != 2:
        raise InvalidValue(f"weight must be 2-D, got {describe(weight)}")
    index = _positions(input, weight, RuntimeError)
    if mode not in ("sum", "mean", "max"):
        raise InvalidValue(f"mode has to be one of sum, mean or max, got {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"per_sample_weights need mode 'sum', got {mode!r}")
    if per_sample_weights is not None and per_sample_weights.shape != index.shape:
        given = describe(per_sample_weights)
        raise InvalidValue(f"per_sample_weights must have the shape of input {describe(index)}, got {given}")
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError(
            f"expected per_sample_weights in {weight.dtype}, as weight, got {describe(per_sample_weights)}"
        )
    positions, factors = index.reshape(-1), per_sample_weights
    if max_norm is not None:  # limits the norm of the row ``padding_idx`` as well, as in PyTorch
        _limit_norms(weight, positions, max_norm, norm_type)
    bag, bags = _bags(index, offsets, include_last_offset)
    padding = _padding(padding_idx, weight)
    if factors is not None:
        factors = factors.reshape(-1)
    kept = bags  # the number of returned bags
    if padding is not None:
        real = positions != padding
        if all_examples(real.array) is not real.array:  # inside vmap an extra bag collects padding
            bag, bags = array_module(weight).where(real.array, bag, bags), bags + 1
        else:
            positions, bag = positions[real], bag[real.array]
            factors = None if factors is None else factors[real]
    rows = embedding(positions, weight, None, None, norm_type, scale_grad_by_freq)
    if factors is not None:
        rows = rows * unsqueeze(factors, -1)
    xp = array_module(weight)
    if mode == "max" and positions.array.size:
        pooled = _maxima(rows, bag, bags)
    else:
        empty = new_tensor(xp.zeros((bags, weight.array.shape[1]), weight.array.dtype))
        pooled = apply(INDEX_ADD, (empty, rows), {"index": Index((bag,))})
        if mode == "mean":
            pooled = pooled / _sizes(new_tensor(bag), bags, weight.array.dtype)
    return pooled if kept == bags else pooled[:kept]


@called_per_example
def _sizes(bag: Tensor, bags: int, dtype: DType) -> Tensor:
    xp = array_module(bag)
    return new_tensor(xp.maximum(xp.bincount(bag.array, minlength=bags), 1).astype(dtype)[:, None])


def _maxima(rows: Tensor, bag: object, bags: int) -> Tensor:
    """Return the maximum of each bag, 0 for an empty bag; the first of equal rows gets the gradient (as in PyTorch)."""
    places = _first_places(rows, new_tensor(bag), bags).array
    filled = places < rows.array.shape[0]
    xp = array_module(places)
    place = Index((xp.where(filled, places, 0), array_module(rows).arange(rows.array.shape[1])))
    return KEEP(apply(READ, (rows,), {"index": place}), filled)


@called_per_example
def _first_places(rows: Tensor, bag: Tensor, bags: int) -> Tensor:
    """Return the first row with the maximum of each bag, by column; the number of rows for an empty bag."""
    x, bag_of = rows.array, bag.array
    xp = array_module(x)
    top = xp.full_like(x, -np.inf, shape=(bags, x.shape[1]))
    ufunc_at("maximum", top, bag_of, x)
    none, places = np.uint64(len(x)), xp.arange(len(x), dtype=np.uint64)[:, None]
    first = xp.full_like(top, none, dtype=np.uint64)
    ufunc_at("minimum", first, bag_of, xp.where((x == top[bag_of]) | (x != x), places, none))
    return new_tensor(first.astype(np.int64))


@called_per_example
def _bag_of(starts: Tensor, length: int) -> Tensor:
    xp = array_module(starts)
    return new_tensor(xp.searchsorted(starts.array, xp.arange(length), side="right") - 1)


def _bags(index: Tensor, offsets: Operand | None, include_last: bool) -> tuple[Any, int]:
    """Return the bag of each element of the flattened input, and the number of bags."""
    xp = array_module(index)
    shape = index.array.shape
    if len(shape) == 2:
        if offsets is not None:
            raise InvalidValue(f"offsets must be None for an input of two dimensions, {describe(index)}")
        return xp.repeat(xp.arange(shape[0]), shape[1]), shape[0]
    if len(shape) != 1 or offsets is None:
        raise InvalidValue(f"expected an input of two dimensions, or a vector and offsets, got {describe(index)}")
    starts = operand(offsets, "offsets").array
    if starts.ndim != 1 or starts.dtype.kind not in "iu":
        raise InvalidValue(f"offsets has to be a vector of integers, got {describe(starts)}")
    if not starts.size and not shape[0] and not include_last:
        return index.array, 0
    rising = starts.size and not bool(all_examples(starts[1:] < starts[:-1]).any())
    if all_examples(starts).size:
        rising = rising and extent(starts[:1]) == (0, 0) and extent(starts[-1:])[1] <= shape[0]
    if not rising:
        raise RuntimeError(
            f"offsets must start at 0, not decrease, and not exceed the input's length, got {describe(index)}"
        )
    if include_last:
        starts = starts[:-1]
    return _bag_of(new_tensor(starts), shape[0]).array, starts.size


@operator(namespace="nn.functional", method=False, differentiable=False, reads_elements=True)
@also_named(input="tensor")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """``1 if k = tensor else 0`` for k from 0 to ``num_classes - 1``, along a new last dimension.

    Shape: ``(*)`` to ``(*, num_classes)``.
    Dtype: integers; the result is int64.

    Args:
        tensor: non-negative integers.
        num_classes: the number of classes, by default the largest number plus 1.

    Raises:
        RuntimeError: a number is negative or not less than ``num_classes``, or the numbers are not integers.

    >>> F.one_hot(rg.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    x = operand(tensor, "tensor")
    array = x.array
    if array.dtype.kind not in "iu":
        raise RuntimeError(f"is only applicable to integers, got {describe(x)}")
    if not array.size and num_classes <= 0:
        raise RuntimeError(f"can not infer the number of classes from {describe(x)}")
    if all_examples(array).size:
        low, high = extent(array)
        if low < 0:
            raise RuntimeError(f"class values must be non-negative, got {low}")
        if num_classes == -1:
            num_classes = int(array.max().item()) + 1  # not ``high``: inside vmap, item() must raise
        elif high >= num_classes:
            raise RuntimeError(f"class values must be smaller than num_classes = {num_classes}, got {high}")
    xp = array_module(array)
    return new_tensor((array[..., None] == xp.arange(num_classes)).astype(xp.int64, order="C"))
