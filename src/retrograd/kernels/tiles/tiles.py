"""Tiles of vector registers, from which products inside compiled loops are computed.

A tile of the result stays in registers while the loop runs over the inner dimension, in order, with fused multiply-add:
a row of the result does not depend on neighboring rows. For few rows BLAS takes up to twice as long. In single
precision denormals are flushed, as in products by BLAS (``loop_blas.py``).

If ``add`` is a uint32, each number of the factors is a *pair*: two numbers of bfloat16, adjacent along the inner
dimension, whose products are added to a float32. Such tiles need a processor with AVX512_BF16.
"""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined, var-annotated"

from __future__ import annotations

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..loops.elements.basic_loops import _compiled
from ..runtime.levels import machine
from ..runtime.loop_blas import flush, leave
from ..runtime.numba_functions import routine
from .vector_width import width

MOST = 3  # maximum number of vectors in a panel
# The number of rows in a tile: the tile, a row of the panel and one number fill the registers.
ROWS = 8 if width() == 64 else 4
BYTES = width()
_REGISTERS = "w" if machine() in ("aarch64", "arm64") else "v"  # LLVM's constraint for vector registers
LINE = 64  # bytes of a cache line
WORD, HALF = ir.IntType(64), ir.IntType(32)
binding.initialize_native_asmparser()  # LLVM needs it to read the instruction in ``_multiply_pairs``


def _declared(builder, name, result, kinds):
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, kinds), name)


def real_of(context, number):
    """Return LLVM's type of the numbers in vectors: pairs of bfloat16 are loaded as if they were float32."""
    return ir.FloatType() if isinstance(number, types.Integer) else context.get_value_type(number)


def _multiply_pairs(builder, x, y, total):
    """Add the products of bfloat16 to a vector of float32."""
    if machine() != "x86_64":  # other processors have no tiles for pairs: this code never runs
        return total
    kind = ir.FunctionType(total.type, [total.type] * 3)
    return builder.asm(kind, "vdpbf16ps $2, $1, $0", "=v,v,v,0", [x, y, total], False)


def _spread(builder, number, lanes):
    """Return a vector that repeats one number."""
    vector = ir.VectorType(number.type, lanes)
    nothing = ir.Constant(vector, ir.Undefined)
    first = ir.Constant(ir.VectorType(HALF, lanes), [0] * lanes)
    return builder.shuffle_vector(builder.insert_element(nothing, number, HALF(0)), nothing, first)


def prefetch(builder, address, written):
    """Prefetch a cache line, to be read or ``written``."""
    byte = ir.IntType(8).as_pointer()
    call = _declared(builder, "llvm.prefetch.p0", ir.VoidType(), [byte, HALF, HALF, HALF])
    builder.call(call, [builder.inttoptr(address, byte), HALF(written), HALF(3 if written else 2), HALF(1)])


def first_lanes(builder, live, lanes):
    """Return the mask of the first ``live`` lanes."""
    numbers = ir.Constant(ir.VectorType(WORD, lanes), list(range(lanes)))
    return builder.icmp_signed("<", numbers, _spread(builder, live, lanes))


def masked_load(builder, address, mask, size):
    """Load a vector at an address, with zeros where the mask is false."""
    vector = address.type.pointee
    zeros = ir.Constant(vector, [0.0] * vector.count)
    name = f"llvm.masked.load.v{vector.count}f{8 * size}.p0"
    load = _declared(builder, name, vector, [address.type, HALF, mask.type, vector])
    return builder.call(load, [address, HALF(size), mask, zeros])


