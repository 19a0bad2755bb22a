"""Windows that slide over the spatial axes of ``(N, C, *size)``.

Convolution, pooling and unfold read the same positions of their input, which ``Window`` defines.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from operator import index as as_integer
from typing import Any, TypeVar, get_overloads, overload

from ....core.arrays import Array
from ....core.errors import describe
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor
from ...table.registry import operator
from ...table.types import Size

Function = TypeVar("Function", bound=Callable[..., Any])
Ints = tuple[int, ...]
Tap = tuple[Ints, tuple[slice, ...], tuple[slice, ...]]
EVERY = (slice(None), slice(None))  # all images and channels, in front of spatial slices


class _Window(NamedTuple):
    size: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints
    out: Ints


class Window(_Window):
    """Windows over spatial axes: per axis, offset k of window t reads ``x[t * stride + k * dilation - padding]``.

    Positions outside of ``x`` are read as zero. ``padding`` is the padding at the start; the padding at the end follows
    from the number of windows, ``out``.
    """

    @cached_property
    def reads(self) -> int:
        """The number of elements that all windows of one plane read."""
        return prod(self.out) * prod(self.kernel)

    @property
    def is_identity(self) -> bool:
        """Whether each window is one element, in order."""
        ones = (1,) * len(self.size)
        return self.kernel == ones and self.stride == ones and not any(self.padding) and self.out == self.size

    @cached_property
    def is_whole(self) -> bool:
        """Whether there is one window, which is all of ``x``."""
        dense = all(d == 1 or k == 1 for d, k in zip(self.dilation, self.kernel))
        return self.kernel == self.size and self.reads == prod(self.size) and dense and not any(self.padding)

    @property
    def is_partition(self) -> bool:
        """Whether the windows cover every element without overlap."""
        return self.kernel == self.stride and not any(self.padding) and self.dilation == (1,) * len(self.size) and all(
            t * s == length for t, s, length in zip(self.out, self.stride, self.size)
        )  # fmt: skip


@lru_cache(maxsize=4096)
def axis_taps(window: Window, axis: int) -> tuple[tuple[int, slice, slice], ...]:
    """Yield each offset along one axis, the windows for which it is inside of x, and the elements that they read."""
    size, stride, out = window.size[axis], window.stride[axis], window.out[axis]
    found = []
    for k in range(window.kernel[axis]):
        start = k * window.dilation[axis] - window.padding[axis]
        first = max(0, -(start // stride))
        last = min(out, (size - 1 - start) // stride + 1)
        if last > first:
            read = slice(start + first * stride, start + (last - 1) * stride + 1, stride)
            found.append((k, slice(first, last), read))
    return tuple(found)


@lru_cache(maxsize=1024)
def taps(window: Window) -> tuple[Tap, ...]:
    """Yield each offset along all axes, the windows for which it is inside of x, and the elements that they read."""
    axes = [axis_taps(window, axis) for axis in range(len(window.size))]
    return tuple(
        (tuple(k for k, _, _ in tap), tuple(t for _, t, _ in tap), tuple(read for _, _, read in tap))
        for tap in product(*axes)
    )


def gather_windows(x: Array, columns: Array, window: Window) -> None:
    """Fill ``columns (N, C, *kernel, *out)`` with the elements that windows read, 0 outside of x."""
    for offset, places, reads in taps(window):
        columns[EVERY + offset + places] = x[EVERY + reads]


def scatter_windows(columns: Array, x: Array, window: Window) -> None:
    """The transpose of ``gather_windows``: add each element of ``columns`` to the position that it was read from."""
    for offset, places, reads in taps(window):
        x[EVERY + reads] += columns[EVERY + offset + places]


def per_axis(argument: str, value: Size, axes: int, least: int | None = None) -> Ints:
    """Return one integer per spatial axis, given as one integer or a sequence."""
    if type(value) is int and (least is None or value >= least):
        return (value,) * axes
    values = value if isinstance(value, (tuple, list)) else (value,)
    try:
        numbers = tuple([as_integer(number) for number in values])
    except TypeError:
        raise TypeError(f"argument {argument!r} must be an integer or integers, got {describe(value)}") from None
    if len(numbers) == 1:
        numbers *= axes
    if len(numbers) != axes:
        raise RuntimeError(f"argument {argument!r} must be one integer or {axes}, got {describe(value)}")
    if least is not None and min(numbers) < least:
        wanted = "negative" if least == 0 else "non-positive"
        raise RuntimeError(f"{wanted} {argument} is not supported, got {describe(value)}")
    return numbers


def with_batch(x: Tensor, axes: int) -> tuple[Tensor, bool]:
    """Return the input as ``(N, C, *size)``, and whether the batch axis was added."""
    ndim = x.array.ndim
    if ndim == axes + 2:
        return x, False
    if ndim == axes + 1:
        return x[None], True
    raise RuntimeError(f"expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input, but got {describe(x)}")


# The words in braces in docstrings of operators on one, two and three spatial axes.
_WORDS = {
    axes: {
        "n": axes,
        "sizes": sizes,
        "dimensions": f"{axes} dimension{'s' * (axes > 1)}",
        "input": f"``(N, C, {sizes})``, or ``(C, {sizes})`` without a batch",
        "places": f"flattened ``{sizes.replace(', ', ' * ')}``" if axes > 1 else f"axis ``{sizes}``",
        "length": sizes[0],
        "kernel": ", ".join(f"k{size}" for size in sizes.split(", ")) if axes > 1 else "K",
        "k": f"k{sizes[0]}" if axes > 1 else "K",
        "integers": "one integer or one per axis" if axes > 1 else "one integer",
    }
    for axes, sizes in {1: "L", 2: "H, W", 3: "D, H, W"}.items()
}


def for_axes(
    define: Callable[[int], Function], examples: dict[int, str], suffix: str = "", **options: Any
) -> list[Function]:
    """Register an operator for several numbers of spatial axes.

    Args:
        define: returns the function for a number of axes. Its docstring is that of the operators, with the words in
            braces replaced.
        examples: the numbers of axes, each with the example for the docstring.
        suffix: the end of the names, after the number of axes.
        options: the arguments of ``operator``.
    """
    entered = []
    for axes, example in examples.items():
        function: Any = define(axes)
        forms: Any = get_overloads(function)
        name = f"{function.__name__}{axes}d{suffix}"
        for form in forms:  # overloads are registered by the function's qualified name
            form.__qualname__ = name
            overload(form)
        function.__name__ = function.__qualname__ = name
        if define.__doc__:
            function.__doc__ = define.__doc__.format(**_WORDS[axes]).rstrip() + f"\n\n    {example}\n    "
        entered.append(operator(namespace="nn.functional", method=False, **options)(function))
    return entered
