"""The execution of elementwise code by an accumulator in vector registers, defined in ``accumulator_code.py``.

One dispatch of an operation computes eight vectors, which stay in registers until the code stores them: a chain of
operations reads its operands once and writes its result once, as code compiled for the chain does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...tiles.vector_width import width
from ..elements import fused_steps as steps
from . import accumulator_code as at

Case = Callable[[Sequence[ir.Value]], list[ir.Value] | None]
_WORD, _BYTE = ir.IntType(64), ir.IntType(8)
_ARITHMETIC = {
    steps.ADD: "fadd", steps.SUBTRACT: "fsub", steps.MULTIPLY: "fmul", steps.DIVIDE: "fdiv", steps.AND: "fmul",
}  # fmt: skip
_COMPARISONS = {
    steps.LESS: "<", steps.LESS_EQUAL: "<=", steps.GREATER: ">", steps.GREATER_EQUAL: ">=", steps.EQUAL: "==",
}  # fmt: skip
_BACKWARDS = {
    at.SUBTRACT_FROM: steps.SUBTRACT, at.DIVIDE_FROM: steps.DIVIDE, at.MAXIMUM_FROM: steps.MAXIMUM,
    at.MINIMUM_FROM: steps.MINIMUM,
}  # fmt: skip


@intrinsic
def word_at(typing_context: object, address: object) -> object:
    """Return the word at an address."""

    def generate(context: object, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]) -> object:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def set_word(typing_context: object, address: object, value: object) -> object:
    """Write the word at an address."""

    def generate(context: Any, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]) -> object:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


class _Loop:
    """Generates a loop that executes the code for a number of vectors at a time."""

    def __init__(self, builder: ir.IRBuilder, real: ir.Type, vectors: int, lanes: int) -> None:
        self.builder, self.real, self.vectors, self.lanes = builder, real, vectors, lanes
        self.size = 4 if isinstance(real, ir.FloatType) else 8
        self.kind = real if lanes == 1 else ir.VectorType(real, lanes)
        self.bytes = _BYTE if lanes == 1 else ir.VectorType(_BYTE, lanes)

    def generate(self, rows: ir.Value, slots: ir.Value, begin: ir.Value, count: ir.Value) -> ir.Value:
        """Generate the loop over the elements from ``begin`` on; return the first element that it does not process."""
        builder, numbers = self.builder, range(self.vectors)
        before = builder.block
        head, turn, after, end = [builder.append_basic_block() for _ in range(4)]
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(_WORD)
        index.add_incoming(begin, before)
        following = builder.add(index, _WORD(self.vectors * self.lanes))
        builder.cbranch(builder.icmp_signed("<=", following, count), turn, end)
        builder.position_at_end(turn)
        row, held = builder.phi(_WORD), [builder.phi(self.kind) for _ in numbers]
        row.add_incoming(rows, head)
        for vector in held:
            vector.add_incoming(ir.Constant(self.kind, ir.Undefined), head)
        self.index, self.slots = index, slots
        operation, self.words = self.word(row), [self.word(builder.add(row, _WORD(8 * k))) for k in (1, 2)]
        next_row = builder.add(row, _WORD(8 * at.WORDS))
        switch = builder.switch(operation, after)
        for number, execute in self.cases().items():
            block = builder.append_basic_block()
            switch.add_case(_WORD(number), block)
            builder.position_at_end(block)
            found = execute(held) or held
            builder.branch(turn)
            row.add_incoming(next_row, block)
            for vector, value in zip(held, found, strict=True):
                vector.add_incoming(value, block)
        builder.position_at_end(after)
        builder.branch(head)
        index.add_incoming(following, after)
        builder.position_at_end(end)
        return index

    def word(self, address: ir.Value) -> ir.Value:
        return self.builder.load(self.builder.inttoptr(address, _WORD.as_pointer()))

    def number(self, value: float) -> ir.Value:
        return ir.Constant(self.kind, value if self.lanes == 1 else [value] * self.lanes)

    def places(self, word: ir.Value, size: int, mode: int = at.MOVING) -> list[ir.Value]:
        """Return the addresses of the vectors of an operand, which has elements of ``size`` bytes."""
        builder = self.builder
        place = self.word(builder.add(self.slots, builder.mul(word, _WORD(8))))
        if mode == at.MOVING:
            place = builder.add(place, builder.mul(self.index, _WORD(size)))
        return [builder.add(place, _WORD(size * self.lanes * k)) for k in range(self.vectors)]

    def operand(self, word: ir.Value, mode: int) -> list[ir.Value]:
        builder, places = self.builder, self.places(word, self.size, mode)
        if mode == at.SINGLE:
            value = builder.load(builder.inttoptr(places[0], self.real.as_pointer()))
            if self.lanes > 1:
                nothing = ir.Constant(self.kind, ir.Undefined)
                one = builder.insert_element(nothing, value, ir.IntType(32)(0))
                every = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
                value = builder.shuffle_vector(one, nothing, every)
            return [value] * self.vectors
        return [builder.load(builder.inttoptr(place, self.kind.as_pointer()), align=self.size) for place in places]

    def truth(self, condition: ir.Value) -> ir.Value:
        """Convert a condition to ones and zeros."""
        return self.builder.select(condition, self.number(1.0), self.number(0.0))

    def combined(self, operation: int, x: ir.Value, y: ir.Value) -> ir.Value:
        """Return the result of an operation of two vectors."""
        builder = self.builder
        if operation in _BACKWARDS:
            return self.combined(_BACKWARDS[operation], y, x)
        if operation == at.LOAD:
            return y
        if operation in _ARITHMETIC:
            return getattr(builder, _ARITHMETIC[operation])(x, y)
        if operation in _COMPARISONS:
            return self.truth(builder.fcmp_ordered(_COMPARISONS[operation], x, y))
        if operation == steps.NOT_EQUAL:
            return self.truth(builder.fcmp_unordered("!=", x, y))
        if operation == steps.OR:
            zero = self.number(0.0)
            both = [builder.fcmp_unordered("!=", value, zero) for value in (x, y)]
            return self.truth(builder.or_(*both))
        first = builder.fcmp_ordered(">=" if operation == steps.MAXIMUM else "<=", x, y)
        return builder.select(builder.or_(first, builder.fcmp_unordered("uno", x, x)), x, y)

    def changed(self, operation: int, x: ir.Value) -> ir.Value:
        """Return the result of an operation of one vector."""
        builder = self.builder
        if operation == at.NEGATIVE:
            return builder.fneg(x)
        if operation == at.NOT:
            return self.truth(builder.fcmp_ordered("==", x, self.number(0.0)))
        name = f"{'sqrt' if operation == at.SQRT else 'fabs'}.{'' if self.lanes == 1 else f'v{self.lanes}'}"
        kind = ir.FunctionType(self.kind, [self.kind])
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}f{8 * self.size}")
        return builder.call(function, [x])

    def chosen(self, held: Sequence[ir.Value], first: int, second: int) -> list[ir.Value]:
        """Return the elements of one operand where the accumulator is not 0, elsewhere of the other operand."""
        operands = [self.operand(word, mode) for word, mode in zip(self.words, (first, second), strict=True)]
        zero = self.number(0.0)
        return [
            self.builder.select(self.builder.fcmp_unordered("!=", x, zero), y, z)
            for x, y, z in zip(held, *operands, strict=True)
        ]

    def loaded_bools(self, held: Sequence[ir.Value]) -> list[ir.Value]:
        builder, zero = self.builder, ir.Constant(self.bytes, 0 if self.lanes == 1 else [0] * self.lanes)
        found = []
        for place in self.places(self.words[0], 1):
            value = builder.load(builder.inttoptr(place, self.bytes.as_pointer()), align=1)
            found.append(self.truth(builder.icmp_unsigned("!=", value, zero)))
        return found

    def stored_bools(self, held: Sequence[ir.Value]) -> None:
        builder = self.builder
        for place, x in zip(self.places(self.words[0], 1), held, strict=True):
            value = builder.zext(builder.fcmp_unordered("!=", x, self.number(0.0)), self.bytes)
            builder.store(value, builder.inttoptr(place, self.bytes.as_pointer()), align=1)

    def stored(self, held: Sequence[ir.Value], mode: int) -> None:
        for place, x in zip(self.places(self.words[0], self.size, mode), held, strict=True):
            self.builder.store(x, self.builder.inttoptr(place, self.kind.as_pointer()), align=self.size)

    def cases(self) -> dict[int, Case]:
        """Return, by the number of each operation, the function that generates its code from the accumulator."""

        def combine(operation: int, mode: int) -> Case:
            return lambda held: [
                self.combined(operation, x, y)
                for x, y in zip(held, self.operand(self.words[0], mode), strict=True)
            ]  # fmt: skip

        def change(operation: int) -> Case:
            return lambda held: [self.changed(operation, x) for x in held]

        def choose(first: int, second: int) -> Case:
            return lambda held: self.chosen(held, first, second)

        found: dict[int, Case] = {
            at.with_operand(operation, mode): combine(operation, mode)
            for operation in range(at.LOAD + 1)
            for mode in at.MODES
        }
        found |= {operation: change(operation) for operation in (at.NEGATIVE, at.SQRT, at.ABSOLUTE, at.NOT)}
        found |= {at.choosing(first, second): choose(first, second) for first in at.MODES for second in at.MODES}
        found |= {
            at.STORE: lambda held: self.stored(held, at.MOVING),
            at.STORE_STILL: lambda held: self.stored(held, at.STILL),
        }
        return found | {at.LOAD_BOOL: self.loaded_bools, at.STORE_BOOL: self.stored_bools}


@intrinsic
def run_rows(typing_context: object, rows: object, slots: object, count: object, number: types.Float) -> object:
    """Execute the code at the address ``rows`` for ``count`` elements of ``number``'s type; ``slots`` are addresses."""

    def generate(context: Any, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]) -> object:
        rows, slots, count, _ = arguments
        real, begin = context.get_value_type(number), _WORD(0)
        for vectors, together in at.vectors_of(width() // (number.bitwidth // 8)):
            begin = _Loop(builder, real, vectors, together).generate(rows, slots, begin, count)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, number), generate