def tile_of(rows, vectors, whole=True, between=None, wide=BYTES):
    """Return ``tile(a, down, along, b, across, depth, out, out_step, add, live, ahead, ahead_step)`` for a tile size.

    Arguments are addresses and numbers of bytes, except for ``depth``; ``add`` is 1 to add to ``out``, else 0. Unless
    ``whole``, only the first ``live`` numbers of the last vector are read and written. With ``between``, b consists of
    panels and ``along`` is the size of ``between`` numbers. A vector has ``wide`` bytes.

    The loop prefetches eight rows at ``ahead``, ``ahead_step`` apart, and the part of ``out`` of the next tile; these
    addresses need not be valid. Two hardware threads of a core share its instruction decoders, so that the number of
    instructions limits the speed: therefore iterations are unrolled.
    """
    fetches = rows == ROWS and (whole or vectors == 2)

    @intrinsic
    def tile(typing_context, a, down, along, b, across, depth, out, out_step, add, live, ahead, ahead_step):
        def generate(context, builder, signature, arguments):
            a, down, along, b, across, depth, out, out_step, added, live, ahead, ahead_step = arguments
            real, size, pairs = real_of(context, add), add.bitwidth // 8, add == types.uint32
            lanes = wide // size
            vector = ir.VectorType(real, lanes)
            zeros, flags = ir.Constant(vector, [0.0] * lanes), ir.VectorType(ir.IntType(1), lanes)
            kind = f"v{lanes}f{8 * size}"
            fma = _declared(builder, f"llvm.fma.{kind}", vector, [vector] * 3)
            kinds = [vector, vector.as_pointer(), HALF, flags]
            masked_store = _declared(builder, f"llvm.masked.store.{kind}.p0", ir.VoidType(), kinds)
            mask = None if whole else first_lanes(builder, live, lanes)
            if between:
                along, across = WORD(between * size), WORD(vectors * wide)

            def place(address, *steps):
                for step in steps:
                    address = builder.add(address, step)
                return builder.inttoptr(address, vector.as_pointer())

            def load(address, part):
                if whole or part < vectors - 1:
                    return builder.load(address, align=size)
                return masked_load(builder, address, mask, size)

            def store(total, address, part):
                if whole or part < vectors - 1:
                    builder.store(total, address, align=size)
                else:
                    builder.call(masked_store, [total, address, HALF(size), mask])

            def opaque(value):
                """Hide the value's origin from LLVM, which would keep all sums with it in registers."""
                return builder.asm(ir.FunctionType(WORD, [WORD]), "", "=r,0", [value], False)

            def in_turn(values):
                """Prevent LLVM from moving loads before this point, which would spill registers."""
                count, kinds = len(values), [vector] * len(values)
                ties = ",".join([f"={_REGISTERS}"] * count + [str(number) for number in range(count)] + ["~{memory}"])
                kind = ir.FunctionType(ir.LiteralStructType(kinds), kinds)
                tied = builder.asm(kind, "", ties, values, True)
                return [builder.extract_value(tied, number) for number in range(count)]

            def loop_of(turns, unrolled):
                """Generate a loop, unrolled or not; return the number of remaining iterations."""
                together = LINE // (2 * size) if unrolled else 1  # two iterations read a cache line of each row
                count = builder.udiv(turns, WORD(together))
                with cgutils.for_range(builder, count) as loop:
                    sums = [builder.load(total) for total in totals]
                    at, begins = builder.load(addresses[0]), [builder.load(address) for address in addresses[1:]]
                    if unrolled:
                        row = builder.add(builder.and_(loop.index, WORD(ROWS - 1)), WORD(ROWS))
                        below = builder.add(out, builder.mul(row, out_step))
                        near, far = [builder.load(line) for line in lines]
                    for number in range(together):
                        beside = [load(place(at, WORD(wide * part)), part) for part in range(vectors)]
                        for row in range(rows):
                            address = begins[row // 4]
                            if row % 4:
                                address = builder.add(address, downs[row % 4])
                            factor = builder.load(builder.inttoptr(address, real.as_pointer()))
                            spread = _spread(builder, factor, lanes)
                            for part, other in enumerate(beside):
                                cell = row * vectors + part
                                if pairs:
                                    sums[cell] = _multiply_pairs(builder, spread, other, sums[cell])
                                else:
                                    sums[cell] = builder.call(fma, [spread, other, sums[cell]])
                        at, begins = builder.add(at, across), [builder.add(address, along) for address in begins]
                        if not between or number == together - 1:
                            at, begins = opaque(at), [opaque(address) for address in begins]
                        if unrolled:
                            sums = in_turn(sums)
                            if number < 4:
                                prefetch(builder, builder.add(near, builder.mul(ahead_step, WORD(number))), 0)
                                prefetch(builder, builder.add(below, WORD(number * LINE)), 1)
                    for values, variables in ((sums, totals), ((at, *begins), addresses)):
                        for value, variable in zip(values, variables, strict=True):
                            builder.store(value, variable)
                    if unrolled:
                        builder.store(far, lines[0])
                        builder.store(builder.add(near, WORD(LINE)), lines[1])
                return builder.sub(turns, builder.mul(count, WORD(together)))

            downs = [opaque(builder.mul(down, WORD(row))) for row in range(4)]
            totals = [cgutils.alloca_once_value(builder, zeros) for _ in range(rows * vectors)]
            begins = [b, *[builder.add(a, builder.mul(down, WORD(row))) for row in range(0, rows, 4)]]
            addresses = [cgutils.alloca_once_value(builder, address) for address in begins]
            if fetches:
                further = builder.add(ahead, builder.mul(ahead_step, WORD(4)))
                lines = [cgutils.alloca_once_value(builder, address) for address in (ahead, further)]
                depth = loop_of(depth, True)
            loop_of(depth, False)
            found = []
            for number, total in enumerate(totals):
                row, part = divmod(number, vectors)
                address = place(out, builder.mul(out_step, WORD(row)), WORD(wide * part))
                found.append((builder.load(total), address, part))
            differs = builder.icmp_unsigned if pairs else builder.fcmp_ordered
            adds = differs("!=", added, HALF(0) if pairs else real(0.0))
            with builder.if_else(adds) as (then, otherwise):
                with then:
                    for total, address, part in found:
                        store(builder.fadd(load(address, part), total), address, part)
                with otherwise:
                    for total, address, part in found:
                        store(total, address, part)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8, add, *[types.int64] * 3), generate

    return tile


