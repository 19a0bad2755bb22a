"""Cases of views in memory of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...case import Call, Case
from .shape import normals


def contiguous_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an input whose elements lie in order: strides are counted in memory."""
    return lambda x, *args, **kwargs: function(x.clone().contiguous(), *args, **kwargs)


CASES = [
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
        torch="",  # whose gradient of the input is not the derivative
    ),
]
