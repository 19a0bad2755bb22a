"""Making Tensors: from data, filled with a number, or as ranges."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np

from ...core.devices import Device, backend_for, is_array
from ...core.dtypes import DType, get_default_dtype, is_differentiable, scalar_dtype
from ...core.errors import InvalidValue, describe
from ...core.primitive import operand
from ...core.tensor import Tensor, new_tensor, to_array
from ..table.arguments import integer, integers, number
from ..table.registry import operator


def made(make: Callable[[Any], Any], device: str | Device | None = None, requires_grad: bool = False) -> Tensor:
    """A new Tensor on the array that ``make(xp)`` gives on the device."""
    place = None if device is None else Device(device)
    xp = backend_for(place).xp
    try:
        if place is not None and place.index is not None:
            with xp.cuda.Device(place.index):
                array = make(xp)
        else:
            array = make(xp)
    except ValueError as error:
        raise RuntimeError(f"{error}") from None
    return with_grad(new_tensor(array), requires_grad)


def with_grad(x: Tensor, requires_grad: bool) -> Tensor:
    """The new leaf, which needs a gradient if asked for."""
    if requires_grad:
        if not is_differentiable(x.array.dtype):
            raise RuntimeError(f"only floating and complex Tensors can require gradients, not {x.array.dtype}")
        x._requires = True
    return x


def shape_of(size: tuple[Any, ...], keyword: Any = None) -> tuple[int, ...]:
    """A shape given as ``f(2, 3)``, ``f((2, 3))`` or ``f(size=(2, 3))``.

    Raises:
        RuntimeError: a length is negative.
        TypeError: a length is no integer.
    """
    if keyword is not None:
        if size:
            raise TypeError(f"got the size twice, {size} and {keyword}")
        size = (keyword,)
    lengths = integers(size)
    for length in lengths:
        if length < 0:
            raise RuntimeError(f"a size must not be negative, got {lengths}")
    return lengths


def dtype_or_default(dtype: Any) -> DType:
    return get_default_dtype() if dtype is None else np.dtype(dtype)


# From data


@operator(method=False, differentiable=False)
def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new leaf Tensor on a copy of the data: a number, nested sequences of numbers, an array or a Tensor.

    Python floats take the default dtype, ints int64; arrays keep their dtype.

    Raises:
        TypeError: the data are not numbers.
        ValueError: the nested sequences are ragged.
        RuntimeError: a gradient is wanted for integers or bools.

    >>> rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    return with_grad(new_tensor(to_array(data, dtype, device, copy=True)), requires_grad)


@operator(method=False, differentiable=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The data as a Tensor, on the same memory where dtype and device allow it; a Tensor that fits is returned itself.

    >>> array = np.zeros(2)
    >>> rg.as_tensor(array).array is array
    True
    """
    if isinstance(data, Tensor):
        same_dtype = dtype is None or np.dtype(dtype) == data.array.dtype
        if same_dtype and (device is None or _is_on(data, Device(device))):
            return data
        return data.to(device=device, dtype=dtype)
    return new_tensor(to_array(data, dtype, device, copy=False))


def _is_on(x: Tensor, device: Device) -> bool:
    own = x.device
    return own.type == device.type and (device.index is None or own.index == device.index)


@operator(method=False, differentiable=False)
def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """The object as a Tensor: ``copy=True`` never shares memory, ``False`` always, None where it can.

    Raises:
        ValueError: ``copy=False`` and the memory cannot be shared.

    >>> rg.asarray([1, 2])
    tensor([1, 2])
    """
    if copy:
        x = new_tensor(to_array(obj, dtype, device, copy=True))
    else:
        x = as_tensor(obj, dtype, device)
        if copy is False:
            source = obj.array if isinstance(obj, Tensor) else obj
            if not is_array(source) or (x.array is not source and x.array.base is not source):
                raise InvalidValue(f"the memory of {describe(obj)} can't be shared with dtype {dtype}, device {device}")
        if isinstance(obj, Tensor) and requires_grad != obj._requires:
            x = x.detach()
    return with_grad(x, requires_grad) if requires_grad else x


