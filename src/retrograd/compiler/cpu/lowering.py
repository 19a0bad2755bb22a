"""Lower NumPy instructions to steps of a compiled function.

A view is a place in the memory of its base; NumPy computes offset and strides from a stand-in array. Elementwise
functions become loops or calls of NumPy's inner loops. Reductions call NumPy's inner loops, so that they add in NumPy's
order. Any other function is traced with stand-ins, and its instructions are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from ...core.arrays.dtypes import DType, float64
from ...core.arrays.fp_warnings import silent
from ...core.arrays.layout import dense
from ...kernels import MAPPED, suits
from ..program import Instruction, Method, Value, in_row_order, replaced, values_in
from ..trace.effects import run_step
from ..trace.trace_modes import tracing_with
from ..trace.traced_arrays import Traced
from ..trace.tracer import Tracer
from .array_functions import as_one, clip, filled_like, full, item, joined, where
from .emission import TYPES, constant
from .indices import add_at, getitem, setitem, take
from .interpreter.map_code import SUPPORTED
from .interpreter.step_code import check
from .numpy_loops import accumulation, factorization, loop_call, reduction
from .optimizer_updates import Update, lower_step, lower_total_norm
from .product_kernels import product
from .region_steps import Buffer, Emit, Operand, Place, Step, Unlowered, check_step, map_step, row_major, stand_in_of
from .scalar_operations import scalar

MAX_ELEMENTS = 1 << 15  # larger arrays gain nothing from regions: Python's overhead is small in comparison
_PACKAGE = __file__[: -len("compiler/cpu/lowering.py")]
_NUMBERS = {float: np.dtype(np.float64), int: np.dtype(np.int64), bool: np.dtype(bool)}


class _Expansion(Tracer):
    """Traces the reference of a function that has compiled loops."""

    def takes_loops(self) -> bool:
        return False

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], *rest: Any, **named: Any) -> Any:
        """Trace a call. Compiled loops inside of it do not run: only their results' shapes and dtypes are needed."""
        if self._busy and getattr(function, "loop", None) in MAPPED and suits(args[0]):
            return np.zeros_like(args[0])
        return super().call(function, args, *rest, **named)


