"""Fourier, cosine and sine transforms of scipy.fft on Tensors.

The module is also a backend of scipy.fft: inside ``with scipy.fft.set_backend(retrograd.scipy.fft):`` SciPy's own
functions accept Tensors. Outside, SciPy's functions do not dispatch on the type of their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .._generated import fft as ours
from .._generated import toplevel as ops
from ..core.arrays import Array
from ..core.graph.primitive import Primitive, apply
from ..core.tensor.tensor import Tensor
from ..ops.numpy.arguments import tensor
from ..ops.table.batching import in_front
from .decorators import ArrayLike, differentiable, floats, has_tensor, other_names, scipys

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftn", "fftshift", "fht", "hfft", "hfft2", "hfftn", "idct",
    "idctn", "idst", "idstn", "ifft", "ifft2", "ifftn", "ifftshift", "ifht", "ihfft", "ihfft2", "ihfftn", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip

__getattr__ = other_names(__name__)

__ua_domain__ = "numpy.scipy.fft"

Axes = int | Sequence[int] | None
Lengths = int | Sequence[int] | None


def __ua_function__(method: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Run a function of scipy.fft while this module is the backend; SciPy handles calls without Tensors."""
    function = globals().get(method.__name__)
    if method.__name__ not in __all__ or function is None or not has_tensor((*args, *kwargs.values())):
        return NotImplemented
    return function(*args, **kwargs)


def _floating(x: ArrayLike) -> Tensor:
    (values,) = floats(x)
    return values.astype(np.float32) if values.array.dtype.char == "e" else values


