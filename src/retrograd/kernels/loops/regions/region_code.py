"""The code of a region, which ``region_loops.py`` executes: 64-bit words, one step after the other.

A step begins with its operation and its number of words. An array is a *place*: the number of a buffer, an offset in
bytes, and a stride in bytes for each axis. The buffers are the arrays of the tuple that the region receives; the last
of them is the arena, which begins with ``STATUS`` and memory of the loop.
"""

from __future__ import annotations

AXES = 4  # number of axes of an elementwise step or a copy
LANES = 512  # number of elements in a register
GROUPED = 64  # if the last axis is shorter, a register contains several rows, which are neighbors along the third axis
SHORT_ROW = 16  # shorter rows are loaded and stored together with their neighbors, by one loop
HEADER = 2  # words before the first step: the number of words, and the number of buffers without the code itself

# The words of each step, after the operation and the number of words. A type is FLOAT32 or FLOAT64.
# FLAT: type, slots, conversions, elements, the word where slots begin; constants; slots (buffer, offset); conversions;
# rows as in ``accumulator_code.py``
# MAP: type, slots, conversions, length of the last axis, 3 lengths, group, elements of a block along the last axis,
# places among the slots, loads, stores, the word where slots begin; constants; slots (buffer, offset, strides);
# conversions; loads; stores; rows
# A slot is the address of an operand, of a block of the arena, or of a number. The first slots of a MAP are its places,
# whose addresses follow the loops over its axes; all others stay the same. Constants have the bits of their type.
# Loads and stores move blocks whose elements are not adjacent; without any, a block is the last axis.
# A conversion of a single element, or a load of a block, is an operation of ``fused_steps.py`` and two slots. If the
# last axis is short, a block has all its elements for ``group`` neighbors along the third axis.
# CALL: function, data, arguments, sizes, strides, 3 lengths; sizes; strides; places with 3 axes: a NumPy inner loop
# ADD_UP: lengths; place in float64; place in float32: add the second to the first in double precision
# PRODUCT: type, rows, inner length, columns; buffer, offset, 2 strides; twice buffer, offset, 1 stride
# COPY: bytes of an element, lengths; target; source. FILL: bytes of an element, lengths; bits; target
# CHECK: bytes of an element, bits, buffer, offset: stop unless the element has these bits
# CHECK_FLOAT: type, bits of double precision, buffer, offset: stop unless the element is this number
# SEPARATE: twice buffer, low, high: stop if the ranges of bytes of two buffers overlap
# TAKE, PUT: bytes of an element, indices, 2 lengths, 2 inner lengths; x (buffer, offset, 2 inner strides); part (4
# axes); for each index its bound, x's stride, and a place with 2 axes. ADD_AT has a type instead of the bytes.
# NUMBER: bytes of a float, buffer, offset: stop if the element is NaN
# BEGIN: buffer of the number of repetitions, whether backwards, rows, carries; for each row its buffer and bytes; for
# each carry the buffers that a step reads and writes, a third buffer, whether all its values are stored, and its bytes
# GEMM: type, rows, inner length, columns, method, whether it flushes subnormal numbers, the blocks of the result: their
# number, the minimum number in a part, their length, and the parts per thread; twice buffer, offset, distance of rows,
# whether the matrix is transposed; buffer, offset, distance of rows; the buffer of the pool (an address and a number
# of threads) or -1; the number of blocks per thread up to which each thread computes a single part
# AGAIN: the word of BEGIN: repeat the steps since BEGIN, with the buffers of rows and carries moved to the next step
# RATES: pow, type, and buffer and offset of 7 numbers: Adam's step size and epsilon, step, lr, beta1, beta2, eps
MAP, CALL, ADD_UP, PRODUCT, COPY, FILL, CHECK, CHECK_FLOAT = range(8)
SEPARATE, TAKE, PUT, ADD_AT, RATES, NUMBER, BEGIN, AGAIN, GEMM, FLAT = range(8, 18)
FLOAT32, FLOAT64 = 4, 8  # the numbers of the types are the bytes of an element

MAX_MULTIPLICATIONS = 1 << 13  # maximum multiplications of a PRODUCT; for larger products a GEMM, by BLAS, is faster

# The stores of MAP: write a register to the target, whose elements are not adjacent, or are bytes (0 to 255).
STORE, STORE_BYTE = 64, 65

# Memory at the beginning of the arena, in bytes
STATUS = 0  # 0, or 1 if a check failed
LEFT = 8  # the remaining repetitions of a loop
BUFFERS = 64  # the addresses of buffers
MAX_BUFFERS = 256
ARGUMENTS = BUFFERS + 8 * MAX_BUFFERS  # the addresses that a NumPy loop receives, or the slots of a MAP
MAX_SLOTS = 64
HEAD = ARGUMENTS + 8 * MAX_SLOTS  # end of this memory; the arrays and registers of the arena follow
REGISTER = 8 * LANES + 128  # bytes between registers: no power of two, for which cache lines would conflict
