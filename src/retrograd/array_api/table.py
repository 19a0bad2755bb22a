"""The standard's functions that NumPy has under the same name and with the same arguments, as a table of signatures.

NumPy's functions accept Tensors, record their derivatives, and promote dtypes as the standard says. Each signature of
the table becomes a Python function of exactly these parameters that calls NumPy's function of that name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import numpy as np

from ..core.arrays.devices import is_array
from ..core.tensor.tensor import Tensor, new_tensor

UNARY = """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan
    log log1p log2 log10 logical_not negative positive real reciprocal sign signbit sin sinh square sqrt tan tanh trunc
"""
BINARY = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
    floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum
    minimum multiply nextafter not_equal pow remainder subtract
"""
_MATRICES = """
    matmul(x1, x2, /)
    matrix_transpose(x, /)
    tensordot(x1, x2, /, *, axes=2)
    vecdot(x1, x2, /, *, axis=-1)
"""
MAIN = f"""
    {" ".join(f"{name}(x, /)" for name in UNARY.split())}
    {" ".join(f"{name}(x1, x2, /)" for name in BINARY.split())}
    {_MATRICES}
    round(x, /)
    tril(x, /, *, k=0)
    triu(x, /, *, k=0)
    broadcast_to(x, /, shape)
    concat(arrays, /, *, axis=0)
    stack(arrays, /, *, axis=0)
    expand_dims(x, /, axis)
    flip(x, /, *, axis=None)
    moveaxis(x, source, destination, /)
    permute_dims(x, /, axes)
    roll(x, /, shift, *, axis=None)
    squeeze(x, /, axis)
    tile(x, repetitions, /)
    take(x, indices, /, *, axis=None)
    take_along_axis(x, indices, /, *, axis=-1)
    argmax(x, /, *, axis=None, keepdims=False)
    argmin(x, /, *, axis=None, keepdims=False)
    count_nonzero(x, /, *, axis=None, keepdims=False)
    nonzero(x, /)
    searchsorted(x1, x2, /, *, side="left", sorter=None)
    isin(x1, x2, /, *, invert=False)
    unique_all(x, /)
    unique_counts(x, /)
    unique_inverse(x, /)
    max(x, /, *, axis=None, keepdims=False)
    mean(x, /, *, axis=None, keepdims=False)
    min(x, /, *, axis=None, keepdims=False)
    prod(x, /, *, axis=None, dtype=None, keepdims=False)
    std(x, /, *, axis=None, correction=0.0, keepdims=False)
    sum(x, /, *, axis=None, dtype=None, keepdims=False)
    var(x, /, *, axis=None, correction=0.0, keepdims=False)
    all(x, /, *, axis=None, keepdims=False, out=None)
    any(x, /, *, axis=None, keepdims=False, out=None)
"""
LINALG = f"""
    {_MATRICES}
    cholesky(x, /, *, upper=False)
    cross(x1, x2, /, *, axis=-1)
    det(x, /)
    diagonal(x, /, *, offset=0)
    eigh(x, /)
    eigvalsh(x, /)
    inv(x, /)
    matrix_norm(x, /, *, keepdims=False, ord="fro")
    matrix_power(x, n, /)
    matrix_rank(x, /, *, rtol=None)
    outer(x1, x2, /)
    pinv(x, /, *, rtol=None)
    qr(x, /, *, mode="reduced")
    slogdet(x, /)
    solve(x1, x2, /)
    svd(x, /, *, full_matrices=True)
    svdvals(x, /)
    trace(x, /, *, offset=0, dtype=None)
    vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
"""
_ONE, _SEVERAL = '(x, /, *, n=None, axis=-1, norm="backward")', '(x, /, *, s=None, axes=None, norm="backward")'
FFT = f"""
    {" ".join(name + _ONE for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))}
    {" ".join(name + _SEVERAL for name in ("fftn", "ifftn", "rfftn", "irfftn"))}
    fftshift(x, /, *, axes=None)
    ifftshift(x, /, *, axes=None)
"""


def as_tensors(value: object) -> Tensor:
    """Replace arrays by Tensors in a NumPy function's result, also in tuples (though annotated as a single Tensor)."""
    converted: object = value
    if isinstance(value, np.generic) or not isinstance(value, Tensor) and is_array(value):
        converted = new_tensor(np.asarray(value) if isinstance(value, np.generic) else value)
    elif isinstance(value, (tuple, list)):
        parts = [as_tensors(part) for part in value]
        converted = type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return cast(Tensor, converted)


def _definition(room: str, name: str, parameters: str) -> str:
    """Return the source text of a function with these parameters that calls ``np.name``."""
    by_position, _, by_name = parameters.partition("/")
    arguments = [part.strip() for part in by_position.split(",") if part.strip()]
    words = [part.split("=")[0].strip() for part in by_name.split(",")]
    arguments += [f"{word}={word}" for word in words if word not in ("", "*")]
    called = f"np.{room}{name}"
    doc = f"The standard's ``{name}``: ``{called}`` on Tensors."
    return f'def {name}({parameters}):\n    """{doc}"""\n    return as_tensors({called}({", ".join(arguments)}))\n'


def functions_of(signatures: str, room: str = "") -> dict[str, Callable[..., Tensor]]:
    """Return the functions of a table of signatures, by name."""
    prefix = f"{room}." if room else ""
    found: dict[str, Callable[..., Tensor]] = {}
    text = "\n".join(
        _definition(prefix, name, parameters) for name, parameters in re.findall(r"(\w+)\(([^)]*)\)", signatures)
    )
    names: dict[str, object] = {"np": np, "as_tensors": as_tensors, "__name__": f"{__package__}.{room}".rstrip(".")}
    exec(compile(text, f"<signatures of {__name__}>", "exec"), names, found)
    return found
