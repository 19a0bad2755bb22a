"""What docstrings of operators say alike: the lines that ``documentation.py`` adds, by short keys and names."""

from __future__ import annotations

SHAPES = {
    "same": "any; the result has the input's shape.",
    "broadcast": "any; the arguments broadcast, and the result has their common shape.",
    "reduced": "any; the result lacks the reduced dimensions, or has length 1 there with ``keepdim``.",
    "reduced dimension": "any; the result lacks the reduced dimension, or has length 1 there with ``keepdim``.",
    "size": "``size``.",
    "points": "``(M,)``.",
    "square": "``(..., n, n)``; the result has the input's shape.",
    "square to number": "``(..., n, n)`` to ``(...)``.",
    "channels": "``(N, C, *)``; the result has the input's shape.",
    "loss": 'input and target broadcast; the result is 0-d, or with reduction ``"none"`` has the common shape.',
    "sequence": "input ``(T, N, features)`` to ``(T, N, directions * H)``.",
}

DTYPES = {
    "same": "any; the result has the input's dtype.",
    "default": "floating, by default the default dtype.",
    "float": "floating; integers become the default dtype.",
    "float or complex": "floating and complex; integers become the default dtype.",
    "float promoted": "floating: PyTorch's result type of all; integers become the default dtype.",
    "promoted": "any; the result has PyTorch's result type of all.",
    "promoted real": "real; the result has PyTorch's result type of all.",
    "not complex": "any but complex; the result has the input's dtype.",
    "floating": "floating; the result has the input's dtype.",
    "real": "real floating; the result has the input's dtype.",
    "real or integer": "real floating and integers; the result has the input's dtype.",
    "number": "floating and integers; the result has the input's dtype.",
    "equal": "any, the same of all arguments; the result has it.",
    "equal real": "real floating, the same of all arguments; the result has it.",
    "equal floating": "floating and complex, the same of all arguments; the result has it.",
    "matrix": "float32, float64 and complex; the result has the input's dtype.",
    "equal matrix": "float32, float64 and complex, the same of all arguments; the result has it.",
    "magnitude": "floating and complex; the result is real.",
    "single or double": "float32 and float64; integers become the default dtype.",
    "promoted integer": "integers and bools; the result has PyTorch's result type of all.",
    "integer sum": "any; integers and bools give int64.",
    "condition": "any, where all but 0 is true; the result is of bools.",
    "tested": "any; the result is of bools.",
    "tested real": "any but complex; the result is of bools.",
    "compared": "compared in PyTorch's result type; the result is of bools.",
    "indices": "any but complex; values keep the input's dtype, indices are int64.",
}

# By the name of an argument; where its annotation and default decide, by these.
ARGUMENTS: dict[str, str | dict[str, str]] = {
    "A": "the matrices.",
    "B": "the right-hand sides.",
    "ceil_mode": "also windows that start inside but end outside of the input.",
    "data": "a number, nested sequences of numbers, an array or a Tensor.",
    "descending": "sort the largest first.",
    "device": "the device, by default the default device.",
    "dim": {
        "": "the dimension.",
        "Dim = -1": "the dimension, by default the last.",
        "Dim | None = None": "the dimension, by default all.",
        "Dims": "a dimension or several.",
        "Dims = ()": "a dimension or several, by default all.",
        "Dims = (-2, -1)": "the dimensions, by default the last two.",
        "Dims | None = None": "a dimension or several, by default all.",
    },
    "dim1": "the dimension of the rows.",
    "dim2": "the dimension of the columns.",
    "dtype": "the dtype, by default the default dtype.",
    "fill_value": "a number, or a Tensor or array that holds one.",
    "generator": "the source of the random numbers, by default the default generator.",
    "inplace": "write the result over the input.",
    "input": "the input Tensor.",
    "keepdim": "keep the reduced dimensions, with length 1.",
    "M": "the number of points.",
    "left": "False solves ``X @ A = B``.",
    "mask": "a Tensor of bools.",
    "memory_format": "taken for compatibility; arrays keep NumPy's layout.",
    "negative_slope": "the slope below 0.",
    "offset": "which diagonal: 0 the main one, > 0 above it, < 0 below it.",
    "other": "the second operand, a Tensor or a number.",
    "reduce": "deprecated form of ``reduction``.",
    "reduction": '``"none"``, ``"mean"`` or ``"sum"``.',
    "requires_grad": "whether gradients with respect to the result are wanted.",
    "size": "the lengths of the dimensions.",
    "size_average": "deprecated form of ``reduction``.",
    "stride": {"Size | None = None": "the distance of windows, by default ``kernel_size``."},
    "tensors": "a list or tuple of Tensors.",
}

# The tokens of raises=, and the refusals that follow from an argument or from a token of dtype=.
REFUSALS = {
    "broadcast": "    RuntimeError: the shapes do not broadcast.",
    "complex": "    NotImplementedError: an input is complex.",
    "convergence": "    LinAlgError: the algorithm did not converge.",
    "dimension": "    IndexError: a dimension is out of range.",
    "dtypes": "    RuntimeError: the shapes or dtypes do not match.",
    "length": "    RuntimeError: a length is negative.",
    "matrix": "    RuntimeError: the input is not a matrix, or not of float32, float64 or complex numbers.",
    "probability": "    ValueError: ``p`` is not between 0 and 1.",
    "scipy": "    RuntimeError: SciPy is not installed.",
    "singular": "    LinAlgError: a matrix is singular.",
    "square": "    RuntimeError: the matrices are not square, or not of float32, float64 or complex numbers.",
    "windows": "    RuntimeError: the rank is wrong, an argument is out of range, or no window fits.",
}
OF_ARGUMENTS = {
    "dim": "    IndexError: ``dim`` is out of range.",
    "dims": "    IndexError: a dimension is out of range.",
    "reduction": "    ValueError: ``reduction`` is not one of the names above.",
}
OF_DTYPES = {
    "real": "    NotImplementedError: the input is not real floating.",
    "not complex": "    NotImplementedError: an input is complex.",
}
