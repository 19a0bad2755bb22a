"""Matrix products: small ones by loops over registers, others by BLAS, in blocks that threads share.

A small product keeps a block of the result in vector registers and runs over the inner dimension in order, with fused
multiply-add, as in BLAS.
"""

from __future__ import annotations

from ...core.arrays.dtypes import DType
from ...kernels import multiplies
from ...kernels.loops.matrices.products import PACKED, SINGLY, STRAIGHT, TILED, USEFUL, WHOLE, by_rows, smaller
from ...kernels.loops.regions.region_code import MAX_MULTIPLICATIONS
from ...kernels.runtime import library
from ...kernels.runtime.denormals import FLUSH, flushes
from ...kernels.tiles.vector_width import width
from .emission import Body, Kernel, type_of
from .machine_code import gemm, gemv, packing, tiles
from .region_steps import Lowers, Place, Step, Unlowered, kernel_of

MAX_LOOP_MULTIPLICATIONS = MAX_MULTIPLICATIONS  # for more multiplications, BLAS is faster than loops
BLOCK_ROWS = 6  # number of rows of the result that are in registers at a time


def product(lowering: Lowers, x: Place, y: Place, out: Place) -> None:
    """Append ``out = x @ y`` for matrices of one dtype."""
    (m, k), n = x.shape, y.shape[1]
    if (x.shape[1], out.shape) != (y.shape[0], (m, n)):
        raise Unlowered("shapes that do not match")
    size = x.dtype.itemsize
    count = m * n * k
    if count > TILED:
        raise Unlowered(f"more than {TILED:,} multiplications")
    if count <= MAX_LOOP_MULTIPLICATIONS or not _has_blas(lowering, x.dtype):
        if out.strides[1] != size and n > 1:
            if out.strides[0] == size:  # compute the transposed product
                product(lowering, _transposed(y), _transposed(x), _transposed(out))
                return
            whole = lowering.new(out.shape, out.dtype)
            product(lowering, x, y, whole)
            lowering.copy(whole, out)
            return
        if n > 1 and y.strides[1] != size:
            packed = lowering.new(y.shape, y.dtype)
            lowering.copy(y, packed)
            y = packed
        lowering.add(Step("matmul", [out, x, y], 1, _small_kernel, flops=2.0 * count))
        return
    x, y = [_blas_operand(lowering, place) for place in (x, y)]
    if out.strides[1] != size or out.strides[0] < n * size and m > 1:
        whole = lowering.new(out.shape, out.dtype)
        _shared_product(lowering, x, y, whole)
        lowering.copy(whole, out)
    else:
        _shared_product(lowering, x, y, out)


def _has_blas(lowering: Lowers, dtype: DType) -> bool:
    """Return whether the code of a region can call BLAS."""
    if lowering.interpreted:
        return multiplies() and library.opened() is not None
    return gemm(dtype) is not None


def _transposed(place: Place) -> Place:
    return place._replace(shape=place.shape[::-1], strides=place.strides[::-1])


def _blas_operand(lowering: Lowers, place: Place) -> Place:
    """Return the matrix, or a copy, with one contiguous dimension and no overlap along the other dimension."""
    size = place.dtype.itemsize
    for one, other in ((1, 0), (0, 1)):
        if place.strides[one] == size and place.strides[other] >= place.shape[one] * size:
            return place
    packed: Place = lowering.new(place.shape, place.dtype)
    lowering.copy(place, packed)
    return packed