def _of_axis(name: str) -> Callable[..., Tensor]:
    transform = getattr(ours, name)

    def function(
        x: ArrayLike,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Tensor:
        if n is not None and n < 1:
            raise ValueError(f"invalid number of data points ({n}) specified")
        return transform(_floating(x), n, axis, norm)

    function.__doc__ = f"""Return ``{name}`` along one axis: ``retrograd.fft.{name}`` with SciPy's arguments.

    >>> rg.scipy.fft.{name}(rg.ones(3)).shape
    ({ {"rfft": 2, "ihfft": 2, "irfft": 4, "hfft": 4}.get(name, 3) },)
    """
    function.__name__ = function.__qualname__ = name
    return differentiable("scipy.fft")(function)


def _of_axes(name: str) -> Callable[..., Tensor]:
    transform = getattr(ours, name)
    default = (-2, -1) if name.endswith("2") else None

    def function(
        x: ArrayLike,
        s: Lengths = None,
        axes: Axes = default,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        plan: None = None,
    ) -> Tensor:
        return transform(_floating(x), s, axes, norm)

    last = {"rfft": 2, "ihff": 2, "irff": 4, "hfft": 4}.get(name[:4], 3)
    function.__doc__ = f"""Return ``{name}`` along axes: ``retrograd.fft.{name}`` with SciPy's arguments.

    >>> rg.scipy.fft.{name}(rg.ones(3, 3)).shape
    (3, {last})
    """
    function.__name__ = function.__qualname__ = name
    return differentiable("scipy.fft")(function)


fft, ifft, rfft, irfft, hfft, ihfft = [_of_axis(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")]
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = [
    _of_axes(name) for name in ("fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2")
]
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = [
    _of_axes(name) for name in ("fftn", "ifftn", "rfftn", "irfftn", "hfftn", "ihfftn")
]


@differentiable("scipy.fft")
def fftshift(x: ArrayLike, axes: Axes = None) -> Tensor:
    """Shift the frequency 0 to the middle.

    >>> rg.scipy.fft.fftshift(rg.tensor([0.0, 1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return ours.fftshift(tensor(x), axes)


@differentiable("scipy.fft")
def ifftshift(x: ArrayLike, axes: Axes = None) -> Tensor:
    """Return the inverse of ``fftshift``.

    >>> rg.scipy.fft.ifftshift(rg.tensor([2.0, 0.0, 1.0]))
    tensor([0., 1., 2.])
    """
    return ours.ifftshift(tensor(x), axes)


# Cosine and sine transforms without a norm, along the last axis. The transpose of type 2 is type 3 with the first
# (of sines: the last) element doubled; types 1 and 4 are symmetric up to the weights of the ends of cosine type 1.


def _raw(x: Array, kind: str, form: int) -> Array:
    return getattr(scipys("scipy.fft"), kind)(x, form)


def _end_weights(g: Array, kind: str, form: int) -> Array:
    weights = np.ones(g.shape[-1], g.real.dtype)
    if form == 1 and kind == "dct":
        weights[1:-1] = 2
    elif form in (2, 3):
        weights[0 if kind == "dct" else -1] = 2
    return weights


def _raw_rule(g: Array, kind: str, form: int) -> Array:
    weights = _end_weights(g, kind, form)
    if form == 1:
        return _TRIGONOMETRIC(g / weights, kind=kind, form=1) * weights
    if form == 2:
        return _TRIGONOMETRIC(g * weights, kind=kind, form=3)
    return _TRIGONOMETRIC(g, kind=kind, form=2) / weights if form == 3 else _TRIGONOMETRIC(g, kind=kind, form=4)


_TRIGONOMETRIC = Primitive("scipy.fft.dct", _raw, "x", [_raw_rule], batch=in_front)


def _transformed(
    x: Tensor, kind: str, form: int, n: int | None, axis: int, norm: str | None, orthogonal: bool | None, back: bool
) -> Tensor:
    if form not in (1, 2, 3, 4):
        raise ValueError(f"scipy.fft.{kind}: type must be 1, 2, 3 or 4, got {form}")
    if n is not None and n < 1:
        raise ValueError(f"invalid number of data points ({n}) specified")
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value \'{norm}\', should be "backward", "ortho" or "forward"')
    x = ops.moveaxis(x, axis, -1)
    length = x.shape[-1]
    if n is not None and n < length:
        x = x[..., :n]
    elif n is not None and n > length:
        x = ops.cat([x, x.new_zeros((*x.shape[:-1], n - length))], -1)
    count = x.shape[-1]
    if count < 1 or form == 1 and kind == "dct" and count < 2:
        raise ValueError(f"Invalid number of data points ({count}) specified")
    if back:
        form = {2: 3, 3: 2}.get(form, form)
    root = np.ones(count)
    if form == 1 and kind == "dct":
        root[[0, -1]] = math.sqrt(2)
    elif form in (2, 3):
        root[0 if kind == "dct" else -1] = math.sqrt(2)
    ends = tensor(root.astype(x.array.real.dtype)) if (norm == "ortho" if orthogonal is None else orthogonal) else None
    if ends is not None and (form == 3 or form == 1 and kind == "dct"):
        x = x * ends
    result = apply(_TRIGONOMETRIC, (x,), {"kind": kind, "form": form})
    if ends is not None and (form == 2 or form == 1 and kind == "dct"):
        result = result / ends
    points = 2 * (count + (0 if form != 1 else -1 if kind == "dct" else 1))
    if norm == "ortho":
        result = result / math.sqrt(points)
    elif (norm == "forward") != back:
        result = result / points
    return ops.moveaxis(result, -1, axis)


def _along_axis(kind: str, back: bool) -> Callable[..., Tensor]:
    name = "i" * back + kind

    def function(
        x: ArrayLike,
        type: int = 2,
        n: int | None = None,
        axis: int = -1,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        orthogonalize: bool | None = None,
    ) -> Tensor:
        return _transformed(_floating(x), kind, type, n, axis, norm, orthogonalize, back)

    word = "cosine" if kind == "dct" else "sine"
    function.__doc__ = f"""Return the {"inverse " * back}discrete {word} transform of a type from 1 to 4 along one axis.

    >>> rg.scipy.fft.{name}(rg.ones(3)).shape
    (3,)
    """
    function.__name__ = function.__qualname__ = name
    return differentiable("scipy.fft")(function)


def _along_axes(kind: str, back: bool) -> Callable[..., Tensor]:
    name = "i" * back + kind + "n"

    def function(
        x: ArrayLike,
        type: int = 2,
        s: Lengths = None,
        axes: Axes = None,
        norm: str | None = None,
        overwrite_x: bool = False,
        workers: int | None = None,
        *,
        orthogonalize: bool | None = None,
    ) -> Tensor:
        values = _floating(x)
        lengths = None if s is None else [s] if isinstance(s, int) else list(s)
        if axes is None:
            chosen = list(range(values.ndim)) if lengths is None else list(range(-len(lengths), 0))
        else:
            chosen = [axes] if isinstance(axes, int) else list(axes)
        if lengths is not None and len(lengths) != len(chosen):
            raise ValueError("when given, axes and shape arguments have to be of the same length")
        if len({axis % values.ndim for axis in chosen}) != len(chosen):
            raise ValueError("all axes must be unique")
        for place, axis in enumerate(chosen):
            n = None if lengths is None or lengths[place] == -1 else lengths[place]
            values = _transformed(values, kind, type, n, axis, norm, orthogonalize, back)
        return values

    word = "cosine" if kind == "dct" else "sine"
    function.__doc__ = f"""Return the {"inverse " * back}discrete {word} transform of a type from 1 to 4 along axes.

    >>> rg.scipy.fft.{name}(rg.ones(2, 3)).shape
    (2, 3)
    """
    function.__name__ = function.__qualname__ = name
    return differentiable("scipy.fft")(function)


dct, idct, dst, idst = [_along_axis(kind, back) for kind in ("dct", "dst") for back in (False, True)]
dctn, idctn, dstn, idstn = [_along_axes(kind, back) for kind in ("dct", "dst") for back in (False, True)]


# The fast Hankel transform is a convolution with a kernel, computed as SciPy's transform of an impulse.


def _hankel(name: str, a: ArrayLike, dln: float, mu: float, offset: float, bias: float, back: bool) -> Tensor:
    values = _floating(a)
    n = values.shape[-1]
    place = (np.arange(n) - (n - 1) / 2) * dln
    shifts = (-bias * place, -bias * (place + offset))
    before, after = [np.exp(-shift) for shift in reversed(shifts)] if back else [np.exp(shift) for shift in shifts]
    impulse = np.zeros(n)
    impulse[0] = 1 / before[0]
    kernel = (getattr(scipys("scipy.fft"), name)(impulse, dln, mu, offset, bias) / after)[::-1]
    before, spectrum, after = [
        tensor(x.astype(np.result_type(x.dtype, np.complex64) if x.dtype.kind == "c" else values.array.dtype))
        for x in (before, np.fft.rfft(kernel), after)
    ]
    found = ours.irfft(ours.rfft(values * before) * spectrum, n)
    return (found.flip(-1) * after).astype(values.array.dtype)


@differentiable("scipy.fft")
def fht(a: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Tensor:
    """Return the fast Hankel transform on a logarithmic grid, along the last axis; only ``a`` has a gradient.

    >>> rg.scipy.fft.fht(rg.ones(4), 0.5, 1.0).shape
    (4,)
    """
    return _hankel("fht", a, dln, mu, offset, bias, False)


@differentiable("scipy.fft")
def ifht(A: ArrayLike, dln: float, mu: float, offset: float = 0.0, bias: float = 0.0) -> Tensor:
    """Return the inverse of ``fht``.

    >>> rg.scipy.fft.ifht(rg.ones(4), 0.5, 1.0).shape
    (4,)
    """
    return _hankel("ifht", A, dln, mu, offset, bias, True)
