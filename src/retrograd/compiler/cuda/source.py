"""CUDA C++ source of a group of elementwise steps and sums.

Shapes and strides are constants of the source. A kernel without sums visits the elements in the order of its results. A
kernel with sums has tiles of threads: one dimension across the sums, the other along the terms of a sum. Each thread
adds every n-th term, and the tile adds the threads' sums in a fixed order. If there are few long sums, several tiles
share a sum and a second kernel adds their results. Sums are in double precision and without atomics, so they are
reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..passes.fused_loops import Group
from ..passes.layouts import Layout, strides_in
from ..program import Value
from .cpp_expressions import cast, expression, held, literal, load, store, stored

THREADS = 256
MAX_BLOCKS = 1 << 16  # maximum blocks of an elementwise kernel; for more elements, each thread computes several
MAX_SUM_BLOCKS = 1024  # maximum blocks of a kernel with split sums; enough to occupy any GPU
MIN_TERMS_PER_THREAD = 16  # minimum terms per thread of a split sum


class Kernel(NamedTuple):
    """A kernel: its parameters and body, and the grid of blocks of ``THREADS`` threads."""

    parameters: str
    body: str
    grid: tuple[int, int]
    functions: tuple[str, ...] = ()  # definitions of the functions that it calls

    def text(self, name: str) -> str:
        """Return the definition."""
        return f'extern "C" __global__ void {name}({self.parameters}) {{\n{self.body}}}\n'


class Operands:
    """The operands of a group, in a kernel named ``a`` (arrays), ``s`` (numbers), ``o`` (results) and ``p`` (sums)."""

    def __init__(self, group: Group) -> None:
        made = {step.out for step in group.steps}
        read = [x for step in group.steps for x in step.operands if isinstance(x, Value) and x not in made]
        read += [total.of for total in group.sums if total.of not in made]
        read = list(dict.fromkeys(read))
        self.arrays = [x for x in read if x.shape is not None]
        self.numbers = [x for x in read if x.shape is None]
        self.names = {x: f"v{n}" for n, x in enumerate(self.arrays)} | {x: f"s{n}" for n, x in enumerate(self.numbers)}

    def parameters(self, outs: Sequence[Value], sums: Sequence[str]) -> str:
        """Return the parameters: arrays, numbers, results and sums."""
        given = [f"const {stored(x.dtype)}* __restrict__ a{n}" for n, x in enumerate(self.arrays)]
        given += [f"{NUMBERS[x.dtype][0]} s{n}" for n, x in enumerate(self.numbers)]
        given += [f"{stored(x.dtype)}* __restrict__ o{n}" for n, x in enumerate(outs)]
        return ", ".join([*given, *[f"{kind}* __restrict__ p{n}" for n, kind in enumerate(sums)]])


# The C and NumPy types by which a Python number is passed to a kernel.
NUMBERS: dict[Any, tuple[str, Any]] = {
    float: ("double", np.float64), int: ("long long", np.int64), bool: ("bool", np.bool_)
}  # fmt: skip


def steps_of(group: Group, operands: Operands) -> list[str]:
    """Return the lines that compute the group's steps for one element."""
    names = dict(operands.names)
    dtypes = {x: np.dtype(NUMBERS[x.dtype][1]) if x.shape is None else x.dtype for x in names}
    lines = []
    for number, step in enumerate(group.steps):
        texts = []
        for index, x in enumerate(step.operands):
            if not isinstance(x, Value):
                texts.append(literal(x, step.dtype))
            elif index in step.tests:
                texts.append(names[x])
            else:
                texts.append(cast(names[x], dtypes[x], step.dtype))
        name = names[step.out] = f"t{number}"
        dtypes[step.out] = step.out.dtype
        text = expression(step.form, texts, step.dtype)
        lines.append(f"const {held(step.out.dtype)} {name} = ({held(step.out.dtype)}){text};")
    operands.names = names
    return lines


def _split(index: str, axes: Sequence[tuple[int, int]], kind: str) -> list[str]:
    """Return the lines that split a flat index into indices ``r`` along axes, the last axis fastest."""
    lines, rest = [], index
    for place, (axis, length) in reversed(list(enumerate(axes))):
        if place == 0:
            lines.append(f"const {kind} r{axis} = {rest};")
        else:
            lines += [f"const {kind} r{axis} = {rest} % {length};", f"const {kind} q{axis} = {rest} / {length};"]
            rest = f"q{axis}"
    return lines


