"""The code of elementwise steps, read from the LLVM text of their operations, so that both compute the same."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ....kernels.loops.elements import fused_steps as at
from ....kernels.loops.regions import accumulator_code, region_code
from ...passes.accumulators import accumulated, slots_of, with_extremes
from ...passes.fused_code import Code
from ..emission import TYPES, Body, collapsed
from ..region_steps import Map, Place, Unlowered

_BINARY = {"fadd": at.ADD, "fsub": at.SUBTRACT, "fmul": at.MULTIPLY, "fdiv": at.DIVIDE}
_COMPARISONS = {
    "olt": at.LESS, "ole": at.LESS_EQUAL, "ogt": at.GREATER, "oge": at.GREATER_EQUAL, "oeq": at.EQUAL,
    "une": at.NOT_EQUAL,
}  # fmt: skip
_LOGICAL = {"and": at.AND, "or": at.OR, "xor": at.NOT_EQUAL}
_BYTES = "256"  # the number of values of a byte
_CALLS = {"sqrt": at.SQRT, "fabs": at.ABSOLUTE}
# The dtypes in which operations compute, by their type in LLVM. Bytes are exact in float32.
_DTYPES: dict[str, np.dtype] = {
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
    "i8": np.dtype(np.float32),
}
# The elementwise functions of floating dtypes that have code; NumPy's inner loops compute all others.
SUPPORTED = {
    "add", "subtract", "multiply", "divide", "negative", "reciprocal", "square", "sqrt", "absolute", "fabs", "maximum",
    "minimum", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or",
    "logical_not", "isnan", "positive",
}  # fmt: skip

_OPERATION = re.compile(r"\s*(%\w+) = (\w+) (.*)")
_CAST = re.compile(r"(\w+) (\S+) to (\w+)")
_CALL = re.compile(r"\w+ @llvm\.(\w+)\.f\d+\(\w+ (\S+)\)")


class Slot(NamedTuple):
    """The location of a slot's elements."""

    kind: str  # "operand", "register" (a block of elements), "temporary", "number" (of the region), "constant"
    number: int = 0
    constant: float = 0.0


class MapCode(NamedTuple):
    """The code of an elementwise step; without ``rows`` the step copies its operand or a constant."""

    dtype: np.dtype
    lengths: list[int]
    strides: list[list[int]]  # strides of the target and of the operands
    rows: list[list[int]]  # the accumulator's code
    slots: list[Slot] = []
    once: list[list[int]] = []  # conversions of single elements: operation, target, operand
    loads: list[list[int]] = []  # loads of blocks that are not adjacent in memory: operation, target, operand
    stores: list[list[int]] = []  # stores of registers: operation, target, register
    group: int = 1
    constant: str = ""


def padded(values: Sequence[int], filler: int, length: int = region_code.AXES) -> list[int]:
    """Pad the values at the front with ``filler`` to ``length``.

    Raises:
        Unlowered: there are more than ``length`` values.
    """
    if len(values) > length:
        raise Unlowered(f"more than {length} axes")
    return [*[filler] * (length - len(values)), *values]


def number_of(text: str) -> float:
    """Return the value of an LLVM constant."""
    if text.startswith("0x"):
        (value,) = struct.unpack("<d", struct.pack("<Q", int(text, 16)))
        return float(value)
    return float(text == "true") if text in ("true", "false") else float(text)


def map_code(step: Map) -> MapCode:
    """Return the code of an elementwise step.

    Raises:
        Unlowered: the step has an operation without code.
    """
    out, *inputs = step.operands
    lengths, strides = collapsed(out.shape, *[place.strides for place in step.operands])
    shape, steps = padded(lengths or [1], 1), [padded(s or [0], 0) for s in strides]
    body = Body()
    made: list[str] = []
    for node in step.nodes:
        takes = [t if isinstance(t, str) else f"%x{t - 1}" if t > 0 else made[-t - 1] for t in node.takes]
        made.append(node.emit(body, takes))
    if not body.lines:
        if made[-1].startswith("%x") and inputs[int(made[-1][2:])].dtype == out.dtype:
            return MapCode(out.dtype, shape, steps, [])
        if not made[-1].startswith("%"):
            return MapCode(out.dtype, shape, steps, [], constant=made[-1])
    return _Reader(body.lines, out, inputs, steps, shape).code(made[-1])


