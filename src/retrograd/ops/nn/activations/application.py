"""Activation functions of arrays and Tensors, and their application with the argument ``inplace``."""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ....core.arrays.dtypes import float32
from ....core.arrays.python_numbers import converted
from ....core.graph.primitive import Primitive, apply, apply1
from ....core.tensor.mutation import REPLACE, apply_inplace, past_hooks
from ....core.tensor.tensor import Tensor
from ....elements.activations import activations
from ....elements.arithmetic import Functions
from ...math.exponential import EXP, SIGMOID, one_plus_exp
from ...math.special.error_function import ERF
from ...math.trigonometric import TANH
from ...table.arguments import floating_operand
from ...table.elementwise_primitives import KEEP, WHERE, select
from ...table.types import Number, Operand


def _drop(x: Array, mask: Array) -> Array:
    return KEEP(x, ~mask)


def _clip(x: Array, low: float, high: float) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _is_one(number: Number) -> bool:
    return number == 1


# The functions of ``elements/activations.py``, for arrays and, in derivative rules, for Tensors.
FUNCTIONS = activations(
    Functions(
        exp=np.exp,
        expm1=np.expm1,
        one_plus_exp=one_plus_exp,
        tanh=np.tanh,
        erf=ERF,
        where=select,
        maximum=np.maximum,
        minimum=np.minimum,
        clip=_clip,
        neutral=_is_one,
    )
)
RULES = activations(
    Functions(
        exp=EXP, tanh=TANH, sigmoid=SIGMOID, erf=ERF, where=WHERE, keep=KEEP, drop=_drop, clip=np.clip, neutral=_is_one
    )
)


def activate(primitive: Primitive, input: Operand, inplace: bool, **params: Number) -> Tensor:
    """Apply an activation primitive to a floating input, out of place or in place.

    For float16 the function is computed in float32, and numeric parameters must be in the range of float32.
    """
    x = floating_operand(input)
    if params:
        dtype = x.array.dtype
        for name, value in params.items():
            if isinstance(value, complex) or not -3e38 < value < 3e38:
                params[name] = converted(value, float32 if dtype.itemsize == 2 else dtype)
        if dtype.char == "e":
            y = apply(primitive, ((past_hooks(x) if inplace else x).astype(float32),), params).astype(dtype)
            return apply_inplace(REPLACE, x, y) if inplace else y
    if inplace:
        return apply_inplace(primitive, x, **params)
    return apply(primitive, (x,), params) if params else apply1(primitive, x)