class _Places:
    """The addresses of elements in terms of the indices along the loop's axes."""

    def __init__(self, layout: Layout, shape: tuple[int, ...], arrays: Sequence[Value]) -> None:
        self.layout = layout
        self.strides = {}
        reach = prod(shape)
        for x in arrays:
            steps = strides_in(x, shape)
            self.strides[x] = [steps[axes[-1]] // x.dtype.itemsize for axes in layout.groups]
            lengths = zip(self.strides[x], layout.lengths, strict=True)
            reach = max(reach, 1 + sum(abs(stride) * (length - 1) for stride, length in lengths))
        self.kind = "int" if reach + THREADS * MAX_BLOCKS < 1 << 31 else "long long"

    def of(self, strides: Sequence[int]) -> str:
        terms = [f"r{axis}" if s == 1 else f"r{axis} * {s}" for axis, s in enumerate(strides) if s]
        return " + ".join(terms) or "0"

    def rows(self) -> list[int]:
        """Return the strides of a result."""
        return [prod(self.layout.lengths[axis + 1 :]) for axis in range(len(self.layout.lengths))]

    def loads(self, arrays: Sequence[Value]) -> list[str]:
        return [
            f"const {held(x.dtype)} v{n} = {load(f'a{n}[{self.of(self.strides[x])}]', x.dtype)};"
            for n, x in enumerate(arrays)
        ]


MAX_POINTERS = 480  # maximum pointers per launch, whose parameters may occupy 4 KiB
THREAD_ELEMENTS = 16  # number of elements per thread of a kernel over several arrays


def split_blocks(calls: Sequence[tuple[str, int]]) -> tuple[list[str], int]:
    """Return the lines of a kernel that divides its blocks among calls with a size each, and the number of blocks.

    In a call ``block`` is the index of its range of ``THREADS * THREAD_ELEMENTS`` elements.
    """
    lines, total = ["int block = blockIdx.x;"], 0
    for call, size in calls:
        blocks = -(-size // (THREADS * THREAD_ELEMENTS))
        total += blocks
        lines += [f"if (block < {blocks}) {{ {call}; return; }}", f"block -= {blocks};"]
    return lines, max(total, 1)


# The loop over the elements ``i`` of a block.
BLOCK_LOOP = (
    f"const long long first = (long long)block * {THREADS * THREAD_ELEMENTS};",
    f"const long long last = first + {THREADS * THREAD_ELEMENTS} < size ? first + {THREADS * THREAD_ELEMENTS} : size;",
    f"for (long long i = first + threadIdx.x; i < last; i += {THREADS}) {{",
)
_COPY = (
    "template <class T> __device__ void copied(T* to, const T* from, long long size, int block) {\n"
    + "".join(f"  {line}\n" for line in BLOCK_LOOP)
    + "    to[i] = from[i];\n  }\n}\n"
)


def copying(values: Sequence[Value]) -> Kernel:
    """Return a kernel that copies several contiguous arrays."""
    parameters = [
        f"{qualifier}{stored(x.dtype)}* __restrict__ {name}{n}"
        for n, x in enumerate(values)
        for qualifier, name in (("", "o"), ("const ", "a"))
    ]
    lines, blocks = split_blocks([(f"copied(o{n}, a{n}, {x.size}LL, block)", x.size) for n, x in enumerate(values)])
    return Kernel(", ".join(parameters), _indented(lines, 1), (blocks, 1), (_COPY,))


def _indented(lines: Sequence[str], depth: int) -> str:
    return "".join(f"{'  ' * depth}{line}\n" for line in lines)


def elementwise(group: Group, operands: Operands) -> Kernel:
    """Return the kernel of a group without sums."""
    layout = Layout(group.shape, operands.arrays)
    places = _Places(layout, group.shape, operands.arrays)
    count, kind = prod(group.shape), places.kind
    lines = _split("i", list(enumerate(layout.lengths)), kind)
    lines += places.loads(operands.arrays) + steps_of(group, operands)
    lines += [f"o{n}[i] = {store(operands.names[x], x.dtype)};" for n, x in enumerate(group.outs)]
    blocks = min(-(-count // THREADS), MAX_BLOCKS)
    body = (
        f"  for ({kind} i = ({kind})blockIdx.x * {THREADS} + threadIdx.x; i < {count}; i += {blocks * THREADS}) {{\n"
        + _indented(lines, 2)
        + "  }\n"
    )
    return Kernel(operands.parameters(group.outs, ()), body, (blocks, 1))


class Tile(NamedTuple):
    """A tile of threads for ``kept`` sums of ``length`` terms each: ``across`` sums by ``along`` threads per sum."""

    kept: int
    length: int
    along_first: bool  # whether adjacent threads read adjacent terms of one sum; otherwise they read adjacent sums
    across: int
    along: int
    shares: int  # tiles per sum

    @classmethod
    def of(cls, kept: int, length: int, along_first: bool) -> Tile:
        """Return a tile whose threads read memory in order."""
        if along_first:
            along = _next_power_of_two(length)
            across = THREADS // along
        else:
            across = _next_power_of_two(kept)
            along = THREADS // across
        blocks = -(-kept // across)
        shares = max(1, min(length // (along * MIN_TERMS_PER_THREAD), MAX_SUM_BLOCKS // blocks))
        return cls(kept, length, along_first, across, along, shares)

    def kernel(
        self, parameters: str, kind: str, indices: Sequence[str], each: Sequence[str], terms: Sequence[str],
        results: Sequence[str]
    ) -> Kernel:  # fmt: skip
        """Return the kernel that writes ``results``, which are computed from the sums ``z`` of ``terms``.

        Args:
            parameters: the parameters of the kernel.
            kind: the type of indices.
            indices: lines that compute indices from k, the number of the sum.
            each: lines for one term, with its index r.
            terms: the terms, as doubles.
            results: statements in terms of ``z0, z1, ...``.
        """
        share = -(-self.length // self.shares)
        numbers = range(len(terms))
        along, across = ("%", "/") if self.along_first else ("/", "%")
        width = self.along if self.along_first else self.across
        step = 1 if self.along_first else self.across  # distance between successive threads of the same sum
        lines = [
            f"__shared__ double found[{len(terms)}][{THREADS}];",
            f"const int mine = threadIdx.x {along} {width};",
            f"const {kind} k = ({kind})blockIdx.x * {self.across} + threadIdx.x {across} {width};",
            *[f"double z{n} = 0;" for n in numbers],
            f"if (k < {self.kept}) {{",
            *["  " + line for line in indices],
            f"  const {kind} last = {share} * ((int)blockIdx.y + 1) < {self.length}"
            f" ? {share} * (({kind})blockIdx.y + 1) : {self.length};",
            f"  for ({kind} r = ({kind})blockIdx.y * {share} + mine; r < last; r += {self.along}) {{",
            *["    " + line for line in each],
            *[f"    z{n} += {term};" for n, term in enumerate(terms)],
            "  }",
            "}",
            *[f"found[{n}][threadIdx.x] = z{n};" for n in numbers],
        ]
        if self.along > 1:
            lines += [
                f"for (int half = {self.along // 2}; half; half /= 2) {{",
                "  __syncthreads();",
                "  if (mine < half) {",
                *[f"    found[{n}][threadIdx.x] += found[{n}][threadIdx.x + half * {step}];" for n in numbers],
                "  }",
                "}",
            ]
        lines += [
            f"if (mine == 0 && k < {self.kept}) {{",
            *[f"  z{n} = found[{n}][threadIdx.x];" for n in numbers],
            *[f"  {line}" for line in results],
            "}",
        ]
        return Kernel(parameters, _indented(lines, 1), (-(-self.kept // self.across), self.shares))


def _next_power_of_two(count: int) -> int:
    return min(THREADS, 1 << max(0, count - 1).bit_length())


def with_sums(group: Group, operands: Operands) -> tuple[Kernel, Tile, list[Kernel]]:
    """Return the kernel of a group with sums over the same axes, its tile, and a second kernel for each split sum."""
    layout = Layout(group.shape, operands.arrays, [total.axes for total in group.sums])
    places = _Places(layout, group.shape, operands.arrays)
    reduced = layout.reduces(group.sums[0].axes)
    lengths = list(enumerate(layout.lengths))
    kept_axes = [(axis, length) for axis, length in lengths if axis not in reduced]
    summed_axes = [(axis, length) for axis, length in lengths if axis in reduced]
    kept, count = (prod(length for _, length in axes) for axes in (kept_axes, summed_axes))
    tile = Tile.of(kept, count, bool(lengths) and lengths[-1][0] in reduced)
    kind = places.kind
    each = _split("r", summed_axes, kind) + places.loads(operands.arrays) + steps_of(group, operands)
    each += [
        f"o{n}[{places.of(places.rows())}] = {store(operands.names[x], x.dtype)};" for n, x in enumerate(group.outs)
    ]
    terms = [f"(double){operands.names[total.of]}" for total in group.sums]
    whole = tile.shares == 1
    kinds = [stored(total.out.dtype) if whole else "double" for total in group.sums]
    given = operands.parameters(group.outs, kinds)
    place = "k" if whole else f"(long long)blockIdx.y * {kept} + k"
    ends = [_result(total, count) if whole else "z0" for total in group.sums]
    ends = [f"p{n}[{place}] = {end.replace('z0', f'z{n}')};" for n, end in enumerate(ends)]
    first = tile.kernel(given, kind, _split("k", kept_axes, kind), each, terms, ends)
    if whole:
        return first, tile, []
    second = []
    for total in group.sums:
        rest = Tile.of(kept, tile.shares, kept == 1)._replace(shares=1)
        given = f"const double* __restrict__ a0, {stored(total.out.dtype)}* __restrict__ p0"
        second.append(rest.kernel(given, kind, (), (), [f"a0[r * {kept} + k]"], [f"p0[k] = {_result(total, count)};"]))
    return first, tile, second


def _result(total: Any, count: int) -> str:
    text = f"(z0 / {count})" if total.mean else "z0"
    return f"narrow({text})" if total.out.dtype.itemsize == 2 else f"({stored(total.out.dtype)}){text}"
