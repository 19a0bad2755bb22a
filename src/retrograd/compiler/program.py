"""Programs: what a traced function does to arrays, as a list of instructions.

A ``Program`` is imperative, as NumPy is: its instructions run in order, some give views, some write into memory that
they were given. Every array that the trace met is a ``Value``:

* ``value.shape``, ``value.dtype``, ``value.strides``: what the array was in the trace; guards see to it that these are
  what they are in a replay. For what is no array but a number (``item()``) the shape is None.
* ``value.device``: ``"cpu"``, the number of a GPU, or None for what is no array.
* ``value.root``: the value whose memory it lies in; itself for whoever owns his memory. Two values may overlap only if
  their roots are the same. A view's instruction has ``view = True``.

An ``Instruction`` is ``function(*args, **kwargs) -> outs``. Values stand anywhere in ``args`` and ``kwargs``, inside
tuples, lists, dicts and slices too; all else there is constant.

* ``outs``: the values of its results, in order. With ``several`` the result is a nest of tuples and lists, and
  ``paths`` says by which indices each of them is found there.
* ``checks``: the shapes of ``outs`` may depend on elements, so a replay compares them with those of the trace.
* ``writes``: the values whose memory it changes. ``np.add(a, b, out=c)`` has ``c`` among kwargs, in ``writes``, and no
  outs: after a write the program goes on to use ``c``.
* ``kind`` says what the function is:

  - ``"array"``: a NumPy ufunc or function, an operator of Python's, or a ``Method`` of arrays: the instructions that
    passes understand, fuse and compile;
  - ``"primitive"``: the forward of ``primitive``, a kernel or a library's routine, or something elementwise that can
    be written out in NumPy's functions by ``expand``;
  - ``"whole"``: any other pure function of arrays;
  - ``"loop"``: ``parts`` fused into a compiled loop;
  - ``"native"``: ``parts`` as one compiled function (``native/``), which gives a ``Miss`` where a part is a guard;
  - ``"draw"``: random numbers from a generator: never removed, doubled or moved past another draw;
  - ``"guard"``: ``function(value)`` must be equal to what the trace saw, else the replay is given up (``Miss``) and
    what was written so far is undone;
  - ``"effect"``: changes Python objects that the user holds: ``.grad`` of a leaf, the parameters and the state of an
    optimizer. Never removed; all that lies in memory outside of the program is read and written by then.

* ``asked``: the arrays that the call asks for by ``kernels/runtime/result_arrays.py``, in order.
* ``operator``, ``site``: the operator and the line of the user's program that it comes from; ``backward`` in a walk.

Inputs of a program are ``Source``s: how to fetch an array when a replay begins. ``("argument", index)`` is the leaf of
the arguments with that number, ``("tensor", tensor)`` the array that a Tensor outside of the function has then,
``("grad", tensor)`` that of its gradient, ``("place", place)`` a number or a large NumPy array that a variable holds,
``("object", index)`` an argument as a Tensor, for effects, ``("slot", k)`` a constant that follows the sizes,
``("constant", array)`` what was computed when the program was made, ``("cotangent", index)`` what a walk brings to the
backward part.
Outputs are values; ``Program.results`` says what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

# Functions whose results have shapes that depend on elements, whatever these are.
SHAPED_BY_DATA = frozenset(
    (
        "argwhere", "extract", "flatnonzero", "intersect1d", "nonzero", "setdiff1d", "setxor1d", "trim_zeros",
        "union1d", "unique", "bincount", "unique_values", "unique_counts", "unique_inverse", "unique_all", "compress",
        "repeat",
    )
)  # fmt: skip


class Value:
    """One array, or number, of a program (see above); ``name`` says what it is where the trace has no word of it."""

    __slots__ = ("device", "dtype", "index", "name", "root", "shape", "strides")

    def __init__(self, index: int, array: Any, root: Value | None = None, name: str = "") -> None:
        self.index = index
        self.name = name
        self.root = self if root is None else root
        self.shape: Any = getattr(array, "shape", None)
        self.dtype: Any = getattr(array, "dtype", type(array))
        self.strides: Any = getattr(array, "strides", None)
        device = None if self.shape is None else getattr(array, "device", "cpu")
        self.device: str | int | None = getattr(device, "id", device)

    def __repr__(self) -> str:
        return f"v{self.index}"

    @property
    def on_gpu(self) -> bool:
        """Whether it is an array of CuPy's."""
        return type(self.device) is int

    @property
    def size(self) -> int:
        """The number of elements."""
        size = 1
        for length in self.shape or ():
            size *= length
        return size

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize if self.shape is not None else 0

    def describe(self) -> str:
        """Dtype and shape, as errors show them."""
        if self.shape is None:
            return self.dtype.__name__
        return f"{self.dtype}({', '.join(map(str, self.shape))})"