def _small_kernel(step: Step) -> Kernel:
    out, x, y = step.operands
    (m, k), n = x.shape, y.shape[1]
    size, typ = x.dtype.itemsize, type_of(x.dtype)
    body = Body()
    widest = max(1, min(width(), 64) // size)
    columns: list[tuple[int, int, int]] = []  # the first column of a piece, its vectors, and lanes per vector
    at = 0
    while at < n:
        lanes = widest
        while lanes > n - at:
            lanes //= 2
        vectors = min((n - at) // lanes, (4 if width() == 64 else 2) if lanes == widest else 1)
        columns.append((at, vectors, lanes))
        at += vectors * lanes

    def block(row: str, rows: int, at: int, vectors: int, lanes: int) -> None:
        kind = f"<{lanes} x {typ}>"
        bits = "f32" if typ == "float" else "f64"
        fma = f"@llvm.fma.v{lanes}{bits}"
        body.declared.add(f"declare {kind} {fma}({kind}, {kind}, {kind})")
        x_rows = [body.address("%p1", [row], [x.strides[0]], r * x.strides[0]) for r in range(rows)]
        cells = [(r, v) for r in range(rows) for v in range(vectors)]
        before = body.current
        names = {cell: (body.name(), body.name()) for cell in cells}
        index, following, label = body.name(), body.name(), body.name()[1:]
        body.do(f"br label %{label}")
        body.block(label)
        body.do(f"{index} = phi i64 [ 0, %{before} ], [ {following}, %{label} ]")
        for old, new in names.values():
            body.do(f"{old} = phi {kind} [ zeroinitializer, %{before} ], [ {new}, %{label} ]")
        y_row = body.address("%p2", [index], [y.strides[0]], at * size)
        loaded = []
        for v in range(vectors):
            pointer = body.give(f"getelementptr inbounds i8, ptr {y_row}, i64 {v * lanes * size}")
            loaded.append(body.give(f"load {kind}, ptr {pointer}, align {size}"))
        for r in range(rows):
            element = body.load(body.address(x_rows[r], [index], [x.strides[1]]), x.dtype)
            single = body.give(f"insertelement {kind} poison, {typ} {element}, i64 0")
            spread = body.give(f"shufflevector {kind} {single}, {kind} poison, <{lanes} x i32> zeroinitializer")
            for v in range(vectors):
                old, new = names[r, v]
                body.do(f"{new} = call {kind} {fma}({kind} {spread}, {kind} {loaded[v]}, {kind} {old})")
        body.do(f"{following} = add nuw nsw i64 {index}, 1")
        again = body.give(f"icmp slt i64 {following}, {k}")
        done = body.name()[1:]
        body.do(f"br i1 {again}, label %{label}, label %{done}")
        body.block(done)
        for (r, v), (_, new) in names.items():
            pointer = body.address("%p0", [row], [out.strides[0]], r * out.strides[0] + (at + v * lanes) * size)
            body.do(f"store {kind} {new}, ptr {pointer}, align {size}")

    def rows_of(row: str, rows: int) -> None:
        for piece in columns:
            block(row, rows, *piece)

    whole = m // BLOCK_ROWS * BLOCK_ROWS
    if whole:
        body.loop("0", str(whole), BLOCK_ROWS, lambda row: rows_of(row, BLOCK_ROWS))
    if m > whole:
        rows_of(str(whole), m - whole)
    body.do("ret void")
    return kernel_of(step, body)


def _shared_product(lowering: Lowers, x: Place, y: Place, out: Place) -> None:
    """Append a product by BLAS or register tiles, in the blocks that ``kernels/loops/matrices`` chooses."""
    (m, k), n = x.shape, y.shape[1]
    blocks, least, block, each, how = 1, 1, max(m, n), 1, WHOLE
    if m * n * k >= USEFUL:
        plan = smaller(m, k, n, _is_transposed(x), _is_transposed(y), x.dtype.char)
        if lowering.interpreted or plan[4] not in _ROUTINES or _ROUTINES[plan[4]](x.dtype) is not None:
            blocks, least, block, each, how = plan
    kernel = {STRAIGHT: _tiles_kernel, PACKED: _packing_kernel, SINGLY: _blockwise_kernel}.get(how, _gemm_kernel)
    if 1 in (m, n) and blocks == 1 and not lowering.interpreted and gemv(x.dtype) is not None:
        vector, result = (y.strides[0], out.strides[0]) if n == 1 else (x.strides[1], out.strides[1])
        if min(vector, result) > 0 and vector % x.dtype.itemsize == result % x.dtype.itemsize == 0:
            kernel = _vector_kernel
    step = Step("gemm", [out, x, y], 1, kernel, flops=2.0 * m * n * k, content=how)
    step.parts = blocks, least, block, each
    lowering.add(step)


_ROUTINES = {STRAIGHT: tiles, PACKED: packing}


def _tiles_kernel(step: Step) -> Kernel:
    """Compute rows or columns by register tiles, like the eager product of shallow matrices."""
    return _part_kernel(step, STRAIGHT)


def _packing_kernel(step: Step) -> Kernel:
    """Compute rows or columns with a packed factor, as the eager product of the same size does."""
    return _part_kernel(step, PACKED)


def _part_kernel(step: Step, how: int) -> Kernel:
    """Call a routine for a range of rows or columns."""
    out, x, y = step.operands
    (m, k), n = x.shape, y.shape[1]
    name, typ = _ROUTINES[how](x.dtype), type_of(x.dtype)
    body = Body()
    blocks, _, block, _ = step.parts
    tall = by_rows(m, n, how)
    whole = m if tall else n
    begin, last = body.part(block, whole) if blocks > 1 else ("0", str(whole))
    length = body.give(f"sub nsw i64 {last}, {begin}")
    rows, columns = (length, n) if tall else (m, length)
    addresses = (
        body.address("%p1", [begin], [x.strides[0]]) if tall else "%p1",
        "%p2" if tall else body.address("%p2", [begin], [y.strides[1]]),
        body.address("%p0", [begin], [out.strides[0] if tall else out.strides[1]]),
    )
    at_x, at_y, at_out = [body.give(f"ptrtoint ptr {address} to i64") for address in addresses]
    if how == PACKED:
        ways = [(place.strides[turned], turned) for place in (x, y) for turned in [_is_transposed(place)]]
        (x_step, x_turned), (y_step, y_turned) = ways
        numbers = [rows, k, columns, at_x, x_step, int(x_turned), at_y, y_step, int(y_turned), at_out, out.strides[0]]
    else:
        numbers = [rows, k, columns, at_x, *x.strides, at_y, y.strides[0], at_out, out.strides[0]]
    body.declared.add(f"declare void @{name}({', '.join(['i64'] * len(numbers))}, {typ})")
    body.do(f"call void @{name}({', '.join(f'i64 {number}' for number in numbers)}, {typ} 0.0)")
    body.do("ret void")
    return kernel_of(step, body)


def flushed(step: Step) -> bool:
    """Return whether a product flushes subnormal numbers to zero, as the eager product does."""
    return step.operands[0].dtype.itemsize == 4 and step.flops >= 2.0 * USEFUL and flushes()


def _is_transposed(place: Place) -> bool:
    return place.strides[1] != place.dtype.itemsize


def _gemm_kernel(step: Step) -> Kernel:
    """Compute a range of rows or columns by one call of BLAS."""
    return _blas_kernel(step, False)


def _blockwise_kernel(step: Step) -> Kernel:
    """Compute a range of rows or columns by one call of BLAS per block."""
    return _blas_kernel(step, True)


def _vector_kernel(step: Step) -> Kernel:
    """Compute the product of a matrix and a vector by one call of ``gemv``, because ``gemm`` would pack the matrix."""
    out, x, y = step.operands
    size, typ = x.dtype.itemsize, type_of(x.dtype)
    body = Body()
    name = gemv(x.dtype)
    matrix, at, given, left, right = (x, 1, 2, y.strides[0], out.strides[0])
    if y.shape[1] != 1:  # out.T = y.T @ x.T
        matrix, at, given, left, right = _transposed(y), 2, 1, x.strides[1], out.strides[1]
    rows, columns = matrix.shape
    plain = matrix.strides[1] == size
    if not plain:
        matrix, (rows, columns) = _transposed(matrix), (columns, rows)
    row_step = max(matrix.strides[0] // size, columns)
    body.declared.add(f"declare void @{name}(i32, i32, i64, i64, {typ}, ptr, i64, ptr, i64, {typ}, ptr, i64)")
    body.do(
        f"call void @{name}(i32 101, i32 {111 if plain else 112}, i64 {rows}, i64 {columns}, {typ} 1.0, ptr %p{at}, "
        f"i64 {row_step}, ptr %p{given}, i64 {left // size}, {typ} 0.0, ptr %p0, i64 {right // size})"
    )
    body.do("ret void")
    return kernel_of(step, body)


def _blas_kernel(step: Step, singly: bool) -> Kernel:
    out, x, y = step.operands
    blocks, _, block, _ = step.parts
    (m, k), n = x.shape, y.shape[1]
    size, typ = x.dtype.itemsize, type_of(x.dtype)
    body = Body()
    name = gemm(x.dtype)
    kinds = f"i32, i32, i32, i64, i64, i64, {typ}, ptr, i64, ptr, i64, {typ}, ptr, i64"
    body.declared.add(f"declare void @{name}({kinds})")
    tall = m >= n
    ways, steps = [], []
    for place in (x, y):
        plain = place.strides[1] == size
        ways.append(111 if plain else 112)
        stride = place.strides[0] if plain else place.strides[1]
        steps.append(max(stride // size, place.shape[1] if plain else place.shape[0], 1))

    def call(first: str, length: str) -> None:
        at_x = body.address("%p1", [first], [x.strides[0]]) if tall else "%p1"
        at_y = "%p2" if tall else body.address("%p2", [first], [y.strides[1]])
        at_out = body.address("%p0", [first], [out.strides[0] if tall else size])
        rows, columns = (length, n) if tall else (m, length)
        row_step = max(out.strides[0] // size, n, 1)
        one, zero = "1.0", "0.0"
        body.do(
            f"call void @{name}(i32 101, i32 {ways[0]}, i32 {ways[1]}, i64 {rows}, i64 {columns}, i64 {k}, "
            f"{typ} {one}, ptr {at_x}, i64 {steps[0]}, ptr {at_y}, i64 {steps[1]}, {typ} {zero}, ptr {at_out}, "
            f"i64 {row_step})"
        )

    flush = flushed(step)
    if flush:
        _flush(body)

    def end() -> Kernel:
        if flush:
            body.do("call void @llvm.x86.sse.ldmxcsr(ptr %kept)")
        body.do("ret void")
        return kernel_of(step, body)

    if blocks == 1:
        call("0", str(m if tall else n))
        return end()
    begin, last = body.part(block, m if tall else n)
    if singly:

        def one_block(first: str) -> None:
            left = body.give(f"sub nsw i64 {last}, {first}")
            call(first, body.give(f"call i64 @llvm.smin.i64(i64 {left}, i64 {block})"))

        body.loop(begin, last, block, one_block)
    else:
        call(begin, body.give(f"sub nsw i64 {last}, {begin}"))
    return end()


def _flush(body: Body) -> None:
    """Let the processor flush denormals to zero; ``%kept`` is the previous mode."""
    body.declared |= {f"declare void @llvm.x86.sse.{name}(ptr)" for name in ("stmxcsr", "ldmxcsr")}
    body.do("%kept = alloca i32")
    body.do("%changed = alloca i32")
    body.do("call void @llvm.x86.sse.stmxcsr(ptr %kept)")
    word = body.give("load i32, ptr %kept")
    body.do(f"store i32 {body.give(f'or i32 {word}, {FLUSH}')}, ptr %changed")
    body.do("call void @llvm.x86.sse.ldmxcsr(ptr %changed)")