class Lowering:
    """The steps of a run of instructions.

    Args:
        interpreted: whether steps become code for the interpreter instead of LLVM text.
        large: whether the program has large arrays; functions of arrays beyond ``MAX_ELEMENTS`` are then not traced.
    """

    def __init__(self, interpreted: bool = False, large: bool = False) -> None:
        self.places: dict[Value, Place] = {}
        self.interpreted, self.large = interpreted, large
        self.buffers: list[Buffer] = []
        self.steps: list[Step] = []
        self.updates: list[Update] = []
        self.most = MAX_ELEMENTS  # maximum number of elements of an array in a step that is not a product
        self.unlimited = False  # whether the steps belong to a loop
        self._outer: Instruction | None = None
        self._depth = 0

    def lower(self, instruction: Instruction) -> None:
        """Add the steps of an instruction.

        Raises:
            Unlowered: the instruction cannot be lowered; no step is added.
        """
        mark, places = len(self.steps), dict(self.places)
        outer = self._outer
        self._outer = outer or instruction
        try:
            self._lower(instruction)
        except Unlowered:
            del self.steps[mark:]
            self.places = places
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            del self.steps[mark:]
            self.places = places
            raise Unlowered(f"{instruction.name}: {error}") from None
        finally:
            self._outer = outer

    def _lower(self, instruction: Instruction) -> None:
        function = instruction.elementary
        if instruction.kind == "guard":
            self._guard(instruction)
            return
        if function is run_step:
            self.updates.append(lower_step(self, instruction))
            return
        if instruction.kind not in ("array", "primitive", "whole", "new"):
            raise Unlowered(instruction.kind)
        for value in instruction.outs:
            if value.shape is not None:
                if value.dtype.name not in TYPES:
                    raise Unlowered(f"the dtype {value.dtype}")
                if not value.size:
                    raise Unlowered("no elements")
        if instruction.kind == "whole" and instruction.primitive is None and instruction.computes in _WHOLE:
            _WHOLE[instruction.computes](self, instruction)
            return
        if is_view(instruction):
            self._view(instruction)
            return
        if isinstance(function, np.ufunc):
            self._elementwise(function, instruction)
            return
        if instruction.kind == "array":
            handler = _HANDLERS.get(instruction.numpy_name)
            if handler is not None:
                handler(self, instruction)
                return
            if next(instruction.reads(), None) is None and len(instruction.outs) == 1:
                self._constant(instruction)
                return
            if isinstance(function, Method) or not _is_package_function(function):
                raise Unlowered(instruction.name)
        if self.large and any(x.size > self.most for x in (*instruction.read, *instruction.outs)):
            raise Unlowered(f"more than {self.most:,} elements")  # ``_expand`` would compute with arrays of this size
        self._expand(instruction)

    # Places

    def place(self, x: Any) -> Place:
        """Return the place of a value."""
        found = self.places.get(x)
        if found is None:
            if x.shape is None:
                dtype, shape, strides = _NUMBERS.get(x.dtype), (), ()
            else:
                dtype, shape, strides = x.dtype, x.shape, x.strides
            if dtype is None or dtype.name not in TYPES or not dtype.isnative:
                raise Unlowered(f"the dtype {x.dtype}")
            if 0 in shape:
                raise Unlowered("no elements")
            found = self.places[x] = Place(Buffer("input", 0, x), 0, shape, strides, dtype)
        return found

    def operand(self, x: object) -> Operand:
        """Return an argument of an elementwise function: a place, or a number with its dtype."""
        if isinstance(x, Value):
            return self.place(x)
        if isinstance(x, (bool, int, float)):
            return x, np.dtype(type(x))
        if isinstance(x, (np.generic, np.ndarray)):
            if x.dtype.name not in TYPES:
                raise Unlowered(f"the dtype {x.dtype}")
            if x.ndim == 0:
                return x.item(), x.dtype
            return self.known(x)
        raise Unlowered(f"an argument of type {type(x).__name__}")

    def known(self, array: Any) -> Place:
        """Return the place of a constant array."""
        if not array.size or array.dtype.name not in TYPES:
            raise Unlowered(f"{array.dtype}{array.shape}")
        return Place(Buffer("input", 0, array), 0, array.shape, array.strides, array.dtype)

    def new(self, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None = None) -> Place:
        """Return the place of a new array in the arena."""
        dtype, shape = np.dtype(dtype), tuple(shape)
        natural = row_major(shape, dtype.itemsize)
        strides = natural if strides is None else tuple(strides)
        if sorted(s for s, n in zip(strides, shape, strict=True) if n > 1) != sorted(
            s for s, n in zip(natural, shape, strict=True) if n > 1
        ) and not dense(shape, strides, dtype.itemsize):
            raise Unlowered("memory that is not dense")
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return Place(Buffer("arena", nbytes), 0, shape, strides, dtype)

    def result(self, value: Value) -> Place:
        """Return a new place for the result of an instruction."""
        if value.shape is None:
            place = self.new((), _NUMBERS[value.dtype])
        else:
            place = self.new(value.shape, value.dtype, value.strides)
        self.places[value] = place
        return place

    def add(self, step: Step) -> None:
        """Append a step of the current instruction."""
        step.instruction = self._outer
        limited = step.flops == 0 and (self.interpreted or not self.unlimited)
        if limited and max(place.size for place in step.operands) > self.most:
            raise Unlowered(f"more than {self.most:,} elements")
        if self.interpreted:
            check(step)
        self.steps.append(step)

    def _has_code(self, ufunc: np.ufunc, kinds: Sequence[DType]) -> bool:
        """Return whether scalar operations can compute a ufunc; otherwise NumPy's inner loop does."""
        if not self.interpreted or ufunc is np.add and kinds[0] == np.uint8:
            return True
        return kinds[0].kind == "f" and ufunc.__name__ in SUPPORTED

    def map(
        self, name: str, out: Place, inputs: Sequence[Operand], emit: Emit | None, dtypes: Sequence[DType], dtype: DType
    ) -> None:
        """Append a loop that writes ``out``, through a new array if ``out`` overlaps an input."""
        target = out
        for place in inputs:
            if isinstance(place, Place) and place.may_overlap(out) and place[:4] != out[:4]:
                out = self.new(out.shape, out.dtype)
                break
        self.add(map_step(name, out, inputs, emit, dtypes, dtype))
        if out is not target:
            self.copy(out, target)

    def copy(self, source: Operand, target: Place) -> None:
        """Append a copy with broadcasting and casting."""
        dtype = source.dtype if isinstance(source, Place) else target.dtype
        self.map("copy", target, [source], None, [dtype], dtype)

    # Views and constants

    def _view(self, instruction: Instruction) -> None:
        values = list(dict.fromkeys(instruction.reads()))
        if len(values) != 1 or values[0].shape is None:
            raise Unlowered("a view that depends on a number")
        (value,) = values
        base = self.place(value)
        stand_in = stand_in_of(base)

        def given(x: object) -> Any:
            return stand_in if x is value else x

        found = instruction.function(*replaced(instruction.args, given), **replaced(instruction.kwargs, given))
        low, high = np.lib.array_utils.byte_bounds(stand_in)
        for out, path in zip(instruction.outs, instruction.paths, strict=True):
            x = found
            for index in path:
                x = x[index]
            at, end = np.lib.array_utils.byte_bounds(x)
            if x.shape != out.shape or at < low or end > high or x.dtype != out.dtype:
                raise Unlowered("a view outside of its base")
            away = x.ctypes.data - stand_in.ctypes.data
            self.places[out] = Place(base.buffer, base.offset + away, x.shape, x.strides, x.dtype)

    def _constant(self, instruction: Instruction) -> None:
        (out,) = instruction.outs
        if instruction.numpy_name == "empty":
            self.result(out)
            return
        if any(isinstance(x, np.ndarray) and x.nbytes > 1 << 14 for x in instruction.args):
            raise Unlowered("an array that may change")  # guards do not compare its elements
        made = np.asarray(instruction.function(*instruction.args, **instruction.kwargs))
        if made.shape != out.shape or made.dtype != out.dtype:
            raise Unlowered("a constant of another shape or dtype")
        first = made.flat[0]
        same = made.size == 1 or (made == first).all() and made.dtype.kind != "f" or bool((made == 0).all())
        self.copy((first.item(), made.dtype) if same or (made == first).all() else self.known(made), self.result(out))

    def _guard(self, instruction: Instruction) -> None:
        if len(instruction.args) != 2:
            raise Unlowered("a guard that does not compare one number")
        value, seen = instruction.args
        if not isinstance(value, Value) or not isinstance(seen, (bool, int, float)) or seen != seen:
            raise Unlowered("a guard that does not compare one number")
        place = self.place(value)
        if place.size != 1:
            raise Unlowered("a guard that does not compare one number")
        self.add(check_step(place, constant(seen, place.dtype)))

    # Elementwise

    def _elementwise(self, ufunc: np.ufunc, instruction: Instruction) -> None:
        named = dict(instruction.kwargs)
        out, _ = named.pop("out", None), named.pop("casting", None)
        args = instruction.args
        if ufunc.nout != 1 or named or len(args) != ufunc.nin or ufunc.signature is not None:
            if ufunc is np.matmul and not named and len(args) == 2:
                self._matmul(instruction, args, out)
                return
            raise Unlowered(f"{ufunc.__name__} with {', '.join(named) or 'several results'}")
        if ufunc is np.power and type(args[1]) in (int, float) and isinstance(args[0], Value):
            short = {2: np.square, 1: np.positive, -1: np.reciprocal, 0.5: np.sqrt}.get(args[1])
            if short is not None and args[0].shape is not None and args[0].dtype.kind == "f":
                ufunc, args = short, args[:1]
        operands = [self.operand(x) for x in args]
        python = [_python_type(x) for x in args]
        if all(kind is not None for kind in python):
            if ufunc.__name__ in ("divide", "floor_divide", "remainder", "power", "left_shift", "right_shift"):
                raise Unlowered("arithmetic of Python numbers, which may raise")
            given: list[Any] = [_NUMBERS[kind] for kind in python if kind is not None]
        else:
            given = [
                operand[1] if kind is bool else kind or (x.dtype if isinstance(x, Place) else x[1])
                for kind, x, operand in zip(
                    python, operands, [x if isinstance(x, tuple) else (None, np.dtype(bool)) for x in operands],
                    strict=True,
                )
            ]  # fmt: skip
        kinds = ufunc.resolve_dtypes((*given, None))
        for kind, x, wanted in zip(python, operands, kinds, strict=False):
            if kind is int and isinstance(x, Place) and wanted.kind in "iu" and wanted.itemsize < 8:
                raise Unlowered("a Python number that may not fit the dtype")
        target = self.result(instruction.outs[0]) if out is None else self.place(out)
        if any(dtype.name not in TYPES for dtype in kinds):
            raise Unlowered(f"{ufunc.__name__} of {kinds}")
        emit = scalar(ufunc.__name__, kinds[0]) if len({*kinds[:-1]}) == 1 and self._has_code(ufunc, kinds) else None
        if emit is not None:
            self.map(ufunc.__name__, target, operands, emit, kinds[:-1], kinds[-1])
            return
        ready = [
            x if isinstance(x, Place) and x.dtype == dtype else self.cast(x, dtype, target)
            for x, dtype in zip(operands, kinds, strict=False)
        ]
        into = target
        if target.dtype != kinds[-1] or any(x.may_overlap(target) and x[:4] != target[:4] for x in ready):
            into = self.new(target.shape, kinds[-1])
        self.add(loop_call(ufunc, kinds, into, ready))
        if into is not target:
            self.copy(into, target)

    def cast(self, x: Operand, dtype: DType, like: Place) -> Place:
        """Return a copy in another dtype."""
        place = self.new(x.shape if isinstance(x, Place) else (), dtype)
        self.copy(x, place)
        return place

    # Functions of arrays

    def _copied(self, instruction: Instruction) -> None:
        """Lower ``copy``, ``array`` of an array, and ``astype``."""
        source = instruction.args[0]
        if not isinstance(source, (Value, bool, int, float, np.ndarray, np.generic)):
            raise Unlowered("a nested list")
        x = self.operand(source)
        out = self.result(instruction.outs[0])
        if isinstance(x, Place) and x.shape != out.shape:
            raise Unlowered("a copy with another shape")
        self.copy(x, out)

    def _reshaped(self, instruction: Instruction) -> None:
        """Lower a reshape that copies."""
        x = self.place(instruction.args[0])
        out = self.result(instruction.outs[0])
        if not out.dense or not in_row_order(instruction):
            raise Unlowered("memory that is not dense, or another order of elements")
        self.copy(x, Place(out.buffer, 0, x.shape, row_major(x.shape, x.dtype.itemsize), x.dtype))

    def _reduced(self, instruction: Instruction) -> None:
        names: tuple[str, ...] = ("a", "axis", "dtype", "out", "keepdims")
        name, _, method = instruction.numpy_name.partition(".")
        accurate = instruction.kind == "whole"
        if accurate:
            name, names = "sum", ("a", "axis", "keepdims")
        elif name in ("max", "min", "amax", "amin", "all", "any"):
            names = ("a", "axis", "out", "keepdims")
        options = dict(zip(names, instruction.args, strict=False))
        for key, value in instruction.kwargs.items():
            options[{"dim": "axis", "keepdim": "keepdims"}.get(key, key)] = value
        unknown = {key for key, value in options.items() if value is not None} - {"a", "axis", "keepdims", "dtype"}
        if unknown or next(values_in(list(options.values())[1:]), None) is not None:
            raise Unlowered(f"{instruction.name} with {', '.join(unknown)}")
        x, out = self.place(options["a"]), self.result(instruction.outs[0])
        axis = options.get("axis", 0 if method else None)
        axes = tuple(range(len(x.shape))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = tuple([a % len(x.shape) for a in axes]) if x.shape else ()
        ufunc = _REDUCTIONS[name]
        dtype = (
            x.dtype if ufunc in (np.maximum, np.minimum) else np.dtype(bool) if name in ("all", "any") else out.dtype
        )
        if x.dtype != dtype:
            if x.dtype.kind == "f" and dtype.kind in "iu":
                raise Unlowered("a cast from float to integer")
            x = self.cast(x, dtype, x)
        strides = iter(out.strides)
        kept = bool(options.get("keepdims"))
        steps = []
        for d in range(len(x.shape)):
            stride = next(strides) if kept or d not in axes else 0
            steps.append(0 if d in axes else stride)
        length = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
        whole = Place(out.buffer, out.offset, x.shape, tuple(steps), out.dtype)
        if accurate and dtype == np.float32 and length > 64 and abs(x.strides[-1]) > 0:
            wide = self.new(out.shape, float64, [2 * s for s in out.strides])
            self.copy((0, wide.dtype), wide)
            self.add(accumulation(x, whole._replace(buffer=wide.buffer, offset=0, dtype=wide.dtype,
                                                    strides=tuple(2 * s for s in steps))))  # fmt: skip
            self.copy(wide, out)
            return
        if ufunc in (np.add, np.multiply, np.logical_and, np.logical_or):
            self.copy((1 if ufunc in (np.multiply, np.logical_and) else 0, out.dtype), out)
        else:
            first = tuple([1 if d in axes else n for d, n in enumerate(x.shape)])
            self.copy(x._replace(shape=first), whole._replace(shape=first))
        self.add(reduction(ufunc, x, whole))
        if name == "mean":
            self.map("divide", out, [out, (length, out.dtype)], scalar("divide", out.dtype), [out.dtype] * 2, out.dtype)

    def _linalg(self, instruction: Instruction) -> None:
        """Lower ``inv`` of a matrix, and ``solve``, but only in loops: elsewhere a failure must undo earlier writes."""
        x, *rest = [self.place(a) for a in instruction.args]
        out = self.result(instruction.outs[0])
        dims = [len(place.shape) for place in (x, *rest)]
        mixed = len({place.dtype for place in (x, out, *rest)}) > 1
        if instruction.kwargs or not self.unlimited or max(dims) > 2 or mixed:
            raise Unlowered(f"unsupported arguments of {instruction.name}")
        self.add(factorization("solve1" if dims[1:] == [1] else instruction.numpy_name, out, [x, *rest]))

    # Products

    def _product(self, instruction: Instruction) -> None:
        if instruction.kwargs or len(instruction.args) != 2:
            raise Unlowered(f"unsupported arguments of {instruction.name}")
        self._matmul(instruction, instruction.args, None)

    def _matmul(self, instruction: Instruction, args: Sequence[object], out: object) -> None:
        x, y = [self.operand(a) for a in args]
        if not isinstance(x, Place) or not isinstance(y, Place) or x.dtype != y.dtype or x.dtype.kind != "f":
            raise Unlowered("a product of different or non-floating dtypes")
        target = self.result(instruction.outs[0]) if out is None else self.place(out)
        if instruction.numpy_name == "dot" and max(len(x.shape), len(y.shape)) > 2 or not x.shape or not y.shape:
            raise Unlowered("a product of stacked matrices by dot")
        into = target
        if target.dtype != x.dtype or any(p.may_overlap(target) for p in (x, y)):
            into = self.new(target.shape, x.dtype)
        left, right, whole = x, y, into
        if len(x.shape) == 1:
            left = x._replace(shape=(1, *x.shape), strides=(0, *x.strides))
            whole = whole._replace(shape=(*whole.shape[:-1], 1, *whole.shape[-1:]),
                                   strides=(*whole.strides[:-1], 0, *whole.strides[-1:]))  # fmt: skip
            if len(y.shape) == 1:
                whole = whole._replace(shape=(1,), strides=(0,))
        if len(y.shape) == 1:
            right = y._replace(shape=(*y.shape, 1), strides=(*y.strides, 0))
            whole = whole._replace(shape=(*whole.shape, 1), strides=(*whole.strides, 0))
        batch = whole.shape[:-2]
        if np.prod(batch, dtype=np.int64) > 64:
            raise Unlowered("a product of many stacked matrices")
        for index in np.ndindex(*batch):
            parts = []
            for p in (left, right, whole):
                over = len(batch) - (len(p.shape) - 2)
                steps = [0 if n == 1 else s for n, s in zip(p.shape[:-2], p.strides[:-2], strict=True)]
                away = sum(i * s for i, s in zip(index[over:], steps, strict=True))
                parts.append(p._replace(offset=p.offset + away, shape=p.shape[-2:], strides=p.strides[-2:]))
            product(self, *parts)
        if into is not target:
            self.copy(into, target)

    # Expansion

    def _expand(self, instruction: Instruction) -> None:
        if self._depth >= 6:
            raise Unlowered(instruction.name)
        tracer = _Expansion(strict=False)
        known: dict[Value, object] = {}

        def given(x: object) -> Any:
            if not isinstance(x, Value):
                return x
            if x not in known:
                place = self.place(x)
                if x.shape is None:
                    raise Unlowered("a number that varies")
                stand_in = np.zeros(place.shape, place.dtype) if place.dense else stand_in_of(place, np.zeros)
                if len(place.shape) > 1 and place.shape[-1] == place.shape[-2]:
                    stand_in[...] = np.eye(place.shape[-1])  # the inverse of a zero matrix would raise an error
                node = x
                owner = stand_in if stand_in.base is None else stand_in.base
                while owner.base is not None:
                    owner = owner.base
                tracer._roots[id(owner)] = ref(owner), node
                known[x] = Traced(tracer, stand_in, node)
            return known[x]

        args, named = replaced(instruction.args, given), replaced(instruction.kwargs, given)
        try:
            with tracing_with(tracer), silent():
                result = instruction.elementary(*args, **named)
        except Unlowered:
            raise
        except Exception as error:
            raise Unlowered(f"{instruction.name}: {type(error).__name__}") from None
        if tracer.broken:
            raise Unlowered(f"{instruction.name}: {tracer.broken}")
        steps = tracer.program.instructions
        if any(step.kind not in ("array", "primitive", "whole", "new") for step in steps):
            raise Unlowered(f"{instruction.name} reads elements")
        if len(steps) == 1 and steps[0].function is instruction.function:
            raise Unlowered(instruction.name)
        self._depth += 1
        try:
            for step in steps:
                self.lower(step)
        finally:
            self._depth -= 1
        for out, path in zip(instruction.outs, instruction.paths, strict=True):
            x = result
            for index in path:
                x = x[index]
            self._bind(out, x)

    def _bind(self, out: Value, x: Any) -> None:
        """Assign a traced result's place to a value."""
        if type(x) is not Traced:
            raise Unlowered("a constant result")
        place = self.place(x.node)
        if place.shape != out.shape or place.dtype != out.dtype and (place.dtype.kind, out.dtype.kind) != ("f", "f"):
            raise Unlowered("another shape or dtype than in the trace")
        own = place.buffer.kind != "input" and place.dtype == out.dtype
        if own and not dense(out.shape, out.strides, out.dtype.itemsize):
            self.places[out] = place  # results that shared memory in the trace have separate memory here
        elif place.strides != out.strides or not own:
            fresh = self.result(out)
            self.copy(place, fresh)
        else:
            self.places[out] = place


def is_view(instruction: Instruction) -> bool:
    """Return whether all results are views of existing memory."""
    outs = instruction.outs
    return instruction.view and bool(outs) and not instruction.writes and all(out.root not in outs for out in outs)


def _python_type(x: object) -> Any:
    if isinstance(x, Value):
        return x.dtype if x.shape is None else None
    return type(x) if type(x) in (bool, int, float) else None


def _is_package_function(function: object) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename.startswith(_PACKAGE)


# By the names of NumPy's functions, of methods and of ufuncs.
_REDUCTIONS = {
    "sum": np.add, "mean": np.add, "add": np.add, "prod": np.multiply, "multiply": np.multiply, "max": np.maximum,
    "amax": np.maximum, "maximum": np.maximum, "min": np.minimum, "amin": np.minimum, "minimum": np.minimum,
    "all": np.logical_and, "any": np.logical_or,
}  # fmt: skip
_WHOLE: dict[str | None, Callable[[Lowering, Instruction], None]] = {
    "sum": Lowering._reduced, "join": as_one, "norm": lower_total_norm,
}  # fmt: skip
_HANDLERS: dict[str, Callable[[Lowering, Instruction], None]] = {
    "where": where, "clip": clip, "item": item, "concatenate": joined, "stack": joined, "dot": Lowering._product,
    "full": full, "getitem": getitem, "setitem": setitem, "take": take, "add.at": add_at, "inv": Lowering._linalg,
    "solve": Lowering._linalg,
    **dict.fromkeys(("copy", "array", "asarray", "as_array", "ascontiguousarray", "astype"), Lowering._copied),
    **dict.fromkeys(("reshape", "ravel", "flatten"), Lowering._reshaped),
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like"), filled_like),
    **dict.fromkeys(("sum", "mean", "prod", "max", "min", "amax", "amin", "all", "any"), Lowering._reduced),
    **dict.fromkeys(("add.reduce", "multiply.reduce", "maximum.reduce", "minimum.reduce"), Lowering._reduced),
}  # fmt: skip
