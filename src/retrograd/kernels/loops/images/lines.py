"""Copies of lines of images: parts of contiguous vectors, by explicit vectors and without checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...tiles.tiles import BYTES, HALF, WORD, first_lanes, masked_load
from .convolution import LANES


class _Context(Protocol):
    """The methods of Numba's contexts that this module calls."""

    def make_array(self, kind: object) -> Callable[..., ir.Value]: ...
    def get_value_type(self, kind: object) -> ir.Type: ...
    def get_abi_sizeof(self, kind: ir.Type) -> int: ...
    def get_dummy_value(self) -> ir.Value: ...


def _pointer(context: _Context, builder: ir.IRBuilder, kind: object, array: ir.Value, at: ir.Value) -> ir.Value:
    return builder.gep(context.make_array(kind)(context, builder, array).data, [at])


@intrinsic
def _copy(
    typing_context: object, target: types.Array, at: object, source: types.Array, place: object, count: object
) -> object:
    """``target[at:][:count] = source[place:][:count]`` for contiguous vectors, without checks.

    Lines of windows are short: by vectors, of which the last is masked, they take a fraction of the time of memcpy.
    """

    def generate(
        context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        into, at, given, begin, numbers = arguments
        size = context.get_abi_sizeof(context.get_value_type(target.dtype))
        to, of = _pointer(context, builder, target, into, at), _pointer(context, builder, source, given, begin)
        if BYTES < 32 or size < 4:
            cgutils.raw_memcpy(builder, to, of, numbers, size)
            return context.get_dummy_value()
        lanes = BYTES // size
        vector = ir.VectorType(ir.FloatType() if size == 4 else ir.DoubleType(), lanes).as_pointer()
        whole = builder.and_(numbers, WORD(-lanes))
        with cgutils.for_range_slice(builder, WORD(0), whole, WORD(lanes)) as (index, _):
            here, there = [builder.bitcast(builder.gep(line, [index]), vector) for line in (of, to)]
            builder.store(builder.load(here, align=size), there, align=size)
        here, there = [builder.bitcast(builder.gep(line, [whole]), vector) for line in (of, to)]
        mask = first_lanes(builder, builder.sub(numbers, whole), lanes)
        rest = masked_load(builder, here, mask, size)
        kinds = ir.FunctionType(ir.VoidType(), [rest.type, vector, HALF, mask.type])
        name = f"llvm.masked.store.v{lanes}f{8 * size}.p0"
        builder.call(cgutils.get_or_insert_function(builder.module, kinds, name), [rest, there, HALF(size), mask])
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


def _on_lanes(adds: bool) -> Callable[..., None]:
    """Return ``write(target, at, source, place)``, which computes ``target[at:][:LANES] = source[place:][:LANES]``, or
    ``+=`` if it ``adds``, for contiguous vectors, unchecked, as one vector.
    """

    @intrinsic
    def write(typing_context: object, target: types.Array, at: object, source: types.Array, place: object) -> object:
        def generate(
            context: _Context, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
        ) -> ir.Value:
            into, at, given, begin = arguments
            number = context.get_value_type(target.dtype)
            vector, size = ir.VectorType(number, LANES).as_pointer(), context.get_abi_sizeof(number)
            to, of = _pointer(context, builder, target, into, at), _pointer(context, builder, source, given, begin)
            to, of = builder.bitcast(to, vector), builder.bitcast(of, vector)
            value = builder.load(of, align=size)
            if adds:
                value = builder.fadd(builder.load(to, align=size), value)
            builder.store(value, to, align=size)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64), generate

    found: Callable[..., None] = write
    return found


copy: Callable[..., None] = _copy
copy_lanes, add_lanes = _on_lanes(False), _on_lanes(True)
