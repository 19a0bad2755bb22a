"""The operator harness on the device ``meta``: results have the same shape, dtype and strides as on the CPU."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from ..core.arrays.devices import Device, backend_for
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.table.registry import Operator
from .case import Case
from .comparison import numbers
from .programs import Program, make_tensor, programs

# Operators that read the numbers of their inputs, or whose result has a shape that depends on them, in some calls.
NEED_NUMBERS = frozenset(
    str.split("""
    Tensor.__getitem__ Tensor.cpu Tensor.to Tensor.to_sparse Tensor.to_sparse_csc Tensor.to_sparse_csr allclose argwhere
    bincount equal masked_select nn.functional.one_hot nonzero repeat_interleave
    sparse_coo_tensor sparse_csc_tensor sparse_csr_tensor unique unique_consecutive
    """)
)


def meta_tensor(array: np.ndarray) -> Tensor:
    """Return a Tensor without numbers, of the shape, dtype and memory layout that ``make_tensor`` gives."""
    return new_tensor(backend_for("meta").asarray(np.array(array, copy=True, order="K")))


def check_meta(operator: Operator, case: Case) -> None:
    """On Tensors without numbers, results have the same shape, dtype and strides as on Tensors with numbers.

    An operator that needs the numbers raises NotImplementedError or RuntimeError.
    """
    for program in programs(operator, case):
        with no_grad():
            wanted = numbers(program(*program.inputs(False)))
            try:
                got = numbers(on_meta(program))
            except (NotImplementedError, RuntimeError):
                if operator.qualified_name in NEED_NUMBERS:
                    continue
                raise
        assert len(got) == len(wanted), f"{program}: {len(got)} results on meta, {len(wanted)} with numbers"
        for a, b in zip(got, wanted, strict=True):
            if not isinstance(b, Tensor):
                continue
            assert isinstance(a, Tensor), f"{program}: a {type(a).__name__} on meta, a Tensor with numbers"
            assert a.device.type == "meta", f"{program}: the result is on {a.device}"
            assert a.shape == b.shape, f"{program}: shape {a.shape} on meta, {b.shape} with numbers"
            assert a.dtype is b.dtype, f"{program}: dtype {a.dtype} on meta, {b.dtype} with numbers"
            mine, theirs = strides(a), strides(b)
            assert mine == theirs, f"{program}: strides {mine} on meta, {theirs} with numbers"


def on_meta(program: Program) -> object:
    """Call the operator with meta Tensors in place of all Tensors."""
    program.make = meta_tensor
    creates = not any(isinstance(value, np.ndarray) for value in (*program.call.args, *program.call.kwargs.values()))
    try:
        with Device("meta") if creates else nullcontext():
            return program(*program.inputs(False))
    finally:
        program.make = make_tensor


def strides(x: Tensor) -> list[int]:
    """Return the strides of dimensions along which there is more than one element."""
    if 0 in x.shape:
        return []
    return [step for step, length in zip(x.array.strides, x.array.shape, strict=True) if length > 1]