@operator(method=False, differentiable=False)
def from_numpy(array: Any) -> Tensor:
    """A Tensor on the memory of a NumPy array: a write to one is seen in the other.

    Raises:
        TypeError: it is no NumPy array, or not one of numbers.

    >>> rg.from_numpy(np.arange(3))
    tensor([0, 1, 2])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"wanted a numpy.ndarray, got {type(array).__name__}")
    return new_tensor(to_array(array, device="cpu", copy=False))


# Filled


@operator(method=False, differentiable=False)
def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **keywords: Any) -> Tensor:
    """Zeros of the given size: ``zeros(2, 3)`` or ``zeros((2, 3))``.

    Raises:
        RuntimeError: a length is negative.

    >>> rg.zeros(2, 2)
    tensor([[0., 0.],
            [0., 0.]])
    """
    shape = shape_of(size, size_keyword("zeros", keywords))
    return made(lambda xp: xp.zeros(shape, dtype_or_default(dtype)), device, requires_grad)


def size_keyword(name: str, keywords: dict[str, Any]) -> Any:
    """The ``size`` (NumPy: ``shape``) among the keywords; any other is a TypeError."""
    for keyword in keywords:
        if keyword not in ("size", "shape"):
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
    return keywords.get("size", keywords.get("shape"))


@operator(method=False, differentiable=False)
def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **keywords: Any) -> Tensor:
    """Ones of the given size: ``ones(2, 3)`` or ``ones((2, 3))``.

    Raises:
        RuntimeError: a length is negative.

    >>> rg.ones(2, dtype=rg.int64)
    tensor([1, 1])
    """
    shape = shape_of(size, size_keyword("ones", keywords))
    return made(lambda xp: xp.ones(shape, dtype_or_default(dtype)), device, requires_grad)


@operator(method=False, differentiable=False)
def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **keywords: Any) -> Tensor:
    """A Tensor of the given size whose elements are whatever the memory held.

    >>> rg.empty(2, 3).shape
    (2, 3)
    """
    shape = shape_of(size, size_keyword("empty", keywords))
    return made(lambda xp: xp.empty(shape, dtype_or_default(dtype)), device, requires_grad)


@operator(method=False, differentiable=False)
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A Tensor of the given size with every element ``fill_value``, whose dtype it takes by default.

    >>> rg.full((2,), 7)
    tensor([7, 7])
    """
    shape = shape_of((size,))
    fill = _number("full", fill_value)
    kind = scalar_dtype(fill) if dtype is None else np.dtype(dtype)
    return made(lambda xp: xp.full(shape, fill, kind), device, requires_grad)


def _number(name: str, value: Any) -> Any:
    if isinstance(value, Tensor) or is_array(value):
        if value.ndim:
            raise TypeError(f"the fill value must be a number or 0-d Tensor, not {describe(value)}")
        return value.item()
    return number(value, "fill_value")


@operator(method=False, differentiable=False)
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A matrix of n rows and m (by default n) columns with ones on the diagonal and zeros elsewhere.

    >>> rg.eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    rows, columns = shape_of((n, n if m is None else m))
    return made(lambda xp: xp.eye(rows, columns, dtype=dtype_or_default(dtype)), device, requires_grad)


# As another Tensor


