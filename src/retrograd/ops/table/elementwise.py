"""Primitives that work element by element, with broadcasting."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.plan import Rule
from ...core.graph.primitive import Primitive
from ...kernels import at_first_use


def elementwise(
    name: str,
    forward: Any,
    inputs: str,
    vjps: list[Rule | None] | None,
    *,
    compiled: str = "",
    products: bool = False,
    **options: Any,
) -> Primitive:
    """A primitive that works element by element, with broadcasting, and can write its result in place.

    Large arrays are shared among threads: forward and rules are called with parts of them, unless they are loops
    ``compiled`` for their dtypes, which share by themselves. Rules that are ``products`` of their two arguments are one
    ufunc.
    """

    def write(out: Array, *arrays: Array, **params: Any) -> None:
        out[...] = forward(*arrays, **params)

    if not isinstance(forward, np.ufunc):
        options = {"write": getattr(forward, "write", write), "overwrites": True} | options
    primitive = Primitive(name, forward, inputs, vjps, elementwise=True, **options)
    at_first_use.append(lambda: _share(primitive, forward, compiled, products))
    return primitive


def _share(primitive: Primitive, forward: object, compiled: str, products: bool) -> None:
    """Let large arrays be worked on by all threads. Programs that have none never ask how large theirs are."""
    from ...kernels.chunked import by_parts, writing
    from ...kernels.loops.elements.ufuncs import applied, spread

    if isinstance(primitive.write, partial):
        primitive.write = partial(lambda ufunc, out, *arrays: applied(ufunc, arrays, out, "unsafe"), forward)
    elif primitive.write is not None:
        primitive.write = writing(primitive.write, primitive.forward, compiled)
    ufunc = getattr(forward, "ufunc", forward)  # what the forward is of floating numbers
    if isinstance(ufunc, np.ufunc):
        primitive.forward = spread(ufunc, primitive.forward)
        if primitive.ufunc is not None and ufunc.nin == 2:
            primitive.ufunc = spread(ufunc, primitive.ufunc)
    else:
        primitive.forward = by_parts(primitive.forward, compiled or ("f" if hasattr(forward, "loop") else ""))
    primitive.called = partial(by_parts, compiled=compiled)
    if products:
        primitive.called = lambda rule: spread(np.multiply, by_parts(rule))
    primitive.plans.clear()


def unary(name: str, forward: Any, vjp: Rule | None, **options: Any) -> Primitive:
    """A primitive of one input that works element by element."""
    options.setdefault("promote", "float")
    return elementwise(name, forward, "x", None if vjp is None else [vjp], **options)


def binary(name: str, forward: Any, vjp_x: Rule | None, vjp_y: Rule | None, **options: Any) -> Primitive:
    """A primitive of two inputs that works element by element, with broadcasting."""
    options.setdefault("promote", "same")
    return elementwise(name, forward, "x y", [vjp_x, vjp_y], **options)


# The same values at another place in the graph: where a graph within the graph begins.
IDENTITY = unary("identity", lambda x: x, lambda g: g, promote=None)

# The identity whose gradient stays attached to the graph with ``create_graph``, for composites of what PyTorch fuses.
STAYS_ATTACHED = unary("identity", lambda x: x, lambda g: g, promote=None, view=True, piecewise_linear=True)