class _Reader:
    """Reads LLVM text of scalar operations as rows."""

    def __init__(
        self, lines: Sequence[str], out: Place, inputs: Sequence[Place], strides: list[list[int]], lengths: list[int]
    ) -> None:
        self.out, self.inputs, self.strides, self.lengths = out, inputs, strides, lengths
        self.lines = [self._parsed(line) for line in lines]
        types = {words.split()[0 if name != "fcmp" else 1] for _, name, words in self.lines if name in _ARITHMETIC}
        types = {kind for kind in types if kind in _DTYPES} or {TYPES[out.dtype.name]}
        if len(types) != 1 or not types <= _DTYPES.keys() or types == {"i8"} and out.dtype != np.uint8:
            raise Unlowered(f"operations of {', '.join(sorted(types))}")
        (self.type,) = types
        self.dtype = _DTYPES[self.type]
        self.stored = out.dtype if self.type == "i8" else self.dtype  # the dtype of operands and result
        constants = re.findall(r"(?<![%\w.])(0x[0-9A-F]{16}|true|false|-?\d+(?:\.\d+)?)(?!\w)", "\n".join(lines))
        constants += [_BYTES] * (self.type == "i8")
        self.numbers = {text: number for number, text in enumerate(dict.fromkeys(constants))}
        self.rows = Code(1 + len(inputs), len(self.numbers))
        self.group = 1
        if lengths[-1] < region_code.GROUPED:
            self.group = max(1, min(region_code.LANES // lengths[-1], lengths[-2]))
        self.once: list[list[int]] = []
        self.loads: list[list[int]] = []
        self.slots: dict[str, int] = {}

    @staticmethod
    def _parsed(line: str) -> tuple[str, str, str]:
        found = _OPERATION.fullmatch(line)
        if found is None:
            raise Unlowered(line.strip())
        return found[1], found[2], found[3]

    def code(self, result: str) -> MapCode:
        for name, operation, words in self.lines:
            self.slots[name] = self._row(operation, words)
        slot, stores, kept = self.slot(result), list[list[int]](), {0}
        if self.out.dtype not in (np.bool_, self.stored):
            raise Unlowered(f"{self.dtype} to {self.out.dtype}")
        byte = self.out.dtype.itemsize == 1
        if not self._adjacent(0) or self.stored == np.uint8:
            made = any(row[1] == slot for row in self.rows.rows)
            block = slot if made else self.rows.do(at.COPY, None, slot)
            stores, kept = [[region_code.STORE_BYTE if byte else region_code.STORE, 0, block]], {block}
        elif byte:
            self.rows.do(at.STORE_BOOL, 0, slot)
        elif self.rows.rows and self.rows.rows[-1][1] == slot:
            self.rows.rows[-1][1] = 0
        else:
            self.rows.do(at.COPY, 0, slot)
        blocks = {row[1] for row in self.loads} | {row[2] for row in stores}
        single = {row[1] for row in self.once}

        def mode(slot: int) -> int:
            if slot < self.rows.fixed:
                return accumulator_code.MOVING if self._adjacent(slot) else accumulator_code.SINGLE
            if slot < self.rows.free or slot in single:
                return accumulator_code.SINGLE
            return accumulator_code.MOVING if slot in blocks else accumulator_code.STILL

        rows = accumulated(with_extremes(self.rows.rows), mode, kept)
        places = {slot: slot for slot in range(self.rows.fixed)}
        slots = [Slot("operand", slot) for slot in places]
        constants = list(map(number_of, self.numbers))
        for slot in dict.fromkeys(
            [*blocks, *sorted(single), *[slot for row in rows for slot in slots_of(row) if slot >= self.rows.fixed]]
        ):
            places[slot] = len(slots)
            if slot < self.rows.free:
                slots.append(Slot("constant", constant=constants[slot - self.rows.fixed]))
            else:
                kind = "register" if slot in blocks else "number" if slot in single else "temporary"
                slots.append(Slot(kind, sum(other.kind == kind for other in slots)))
        if len(slots) > region_code.MAX_SLOTS:
            raise Unlowered("an elementwise step of many operations")
        rows = [[row[0], *[places[slot] for slot in slots_of(row)]] for row in rows]
        rows = [[*row, *[0] * (accumulator_code.WORDS - len(row))] for row in rows]
        once, loads, stores = [
            [[operation, *map(places.__getitem__, given)] for operation, *given in some]
            for some in (self.once, self.loads, stores)
        ]
        return MapCode(self.dtype, self.lengths, self.strides, rows, slots, once, loads, stores, self.group)

    def slot(self, name: str) -> int:
        """Return the slot of a register of the text, a constant or an operand, loaded if necessary."""
        name = name.rstrip(",")
        if name in self.slots:
            return self.slots[name]
        if name in self.numbers:
            return self.rows.fixed + self.numbers[name]
        if not name.startswith("%x"):
            raise Unlowered(name)
        place = self.inputs[int(name[2:])]
        if place.dtype not in (self.stored, np.bool_):
            raise Unlowered(f"operations of {place.dtype}")
        self.slots[name] = self._operand(name)
        return self.slots[name]

    def _operand(self, name: str) -> int:
        """Return the slot of an operand, converted to the dtype of the step."""
        number = int(name[2:]) + 1
        place = self.inputs[number - 1]
        single = not any(self.strides[number]) or self.group == 1 and not self.strides[number][-1]
        if place.dtype == self.dtype and (single or self._adjacent(number)):
            return number
        load = at.LOADS.get(place.dtype.name)
        if load is None:
            raise Unlowered(f"an operand of {place.dtype}")
        if place.dtype == np.bool_ and self._adjacent(number):
            return self.rows.do(at.LOAD_BOOL, None, number)
        slot = self.rows.new()
        (self.loads if any(self.strides[number]) else self.once).append([load, slot, number])
        return slot

    def _adjacent(self, number: int) -> bool:
        """Return whether the elements for a block are adjacent in memory."""
        outer, inner = self.strides[number][-2:]
        size = (self.inputs[number - 1] if number else self.out).dtype.itemsize
        return self.lengths[-1] == 1 or inner == size and (self.group == 1 or outer == inner * self.lengths[-1])

    def _row(self, operation: str, words: str) -> int:
        kind, _, rest = words.partition(" ")
        given = rest.split(", ")
        if operation in _BINARY and kind == self.type:
            return self.rows.do(_BINARY[operation], None, *map(self.slot, given))
        if operation == "add" and kind == self.type == "i8":  # a sum of bytes wraps around
            total, end = self.rows.do(at.ADD, None, *map(self.slot, given)), self.slot(_BYTES)
            over = self.rows.do(at.MULTIPLY, None, self.rows.do(at.GREATER_EQUAL, None, total, end), end)
            return self.rows.do(at.SUBTRACT, None, total, over)
        if operation == "fneg":
            return self.rows.do(at.NEGATIVE, None, self.slot(rest))
        if operation == "fcmp":
            given = rest.partition(" ")[2].split(", ")
            if kind == "uno" and given[0] == given[1]:
                return self.rows.do(at.NOT_EQUAL, None, *map(self.slot, given))
            if kind in _COMPARISONS:
                return self.rows.do(_COMPARISONS[kind], None, *map(self.slot, given))
        if operation == "select":
            return self.rows.do(at.CHOOSE, None, *[self.slot(word.split()[1]) for word in words.split(", ")])
        if operation in _LOGICAL and kind == "i1":
            if given[1] == "true" and operation == "xor":
                return self.rows.do(at.NOT, None, self.slot(given[0]))
            return self.rows.do(_LOGICAL[operation], None, *map(self.slot, given))
        if operation == "call" and (called := _CALL.fullmatch(words)) and called[1] in _CALLS:
            return self.rows.do(_CALLS[called[1]], None, self.slot(called[2]))
        if cast := _CAST.fullmatch(words):
            return self._cast(*cast.groups())
        raise Unlowered(f"no code for {operation} of {kind}")

    def _cast(self, old: str, name: str, new: str) -> int:
        if new == self.type:
            if name.startswith("%x"):
                return self._operand(name)
            if old == "i1":  # a condition is a register of ones and zeros
                return self.slot(name)
        raise Unlowered(f"{old} to {new}")


_ARITHMETIC = {*_BINARY, "add", "fneg", "fcmp", "call", "select"}
