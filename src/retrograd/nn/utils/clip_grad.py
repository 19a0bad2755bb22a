"""Gradient clipping."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING
from ...core.arrays.fp_warnings import silent
from ...core.graph.modes import modes, no_grad
from ...core.graph.primitive import operand
from ...core.opaque_calls import computing, whole
from ...core.tensor.mutation import memory_of_its_own
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels.loops.elements import updates
from ...ops.table.documentation import like

BLOCK = 1 << 16


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [x.grad for x in tensors if x.grad is not None]


def _norm(x: Array, p: float) -> Array:
    xp = array_module(x)
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)  # squares overflow in half precision
    flat = x.reshape(-1)
    if p == 2:
        if flat.size <= BLOCK:
            return xp.sqrt(xp.vdot(flat, flat).real)
        # A dot product over millions of elements is inaccurate, so blocks are summed in double precision.
        blocks = [flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK)]
        squares = xp.stack([xp.vdot(block, block).real for block in blocks])
        return xp.sqrt(squares.sum(dtype=np.float64)).astype(squares.dtype)
    if p == np.inf:
        return abs(flat).max() if flat.size else xp.zeros((), flat.real.dtype)
    if p == 0:
        return (flat != 0).sum().astype(flat.real.dtype)
    return (abs(flat) ** p).sum() ** (1.0 / p)


@whole
@computing("norm")
def _total_norm(arrays: list[Array], p: float) -> Array:
    if p == 2 and updates.takes([[array] for array in arrays], updates.SQUARES, 0):
        return np.asarray(np.sqrt(updates.sum_of_squares(arrays)), arrays[0].dtype)
    xp = array_module(arrays[0])
    if p == 2 and xp is not np and all(x.dtype.kind in FLOATING for x in arrays):
        # A CUDA graph can capture neither vdot, which calls cuBLAS, nor a stack of more than eight arrays.
        dtype = np.result_type(np.float32, *[x.dtype for x in arrays])
        squares = xp.empty(len(arrays), dtype)
        for index, array in enumerate(arrays):
            xp.square(array, dtype=dtype).sum(out=squares[index])
        return xp.sqrt(squares.sum())
    with silent():
        return xp.asarray(_norm(xp.stack([_norm(array, p) for array in arrays]), p))


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the p-norm over all elements of all Tensors, with p = ``norm_type``.

    Args:
        tensors: one Tensor or several, often gradients.
        norm_type: p; may be infinity.
        error_if_nonfinite: raise an error for a norm that is infinite or NaN.
        foreach: ignored; for compatibility.

    Raises:
        RuntimeError: the norm is not finite and ``error_if_nonfinite`` is set.

    >>> rg.nn.utils.get_total_norm([rg.tensor([3.0]), rg.tensor([4.0])])
    tensor(5.)
    """
    arrays = [x.array for x in ([tensors] if isinstance(tensors, Tensor) else tensors)]
    if not arrays:
        return operand(0.0)
    p = float(norm_type)
    xp = array_module(arrays[0])
    total = _total_norm(arrays, p)
    if error_if_nonfinite and not bool(xp.isfinite(total)):
        raise RuntimeError(
            f"the total norm of order {p} of the gradients is {float(total)}, so they cannot be clipped; to scale them "
            "by the norm anyway, pass error_if_nonfinite=False"
        )
    return new_tensor(total)


@like(get_total_norm)
@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply the gradients by ``min(1, max_norm / (total_norm + 1e-6))``, in place.

    Args:
        parameters: Tensors whose ``.grad`` is clipped; Tensors without a gradient are skipped.
        max_norm: the largest norm.
        total_norm: the current norm, from ``get_total_norm``.

    >>> x = rg.tensor([1.0, 1.0], requires_grad=True)
    >>> (x * rg.tensor([3.0, 4.0])).sum().backward()
    >>> rg.nn.utils.clip_grads_with_norm_(x, 0.5, rg.tensor(5.0))
    >>> x.grad
    tensor([0.3, 0.4])
    """
    factor = float(max_norm) / (total_norm.detach() + 1e-6)
    # Always multiply on a GPU, where reading the norm would synchronize, and in compiled programs, which have no
    # branches.
    if not factor.is_cuda and modes.tracer is None and factor.item() >= 1:
        return
    factor = factor.clamp(max=1.0)
    gradients = _gradients(parameters)
    rows = [[memory_of_its_own(gradient)] for gradient in gradients] if modes.tracer is None else []
    if rows and updates.takes(rows, "scaled", 1):
        updates.update("scaled", rows, (), [factor.item()])
        return
    for gradient in gradients:
        gradient.detach().mul_(factor)


@like(clip_grads_with_norm_, get_total_norm, raises="RuntimeError")
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients by one factor, in place, so that their total norm is at most ``max_norm``.

    The factor is ``min(1, max_norm / (norm + 1e-6))`` (Pascanu et al., 2013).

    Args:
        norm_type: the order of the norm; may be infinity.

    Returns:
        The total norm before clipping.

    >>> x = rg.tensor([1.0, 1.0], requires_grad=True)
    >>> (x * rg.tensor([3.0, 4.0])).sum().backward()
    >>> rg.nn.utils.clip_grad_norm_([x], max_norm=1.0)
    tensor(5.)
    >>> x.grad
    tensor([0.6, 0.8])
    """
    tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    total = get_total_norm(_gradients(tensors), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(tensors, max_norm, total)
    return total


@like(clip_grads_with_norm_, get_total_norm)
@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of the gradients to ``[-clip_value, clip_value]``, in place.

    Args:
        clip_value: the largest absolute value of an element.

    >>> x = rg.tensor([1.0, 1.0], requires_grad=True)
    >>> (x * rg.tensor([3.0, -4.0])).sum().backward()
    >>> rg.nn.utils.clip_grad_value_(x, 2.0)
    >>> x.grad
    tensor([ 2., -2.])
    """
    bound = float(clip_value)
    for gradient in _gradients(parameters):
        gradient.detach().clamp_(-bound, bound)
