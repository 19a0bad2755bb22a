"""What NumPy's functions mean on Tensors: a table from each to the operator, with NumPy's argument names and defaults.

The operators are looked up when they are called, so the order in which the families are imported does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import Any

import numpy as np

from ...core.devices import is_array
from ...core.primitive import operand
from ...core.tensor import Tensor, new_tensor
from ..table.arguments import dimension
from ..table.registry import OPERATORS


class _Operators:
    """The operator table by attributes: ``ops.exp``, ``linalg.inv``."""

    def __init__(self, namespace: str = "") -> None:
        self._prefix = namespace

    def __getattr__(self, name: str) -> Any:
        entry = OPERATORS.get(self._prefix + name)
        if entry is None:
            raise AttributeError(f"the operator {self._prefix}{name} is not in the table")
        setattr(self, name, entry.function)
        return entry.function


ops, linalg, fft, functional = _Operators(), _Operators("linalg."), _Operators("fft."), _Operators("nn.functional.")


def tensor(value: Any) -> Tensor:
    """An array-like argument (a Tensor, an array, a number, a list of them) as a Tensor."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (list, tuple)):
        return ops.stack([tensor(each) for each in value])
    return operand(value)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    return [tensor(value) for value in values]


def unwrapped(value: Any) -> Any:
    """The arrays inside Tensors, also in lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        return value.array
    if isinstance(value, (list, tuple)):
        return type(value)(unwrapped(each) for each in value)
    if isinstance(value, dict):
        return {key: unwrapped(each) for key, each in value.items()}
    return value


def _wrapped(value: Any) -> Any:
    if is_array(value):
        return new_tensor(value)
    if isinstance(value, np.generic):
        return operand(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_wrapped(each) for each in value)
    return value


def _without_derivative(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result is indices, counts or truth values: computed on the arrays."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        return _wrapped(function(*unwrapped(args), **unwrapped(kwargs)))

    return rule


def _about(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that tells a fact about arrays, in plain Python values."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        return function(*unwrapped(args), **unwrapped(kwargs))

    return rule


# Rules of more than a line


def _only(name: str, argument: str, value: Any, *accepted: Any) -> None:
    if not any(value is each or value == each for each in accepted):
        raise TypeError(f"np.{name} on Tensors: {argument}={value!r} is not supported")


def _axes(x: Tensor, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return tuple(dimension(each, x.ndim) for each in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def _flat(x: Any, axis: int | None) -> tuple[Tensor, int]:
    """The operand and axis of a function that flattens for ``axis=None``."""
    x = tensor(x)
    return (ops.reshape(x, (-1,)), 0) if axis is None else (x, axis)


def _reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Tensor:
    _only("reshape", "order", order, "C", "A")
    result = ops.reshape(tensor(a), shape if shape is not None else newshape)
    return result.clone() if copy else result


def _prod(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    x = tensor(a)
    axes = _axes(x, axis)
    if dtype is not None:
        x = ops.sum(x, (), dtype=dtype) if x.ndim == 0 else x.astype(dtype)
    if x.ndim == 0 or axis is None and not keepdims:
        return ops.prod(x)
    for each in sorted(axes, reverse=True):
        x = ops.prod(x, each, keepdims)
    return x


def _mean(a: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    x = tensor(a)
    if dtype is None and x.dtype.kind in "biu":
        dtype = np.float64
    return ops.mean(x, axis, keepdims, dtype=dtype)


def _average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    x = tensor(a)
    if weights is None:
        average = _mean(x, axis, keepdims=keepdims)
        total = ops.full_like(average, x.array.size / max(1, average.array.size))
    else:
        w = tensor(weights)
        if w.shape != x.shape:
            places = _axes(x, axis)
            w = ops.reshape(w, [length if place in places else 1 for place, length in enumerate(x.shape)])
            w = ops.broadcast_to(w, x.shape)
        total = ops.sum(w, axis, keepdims)
        average = ops.sum(x * w, axis, keepdims) / total
    return (average, total) if returned else average


def _spread_rule(name: str) -> Callable[..., Tensor]:
    def rule(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        x = tensor(a) if dtype is None else tensor(a).astype(dtype)
        if x.dtype.kind in "biu":
            x = x.astype(np.float64)
        degrees = ddof if correction is None else correction
        return getattr(ops, name)(x, axis, correction=degrees, keepdim=keepdims)

    return rule


def _quantile_rule(percent: float, name: str = "quantile") -> Callable[..., Tensor]:
    def rule(
        a: Any,
        q: Any,
        axis: Any = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
    ) -> Tensor:
        x = tensor(a)
        axes = _axes(x, axis)
        kept = [place for place in range(x.ndim) if place not in axes]
        # One last dimension of everything that is reduced.
        flat = ops.reshape(ops.permute(x, (*kept, *axes)), [*(x.shape[place] for place in kept), -1])
        levels = np.asarray(unwrapped(q), flat.dtype) / percent
        result = getattr(ops, name)(flat, operand(levels.astype(flat.dtype)), -1, interpolation=method)
        if keepdims:
            shape = [1 if place in axes else length for place, length in enumerate(x.shape)]
            result = ops.reshape(result, [*levels.shape, *shape])
        return result

    return rule


def _median(
    a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    """NumPy's median is the mean of the two middle elements; PyTorch's the lower one."""
    return _quantile_rule(1)(a, 0.5, axis, keepdims=keepdims)


def _nan_extreme(name: str, fill: float) -> Callable[..., Tensor]:
    def rule(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        x = tensor(a)
        missing = ops.isnan(x)
        result = getattr(ops, name)(ops.where(missing, fill, x), _axes(x, axis), keepdims)
        return ops.where(ops.all(missing, _axes(x, axis), keepdims), np.nan, result)

    return rule


def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    _only("sort", "order", order, None)
    return ops.sort(*_flat(a, axis)).values


def _scan(name: str) -> Callable[..., Tensor]:
    def rule(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        x, dim = _flat(a, axis)
        return getattr(ops, name)(x, dim, dtype=dtype)

    return rule


def _concatenate(arrays: Sequence[Any], /, axis: int | None = 0, *, dtype: Any = None, casting: Any = None) -> Tensor:
    parts = tensors(arrays)
    if axis is None:
        parts, axis = [ops.reshape(part, (-1,)) for part in parts], 0
    joined = ops.cat(parts, axis)
    return joined if dtype is None else joined.astype(dtype)


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x = tensor(ary)
    if np.ndim(indices_or_sections) == 0 and x.shape[axis] % indices_or_sections:
        raise ValueError(f"np.split: {indices_or_sections} sections do not divide the length {x.shape[axis]} evenly")
    return _array_split(x, indices_or_sections, axis)


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    places = indices_or_sections if np.ndim(indices_or_sections) == 0 else tuple(indices_or_sections)
    return list(ops.tensor_split(tensor(ary), places, axis))


def _split_along(name: str) -> Callable[..., list[Tensor]]:
    def rule(ary: Any, indices_or_sections: Any) -> list[Tensor]:
        x = tensor(ary)
        axis = {"vsplit": 0, "hsplit": 1 if x.ndim > 1 else 0, "dsplit": 2}[name]
        return _split(x, indices_or_sections, axis)

    return rule


def _take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Tensor:
    x, dim = _flat(a, axis)
    dim = dimension(dim, x.ndim)
    index = np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
    if mode != "raise":
        length = x.shape[dim]
        index = index % length if mode == "wrap" else np.clip(index, 0, length - 1)
    return x[(slice(None),) * dim + (index,)]


def _delete(arr: Any, obj: Any, axis: int | None = None) -> Tensor:
    x, dim = _flat(arr, axis)
    return _take(x, np.delete(np.arange(x.shape[dim]), unwrapped(obj)), dim)


def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    x = tensor(array)
    if isinstance(pad_width, dict):
        named = {dimension(axis, x.ndim): width for axis, width in pad_width.items()}
        pad_width = [named.get(axis, 0) for axis in range(x.ndim)]
        pad_width = [(width, width) if np.ndim(width) == 0 else width for width in pad_width]
    widths = np.broadcast_to(np.asarray(pad_width, int), (x.ndim, 2)).tolist()
    if mode == "constant":
        if np.ndim(unwrapped(constant_values)) != 0:
            raise TypeError("np.pad on Tensors: wanted one number for constant_values")
        flat = [width for pair in reversed(widths) for width in pair]
        return functional.pad(x, flat, value=constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise TypeError(f"np.pad on Tensors: mode={mode!r} is not supported")
    padding: Any = mode
    for axis, pair in enumerate(widths):
        if pair != [0, 0]:
            x = _take(x, np.pad(np.arange(x.shape[axis]), pair, mode=padding), axis)
    return x


def _transpose(a: Any, axes: Any = None) -> Tensor:
    x = tensor(a)
    return ops.permute(x, tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


def _rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    x = tensor(a)
    axis = dimension(axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    return ops.movedim(x, axis, start - 1 if axis < start else start)


def _squeeze(a: Any, axis: Any = None) -> Tensor:
    x = tensor(a)
    for each in () if axis is None else _axes(x, axis):
        if x.shape[each] != 1:
            raise ValueError(f"np.squeeze: axis {each} of {tuple(x.shape)} does not have length 1")
    return ops.squeeze(x) if axis is None else ops.squeeze(x, _axes(x, axis))


def _expand_dims(a: Any, axis: Any) -> Tensor:
    x = tensor(a)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = x.ndim + len(places)
    new = {dimension(place, ndim) for place in places}
    lengths = iter(x.shape)
    return ops.reshape(x, [1 if place in new else next(lengths) for place in range(ndim)])


def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return ops.nonzero(tensor(condition), as_tuple=True)
    return ops.where(tensor(condition), x, y)


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    return ops.clamp(tensor(a), a_min if min is None else min, a_max if max is None else max)


def _dot(a: Any, b: Any) -> Tensor:
    x, y = tensor(a), tensor(b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if y.ndim <= 2:
        return ops.matmul(x, y)
    return ops.tensordot(x, y, ([-1], [-2]))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    if np.ndim(axes):
        axes = [list(each) if np.ndim(each) else [each] for each in axes]
    return ops.tensordot(tensor(a), tensor(b), axes)


def _cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = ops.movedim(tensor(a), axisa, -1), ops.movedim(tensor(b), axisb, -1)
    return ops.movedim(linalg.cross(*ops.broadcast_tensors(x, y), dim=-1), -1, axisc)


def _gradient(f: Any, *spacings: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x = tensor(f)
    axes = _axes(x, axis)
    given = spacings or (1,)
    if len(given) == 1:
        given = given * len(axes)
    found = [
        ops.gradient(x, spacing=h if np.ndim(h) == 0 else (tensor(h),), dim=place, edge_order=edge_order)[0]
        for h, place in zip(given, axes, strict=True)
    ]
    return found[0] if len(found) == 1 else tuple(found)


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: None = None) -> Tensor:
    _only("interp", "period", period, None)
    x, xp, fp = tensor(x), tensor(xp), tensor(fp)
    place = np.clip(np.searchsorted(xp.array, x.array, side="right"), 1, len(xp) - 1)
    x0, x1, f0, f1 = xp[place - 1], xp[place], fp[place - 1], fp[place]
    weight = ops.clamp((x - x0) / (x1 - x0), 0, 1)
    y = f0 + weight * (f1 - f0)
    y = ops.where(tensor(x.array < xp.array[0]), fp[0] if left is None else left, y)
    return ops.where(tensor(x.array > xp.array[-1]), fp[-1] if right is None else right, y)


def _convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    x, kernel = tensor(a), tensor(v)
    if len(kernel) > len(x):
        x, kernel = kernel, x
    width = len(kernel)
    before = {"full": width - 1, "same": width // 2, "valid": 0}[mode]
    after = {"full": width - 1, "same": width - 1 - width // 2, "valid": 0}[mode]
    windows = functional.pad(x, [before, after]).unfold(0, width, 1)
    return ops.matmul(windows, ops.flip(kernel, (0,)))


def _stacked(name: str) -> Callable[..., Tensor]:
    def rule(tup: Sequence[Any], *, dtype: Any = None, casting: Any = None) -> Tensor:
        joined = getattr(ops, name)(tensors(tup))
        return joined if dtype is None else joined.astype(dtype)

    return rule


def _like(name: str) -> Callable[..., Tensor]:
    def rule(
        a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
    ) -> Any:
        _only(name, "shape", shape, None)
        return getattr(ops, name)(tensor(a), dtype=dtype)

    return rule


def _svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    return linalg.svd(tensor(a), full_matrices) if compute_uv else linalg.svdvals(tensor(a))


def _fourier(name: str) -> Callable[..., Tensor]:
    if name.endswith(("2", "n")):
        default = (-2, -1) if name.endswith("2") else None

        def several(a: Any, s: Any = None, axes: Any = default, norm: Any = None) -> Tensor:
            return getattr(fft, name)(tensor(a), s, axes, norm)

        return several

    def one(a: Any, n: int | None = None, axis: int = -1, norm: Any = None) -> Tensor:
        return getattr(fft, name)(tensor(a), n, axis, norm)

    return one


def _cov(m: Any, y: None = None, rowvar: bool = True, bias: bool = False, ddof: Any = None, **weights: Any) -> Tensor:
    _only("cov", "y", y, None)
    x = tensor(m) if rowvar or tensor(m).ndim < 2 else ops.t(tensor(m))
    return ops.cov(x, correction=(0 if bias else 1) if ddof is None else ddof, **weights)


def _select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = ops.where(tensor(condition), choice, result)
    return result


# The table, by NumPy's names

RULES: dict[str, Callable[..., Any]] = {
    # reductions
    "sum": lambda a, axis=None, dtype=None, keepdims=False: ops.sum(tensor(a), axis, keepdims, dtype=dtype),
    "mean": _mean,
    "average": _average,
    "prod": _prod,
    "amax": lambda a, axis=None, keepdims=False: RULES["max"](a, axis, keepdims),
    "amin": lambda a, axis=None, keepdims=False: RULES["min"](a, axis, keepdims),
    "max": lambda a, axis=None, keepdims=False: ops.amax(tensor(a), () if axis is None else axis, keepdims),
    "min": lambda a, axis=None, keepdims=False: ops.amin(tensor(a), () if axis is None else axis, keepdims),
    "ptp": lambda a, axis=None, keepdims=False: (
        RULES["max"](a, axis, keepdims=keepdims) - RULES["min"](a, axis, keepdims=keepdims)
    ),
    "var": _spread_rule("var"),
    "std": _spread_rule("std"),
    "median": _median,
    "quantile": _quantile_rule(1),
    "percentile": _quantile_rule(100),
    "nanquantile": _quantile_rule(1, "nanquantile"),
    "nanpercentile": _quantile_rule(100, "nanquantile"),
    "nansum": lambda a, axis=None, dtype=None, keepdims=False: ops.nansum(tensor(a), axis, keepdims, dtype=dtype),
    "nanmean": lambda a, axis=None, dtype=None, keepdims=False: ops.nanmean(tensor(a), axis, keepdims, dtype=dtype),
    "nanmax": _nan_extreme("amax", -np.inf),
    "nanmin": _nan_extreme("amin", np.inf),
    "cov": _cov,
    "corrcoef": lambda x, y=None, rowvar=True: ops.corrcoef(tensor(x) if rowvar else ops.t(tensor(x))),
    # scans and sorting
    "cumsum": _scan("cumsum"),
    "cumprod": _scan("cumprod"),
    "sort": _sort,
    "diff": lambda a, n=1, axis=-1, prepend=None, append=None: ops.diff(
        tensor(a), n, axis, *[each if each is None else tensor(each) for each in (prepend, append)]
    ),
    "ediff1d": lambda ary: ops.diff(_flat(ary, None)[0]),
    "gradient": _gradient,
    "trapezoid": lambda y, x=None, dx=1.0, axis=-1: (
        ops.trapezoid(tensor(y), dx=dx, dim=axis) if x is None else ops.trapezoid(tensor(y), tensor(x), dim=axis)
    ),
    "interp": _interp,
    # joining and splitting
    "concatenate": _concatenate,
    "stack": lambda arrays, axis=0: ops.stack(tensors(arrays), axis),
    "vstack": _stacked("vstack"),
    "hstack": _stacked("hstack"),
    "dstack": _stacked("dstack"),
    "column_stack": lambda tup: ops.column_stack(tensors(tup)),
    "append": lambda arr, values, axis=None: _concatenate((arr, values), axis=axis),
    "split": _split,
    "array_split": _array_split,
    "vsplit": _split_along("vsplit"),
    "hsplit": _split_along("hsplit"),
    "dsplit": _split_along("dsplit"),
    "unstack": lambda x, /, *, axis=0: ops.unbind(tensor(x), axis),
    "tile": lambda A, reps: ops.tile(tensor(A), (reps,) if np.ndim(reps) == 0 else tuple(reps)),
    "repeat": lambda a, repeats, axis=None: ops.repeat_interleave(
        *(_flat(a, axis)[0], repeats if np.ndim(repeats) == 0 else tensor(np.asarray(unwrapped(repeats)))),
        _flat(a, axis)[1],
    ),
    # shapes
    "reshape": _reshape,
    "ravel": lambda a, order="C": _reshape(a, (-1,), order),
    "transpose": _transpose,
    "matrix_transpose": lambda x, /: ops.transpose(tensor(x), -2, -1),
    "linalg.matrix_transpose": lambda x, /: ops.transpose(tensor(x), -2, -1),
    "swapaxes": lambda a, axis1, axis2: ops.transpose(tensor(a), axis1, axis2),
    "moveaxis": lambda a, source, destination: ops.movedim(tensor(a), source, destination),
    "rollaxis": _rollaxis,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "broadcast_to": lambda array, shape, subok=False: ops.broadcast_to(
        tensor(array), (shape,) if np.ndim(shape) == 0 else tuple(shape)
    ),
    "broadcast_arrays": lambda *args, subok=False: tuple(ops.broadcast_tensors(*tensors(args))),
    "atleast_1d": lambda *arys: ops.atleast_1d(*tensors(arys)),
    "atleast_2d": lambda *arys: ops.atleast_2d(*tensors(arys)),
    "flip": lambda m, axis=None: ops.flip(tensor(m), _axes(tensor(m), axis)),
    "fliplr": lambda m: ops.fliplr(tensor(m)),
    "flipud": lambda m: ops.flipud(tensor(m)),
    "roll": lambda a, shift, axis=None: ops.roll(tensor(a), shift, axis),
    "rot90": lambda m, k=1, axes=(0, 1): ops.rot90(tensor(m), k, axes),
    "pad": _pad,
    "tril": lambda m, k=0: ops.tril(tensor(m), k),
    "triu": lambda m, k=0: ops.triu(tensor(m), k),
    "diag": lambda v, k=0: ops.diag(tensor(v), k),
    "diagflat": lambda v, k=0: ops.diagflat(tensor(v), k),
    "diagonal": lambda a, offset=0, axis1=0, axis2=1: ops.diagonal(tensor(a), offset, axis1, axis2),
    "meshgrid": lambda *xi, copy=True, sparse=False, indexing="xy": tuple(
        ops.meshgrid(*tensors(xi), indexing=indexing)
    ),
    # selecting
    "where": _where,
    "select": _select,
    "clip": _clip,
    "take": _take,
    "take_along_axis": lambda arr, indices, axis=-1: ops.take_along_dim(tensor(arr), tensor(indices), axis),
    "delete": _delete,
    "compress": lambda condition, a, axis=None: _take(a, np.flatnonzero(unwrapped(condition)), axis),
    "nan_to_num": lambda x, copy=True, nan=0.0, posinf=None, neginf=None: ops.nan_to_num(
        tensor(x), nan, posinf, neginf
    ),
    # products
    "dot": _dot,
    "inner": lambda a, b, /: ops.inner(tensor(a), tensor(b)),
    "outer": lambda a, b: ops.outer(_flat(a, None)[0], _flat(b, None)[0]),
    "vdot": lambda a, b, /: ops.vdot(_flat(a, None)[0], _flat(b, None)[0]),
    "kron": lambda a, b: ops.kron(tensor(a), tensor(b)),
    "tensordot": _tensordot,
    "einsum": lambda subscripts, *operands, optimize=False: ops.einsum(
        subscripts, *(tensors(operands) if isinstance(subscripts, str) else operands)
    ),
    "trace": lambda a, offset=0, axis1=0, axis2=1: ops.sum(ops.diagonal(tensor(a), offset, axis1, axis2), -1),
    "cross": _cross,
    "convolve": _convolve,
    "polyval": lambda p, x: reduce(lambda y, coefficient: y * x + coefficient, list(p), 0),
    # elementwise functions that are no ufuncs
    "real": lambda val: ops.real(tensor(val)),
    "imag": lambda val: ops.imag(tensor(val)),
    "angle": lambda z, deg=False: ops.rad2deg(ops.angle(tensor(z))) if deg else ops.angle(tensor(z)),
    "round": lambda a, decimals=0: ops.round(tensor(a), decimals=decimals),
    "around": lambda a, decimals=0: ops.round(tensor(a), decimals=decimals),
    "fix": lambda x: ops.trunc(tensor(x)),
    "sinc": lambda x: ops.sinc(tensor(x)),
    "i0": lambda x: ops.i0(tensor(x)),
    "copy": lambda a, order="K", subok=False: ops.clone(tensor(a)),
    "astype": lambda x, dtype, /, *, copy=True, device=None: tensor(x).astype(dtype, copy=copy),
    # creation
    "zeros_like": _like("zeros_like"),
    "ones_like": _like("ones_like"),
    "empty_like": _like("empty_like"),
    "full_like": lambda a, fill_value, dtype=None, order="K", subok=True: ops.full_like(
        tensor(a), fill_value, dtype=dtype
    ),
    # linear algebra
    "linalg.norm": lambda x, ord=None, axis=None, keepdims=False: linalg.norm(tensor(x), ord, axis, keepdims),
    "linalg.vector_norm": lambda x, /, *, axis=None, keepdims=False, ord=2: linalg.vector_norm(
        tensor(x), ord, axis, keepdims
    ),
    "linalg.matrix_norm": lambda x, /, *, keepdims=False, ord="fro": linalg.matrix_norm(
        tensor(x), ord, keepdim=keepdims
    ),
    "linalg.inv": lambda a: linalg.inv(tensor(a)),
    "linalg.pinv": lambda a, rcond=None, hermitian=False: linalg.pinv(tensor(a), rtol=rcond, hermitian=hermitian),
    "linalg.det": lambda a: linalg.det(tensor(a)),
    "linalg.slogdet": lambda a: linalg.slogdet(tensor(a)),
    "linalg.solve": lambda a, b: linalg.solve(tensor(a), tensor(b)),
    "linalg.tensorsolve": lambda a, b, axes=None: linalg.tensorsolve(tensor(a), tensor(b), axes),
    "linalg.tensorinv": lambda a, ind=2: linalg.tensorinv(tensor(a), ind),
    "linalg.cholesky": lambda a, /, *, upper=False: linalg.cholesky(tensor(a), upper=upper),
    "linalg.qr": lambda a, mode="reduced": linalg.qr(tensor(a), mode),
    "linalg.svd": _svd,
    "linalg.svdvals": lambda x, /: linalg.svdvals(tensor(x)),
    "linalg.eigh": lambda a, UPLO="L": linalg.eigh(tensor(a), UPLO),
    "linalg.eigvalsh": lambda a, UPLO="L": linalg.eigvalsh(tensor(a), UPLO),
    "linalg.matrix_power": lambda a, n: linalg.matrix_power(tensor(a), n),
    "linalg.multi_dot": lambda arrays: linalg.multi_dot(tensors(arrays)),
    "linalg.cond": lambda x, p=None: linalg.cond(tensor(x), p),
    "linalg.matmul": lambda x1, x2, /: ops.matmul(tensor(x1), tensor(x2)),
    "linalg.outer": lambda x1, x2, /: ops.outer(tensor(x1), tensor(x2)),
    "linalg.trace": lambda x, /, *, offset=0: ops.sum(ops.diagonal(tensor(x), offset, -2, -1), -1),
    "linalg.diagonal": lambda x, /, *, offset=0: ops.diagonal(tensor(x), offset, -2, -1),
    "linalg.vecdot": lambda x1, x2, /, *, axis=-1: linalg.vecdot(tensor(x1), tensor(x2), dim=axis),
    # Fourier transforms
    **{
        f"fft.{name}": _fourier(name)
        for name in [
            "fft",
            "ifft",
            "rfft",
            "irfft",
            "hfft",
            "ihfft",
            "fft2",
            "ifft2",
            "rfft2",
            "irfft2",
            "fftn",
            "ifftn",
            "rfftn",
            "irfftn",
        ]
    },
    "fft.fftshift": lambda x, axes=None: fft.fftshift(tensor(x), axes),
    "fft.ifftshift": lambda x, axes=None: fft.ifftshift(tensor(x), axes),
    # facts
    "shape": lambda a: tensor(a).shape,
    "ndim": lambda a: tensor(a).ndim,
    "size": lambda a, axis=None: tensor(a).array.size if axis is None else tensor(a).shape[axis],
    "array_repr": lambda arr, *_, **__: repr(arr),
    "array_str": lambda a, *_, **__: str(a),
    "array2string": lambda a, *_, **__: str(a),
}


def _over_none(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction for which ``axis=()`` is no dimension, as in NumPy, and not all of them, as in PyTorch."""

    @wraps(rule)
    def over(a: Any, axis: Any = None, *args: Any, **kwargs: Any) -> Any:
        if axis != ():
            return rule(a, axis, *args, **kwargs)
        x = tensor(a)
        return ops.reshape(rule(ops.unsqueeze(x, -1), -1, *args, **kwargs), x.shape)

    return over


