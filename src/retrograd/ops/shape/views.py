"""Views of parts of a Tensor: slices, diagonals, sliding windows, arbitrary strides; and diagonal matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.arrays import Array
from ...core.arrays.devices import all_examples, array_module, backend_of
from ...core.arrays.unbuffered import ufunc_at
from ...core.errors import describe
from ...core.graph.modes import modes, recording
from ...core.graph.primitive import Primitive, apply, operand
from ...core.named_tuples import NamedTuple
from ...core.tensor.storage import byte_span
from ...core.tensor.tensor import Tensor, tensor_method
from ..indexing.indexing import GETITEM
from ..table import batching
from ..table.arguments import dimension, dimensions, integer, integers
from ..table.registry import named_errors, operator
from ..table.types import Size
from .permutation import t, transpose
from .shape import apply_view, flatten, squeeze, unsqueeze

if TYPE_CHECKING:
    from ...core.mapping.batching import Call


def _start(start: int | Tensor) -> int:
    if isinstance(start, Tensor):
        if start.array.ndim or start.array.dtype.kind not in "iu":
            raise RuntimeError(f"start must be a number or a 0-d Tensor of integers, got {describe(start)}")
        return int(start.array)
    return integer(start, "start")


@operator(derivative="in its place", args="input 1-d, start slice")
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """``input[.., start : start + length, ..]``: a view of consecutive slices along a dimension.

    Shape: (*, n, *) to (*, length, *).

    Args:
        length: the number of slices.

    Raises:
        RuntimeError: the slices do not lie within the dimension, the input is 0-d, or ``start`` is not one
            integer.
        IndexError: ``dim`` or ``start`` is out of range.
        TypeError: an argument is not an integer.

    >>> rg.narrow(rg.arange(5), 0, 1, 3)
    tensor([1, 2, 3])
    """
    x = operand(input)
    if not x.array.ndim:
        raise RuntimeError("cannot be applied to a 0-d tensor")
    place = dimension(dim, x.array.ndim)
    first, count = _start(start), integer(length, "length")
    size = x.array.shape[place]
    if not -size <= first <= size:
        raise IndexError(f"start {first} is out of range of dimension {dim} of {describe(x)}")
    first += size * (first < 0)
    if count < 0 or first + count > size:
        raise RuntimeError(f"start ({first}) + length ({count}) does not lie within dimension {dim} of {describe(x)}")
    return apply_view(GETITEM, x, {"index": (*(slice(None),) * place, slice(first, first + count), Ellipsis)})


@operator(derivative="in its place", args="input 1-d")
def select(input: Tensor, dim: int, index: int | Tensor) -> Tensor:
    """``input[.., index, ..]``: a view of one slice along a dimension.

    Shape: (*, n, *) to (*, *).

    Args:
        index: the slice; negative numbers count from the end.

    Raises:
        IndexError: ``dim`` or ``index`` is out of range, or the input is 0-d.

    >>> rg.select(rg.arange(6).reshape(2, 3), 1, 0)
    tensor([0, 3])
    """
    x = operand(input)
    if not x.array.ndim:
        raise IndexError("cannot be applied to a 0-d tensor")
    place = dimension(dim, x.array.ndim)
    position = integer(index, "index")
    if not -x.array.shape[place] <= position < x.array.shape[place]:
        raise IndexError(f"index {position} is out of range of dimension {dim} of {describe(x)}")
    return apply_view(GETITEM, x, {"index": (*(slice(None),) * place, position, Ellipsis)})


# Diagonals


def _diagonal(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    out = x.diagonal(offset, dim1, dim2)
    if getattr(x.flags, "writeable", False) and not out.flags.writeable:
        out.flags.writeable = True  # NumPy returns read-only diagonals for historical reasons.
    return out


def _on_diagonal(x: Array, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Array:
    out = array_module(x).zeros(shape, x.dtype)
    _diagonal(out, offset, dim1, dim2)[...] = x
    return out


def _embed_examples(call: Call) -> Any:
    dims = {name: call.params[name] % len(call.params["shape"]) + 1 for name in ("dim1", "dim2")}
    return call.below([call.full(0)], {**call.params, **dims, "shape": (call.size, *call.params["shape"])})


DIAGONAL: Primitive = Primitive(
    "diagonal",
    _diagonal,
    "x",
    [lambda g, offset, dim1, dim2, x_shape: DIAG_EMBED(g, shape=x_shape, offset=offset, dim1=dim1, dim2=dim2)],
    view=True,
    batch=batching.along("dim1", "dim2"),
)
DIAG_EMBED: Primitive = Primitive(
    "diag_embed",
    _on_diagonal,
    "x",
    [lambda g, offset, dim1, dim2: DIAGONAL(g, offset=offset, dim1=dim1, dim2=dim2)],
    batch=_embed_examples,
)


def _two_dimensions(x: Tensor, dim1: int, dim2: int, ndim: int) -> tuple[int, int]:
    if ndim < 2:
        raise IndexError(f"expected at least 2 dimensions, got {describe(x)}")
    first, second = dimension(dim1, ndim), dimension(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical, got {dim1} and {dim2}")
    return first, second


@operator(raises="dimension", args="input 2-d")
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``out[.., i] = input[.., i, .., i + offset, ..]``: a view of the diagonals of the matrices in two dimensions.

    Derivative: ``g`` on the diagonals, 0 elsewhere.
    Shape: the input's without ``dim1`` and ``dim2``, followed by the length of the diagonal.

    Raises:
        RuntimeError: the two dimensions are the same.

    >>> rg.diagonal(rg.arange(4).reshape(2, 2))
    tensor([0, 3])
    """
    x = operand(input)
    first, second = _two_dimensions(x, dim1, dim2, x.array.ndim)
    place = integer(offset, "offset")
    # NumPy does not check offsets beyond the matrix.
    place = max(-x.array.shape[first], min(place, x.array.shape[second]))
    return apply_view(DIAGONAL, x, {"offset": place, "dim1": first, "dim2": second})


