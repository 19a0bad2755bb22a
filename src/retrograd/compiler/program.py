"""Programs: the array operations of a traced function as a list of instructions.

A ``Program`` is imperative, as NumPy is: its instructions run in order, and they may return views and write to existing
memory. Each array in the trace is a ``Value``:

* ``value.shape``, ``value.dtype``, ``value.strides``: those of the array in the trace; guards make sure that they hold
  in a replay. The shape of a number (``item()``) is None.
* ``value.device``: ``"cpu"``, the index of a GPU, or None for a value that is not an array.
* ``value.root``: the value that owns the memory, which may be the value itself. Two values can overlap only if their
  roots are the same. The instruction of a view has ``view = True``.

An ``Instruction`` is ``function(*args, **kwargs) -> outs``. Values may be anywhere in ``args`` and ``kwargs``, inside
tuples, lists, dicts and slices too; all other arguments are constants.

* ``outs``: the values of the results, in order. With ``several`` the result is a nest of tuples and lists, and
  ``paths`` has the indices at which each value is found.
* ``checks``: the shapes of ``outs`` may depend on elements or on numbers that are inputs, so a replay compares these
  shapes, and strides of views, with those of the trace.
* ``writes``: the values whose memory the call changes. ``np.add(a, b, out=c)`` has ``c`` among kwargs and in
  ``writes``, and no outs: the program goes on to use ``c``.
* ``kind``:

  - ``"array"``: a NumPy ufunc or function, a Python operator, or a ``Method`` of arrays. Passes understand, fuse and
    compile these instructions;
  - ``"primitive"``: the forward of ``primitive``, which may be elementwise, a kernel or a library routine;
  - ``"whole"``: any other pure function of arrays;
  - ``"rolled"``: a loop of the user's function, whose step is a program of its own (``loops/``);
  - ``"loop"``: ``parts``, fused into a compiled loop;
  - ``"native"``: ``parts``, compiled to one function (``cpu/``), which raises ``Miss`` if a guard among them fails;
  - ``"draw"``: random numbers from a generator: never removed, repeated or moved past another draw;
  - ``"guard"``: ``function(value)`` must equal the result in the trace, else the replay is aborted (``Miss``) and
    its writes are undone;
  - ``"effect"``: a change to Python objects of the user: ``.grad`` of a leaf, parameters and state of an optimizer.
    Never removed; all reads and writes of memory from outside keep their order with respect to an effect.

* ``asked``: the arrays that the call requests from ``kernels/runtime/result_arrays.py``, in order.
* ``operator``, ``site``: the operator and the line of the user's program; ``backward`` within a backward pass.

An input has a source, which says how a replay gets the array: ``("argument", index)``, a leaf of the arguments;
``("tensor", tensor)``, the array of a Tensor from outside of the function; ``("grad", tensor)``, the array of its
gradient; ``("place", place)``, a number or a large NumPy array in a variable; ``("object", index)``, an argument as a
Tensor, for effects; ``("slot", k)``, a constant that depends on the sizes; ``("constant", array)``, an array that was
computed when the program was compiled; ``("cotangent", index)``, an upstream gradient of the backward part. Outputs are
values; ``program_entry.Result`` says how to return them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.arrays.dtypes import DType
from ..core.nests import replaced as replaced

Function: TypeAlias = Callable[..., Any]
Arguments: TypeAlias = tuple[Any, ...]
Keywords: TypeAlias = dict[str, Any]
Source: TypeAlias = tuple[str, Any]  # how a replay gets an input: the kind of source, and its data

# Types of constants that are compared by value.
PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, np.generic, np.ndarray)

# NumPy's functions and methods whose results have shapes that may depend on elements.
_SHAPED_BY_DATA = frozenset(
    (
        "argwhere", "extract", "flatnonzero", "intersect1d", "nonzero", "setdiff1d", "setxor1d", "trim_zeros",
        "union1d", "unique", "bincount", "unique_values", "unique_counts", "unique_inverse", "unique_all", "compress",
        "repeat",
    )
)  # fmt: skip


class Value:
    """An array, or a number, of a program (see above). ``name`` describes a value from outside of the trace."""

    __slots__ = ("device", "dtype", "index", "name", "root", "shape", "strides")

    def __init__(self, index: int, array: object, root: Value | None = None, name: str = "") -> None:
        self.index = index
        self.name = name
        self.root = self if root is None else root
        self.device: str | int | None
        if type(array) is np.ndarray or isinstance(array, np.generic):
            self.shape: Any = array.shape
            self.dtype: Any = array.dtype
            self.strides: Any = array.strides
            self.device = "cpu"
            return
        self.shape = getattr(array, "shape", None)
        self.dtype = getattr(array, "dtype", type(array))
        self.strides = getattr(array, "strides", None)
        device = None if self.shape is None else getattr(array, "device", "cpu")
        self.device = getattr(device, "id", device)

    def __repr__(self) -> str:
        return f"v{self.index}"

    @property
    def on_gpu(self) -> bool:
        """Whether the value is a CuPy array."""
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
        """Return dtype and shape in the form of error messages."""
        if self.shape is None:
            return self.dtype.__name__
        return f"{self.dtype}({', '.join(map(str, self.shape))})"


class Method:
    """A method of arrays, by name, as a function of the array."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, x: object, *args: object, **kwargs: object) -> Any:
        return getattr(x, self.__name__)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<method {self.__name__}>"