for _name in ("sum", "mean", "prod", "max", "min", "amax", "amin", "ptp", "var", "std"):
    RULES[_name] = _over_none(RULES[_name])
for _name in ("nansum", "nanmean", "nanmax", "nanmin"):
    RULES[_name] = _over_none(RULES[_name])

# Results without a derivative: indices, counts, truth.
INDICES = set(
    """all any argmax argmin argsort argwhere nonzero flatnonzero count_nonzero searchsorted digitize bincount isclose
    isin lexsort argpartition nanargmax nanargmin isneginf isposinf iscomplex isreal tril_indices_from
    triu_indices_from""".split()  # noqa: SIM905
)
FACTS = set(
    """allclose array_equal array_equiv iscomplexobj isrealobj result_type can_cast may_share_memory shares_memory
    min_scalar_type common_type linalg.matrix_rank""".split()  # noqa: SIM905
)

_found: dict[Any, Callable[..., Any] | None] = {}


def rule_of(function: Any) -> Callable[..., Any] | None:
    """What a NumPy function means on Tensors, or None where it has no rule."""
    try:
        return _found[function]
    except KeyError:
        pass
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    rule = RULES.get(name)
    if name in INDICES:
        rule = _without_derivative(function)
    elif name in FACTS:
        rule = _about(function)
    elif rule is not None:
        rule.__qualname__ = f"np.{name}"  # errors about arguments name the function
    _found[function] = rule
    return rule