class Method:
    """A method of arrays by its name, as a function of the array."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x, self.__name__)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<method {self.__name__}>"


method: Callable[[str], Method] = cache(Method)


class Asked(NamedTuple):
    """An array that a call asks for (``kernels/runtime/result_arrays.py``):
    which of ``outs`` owns it; None where it is scratch."""

    shape: tuple[int, ...]
    dtype: Any
    out: int | None


class Instruction:
    """One call of a program (see above)."""

    __slots__ = (
        "args", "asked", "backward", "checks", "function", "kind", "kwargs", "number", "operator", "outs", "parts",
        "paths", "primitive", "run", "several", "site", "view", "writes",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        outs: tuple[Value, ...] = (),
        writes: tuple[Value, ...] = (),
        *,
        several: bool = False,
        view: bool = False,
        checks: bool = False,
        primitive: Any = None,
    ) -> None:
        self.kind = kind
        self.function = function
        self.args = args
        self.kwargs = kwargs or {}
        self.outs = outs
        self.writes = writes
        self.several = several
        self.view = view
        self.paths: tuple[tuple[int, ...], ...] = ()  # with several, where in the result each of outs is found
        self.checks = checks  # whether the shapes of outs may depend on data, and are compared
        self.primitive = primitive
        self.parts: tuple[Instruction, ...] = ()  # of a loop, what was fused in it
        self.asked: tuple[Asked, ...] = ()
        self.number = -1  # of the trace, in its order
        self.run = 0  # of a part that runs several times
        self.operator = ""
        self.site: Any = None
        self.backward = False

    def reads(self) -> Iterator[Value]:
        """The values among the arguments, what is written among them."""
        yield from values_in(self.args)
        yield from values_in(self.kwargs)

    @property
    def on_gpu(self) -> bool:
        """Whether arrays of CuPy's are among what it reads or makes."""
        return any(value.on_gpu for value in (*self.reads(), *self.outs))

    def changed(self, **changes: Any) -> Instruction:
        """A copy with other attributes."""
        new = Instruction(self.kind, self.function, self.args, self.kwargs)
        for name in Instruction.__slots__:
            setattr(new, name, changes.get(name, getattr(self, name)))
        return new

    @property
    def name(self) -> str:
        """What it calls, in a word."""
        if self.primitive is not None:
            return self.primitive.name
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    def __repr__(self) -> str:
        call = [*map(_shown, self.args), *[f"{name}={_shown(value)}" for name, value in self.kwargs.items()]]
        outs = ", ".join(f"{value!r}: {value.describe()}" for value in self.outs)
        return f"{outs + ' = ' if outs else ''}{self.name}({', '.join(call)})"


def _shown(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype}{list(value.shape)}>"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_shown, value))})"
    return repr(value) if len(repr(value)) < 40 else f"<{type(value).__name__}>"


def values_in(nest: Any) -> Iterator[Value]:
    """The values anywhere in an argument."""
    kind = type(nest)
    if kind is Value:
        yield nest
    elif kind in (tuple, list) or isinstance(nest, (tuple, list)):
        for item in nest:
            yield from values_in(item)
    elif kind is dict:
        for item in nest.values():
            yield from values_in(item)
    elif kind is slice:
        yield from values_in((nest.start, nest.stop, nest.step))
    elif hasattr(kind, "with_key"):
        yield from values_in(nest.key)


def replaced(nest: Any, change: Callable[[Any], Any]) -> Any:
    """An argument with ``change`` applied to what is no container in it; the very same where nothing changes."""
    kind = type(nest)
    if kind is tuple or kind is list or isinstance(nest, (tuple, list)):
        items = [replaced(item, change) for item in nest]
        if all(new is old for new, old in zip(items, nest, strict=True)):
            return nest
        if kind in (tuple, list):
            return kind(items)
        return kind(*items) if hasattr(nest, "_fields") else tuple(items)
    if kind is dict:
        entries = {name: replaced(item, change) for name, item in nest.items()}
        return nest if all(entries[name] is nest[name] for name in nest) else entries
    if kind is slice:
        parts = nest.start, nest.stop, nest.step
        changed = replaced(parts, change)
        return nest if changed is parts else slice(*changed)
    if hasattr(kind, "with_key"):
        key = replaced(nest.key, change)
        return nest if key is nest.key else nest.with_key(key)
    return change(nest)


class Program:
    """The instructions of one trace, with its inputs and results.

    Attributes:
        inputs: pairs of a value and its source.
        instructions: in the order in which they run; those from ``split`` on are the backward part of a function whose
            results require grad, which runs when a walk comes to them.
        outputs: values that a replay hands out, each in memory of its own.
        varies: whether shapes and strides are those of one size among several, so that no pass may rely on them.
        written: the values of inputs in whose memory the program writes.
        snapshots: copies of NumPy arrays that the trace took, by their ids.
        cleared: the number of the instruction before which gradients were last cleared.
    """

    def __init__(self) -> None:
        self.inputs: list[tuple[Value, tuple[str, Any]]] = []
        self.instructions: list[Instruction] = []
        self.outputs: list[Value] = []
        self.split: int | None = None
        self.varies = False
        self.cleared = 0
        self.snapshots: dict[int, Any] = {}
        self.count = 0

    def value(self, array: Any, root: Value | None = None) -> Value:
        """A new value for an array."""
        self.count += 1
        return Value(self.count - 1, array, root)

    def snapshot(self, array: Any) -> Any:
        """A copy of an array as it is now, which is a constant of the program."""
        made = array.copy(order="K")
        self.snapshots[id(made)] = made
        return made

    @property
    def written(self) -> list[Value]:
        """The inputs in whose memory the program writes."""
        roots = {value.root for instruction in self.instructions for value in instruction.writes}
        return [value for value, _ in self.inputs if value.root in roots]

    def __str__(self) -> str:
        lines = [f"{value!r}: {value.describe()} <- {source[0]}" for value, source in self.inputs]
        return "\n".join([*lines, *map(repr, self.instructions), f"return {self.outputs}"])
