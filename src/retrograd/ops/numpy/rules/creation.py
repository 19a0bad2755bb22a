"""NumPy's ``like=``: ``np.array([t, 1.0], like=t)`` returns a Tensor through which gradients flow to ``t``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._generated import toplevel as ops
from ....core.arrays.devices import backend_of
from ....core.tensor.tensor import Tensor, new_tensor
from ...make.creation import created
from ..arguments import only, tensors


def _array(
    like: Tensor, object: object, dtype: object = None, *, copy: object = True, order: str = "K", subok: bool = False,
    ndmin: int = 0, ndmax: int = 0,
) -> Tensor:  # fmt: skip
    only("array", "ndmax", ndmax, 0, 64)
    x = _asarray(like, object, dtype, copy=copy)
    return ops.reshape(x, (1,) * (ndmin - x.ndim) + tuple(x.shape)) if x.ndim < ndmin else x


def _asarray(
    like: Tensor, a: object, dtype: Any = None, order: object = None, *, device: object = None, copy: Any = None
) -> Tensor:
    if not isinstance(a, (Tensor, list, tuple)):
        a = backend_of(like.array).asarray(np.asarray(a) if np.isscalar(a) else a)
    x = tensors(a)[0]
    x = x if dtype is None else x.astype(dtype, copy=False)
    if isinstance(a, Tensor):
        return ops.clone(x) if copy and x is a else x
    x = ops.clone(x) if copy and x.array is a else x
    return created(x) if copy or isinstance(a, (list, tuple)) else x


def _creation_rule(function: Callable[..., object]) -> Callable[..., Tensor]:
    """Wrap a function of lengths and numbers so that it returns a Tensor on the device of ``like``."""

    def rule(like: Tensor, *args: object, **options: object) -> Tensor:
        return created(new_tensor(backend_of(like.array).asarray(function(*args, **options))))

    return rule


def _full(
    like: Tensor, shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, device: Any = None
) -> Tensor:
    values = _asarray(like, fill_value, dtype)
    return ops.clone(ops.broadcast_to(values, (shape,) if np.ndim(shape) == 0 else tuple(shape)))


# The first argument of these functions is the Tensor passed as like=.
RULES: dict[object, Callable[..., Tensor]] = {
    np.array: _array,
    np.full: _full,
    **dict.fromkeys((np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray), _asarray),
    **{
        f: _creation_rule(f)
        for f in (np.zeros, np.ones, np.empty, np.eye, np.identity, np.arange, np.tri, np.fromfunction)
    },
}
