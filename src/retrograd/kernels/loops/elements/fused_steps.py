"""The bytecode of fused elementwise steps, which ``fused_step_loops.py`` executes on blocks that fit in the cache.

The code is an array of rows ``(operation, out, x, y, z)``. Operands are slot numbers: the first slots are arrays, which
are processed in blocks of a row, the others are registers of ``LANES`` numbers. A condition is a register of ones and
zeros. Many successive operations that an accumulator can execute (``regions/accumulator_code.py``) become one row with
the operation RUN, whose ``out`` is the row where their code begins, behind the row with the operation DONE.
"""

from __future__ import annotations

LANES = 512  # number of elements in a register
AXES = 4  # number of axes of a loop, including the axis that is divided into blocks

# out = x operation y
ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM = range(6)
LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL, AND, OR = range(6, 14)
# out = operation x; the last operation, CHOOSE, is out = y where x is not 0, otherwise out = z
NEGATIVE, SQRT, ABSOLUTE, NOT, COPY, CHOOSE = range(14, 20)
# out = the converted elements of an array
LOAD_FLOAT32, LOAD_FLOAT64, LOAD_BOOL, LOAD_UINT8, LOAD_INT32, LOAD_INT64 = range(20, 26)
# Store x as booleans; add the sum of x to one float64; add x elementwise to an array of float64.
STORE_BOOL, SUM_ROW, SUM_COLUMNS = range(26, 29)
RUN, DONE = 60, 61
# Functions of float32, by the names of loops in ``basic_loops.py``
FUNCTIONS = {
    name: number
    for number, name in enumerate(
        (
            "exp", "tanh", "sigmoid", "log1p_exp", "relu", "erf", "silu", "gelu", "gelu_tanh", "gelu_backward",
            "gelu_tanh_backward", "sigmoid_backward", "silu_backward", "tanh_backward",
        ),
        start=29,
    )
}  # fmt: skip
LOADS = {
    "float32": LOAD_FLOAT32, "float64": LOAD_FLOAT64, "bool": LOAD_BOOL, "uint8": LOAD_UINT8, "int32": LOAD_INT32,
    "int64": LOAD_INT64,
}  # fmt: skip