@operator(raises="dimension", args="input 1-d")
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """``out[.., i, i + offset] = input[.., i]``: matrices with the last dimension on their diagonal, else 0.

    Derivative: the diagonal of ``g``.
    Shape: (*, n) to (*, m, m) with ``m = n + |offset|``, of which the last two are moved to ``dim1`` and ``dim2``.

    Args:
        dim1: the dimension of the rows in the result.
        dim2: the dimension of the columns in the result.

    Raises:
        RuntimeError: the two dimensions are the same, or the input is 0-d.

    >>> rg.diag_embed(rg.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    x = operand(input)
    if not x.array.ndim:
        raise RuntimeError("expected at least 1 dimension, got a 0-d tensor")
    first, second = _two_dimensions(x, dim1, dim2, x.array.ndim + 1)
    place = integer(offset, "offset")
    shape = list(x.array.shape[:-1])
    side = x.array.shape[-1] + abs(place)
    for dim in sorted((first, second)):
        shape.insert(dim, side)
    return apply(DIAG_EMBED, (x,), {"shape": tuple(shape), "offset": place, "dim1": first, "dim2": second})


@operator()
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """``out[i] = input[i, i + diagonal]`` of a matrix, copied; for a vector, the matrix with this diagonal.

    Derivative: ``g`` on the diagonal, 0 elsewhere; of a vector the diagonal of ``g``.
    Shape: (m, n) to the diagonal's length; (n,) to (k, k) with ``k = n + |diagonal|``.

    Args:
        input: a vector or a matrix.
        diagonal: the number of the diagonal: > 0 above the main diagonal, < 0 below.

    Raises:
        RuntimeError: the input is neither a vector nor a matrix.

    >>> rg.diag(rg.tensor([1, 2])), rg.diag(rg.tensor([[1, 2], [3, 4]]), 1)
    (tensor([[1, 0],
            [0, 2]]), tensor([2]))
    """
    x = operand(input)
    if x.array.ndim not in (1, 2):
        raise RuntimeError(f"expected 1 or 2 dimensions, got {describe(x)}")
    return diag_embed(x, diagonal) if x.array.ndim == 1 else x.diagonal(diagonal).clone()


@operator()
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """``diag(input.ravel(), offset)``: a matrix with all elements of the input on its diagonal.

    Derivative: the diagonal of ``g``, in the input's shape.
    Shape: any of n elements to (k, k) with ``k = n + |offset|``.

    >>> rg.diagflat(rg.tensor([[1, 2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(flatten(operand(input)), offset)


# Windows


def _strided(x: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """Return a view of x's memory with offset and strides in bytes; read-only if x is."""
    out = backend_of(x).strided(x, offset, shape, strides, x.dtype)
    if not getattr(x.flags, "writeable", True):
        out.flags.writeable = False
    return out


def _windows(x: Array, dim: int, size: int, step: int) -> Array:
    count = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return _strided(x, 0, shape, strides)


def _sum_windows(x: Array, dim: int, size: int, step: int, shape: tuple[int, ...]) -> Array:
    """Sum each element over the windows that contain it, by one addition per position in a window or per window."""
    out = array_module(x).zeros(shape, x.dtype)
    before = (slice(None),) * dim
    count = x.shape[dim]
    if size <= count:
        for place in range(size):
            out[(*before, slice(place, place + step * (count - 1) + 1, step))] += x[..., place]
    else:
        rows = out.swapaxes(dim, -1)
        windows = x.swapaxes(dim, -2)  # (..., window, place)
        for window in range(count):
            rows[..., window * step : window * step + size] += windows[..., window, :]
    return out


UNFOLD: Primitive = Primitive(
    "unfold",
    _windows,
    "x",
    [lambda g, dim, size, step, x_shape: SUM_WINDOWS(g, dim=dim, size=size, step=step, shape=x_shape)],
    view=True,
    batch=batching.along("dim"),
)
SUM_WINDOWS: Primitive = Primitive(
    "unfold_backward",
    _sum_windows,
    "x",
    [lambda g, dim, size, step: UNFOLD(g, dim=dim, size=size, step=step)],
    batch=batching.along("dim", shape="shape"),
)


@operator(namespace="Tensor")
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """``out[.., i, .., j] = self[.., i * step + j, ..]``: a view of all windows along a dimension.

    Derivative: ``g`` at its position, summed where windows overlap.
    Shape: (*, n, *) to (*, (n - size) // step + 1, *, size); () to (size,).

    Args:
        dimension: the dimension; in the result it counts the windows.
        size: the length of a window.
        step: the distance between the starts of consecutive windows.

    Raises:
        RuntimeError: ``size`` exceeds the length, or ``step`` is not positive.
        IndexError: the dimension is out of range.

    >>> rg.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    x = self if self.array.ndim else self.reshape(1)
    (dim,) = dimensions(dimension, x.array.ndim)
    width, stride = integers((size, step), "size, step")
    if width < 0 or width > x.array.shape[dim]:
        raise RuntimeError(f"size {width} must lie between 0 and the length of dimension {dimension} of {describe(x)}")
    if stride <= 0:
        raise RuntimeError(f"step is {stride} but must be > 0")
    if x is not self:
        return x[:width]  # a 0-d Tensor has a single window and no dimension of windows
    return apply_view(UNFOLD, x, {"dim": dim, "size": width, "step": stride})


class Layout(NamedTuple):
    """The layout of an array in a piece of memory, in elements from its start."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int


def _element_offsets(layout: Layout, xp: Any) -> Any:
    places = xp.full((1,) * len(layout.shape), layout.start)
    for axis, (length, stride) in enumerate(zip(layout.shape, layout.strides)):
        places = places + (xp.arange(length) * stride).reshape(
            tuple([-1 if axis == a else 1 for a in range(len(layout.shape))])
        )
    return places


def _move_between_layouts(x: Array, source: Layout, target: Layout, base: Layout, extent: int) -> Array:
    """Add the elements to zeroed memory in the layout ``source`` and return those in the layout ``target``.

    Elements of ``base`` that share a memory location divide the sum there equally.
    """
    xp = array_module(x)
    memory = xp.zeros(extent, x.dtype)
    ufunc_at("add", memory, _element_offsets(source, xp), x)
    places = _element_offsets(base, xp)
    shares = xp.zeros(extent, x.dtype)
    ufunc_at("add", shares, places, xp.ones((), x.dtype))
    return (memory / xp.maximum(shares.real, 1)).astype(x.dtype, copy=False)[_element_offsets(target, xp)]


def _relay_examples(call: Call) -> Any:
    extent, params = call.params["extent"], dict(call.params)
    for name in ("source", "target", "base"):
        params[name] = _with_examples(params[name], call.size, extent)
    return call.below([call.full(0)], {**params, "extent": call.size * extent})


def _with_examples(layout: Layout, size: int, stride: int) -> Layout:
    return Layout((size, *layout.shape), (stride, *layout.strides), layout.start)


def _strided_examples(call: Call) -> Any:
    x, params = call.full(0), dict(call.params)
    stride = x.array.strides[0] // x.array.dtype.itemsize
    for name in ("source", "target", "base"):
        params[name] = _with_examples(params[name], call.size, stride)
    return call.below([x], {**params, "extent": params["extent"] + (call.size - 1) * stride if call.size else 0})


RELAY: Primitive = Primitive(
    "as_strided_backward",
    _move_between_layouts,
    "x",
    [lambda g, source, target, base, extent: RELAY(g, source=target, target=source, base=base, extent=extent)],
    batch=_relay_examples,
)
AS_STRIDED: Primitive = Primitive(
    "as_strided",
    lambda x, source, target, base, extent: _strided(
        x,
        (target.start - base.start) * x.dtype.itemsize,
        target.shape,
        tuple([stride * x.dtype.itemsize for stride in target.strides]),
    ),
    "x",
    [lambda g, source, target, base, extent: RELAY(g, source=target, target=source, base=base, extent=extent)],
    view=True,
    batch=_strided_examples,
)


def _memory_of(array: Array) -> Array:
    owner = array
    while True:
        below = getattr(owner, "base", None) if hasattr(owner, "dtype") else getattr(owner, "owner", None)
        if below is None or not (hasattr(below, "dtype") or hasattr(below, "owner")):
            return owner
        owner = below


@operator(shape="to size")
def as_strided(input: Tensor, size: Size, stride: Size, storage_offset: int | None = None) -> Tensor:
    """``out[i, j, ..] = memory[storage_offset + i * stride[0] + j * stride[1] + ..]``: any view of the input's memory.

    Derivative: ``g`` at its position, summed where elements of the result share memory, and divided among
    elements of the input that share memory.

    Args:
        size: the shape of the view.
        stride: per dimension, how many elements of memory lie between neighbors; not negative.
        storage_offset: the start of the view in memory, in elements; by default the start of the input.

    Raises:
        RuntimeError: the view exceeds the memory of the input, or size and stride differ in length.

    >>> rg.as_strided(rg.arange(5), (3, 2), (1, 2))
    tensor([[0, 2],
            [1, 3],
            [2, 4]])
    """
    x = operand(input)
    array = x.array
    shape, strides = integers((size,)), integers((stride,), "stride")
    if len(shape) != len(strides) or any(number < 0 for number in (*shape, *strides)):
        raise RuntimeError(f"expected one stride per length, and no negative ones, got size {shape} and {strides}")
    if storage_offset is None and not array.size and 0 not in shape:
        raise RuntimeError(f"{describe(x)} has no elements, so its offset is unknown; pass storage_offset")
    backend, itemsize = backend_of(array), array.dtype.itemsize
    memory_start, memory_stop = byte_span(_memory_of(array))
    own_start = (backend.address(array) - memory_start) // itemsize
    start = own_start if storage_offset is None else storage_offset
    last = start + sum((length - 1) * step for length, step in zip(shape, strides))
    extent = (memory_stop - memory_start) // itemsize
    nobody = array.size and not all_examples(array).size  # inside vmap without examples, no memory is accessed
    if start < 0 or 0 not in shape and last >= extent and not nobody:
        raise RuntimeError(
            f"size {shape}, stride {strides} and storage_offset {start} exceed the {extent} elements of "
            f"memory of {describe(x)}"
        )
    base = Layout(array.shape, tuple([step // itemsize for step in array.strides]), own_start)
    target = Layout(shape, strides, start)
    return apply(AS_STRIDED, (x,), {"source": base, "target": target, "base": base, "extent": extent})


# In-place forms of views, which change the shape of a Tensor on the same memory


def _reshaping_method(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        if modes.grad_enabled and self._requires and self._node is None:
            raise RuntimeError("a leaf Tensor that requires grad cannot change its shape in place")
        with recording(self._node is not None):  # the history, if there is one, must record the new shape
            view = function(self, *args, **kwargs)
        for observer in modes.observers:
            observer.became(self, view)
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
    ("as_strided", as_strided),
):
    tensor_method(_reshaping_method(_name + "_", _changed), _name + "_")
