"""Example calls of the operators in ``ops/shape/``, by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.arrays import Array
from ..case import Call, Case, Fixed
from .math.elementwise import complex_normal, normal, unary_calls

CASES: list[Case] = []


# shape: Cases of shapes: the same elements under another shape.

Normal = Callable[..., Any]


def normals(*makers: Callable[[Normal], Call]) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Return the given calls; each is a function of ``n``, and ``n(2, 3)`` draws normal numbers of shape (2, 3)."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for make in makers:
            yield make(lambda *shape: np.asarray(rng.standard_normal(shape)))

    return calls


def integers(*values: object) -> Array:
    """An index: ``integers(0, 2)`` is a vector, ``integers([0], [1])`` a matrix."""
    return np.array(values, np.int64)


reshapes = normals(
    lambda n: Call(n(2, 3), (3, 2)),
    lambda n: Call(n(2, 3, 4), (-1, 4)),
    lambda n: Call(n(), (1, 1)),
    lambda n: Call(n(1), ()),
    lambda n: Call(n(0, 3), (3, 0)),
)

at_least = normals(
    lambda n: Call(n()),
    lambda n: Call(n(3)),
    lambda n: Call(n(2, 3)),
    lambda n: Call(n(2, 3, 1)),
    lambda n: Call((n(), n(3), n(2, 0))),
)


CASES += [
    Case("reshape", reshapes, np.reshape),
    Case("Tensor.view", normals(lambda n: Call(n(), 1), lambda n: Call(n(6), 3, -1), lambda n: Call(n(0), (2, 0)))),
    Case("Tensor.view_as", normals(lambda n: Call(n(6), np.zeros((2, 3), np.int64)))),
    Case("Tensor.reshape_as", normals(lambda n: Call(n(3, 2), np.zeros((2, 3), np.int64)))),
    Case(
        "squeeze",
        normals(
            lambda n: Call(n(2, 1, 3, 1)),
            lambda n: Call(n(2, 1, 3, 1), 1),
            lambda n: Call(n(2, 1, 3, 1), dim=(-1, 0)),
            lambda n: Call(n(2, 3), 0),
            lambda n: Call(n()),
            lambda n: Call(n(1, 0)),
        ),
    ),
    Case("unsqueeze", normals(lambda n: Call(n(2, 3), 1), lambda n: Call(n(), -1), lambda n: Call(n(0, 2), -3))),
    Case(
        "flatten",
        normals(
            lambda n: Call(n(2, 3, 4)),
            lambda n: Call(n(2, 3, 4), 1),
            lambda n: Call(n(2, 3, 4), 0, -2),
            lambda n: Call(n()),
            lambda n: Call(n(0, 3)),
        ),
    ),
    Case("ravel", normals(lambda n: Call(n(2, 3)), lambda n: Call(n()), lambda n: Call(n(0, 3))), np.ravel),
    Case(
        "unflatten",
        normals(
            lambda n: Call(n(2, 6), 1, (3, -1)), lambda n: Call(n(6, 2), -2, (2, 3)), lambda n: Call(n(2, 0), 1, (0, 3))
        ),
    ),
    Case("atleast_1d", at_least),
    Case("atleast_2d", at_least),
    Case("atleast_3d", at_least),
]


# arrangement: Cases of rearrangements of elements: flips, rolls, repetitions.

triangles = normals(
    lambda n: Call(n(3, 4)),
    lambda n: Call(n(2, 3, 3), 1),
    lambda n: Call(n(3, 2), diagonal=-1),
    lambda n: Call(n(0, 2)),
)


CASES += [
    Case(
        "Tensor.repeat",
        normals(
            lambda n: Call(n(2, 3), 2, 2),
            lambda n: Call(n(2), (3, 1, 2)),
            lambda n: Call(n(), 2),
            lambda n: Call(n(2), 0),
        ),
        lambda x, *sizes: np.tile(x, sizes[0] if isinstance(sizes[0], tuple) else sizes),
    ),
    Case(
        "tile", normals(lambda n: Call(n(2, 3), (2,)), lambda n: Call(n(2), (2, 2)), lambda n: Call(n(), (3,))), np.tile
    ),
    Case(
        "repeat_interleave",
        normals(
            lambda n: Call(n(2, 3), 2),
            lambda n: Call(n(2, 3), 3, 1),
            lambda n: Call(n(2, 3), integers(1, 0, 2), dim=-1),
            lambda n: Call(n(3), integers(2)),
            lambda n: Call(integers(1, 2)),
        ),
    ),
    Case(
        "flip",
        normals(lambda n: Call(n(2, 3), (0, 1)), lambda n: Call(n(2, 3, 2), (-1,)), lambda n: Call(n(0, 2), (0,))),
        np.flip,
    ),
    Case("fliplr", normals(lambda n: Call(n(2, 3))), np.fliplr),
    Case("flipud", normals(lambda n: Call(n(2, 3)), lambda n: Call(n(3))), np.flipud),
    Case(
        "rot90",
        normals(lambda n: Call(n(2, 3)), lambda n: Call(n(2, 3, 4), 2, (1, 2)), lambda n: Call(n(2, 3), -1, (1, 0))),
        np.rot90,
    ),
    Case(
        "roll",
        normals(
            lambda n: Call(n(2, 3), 1),
            lambda n: Call(n(2, 3), -2, 1),
            lambda n: Call(n(2, 3), (1, 4), (0, -1)),
            lambda n: Call(n(0, 2), 1, 0),
        ),
        np.roll,
    ),
    Case("tril", triangles),
    Case("triu", triangles),
    Case(
        "meshgrid",
        normals(
            lambda n: Call(n(2), n(3), indexing="ij"),
            lambda n: Call(n(2), n(), n(3), indexing="xy"),
            lambda n: Call(n(2), indexing="ij"),
        ),
        np.meshgrid,
    ),
    Case("cartesian_prod", normals(lambda n: Call(n(2), n(3)), lambda n: Call(n(3)), lambda n: Call(n(2), n(0)))),
    Case(
        "combinations",
        normals(lambda n: Call(n(4)), lambda n: Call(n(3), r=3), lambda n: Call(n(3), 2, with_replacement=True)),
    ),
    Case("nn.functional.pixel_shuffle", normals(lambda n: Call(n(2, 8, 2, 3), 2), lambda n: Call(n(9, 1, 2), 3))),
    Case("nn.functional.pixel_unshuffle", normals(lambda n: Call(n(2, 2, 4, 6), 2), lambda n: Call(n(1, 3, 6), 3))),
    Case(
        "nn.functional.channel_shuffle",
        normals(lambda n: Call(n(2, 6, 3), 2), lambda n: Call(n(1, 4, 2, 2), 4)),
        torch="torch.channel_shuffle",
    ),
]


# conversion: Cases of conversions.


def integer_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.integers(-3, 3, (2, 3)))
    yield Call(rng.random((2, 3)) < 0.5)


def whole_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from integer_calls(rng)
    yield Call(rng.uniform(0, 9, (2, 3)))


def type_calls(rng: np.random.Generator) -> Iterator[Call]:
    for dtype in (np.float64, np.dtype("complex128")):
        yield Call(normal(rng, (2, 3)), dtype)
    yield Call(rng.integers(-3, 3, (2, 3)), np.float32)


def narrow_type_calls(rng: np.random.Generator) -> Iterator[Call]:
    for dtype in (np.float32, np.float16, np.int64):
        yield Call(normal(rng, (2, 3)), dtype)


def to_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from type_calls(rng)
    yield Call(normal(rng, (2, 3)), "cpu")
    yield Call(normal(rng, (2, 3)), "cpu", np.float64)
    yield Call(normal(rng, (2, 3)), copy=True)
    yield Call(normal(rng, (2, 3)), Fixed(normal(rng, ())))
    yield Call(normal(rng, (2, 3)), dtype=np.complex128)


def type_as_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (2, 3)), Fixed(normal(rng, ())))
    yield Call(rng.integers(-3, 3, (2, 3)), Fixed(normal(rng, ())))


def no_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from ()


def contiguous_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (2, 3)))
    yield Call(normal(rng, (2, 3)).T)
    yield Call(normal(rng, ()))


CASES += [
    Case("Tensor.astype", type_calls, torch="", edge_calls=narrow_type_calls, dtypes=()),
    Case("Tensor.copy", unary_calls(also=complex_normal), torch=""),
    Case("Tensor.to", to_calls, edge_calls=narrow_type_calls, dtypes=()),
    Case("Tensor.type", type_calls, edge_calls=narrow_type_calls, dtypes=()),
    Case("Tensor.type_as", type_as_calls, dtypes=()),
    Case("Tensor.float", integer_calls, edge_calls=unary_calls(), dtypes=()),
    Case("Tensor.half", integer_calls, edge_calls=unary_calls(), dtypes=()),
    Case("Tensor.double", unary_calls(empty=False), dtypes=()),
    Case("Tensor.cfloat", integer_calls, edge_calls=unary_calls(), dtypes=()),
    Case("Tensor.cdouble", unary_calls(empty=False, also=complex_normal), dtypes=()),
    *(
        Case(f"Tensor.{name}", whole_calls, order=0, dtypes=())
        for name in ("int", "long", "short", "char", "byte", "bool")
    ),
    Case("Tensor.cpu", unary_calls(empty=False)),
    Case("Tensor.cuda", no_calls, torch=""),
    Case("clone", unary_calls(also=complex_normal)),
    Case("Tensor.contiguous", contiguous_calls),
    Case("detach", unary_calls(), order=0),
]


# copies: Cases of copies of views.


def contiguous_first(function: Callable[..., object]) -> Callable[..., Any]:
    """Wrap a function so that it gets a contiguous input, because its strides are counted in memory."""
    return lambda x, *args, **kwargs: function(x.clone().contiguous(), *args, **kwargs)


CASES += [
    Case("alias_copy", normals(lambda n: Call(n(2, 3)), lambda n: Call(n()))),
    Case(
        "as_strided_copy",
        normals(lambda n: Call(n(5), (2, 2), (1, 2)), lambda n: Call(n(5), (3, 2), (1, 2), 0)),
        wrap=contiguous_first,
    ),
    Case("detach_copy", normals(lambda n: Call(n(2, 3))), order=0, torch=""),
    Case("diagonal_copy", normals(lambda n: Call(n(2, 3)), lambda n: Call(n(2, 3, 3), 1, -1, 0))),
    Case("expand_copy", normals(lambda n: Call(n(2, 1), (3, 2, 4)), lambda n: Call(n(), (2,)))),
    Case("narrow_copy", normals(lambda n: Call(n(2, 4), 1, 1, 2), lambda n: Call(n(3), 0, 0, 0))),
    Case("permute_copy", normals(lambda n: Call(n(2, 3, 4), (2, 0, 1)), lambda n: Call(n(2, 3), (-1, 0)))),
    Case("select_copy", normals(lambda n: Call(n(2, 3), 1, -1), lambda n: Call(n(2), 0, 0))),
    Case(
        "slice_copy",
        normals(lambda n: Call(n(4, 3)), lambda n: Call(n(2, 5), -1, 1, None, 2), lambda n: Call(n(4), 0, -3, -1)),
    ),
    Case("squeeze_copy", normals(lambda n: Call(n(2, 1, 3, 1)), lambda n: Call(n(2, 1, 3), 1))),
    Case("t_copy", normals(lambda n: Call(n(2, 3)), lambda n: Call(n(3)))),
    Case("transpose_copy", normals(lambda n: Call(n(2, 3, 4), 0, -1))),
    Case("unfold_copy", normals(lambda n: Call(n(2, 5), 1, 3, 1), lambda n: Call(n(5), 0, 2, 2))),
    Case("unsqueeze_copy", normals(lambda n: Call(n(2, 3), 1), lambda n: Call(n(), -1))),
    Case("view_as_real_copy", normals(lambda n: Call(n(2, 3) + 1j * n(2, 3))), dtypes=("float32",)),
    Case("view_as_complex_copy", normals(lambda n: Call(n(3, 2))), dtypes=("float32",), torch=""),
    Case("view_copy", normals(lambda n: Call(n(2, 3), (3, -1)), lambda n: Call(n(0, 3), (3, 0)))),
    Case("unbind_copy", normals(lambda n: Call(n(2, 3)), lambda n: Call(n(2, 3), -1))),
    Case("split_copy", normals(lambda n: Call(n(5, 2), 2), lambda n: Call(n(2, 4), 4, 1))),
    Case("split_with_sizes_copy", normals(lambda n: Call(n(5, 2), [1, 4]), lambda n: Call(n(2, 4), [2, 0, 2], -1))),
    Case("unsafe_split", normals(lambda n: Call(n(5, 2), 2), lambda n: Call(n(2, 4), 4, 1))),
    Case("unsafe_split_with_sizes", normals(lambda n: Call(n(5, 2), [1, 4]), lambda n: Call(n(2, 4), [2, 0, 2], -1))),
    Case("unsafe_chunk", normals(lambda n: Call(n(5, 2), 2), lambda n: Call(n(2, 4), 3, 1))),
    Case(
        "as_strided_scatter",
        normals(lambda n: Call(n(2, 4), n(2), (2,), (2,)), lambda n: Call(n(4), n(1, 2), (1, 2), (1, 3), 0)),
        wrap=contiguous_first,
        torch="",  # operators whose gradient of the input is not the derivative
    ),
]


# expansion: Cases of broadcasting.

CASES += [
    Case(
        "Tensor.expand",
        normals(
            lambda n: Call(n(2, 1), 2, 3),
            lambda n: Call(n(3), (2, -1)),
            lambda n: Call(n(), 2),
            lambda n: Call(n(2, 3), -1, -1),
            lambda n: Call(n(1, 2), 0, 2),
        ),
    ),
    Case("Tensor.expand_as", normals(lambda n: Call(n(2, 1), np.zeros((4, 2, 3), np.int64)))),
    Case("broadcast_to", normals(lambda n: Call(n(2, 1), (4, 2, 3)), lambda n: Call(n(), (2,))), np.broadcast_to),
    Case(
        "broadcast_tensors",
        normals(lambda n: Call(n(2, 1), n(3), n()), lambda n: Call(n(0, 1), n(3)), lambda n: Call(n(2))),
        np.broadcast_arrays,
    ),
    Case(
        "Tensor.sum_to_size",
        normals(lambda n: Call(n(2, 3), 1, 3), lambda n: Call(n(4, 2, 3), (2, 1)), lambda n: Call(n(2, 3), 2, 3)),
    ),
]


# joining: Cases of joining and splitting.

stacks = normals(
    lambda n: Call([n(2, 3), n(2, 3)]),
    lambda n: Call((n(3), n(3), n(3))),
    lambda n: Call([n(), n()]),
    lambda n: Call([n(2, 0, 2)]),
)
splits = normals(
    lambda n: Call(n(5, 2), 2),
    lambda n: Call(n(2, 6), 3, 1),
    lambda n: Call(n(2, 6), 4, dim=-1),
    lambda n: Call(n(0, 2), 2),
)


CASES += [
    Case(
        "cat",
        normals(
            lambda n: Call([n(2, 3), n(1, 3)]),
            lambda n: Call((n(2, 1), n(2, 3), n(2, 0)), -1),
            lambda n: Call([n(3)], dim=0),
            lambda n: Call([n(0), n(2, 3)], 1),
            lambda n: Call([n(2), integers(1, 2)]),
        ),
    ),
    Case(
        "stack",
        normals(
            lambda n: Call([n(2, 3), n(2, 3)]),
            lambda n: Call((n(2), n(2)), -1),
            lambda n: Call([n(), n(), n()], dim=0),
            lambda n: Call([n(2, 0)], 1),
        ),
        lambda xs, dim=0: np.stack(xs, dim),
    ),
    Case("hstack", stacks, np.hstack),
    Case("vstack", stacks, np.vstack),
    Case("dstack", stacks, np.dstack),
    Case("column_stack", stacks),
    Case("block_diag", normals(lambda n: Call(n(2, 3), n(2), n()), lambda n: Call(n(0, 2), n(1, 1)))),
    Case("split", normals(lambda n: Call(n(5, 2), 2), lambda n: Call(n(2, 5), [1, 4], 1), lambda n: Call(n(0), 2))),
    Case("split_with_sizes", normals(lambda n: Call(n(5, 2), [2, 0, 3]), lambda n: Call(n(2, 3), (1, 2), dim=-1))),
    Case("chunk", splits),
    Case(
        "tensor_split",
        normals(
            lambda n: Call(n(5, 2), 3),
            lambda n: Call(n(2, 6), (1, 4), 1),
            lambda n: Call(n(6), (4, 2)),
            lambda n: Call(n(6), (-2, 9)),
            lambda n: Call(n(2), 4),
        ),
        lambda x, cuts, dim=0: np.array_split(x, cuts, dim),
    ),
    Case("hsplit", normals(lambda n: Call(n(4), 2), lambda n: Call(n(2, 4), (1, 3))), np.hsplit),
    Case("vsplit", normals(lambda n: Call(n(4, 2), 2), lambda n: Call(n(4, 2), (1, 3))), np.vsplit),
    Case("dsplit", normals(lambda n: Call(n(1, 2, 4), 2), lambda n: Call(n(1, 2, 4), (1,))), np.dsplit),
    Case("unbind", normals(lambda n: Call(n(3)), lambda n: Call(n(2, 3), 1), lambda n: Call(n(2, 3, 2), dim=-2))),
]


# permutation: Cases of permutations of dimensions.

axes = normals(
    lambda n: Call(n(2, 3), 0, 1),
    lambda n: Call(n(2, 3, 4), -1, 0),
    lambda n: Call(n(2, 3, 4), 1, 1),
    lambda n: Call(n(), 0, -1),
    lambda n: Call(n(0, 3), 0, 1),
)

CASES += [
    Case("transpose", axes),
    Case("t", normals(lambda n: Call(n(2, 3)), lambda n: Call(n(3)), lambda n: Call(n()))),
    Case(
        "permute",
        normals(
            lambda n: Call(n(2, 3, 4), (2, 0, 1)),
            lambda n: Call(n(2, 3), (-1, 0)),
            lambda n: Call(n(), ()),
            lambda n: Call(n(0, 2), (1, 0)),
        ),
        np.transpose,
    ),
    Case(
        "movedim",
        normals(
            lambda n: Call(n(2, 3, 4), 0, -1),
            lambda n: Call(n(2, 3, 4), (0, 2), (1, 0)),
            lambda n: Call(n(2, 3, 4, 1), (3, 1), (0, -1)),
        ),
        np.moveaxis,
    ),
]


# properties: Cases of properties of a Tensor, such as its number of elements.

some = normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n())), lambda n: Call(integers(1, 2)))

CASES += [
    Case("numel", some, order=0),
    Case("is_floating_point", some, order=0),
    Case("is_complex", some, order=0),
    Case("Tensor.size", normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n(2, 3)), -1)), order=0),
    Case("Tensor.dim", some, order=0),
    Case("Tensor.element_size", some, order=0),
    Case("Tensor.stride", normals(lambda n: Call(Fixed(n()))), order=0),
    # Results that depend on the memory layout have examples of single elements here, and separate tests.
    Case("Tensor.is_contiguous", normals(lambda n: Call(Fixed(n()))), order=0),
    Case("Tensor.data_ptr", lambda rng: (), order=0),
]


# views: Cases of parts of a Tensor as views.

CASES += [
    Case(
        "narrow",
        normals(lambda n: Call(n(5, 2), 0, 1, 3), lambda n: Call(n(2, 5), -1, -2, 2), lambda n: Call(n(3), 0, 3, 0)),
    ),
    Case("select", normals(lambda n: Call(n(5, 2), 0, 1), lambda n: Call(n(2, 5), -1, -2), lambda n: Call(n(3), 0, 0))),
    Case(
        "diagonal",
        normals(
            lambda n: Call(n(3, 4)),
            lambda n: Call(n(3, 4), -1),
            lambda n: Call(n(2, 3, 4), 1, 2, 0),
            lambda n: Call(n(3, 3), offset=7),
            lambda n: Call(n(2, 3, 4), dim1=-1, dim2=-2),
        ),
        lambda x, offset=0, dim1=0, dim2=1: x.diagonal(offset, dim1, dim2),
    ),
    Case(
        "diag_embed",
        normals(
            lambda n: Call(n(3)),
            lambda n: Call(n(2, 3), 1),
            lambda n: Call(n(2, 3), -2, 0, -1),
            lambda n: Call(n(2, 0), dim1=2, dim2=0),
        ),
    ),
    Case(
        "diag",
        normals(
            lambda n: Call(n(3)),
            lambda n: Call(n(3), -1),
            lambda n: Call(n(3, 4), 1),
            lambda n: Call(n(3, 3)),
            lambda n: Call(n(0, 2)),
        ),
    ),
    Case("diagflat", normals(lambda n: Call(n(2, 2)), lambda n: Call(n(), 1), lambda n: Call(n(2), -1))),
    Case(
        "Tensor.unfold",
        normals(
            lambda n: Call(n(6), 0, 3, 1),
            lambda n: Call(n(2, 7, 2), 1, 2, 3),
            lambda n: Call(n(3, 6), -1, 5, 1),
            lambda n: Call(n(4), 0, 2, 2),
            lambda n: Call(n(4), 0, 0, 2),
        ),
    ),
    Case(
        # On other inputs the result depends on their layout in memory; see the family's own tests.
        "as_strided",
        normals(lambda n: Call(n(1), (3, 2), (0, 0)), lambda n: Call(n(), (2,), (0,)), lambda n: Call(n(1), (), ())),
    ),
]