def _alike(input: Any, fill: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    x = operand(input)
    kind = x.array.dtype if dtype is None else np.dtype(dtype)
    shape = x.array.shape
    place = x.device if device is None else device
    if fill is None:
        return made(lambda xp: xp.empty(shape, kind), place, requires_grad)
    return made(lambda xp: xp.full(shape, fill, kind), place, requires_grad)


@operator(method=False, differentiable=False)
def zeros_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of ``input``.

    >>> rg.zeros_like(rg.tensor([1, 2]))
    tensor([0, 0])
    """
    return _alike(input, 0, dtype, device, requires_grad)


@operator(method=False, differentiable=False)
def ones_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of the shape, dtype and device of ``input``.

    >>> rg.ones_like(rg.tensor([1.0, 2.0]))
    tensor([1., 1.])
    """
    return _alike(input, 1, dtype, device, requires_grad)


@operator(method=False, differentiable=False)
def empty_like(input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Memory as it comes, of the shape, dtype and device of ``input``.

    >>> rg.empty_like(rg.zeros(2, 3)).shape
    (2, 3)
    """
    return _alike(input, None, dtype, device, requires_grad)


@operator(method=False, differentiable=False)
def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``fill_value`` in the shape, dtype and device of ``input``.

    >>> rg.full_like(rg.zeros(2), 3)
    tensor([3., 3.])
    """
    return _alike(input, _number("full_like", fill_value), dtype, device, requires_grad)


@operator(namespace="Tensor", differentiable=False)
def new_zeros(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **keywords: Any
) -> Tensor:
    """Zeros of the given size with this Tensor's dtype and device.

    >>> rg.ones(1, dtype=rg.int64).new_zeros(2)
    tensor([0, 0])
    """
    return _new("new_zeros", self, size, 0, dtype, device, requires_grad, keywords)


@operator(namespace="Tensor", differentiable=False)
def new_ones(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **keywords: Any
) -> Tensor:
    """Ones of the given size with this Tensor's dtype and device.

    >>> rg.zeros(1).new_ones(2)
    tensor([1., 1.])
    """
    return _new("new_ones", self, size, 1, dtype, device, requires_grad, keywords)


@operator(namespace="Tensor", differentiable=False)
def new_empty(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **keywords: Any
) -> Tensor:
    """Memory as it comes, of the given size with this Tensor's dtype and device.

    >>> rg.zeros(1).new_empty(2, 3).shape
    (2, 3)
    """
    return _new("new_empty", self, size, None, dtype, device, requires_grad, keywords)


@operator(namespace="Tensor", differentiable=False)
def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``fill_value`` in the given size with this Tensor's dtype and device.

    >>> rg.zeros(1).new_full((2,), 3)
    tensor([3., 3.])
    """
    return _new("new_full", self, (size,), _number("new_full", fill_value), dtype, device, requires_grad, {})


def _new(
    name: str,
    x: Tensor,
    size: tuple[Any, ...],
    fill: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    keywords: dict[str, Any],
) -> Tensor:
    shape = shape_of(size, size_keyword(name, keywords))
    kind = x.array.dtype if dtype is None else np.dtype(dtype)
    place = x.device if device is None else device
    if fill is None:
        return made(lambda xp: xp.empty(shape, kind), place, requires_grad)
    return made(lambda xp: xp.full(shape, fill, kind), place, requires_grad)


@operator(namespace="Tensor", name="new_tensor", differentiable=False)
def new_tensor_(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new leaf on a copy of the data, with this Tensor's dtype and device.

    >>> rg.zeros(1).new_tensor([1, 2])
    tensor([1., 2.])
    """
    place = self.device if device is None else device
    array = to_array(data, self.array.dtype if dtype is None else dtype, place, copy=True)
    return with_grad(new_tensor(array), requires_grad)


# Ranges


@operator(method=False, differentiable=False)
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **keywords: Any,
) -> Tensor:
    """``start, start + step, ...`` below ``end``; ``arange(end)`` starts at 0.

    The dtype is int64 for integers, else the default dtype.

    Raises:
        RuntimeError: ``step`` is zero or leads away from ``end``, or a bound is not finite.

    >>> rg.arange(3), rg.arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1. , 1.5]))
    """
    if keywords:  # NumPy's name for the end
        if set(keywords) != {"stop"} or end is not None:
            raise TypeError(f"arange() got unexpected keyword arguments {', '.join(keywords)}")
        end = keywords["stop"]
    if start is None and end is None:
        raise TypeError("missing argument 'end'")
    if start is None or end is None:
        start, end = 0, start if end is None else end
    start, end, step = _number("arange", start), _number("arange", end), _number("arange", step)
    kind = np.dtype(dtype) if dtype is not None else None
    if kind is None:
        kind = (
            np.dtype(np.int64)
            if all(isinstance(v, (int, np.integer)) for v in (start, end, step))
            else get_default_dtype()
        )
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (np.isfinite(start) and np.isfinite(end)):
        raise RuntimeError(f"unsupported range {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"bounds {start}, {end} are inconsistent with the sign of step {step}")
    count = (
        -(-(end - start) // step)
        if isinstance(end - start, int) and isinstance(step, int)
        else ceil((end - start) / step)
    )

    def make(xp: Any) -> Any:
        if kind.kind in "iu":
            return (xp.arange(count, dtype=np.int64) * step + start).astype(kind, copy=False)
        return (xp.arange(count, dtype=np.float64) * step + start).astype(kind)

    return made(make, device, requires_grad)


@operator(method=False, differentiable=False)
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """``steps`` evenly spaced numbers from ``start`` to ``end``, both included.

    Raises:
        RuntimeError: ``steps`` is negative.

    >>> rg.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    (count,) = shape_of((integer(steps, "steps"),))
    first, last = _number("linspace", start), _number("linspace", end)
    return made(lambda xp: xp.linspace(first, last, count).astype(dtype_or_default(dtype)), device, requires_grad)


@operator(method=False, differentiable=False)
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base ** linspace(start, end, steps)``.

    Raises:
        RuntimeError: ``steps`` is negative.

    >>> rg.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    (count,) = shape_of((integer(steps, "steps"),))
    first, last = _number("logspace", start), _number("logspace", end)
    kind = dtype_or_default(dtype)
    return made(lambda xp: (float(base) ** xp.linspace(first, last, count)).astype(kind), device, requires_grad)


@operator(method=False, differentiable=False)
def is_tensor(obj: Any) -> bool:
    """Whether the object is a Tensor.

    >>> rg.is_tensor(rg.zeros(1)), rg.is_tensor(1.0)
    (True, False)
    """
    return isinstance(obj, Tensor)


def _index_grid(row: int, col: int, offset: int, keep: Callable[[Any, Any], Any], dtype: Any, device: Any) -> Tensor:
    shape_of((row, col))
    offset = integer(offset, "offset")

    def make(xp: Any) -> Any:
        kept = keep(xp.arange(col).reshape(1, -1), xp.arange(row).reshape(-1, 1) + offset)
        return xp.stack(xp.nonzero(kept)).astype(np.int64 if dtype is None else np.dtype(dtype))

    return made(make, device)


@operator(method=False, differentiable=False)
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The rows and columns, as a (2, n) Tensor, of the elements on and below diagonal ``offset`` of a matrix.

    >>> rg.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _index_grid(row, col, offset, lambda columns, rows: columns <= rows, dtype, device)


@operator(method=False, differentiable=False)
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The rows and columns, as a (2, n) Tensor, of the elements on and above diagonal ``offset`` of a matrix.

    >>> rg.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _index_grid(row, col, offset, lambda columns, rows: columns >= rows, dtype, device)
