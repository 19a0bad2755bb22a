"""The code of elementwise steps for an accumulator, which ``accumulator_loops.py`` executes.

The accumulator is a few vectors of elements. A row of the code is an operation and two slots, whose addresses are in a
table. An operand moves along with the elements, is still (a temporary vector), or is a single number. An operation
combines the accumulator with its operand; ``END`` jumps to the first row, for the next elements.

    LOAD x; MULTIPLY y; ADD z; STORE out; END        out = x * y + z

With the accumulator a and an operand x, of which MOVING, STILL and SINGLE are variants:

    LOAD                                             a = x
    ADD, SUBTRACT, MULTIPLY, DIVIDE                  a = a + x, ...
    MAXIMUM, MINIMUM                                 a = the larger or smaller, or NaN
    SUBTRACT_FROM, DIVIDE_FROM, ...                  a = x - a, ...
    LESS, LESS_EQUAL, ..., AND, OR                   a = 1 if the condition holds, otherwise 0
    NEGATIVE, SQRT, ABSOLUTE, NOT                    a = -a, ...; without an operand
    choosing(x, y)                                   a = y if a is 0, otherwise x
    LOAD_BOOL, STORE_BOOL                            a = 1 where a byte is not 0; write such bytes
    STORE, STORE_STILL                               x = a, for arrays and for temporaries

Addresses of MOVING operands are those of the first element; bytes of conditions move by one for each element.
"""

from __future__ import annotations

from ..elements import fused_steps as steps

WORDS = 3  # number of words in a row: the operation, and two slots
VECTORS = 8  # number of vectors in the accumulator
STILL_BYTES = 8 * 64  # bytes of a temporary vector

MODES = MOVING, STILL, SINGLE = range(3)

# The operations of two numbers are those of ``fused_steps.py``, from ADD to OR, and these, whose first number is the
# operand:
SUBTRACT_FROM, DIVIDE_FROM, MAXIMUM_FROM, MINIMUM_FROM, LOAD = range(steps.OR + 1, steps.OR + 6)
REVERSED = {
    steps.ADD: steps.ADD, steps.MULTIPLY: steps.MULTIPLY, steps.EQUAL: steps.EQUAL, steps.NOT_EQUAL: steps.NOT_EQUAL,
    steps.AND: steps.AND, steps.OR: steps.OR, steps.SUBTRACT: SUBTRACT_FROM, steps.DIVIDE: DIVIDE_FROM,
    steps.MAXIMUM: MAXIMUM_FROM, steps.MINIMUM: MINIMUM_FROM, steps.LESS: steps.GREATER, steps.GREATER: steps.LESS,
    steps.LESS_EQUAL: steps.GREATER_EQUAL, steps.GREATER_EQUAL: steps.LESS_EQUAL,
}  # fmt: skip
END = 0
NEGATIVE, SQRT, ABSOLUTE, NOT, LOAD_BOOL, STORE, STORE_STILL, STORE_BOOL = range(
    1 + 3 * (LOAD + 1), 1 + 3 * (LOAD + 1) + 8
)
UNARY = {steps.NEGATIVE: NEGATIVE, steps.SQRT: SQRT, steps.ABSOLUTE: ABSOLUTE, steps.NOT: NOT}


def with_operand(operation: int, mode: int) -> int:
    """Return the number of an operation of the accumulator and an operand."""
    return 1 + 3 * operation + mode


def choosing(first: int, second: int) -> int:
    """Return the number of the selection between two operands by the accumulator."""
    return STORE_BOOL + 1 + 3 * first + second


def vectors_of(lanes: int) -> list[tuple[int, int]]:
    """Return the pairs (vectors, lanes per vector) for which loops exist, from the most elements to a single one.

    Fewer and shorter vectors process short arrays, and the last elements of long arrays, in few dispatches.
    """
    found = [(VECTORS, lanes), (VECTORS // 2, lanes), (1, lanes), (1, lanes // 4), (1, 1)]
    return [shape for shape in found[:-1] if shape[1] > 1] + found[-1:]