_three, _three_row = tile_of(ROWS, 3), tile_of(1, 3)
_three_packed = tile_of(ROWS, 3, True, 1)
_one_part, _two_part, _three_part = [tile_of(ROWS, vectors, False) for vectors in range(1, MOST + 1)]
_one_row_part, _two_row_part, _three_row_part = [tile_of(1, vectors, False) for vectors in range(1, MOST + 1)]


@intrinsic
def size_of(typing_context, number):
    """Return the bytes of a number."""

    def generate(context, builder, signature, arguments):
        return WORD(number.bitwidth // 8)

    return types.int64(number), generate


@intrinsic
def address_of(typing_context, array):
    """Return the address of an array's elements."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(context.make_array(array)(context, builder, arguments[0]).data, WORD)

    return types.int64(array), generate


@routine
def strip(rows, a, down, along, apart, b, across, inner, out, out_step, added, count, live, ahead, first):
    """Compute ``rows`` rows of the result, ``count`` vectors wide, with ``live`` numbers in the last vector.

    ``apart`` is the distance in bytes between the rows of successive tiles. The first strip of a factor's rows
    prefetches the rows of its next tile, the other strips prefetch from ``ahead`` on.
    """
    wide = count == MOST and live == BYTES // size_of(added)
    mode = flush(added)
    i, ahead_step = 0, inner * size_of(added)
    while i < rows:
        whole = rows - i >= ROWS
        if first:
            ahead, ahead_step = a + apart, down
        if wide:
            if whole and across == MOST * BYTES and along == size_of(added):
                _three_packed(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            elif whole:
                _three(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            else:
                _three_row(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        elif count == 3:
            if whole:
                _three_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            else:
                _three_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        elif count == 2:
            if whole:
                _two_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
            else:
                _two_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        elif whole:
            _one_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        else:
            _one_row_part(a, down, along, b, across, inner, out, out_step, added, live, ahead, ahead_step)
        if whole:
            i, a, out = i + ROWS, a + apart, out + ROWS * out_step
        else:
            i, a, out = i + 1, a + down, out + out_step
        ahead += inner * ROWS * size_of(added)
    leave(mode, added)


@routine
def product_at(rows, inner, columns, a, down, along, b, across, out, out_step, added):
    """``product`` for matrices at addresses."""
    lanes = BYTES // size_of(added)
    apart = ROWS * down
    while columns > 0:
        count = (columns + lanes - 1) // lanes
        count = 2 if count == 4 else min(MOST, count)  # two tiles of two vectors are faster than three and one
        live = min(lanes, columns - (count - 1) * lanes)
        strip(rows, a, down, along, apart, b, across, inner, out, out_step, added, count, live, b, 1)
        columns, b, out = columns - count * lanes, b + count * BYTES, out + count * BYTES


@_compiled()
def product(a, b, out, add):
    """``out = a @ b``, or ``out += a @ b`` if ``add`` is 1; rows of b and out are contiguous. b is not packed."""
    (rows, inner), columns, added = a.shape, out.shape[1], a.dtype.type(add)
    down, along = a.strides
    product_at(
        rows,
        inner,
        columns,
        address_of(a),
        down,
        along,
        address_of(b),
        b.strides[0],
        address_of(out),
        out.strides[0],
        added,
    )