method: Callable[[str], Method] = cache(Method)

# Python's operators as NumPy's functions of elements.
UFUNCS: dict[object, np.ufunc] = {
    operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply, operator.truediv: np.true_divide,
    operator.floordiv: np.floor_divide, operator.mod: np.remainder, operator.pow: np.power, operator.neg: np.negative,
    operator.pos: np.positive, operator.abs: np.absolute, operator.invert: np.invert, operator.lt: np.less,
    operator.le: np.less_equal, operator.gt: np.greater, operator.ge: np.greater_equal, operator.eq: np.equal,
    operator.ne: np.not_equal, operator.and_: np.bitwise_and, operator.or_: np.bitwise_or,
    operator.xor: np.bitwise_xor, operator.lshift: np.left_shift, operator.rshift: np.right_shift,
}  # fmt: skip

# What functions of NumPy and operators of Python compute, as primitives declare it.
_COMPUTED: dict[object, str] = {
    np.sum: "sum", method("sum"): "sum", np.mean: "mean", method("mean"): "mean",
    method("copy"): "copy", method("astype"): "copy", operator.getitem: "index", operator.setitem: "store",
    **dict.fromkeys(map(method, ("flatten", "reshape", "squeeze")), "reshape"),
}  # fmt: skip


class Asked(NamedTuple):
    """An array that a call requests (``kernels/runtime/result_arrays.py``); ``out`` is the index of its owner among the
    instruction's ``outs``, None for scratch memory."""

    shape: tuple[int, ...]
    dtype: DType
    out: int | None


