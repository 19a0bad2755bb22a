"""Write LLVM text: functions with nested loops, and operations on elements."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...core.arrays.dtypes import DType

TYPES = {
    "float32": "float", "float64": "double", "bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16",
    "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64",
}  # fmt: skip


def type_of(dtype: DType) -> str:
    """Return the LLVM type of an element in a register."""
    return TYPES[np.dtype(dtype).name]


def constant(value: object, dtype: DType) -> str:
    """Return a number as an LLVM constant."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":  # LLVM writes floats of all types as the bits of a double
        (bits,) = struct.unpack("<Q", struct.pack("<d", float(dtype.type(value))))
        return f"0x{bits:016X}"
    if dtype.kind == "b":
        return "true" if value else "false"
    return str(int(dtype.type(value)))


# Metadata of a loop without vectorization. LLVM 20 with assertions aborts on the cost of vectorized loops with negative
# strides ("VPlan cost model and legacy cost model disagreed").
SCALAR = "!0"
SCALAR_TEXT = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.vectorize.enable", i1 false}\n'


class Body:
    """The text of one function, written from top to bottom."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self._count = 0
        self.current = "begin"  # the basic block
        self._backwards = False  # whether the current loop has negative strides

    def name(self) -> str:
        """Return a new register."""
        self._count += 1
        return f"%t{self._count}"

    def give(self, operation: str) -> str:
        """Append an operation and return the register of its result."""
        name = self.name()
        self.lines.append(f"  {name} = {operation}")
        return name

    def do(self, operation: str) -> None:
        """Append an operation without a result."""
        self.lines.append(f"  {operation}")

    def block(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.current = label

    def loop(self, first: str, last: str, step: int, inner: Callable[[str], None]) -> None:
        """Append ``inner(index)`` for a nonempty ``range(first, last, step)``."""
        self._count += 1
        number, before = self._count, self.current
        index, following = f"%i{number}", f"%n{number}"
        self.do(f"br label %loop{number}")
        self.block(f"loop{number}")
        self.do(f"{index} = phi i64 [ {first}, %{before} ], [ {following}, %end{number} ]")
        self._backwards = False
        inner(index)
        self.do(f"br label %end{number}")
        self.block(f"end{number}")
        self.do(f"{following} = add nuw nsw i64 {index}, {step}")
        again = self.give(f"icmp slt i64 {following}, {last}")
        marked = f", !llvm.loop {SCALAR}" if self._backwards else ""
        self.do(f"br i1 {again}, label %loop{number}, label %done{number}{marked}")
        self.block(f"done{number}")

    def part(self, block: int, length: int) -> tuple[str, str]:
        """Return the range of elements in blocks ``%start`` to ``%stop`` of a thread, limited by ``length``."""
        first = self.give(f"mul nsw i64 %start, {block}")
        end = self.give(f"mul nsw i64 %stop, {block}")
        self.declared.add("declare i64 @llvm.smin.i64(i64, i64)")
        return first, self.give(f"call i64 @llvm.smin.i64(i64 {end}, i64 {length})")

    def nest(self, lengths: Sequence[int], inner: Callable[[list[str]], None]) -> None:
        """Append ``inner(indices)`` for all indices of a shape."""

        def level(indices: list[str]) -> None:
            if len(indices) == len(lengths):
                inner(indices)
            else:
                self.loop("0", str(lengths[len(indices)]), 1, lambda index: level([*indices, index]))

        level([])

    def address(self, pointer: str, indices: Sequence[str], strides: Sequence[int], offset: int = 0) -> str:
        """Return ``pointer + offset + sum(index * stride)``, in bytes."""
        for index, stride in zip(indices, strides, strict=True):
            if stride:
                self._backwards |= stride < 0
                away = self.give(f"mul nsw i64 {index}, {stride}")
                pointer = self.give(f"getelementptr inbounds i8, ptr {pointer}, i64 {away}")
        if offset:
            pointer = self.give(f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}")
        return pointer

    def load(self, pointer: str, dtype: DType) -> str:
        """Return the element at a pointer."""
        if np.dtype(dtype).kind == "b":
            byte = self.give(f"load i8, ptr {pointer}, align 1")
            return self.give(f"icmp ne i8 {byte}, 0")
        return self.give(f"load {type_of(dtype)}, ptr {pointer}, align {np.dtype(dtype).itemsize}")

    def store(self, value: str, pointer: str, dtype: DType) -> None:
        """Write an element to a pointer."""
        if np.dtype(dtype).kind == "b":
            byte = self.give(f"zext i1 {value} to i8")
            self.do(f"store i8 {byte}, ptr {pointer}, align 1")
        else:
            self.do(f"store {type_of(dtype)} {value}, ptr {pointer}, align {np.dtype(dtype).itemsize}")

    def cast(self, value: str, old: DType, new: DType) -> str:
        """Return an element cast to another dtype, as NumPy casts."""
        old, new = np.dtype(old), np.dtype(new)
        a, b = type_of(old), type_of(new)
        if old == new or old.kind in "iu" and new.kind in "iu" and old.itemsize == new.itemsize:
            return value
        if new.kind == "b":
            zero = "fcmp une" if old.kind == "f" else "icmp ne"
            return self.give(f"{zero} {a} {value}, {constant(0, old)}")
        if old.kind == "f" and new.kind == "f":
            return self.give(f"{'fpext' if new.itemsize > old.itemsize else 'fptrunc'} {a} {value} to {b}")
        if new.kind == "f":
            return self.give(f"{'sitofp' if old.kind == 'i' else 'uitofp'} {a} {value} to {b}")
        if old.kind == "f":
            raise TypeError("a cast from float to integer: out-of-range conversion is undefined")
        if new.itemsize < old.itemsize:
            return self.give(f"trunc {a} {value} to {b}")
        return self.give(f"{'sext' if old.kind == 'i' else 'zext'} {a} {value} to {b}")


class Kernel(NamedTuple):
    """A function of pointers: its parameters with attributes, its lines, and its external declarations."""

    parameters: str
    lines: tuple[str, ...]
    declared: tuple[str, ...]
    result: str = "void"


def collapsed(shape: Sequence[int], *strides: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """Merge dimensions of a shape, ordered by falling strides; return the lengths, and the strides of each operand."""
    dims = [d for d in range(len(shape)) if shape[d] != 1]
    dims.sort(key=lambda d: tuple(-abs(s[d]) for s in strides))
    lengths: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d in dims:
        now = [s[d] for s in strides]
        if lengths and all(step[-1] == new * shape[d] for step, new in zip(steps, now, strict=True)):
            lengths[-1] *= shape[d]
            for step, new in zip(steps, now, strict=True):
                step[-1] = new
        else:
            lengths.append(shape[d])
            for step, new in zip(steps, now, strict=True):
                step.append(new)
    return lengths, steps


def broadcast_strides(shape: Sequence[int], strides: Sequence[int], wide: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of an array that is broadcast to a shape."""
    missing = len(wide) - len(shape)
    found = [0] * missing
    for length, stride, wanted in zip(shape, strides, wide[missing:], strict=True):
        if length != wanted and length != 1:
            raise TypeError(f"shape {tuple(shape)} cannot be broadcast to {tuple(wide)}")
        found.append(0 if length == 1 else stride)
    return tuple(found)