class Instruction:
    """One call of a program (see above)."""

    __slots__ = (
        "_reads", "args", "asked", "backward", "checks", "function", "kind", "kwargs", "number", "operator", "outs",
        "parts", "paths", "primitive", "run", "several", "site", "view", "writes",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        function: Function,
        args: Arguments,
        kwargs: Keywords | None = None,
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
        # If ``several``: for each of ``outs`` its indices in the nested result.
        self.paths: tuple[tuple[int, ...], ...] = ()
        self.checks = checks
        self.primitive = primitive
        self.parts: tuple[Instruction, ...] = ()  # the fused instructions of a loop or region
        self.asked: tuple[Asked, ...] = ()
        self.number = -1  # position in the trace
        self.run = 0  # number of the run, for an instruction in a checkpointed part, which runs twice
        self.operator = ""
        self.site: Any = None
        self.backward = False
        self._reads: tuple[Value, ...] | None = None

    def reads(self) -> Iterator[Value]:
        """Return an iterator of ``read``."""
        return iter(self.read)

    @property
    def read(self) -> tuple[Value, ...]:
        """The values among the arguments, including those that the instruction writes to."""
        found = self._reads
        if found is None:
            found = self._reads = tuple(values_in(self.args)) + (tuple(values_in(self.kwargs)) if self.kwargs else ())
        return found

    def know_reads(self, values: tuple[Value, ...]) -> None:
        """Set ``read`` to the values among the arguments, which the caller has found already."""
        self._reads = values

    def give(self, args: Arguments, kwargs: Keywords) -> None:
        """Set the arguments."""
        self.args, self.kwargs, self._reads = args, kwargs, None

    @property
    def on_gpu(self) -> bool:
        """Whether CuPy arrays are among the arguments or results."""
        return any(value.on_gpu for value in (*self.reads(), *self.outs))

    def changed(self, **changes: object) -> Instruction:
        """Return a copy with other attributes."""
        new = Instruction(self.kind, self.function, self.args, self.kwargs)
        for name in Instruction.__slots__:
            setattr(new, name, changes.get(name, getattr(self, name)))
        if "args" in changes or "kwargs" in changes:
            new._reads = None
        return new

    @property
    def name(self) -> str:
        """The name of the function."""
        if self.primitive is not None:
            return self.primitive.name
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    @property
    def computes(self) -> str | None:
        """What the function is declared to compute (see ``core/graph/plan.py``), or None."""
        if self.primitive is not None:
            return self.primitive.computes
        function = self.function
        if self.kind == "whole":
            return getattr(function, "computes", None)
        return _COMPUTED.get(function) if type(function).__hash__ is not None else None

    @property
    def elementary(self) -> Function:
        """The function in NumPy's functions of elements, as far as the primitive declares it."""
        function = self.function
        if self.primitive is not None:
            return function if self.writes else self.primitive.reference or function
        return UFUNCS.get(function, function) if type(function).__hash__ is not None else function

    @property
    def numpy_name(self) -> str:
        """The name of a function of NumPy or CuPy, a method of arrays or an operator of Python; else an empty text."""
        function: Any = self.function
        home = function.__module__.partition(".")[0] if type(function) is FunctionType else ""
        if self.kind not in ("array", "new") or home not in ("", "numpy", "cupy", "retrograd"):
            return ""
        bound = getattr(function, "__self__", None)
        return f"{bound.__name__}.{self.name}" if isinstance(bound, np.ufunc) else self.name

    def __repr__(self) -> str:
        call = [*map(_format, self.args), *[f"{name}={_format(value)}" for name, value in self.kwargs.items()]]
        outs = ", ".join(f"{value!r}: {value.describe()}" for value in self.outs)
        return f"{outs + ' = ' if outs else ''}{self.name}({', '.join(call)})"


def in_row_order(instruction: Instruction) -> bool:
    """Return whether a function that reshapes reads and writes elements in row-major order, NumPy's default."""
    return not any(type(x) is str and x != "C" for x in (*instruction.args, *instruction.kwargs.values()))


def shaped_by_values(instruction: Instruction) -> bool:
    """Return whether shapes or strides of the results may depend on elements, or on numbers that are inputs."""
    if type(instruction.function) is np.ufunc:
        return False
    return shaped_by_data(instruction) or any(
        value.dtype.kind in "biu" if value.shape is not None else _shaped_by_numbers(instruction)
        for value in instruction.read
    )


def shaped_by_data(instruction: Instruction) -> bool:
    """Return whether the function's results have shapes that may depend on elements of any argument."""
    if instruction.primitive is not None:
        return instruction.primitive.shaped is False
    return instruction.numpy_name in _SHAPED_BY_DATA


def _shaped_by_numbers(instruction: Instruction) -> bool:
    primitive = instruction.primitive
    if primitive is None:
        return type(instruction.function) is not BuiltinFunctionType or _has_slices(instruction.args[1:])
    if primitive.computes == "index":  # the shape of x[n] is the same for all n, that of x[:n] is not
        return _has_slices(instruction.kwargs["index"])
    return not primitive.elementwise


def _has_slices(index: object) -> bool:
    return type(index) is slice or type(index) is tuple and any(map(_has_slices, index))


def _format(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype}{list(value.shape)}>"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_format, value))})"
    return repr(value) if len(repr(value)) < 40 else f"<{type(value).__name__}>"


def values_in(nest: Any) -> Iterator[Value]:
    """Yield the values anywhere in an argument."""
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


def equal(x: object, y: object) -> bool:
    """Return whether two constants among the arguments of instructions are interchangeable."""
    if x is y:
        return True
    kind = type(x)
    if kind is not type(y):
        return False
    if kind is int or kind is str or kind is bool:
        return x == y
    if isinstance(x, (tuple, list)) and isinstance(y, (tuple, list)):
        return len(x) == len(y) and all(map(equal, x, y))
    if isinstance(x, slice) and isinstance(y, slice):
        return equal((x.start, x.stop, x.step), (y.start, y.stop, y.step))
    if kind is dict and isinstance(x, dict) and isinstance(y, dict):
        return list(x) == list(y) and all(equal(x[name], y[name]) for name in x)
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        return (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides) and x.tobytes() == y.tobytes()
    if isinstance(x, (float, complex, np.generic)):
        return repr(x) == repr(y)
    if is_dataclass_instance(x):
        return equal(vars(x), vars(y))
    return bool(x == y) if isinstance(x, PLAIN) else same_function(x, y)


def is_dataclass_instance(x: object) -> bool:
    """Return whether ``equal`` compares an object by its fields."""
    return is_dataclass(x) and not isinstance(x, type) and hasattr(x, "__dict__")


def same_function(x: object, y: object) -> bool:
    """Return whether two functions have the same code and the same constants in their closures and defaults."""
    if x is y:
        return True
    if isinstance(x, partial) and isinstance(y, partial):
        return equal((x.func, x.args, x.keywords), (y.func, y.args, y.keywords))
    if not isinstance(x, FunctionType) or not isinstance(y, FunctionType) or x.__code__ is not y.__code__:
        return False
    cells = [[cell.cell_contents for cell in f.__closure__ or ()] for f in (x, y)]
    return equal((x.__defaults__, *cells[0]), (y.__defaults__, *cells[1]))


class Program:
    """The instructions of one trace, with its inputs and results.

    Attributes:
        inputs: pairs of a value and its source.
        instructions: the instructions in order; those from ``split`` on are the backward part, which runs when a
            backward pass reaches the results.
        outputs: the values that a replay returns, each in memory of its own.
        varies: whether the program serves several sizes, so that passes must not rely on shapes and strides.
        written: the inputs to whose memory the program writes.
        snapshots: copies of NumPy arrays at the time of the trace, by their ids.
        cleared: the number of the instruction before which gradients were last cleared.
    """

    def __init__(self) -> None:
        self.inputs: list[tuple[Value, Source]] = []
        self.instructions: list[Instruction] = []
        self.outputs: list[Value] = []
        self.split: int | None = None
        self.varies = False
        self.cleared = 0
        self.snapshots: dict[int, object] = {}
        self.count = 0

    def value(self, array: object, root: Value | None = None) -> Value:
        """Return a new value for an array."""
        self.count += 1
        return Value(self.count - 1, array, root)

    def snapshot(self, array: Any) -> Any:
        """Return a copy of an array, as a constant of the program."""
        made = array.copy(order="K")
        self.snapshots[id(made)] = made
        return made

    @property
    def written(self) -> list[Value]:
        """The inputs to whose memory the program writes."""
        roots = {value.root for instruction in self.instructions for value in instruction.writes}
        return [value for value, _ in self.inputs if value.root in roots]

    def __str__(self) -> str:
        lines = [f"{value!r}: {value.describe()} <- {source[0]}" for value, source in self.inputs]
        return "\n".join([*lines, *map(repr, self.instructions), f"return {self.outputs}"])
