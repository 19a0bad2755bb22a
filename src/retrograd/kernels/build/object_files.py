"""Compile loops to object files with Numba. Numba's private modules are used in this file and nowhere else.

Numba optimizes and compiles each function by itself, and again together with its callers. Here a loop and all functions
that it calls are linked into one module first, which is optimized and compiled once. Numba's runtime is replaced by
functions that call Python's allocator, so the code runs where Numba is not installed.
"""
# mypy: disable-error-code="no-untyped-def, misc, no-untyped-call, attr-defined"

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable
from functools import cache, partial
from inspect import Parameter, signature
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target
from numba.core.target_extension import CPU, dispatcher_registry, jit_registry
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype
from numpy import dtype

from ...core.arrays.memory import collector_paused
from ..runtime import object_layout as at
from ..runtime.levels import target as levels
from ..runtime.numba_functions import Shared
from ..tiles.vector_width import wide

_WORD, _INT, _BYTE, _BIT = [ir.IntType(bits) for bits in (64, 32, 8, 1)]
_POINTER = _BYTE.as_pointer()
# The kinds of a routine's arguments; "p" is a pair of bfloat16.
_NUMBERS = {"i": types.int64, "f": types.float32, "d": types.float64, "p": types.uint32}
_HEADER = 64  # bytes before the elements of an allocation: Numba's MemInfo, and padding for alignment
# Whether Numba has one pass manager per LLVM module, as older versions do.
_PASSES_OF_MODULES = "llvm_module" in signature(JITCPUCodegen._function_pass_manager).parameters


# In a process on x86, Numba decrements reference counts by an intrinsic that exists only on x86.
_COUNTED = re.compile(
    r"(%[\w.]+) = (?:tail )?call i8 @llvm\.x86\.atomic\.sub\.cc\.i64\(ptr (?:\w+ )*(%[\w.]+), i64 1, i32 4\)"
)
_FOREIGN = re.compile(r"call .*@(llvm\.x86\.[\w.]+)")


def _counted(found: re.Match[str]) -> str:
    name = f"%last.{found.start()}"
    return f"""{name}.before = atomicrmw sub ptr {found[2]}, i64 1 seq_cst
  {name} = icmp eq i64 {name}.before, 1
  {found[1]} = zext i1 {name} to i8"""


class _Library(JITCodeLibrary):
    """The code of a function, which is not compiled before it is linked into its caller."""

    def _optimize_functions(self, module: Any) -> None:
        """Optimize as Numba's method does, but with one pass manager for all functions, and skip declarations."""
        if _PASSES_OF_MODULES:
            super()._optimize_functions(module)
            return
        module.data_layout = self._codegen._data_layout
        passes, builder = self._codegen._function_pass_manager()
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_specific(self) -> None:
        pass

    def get_pointer_to_function(self, name: str) -> int:
        """Return the address of a function that raises an error: helpers have no entry point for Python."""
        return ctypes.cast(ctypes.pythonapi.PyErr_NoMemory, ctypes.c_void_p).value or 0

    def translated(self, name: str) -> bytes:
        """Return one line of JSON with the name and the called functions, followed by the object file.

        Only the function ``name`` is visible outside of the object file.
        """
        self.finalize()
        text = str(self._final_module)
        if not levels[0].triple.startswith("x86_64") and _FOREIGN.search(text):
            text = _COUNTED.sub(_counted, text)
            if left := _FOREIGN.search(text):  # LLVM would abort the process instead of raising an error
                raise RuntimeError(f"{left[1]} is an instruction of x86-64 and the library is for {levels[0].name}")
            self._final_module = llvm.parse_assembly(text)
        module = self._final_module
        for symbol in (*module.functions, *module.global_variables):
            if not symbol.is_declaration and symbol.name != name:
                symbol.linkage = "internal"
        module.triple, module.data_layout = levels[0].triple, self._codegen._data_layout
        super()._optimize_final_module()
        calls = [f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")]
        about = {"name": name, "calls": calls}
        code: bytes = self._codegen._tm.emit_object(module)
        return json.dumps(about).encode() + b"\n" + code


class _Codegen(JITCPUCodegen):
    _library_class = _Library

    def _init(self, module: Any) -> None:
        super()._init(module)
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        (level,) = levels
        options = {"cpu": level.cpu, "features": level.features, "reloc": "pic", "codemodel": "default"}
        self._tm = llvm.Target.from_triple(level.triple).create_target_machine(opt=3, **options)
        self._data_layout = str(self._tm.target_data)

    def _customize_tm_features(self) -> str:
        return wide(super()._customize_tm_features())

    def _add_module(self, module: Any) -> None:
        pass

    def set_env(self, env_name: str, env: Any) -> None:
        pass


class _Loops(CPU):
    """The class by which Numba identifies ``_Target``, for which it also compiles helpers that it adds to a loop."""


class _Target:
    """Numba's target for this processor, with a code generator that compiles a loop only when it is complete."""

    options = cpu_target.options
    typing_context = cpu_target.typing_context

    def __init__(self) -> None:
        context = cpu_target.target_context
        context.refresh()  # Refresh before copying: Numba's own runtime must be compiled by Numba's code generator.
        self.target_context = context.subtarget(_internal_codegen=_Codegen("retrograd"), target=_Loops)


_target = cache(_Target)


class _NoAlias(Compiler):
    """Numba's compiler, with the promise that no argument shares memory with an argument that is written."""

    def __init__(self, typing_context, target_context, library, args, return_type, flags, local):
        flags.noalias = True
        super().__init__(typing_context, target_context, library, args, return_type, flags, local)


def njit(function: Any = None, /, *, noalias: bool = False, **options: Any) -> Any:
    """``numba.njit`` for functions that only compiled loops call. They are compiled together with the loops."""
    if function is None:
        return lambda function: njit(function, noalias=noalias, **options)
    options |= {"pipeline_class": _NoAlias} if noalias else {}
    found = _part(function, **options)
    found.get_call_template = partial(_template, found)
    return found


def _part(function: Any = None, /, **options: Any) -> Any:
    """Do what ``njit`` does, but keep the literal types of constants, which Numba's own functions may require."""
    if function is None:
        return lambda function: _part(function, **options)
    given = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "nogil": True, **options, "nopython": True}
    found = numba.jit(**given)(function)
    found._compiler.targetdescr = _target()
    found._compiler._customize_flags = _Flags
    found.targetctx = _target().target_context
    return found


class _Flags(Flags):
    """Numba's flags with a cached hash and defaults: Numba compares flags whenever it infers the types of a call."""

    _hash, _defaults = hash(Flags()), Flags().values()

    def __hash__(self) -> int:
        return self._hash

    def values(self) -> dict[str, Any]:
        return self._defaults | self._values


jit_registry[_Loops], dispatcher_registry[_Loops] = _part, dispatcher_registry[CPU]


def _template(function: Any, args: Any, kws: Any) -> Any:
    """Infer the types of a call without literal types, so that a function is not compiled once per constant."""
    args, kws = tuple(map(types.unliteral, args)), {name: types.unliteral(kind) for name, kind in kws.items()}
    return type(function).get_call_template(function, args, kws)


def numba_type(kind: at.Kind) -> Any:
    """Return Numba's type of a kind of argument."""
    if isinstance(kind, str):
        return {"int": types.int64, "bool": types.boolean, "float64": types.float64, "float32": types.float32}[kind]
    if kind[0] == "tuple":
        return types.Tuple([numba_type(part) for part in kind[1:]])
    name, axes, contiguous, aligned = kind
    return types.Array(from_dtype(dtype(name)), axes, "C" if contiguous else "A", aligned=aligned)


def routine(function: Any) -> Any:
    """Decorate a function of integers and floats that returns nothing, so that all loops share its compiled code.

    It gets an object file of its own; the symbol consists of its module, its name, and the kinds of its arguments. The
    C function returns whether the call failed, which loops ignore.
    """

    def typed(typing_context: Any, *arguments: Any) -> Any:
        kinds = [number if number in _NUMBERS.values() else types.int64 for number in arguments]
        letters = "".join(next(letter for letter, kind in _NUMBERS.items() if kind == one) for one in kinds)

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _call_routine(builder, function, letters, values)
            return context.get_dummy_value()

        return types.void(*kinds), generate

    given = signature(function)
    context = Parameter("typing_context", Parameter.POSITIONAL_OR_KEYWORD)
    typed.__signature__ = given.replace(parameters=[context, *given.parameters.values()])
    made = intrinsic(typed)
    made.function = njit(function, error_model="numpy")
    return made


def _call_routine(builder: Any, function: Any, letters: str, values: Any) -> Any:
    """Generate a call of a routine; return its status, which is not 0 if it fails."""
    name = at.routine_symbol(function.__module__, function.__name__, letters)
    kind = ir.FunctionType(_INT, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def _launched(recipe: Shared, context: Any, builder: Any, callee: object, values: Any) -> Any:
    """Generate the launch of a shared loop; return whether it fails.

    The arguments are stored in the caller's stack frame, from which each thread loads them.
    """
    module, how, arguments = builder.module, values[: recipe.how], values[recipe.how :]
    kind = ir.LiteralStructType([value.type for value in arguments])
    function = ir.Function(module, ir.FunctionType(_INT, [_WORD] * 3), module.get_unique_name("task"))
    function.linkage = "internal"
    data = cgutils.alloca_once(builder, kind)
    inner = ir.IRBuilder(function.append_basic_block())
    given, read = inner.inttoptr(function.args[0], kind.as_pointer()), []
    for number, value in enumerate(arguments):
        builder.store(value, cgutils.gep_inbounds(builder, data, 0, number))
        read.append(inner.load(cgutils.gep_inbounds(inner, given, 0, number)))
    part = context.declare_function(module, callee)
    values = [*read, *function.args[1:]]
    status, _ = context.call_conv.call_function(inner, part, callee.restype, callee.argtypes, values)
    inner.ret(inner.zext(status.is_error, _INT))
    how += [builder.ptrtoint(thing, _WORD) for thing in (function, data)]
    return builder.trunc(_call_routine(builder, recipe.launch.function.py_func, "i" * len(how), how), _BIT)


def compile(recipe: Any, kinds: tuple[at.Kind, ...], name: str) -> bytes:
    """Return the object file of an ``njit`` function, or of a ``Shared`` loop, for arguments of the given kinds."""
    wanted = tuple(map(numba_type, kinds))

    def enter(context: Any, module: Any, callee: object, signature: Any) -> None:
        entry = _Entry(context, module, name)
        values = entry.arguments(kinds, wanted)

        def failed() -> Any:
            if isinstance(recipe, Shared):
                return _launched(recipe, context, entry.builder, callee, values)
            loop = context.declare_function(module, callee)
            return context.call_conv.call_function(entry.builder, loop, callee.restype, signature, values)[0].is_error

        entry.build(failed)
        _define_runtime(module)

    if isinstance(recipe, Shared):
        return _compiled(recipe.body, (*wanted[recipe.how :], types.int64, types.int64), name, enter)
    return _compiled(recipe, wanted, name, enter)


def compile_routine(made: object, letters: str, name: str) -> bytes:
    """Return the object file of a ``routine``, a C function, for arguments of the given kinds."""

    def enter(context: Any, module: Any, callee: object, signature: Any) -> None:
        kinds = [context.get_value_type(kind) for kind in signature]
        function = ir.Function(module, ir.FunctionType(_INT, kinds), name)
        builder, inner = ir.IRBuilder(function.append_basic_block()), context.declare_function(module, callee)
        status, _ = context.call_conv.call_function(builder, inner, callee.restype, signature, function.args)
        builder.ret(builder.zext(status.is_error, _INT))

    return _compiled(made.function, tuple(_NUMBERS[letter] for letter in letters), name, enter)


def _compiled(function: Any, signature: tuple[Any, ...], name: str, enter: Callable[..., None]) -> bytes:
    """Return the object file of a function for arguments of the given types; ``enter`` generates its entry point."""
    with global_compiler_lock, collector_paused():
        function.compile(signature)
        compiled = function.overloads[signature]
        context = _target().target_context
        library = context.codegen().create_library(name)
        module = library.create_ir_module(name)
        enter(context, module, compiled.fndesc, signature)
        library.add_ir_module(module)
        library.add_linking_library(compiled.library)
        return library.translated(name)


class _Entry:
    """The entry point that Python calls: ``(self, args, number of args) -> result``."""

    def __init__(self, context: Any, module: Any, name: str) -> None:
        self.context = context
        self.module = module
        kind = ir.FunctionType(_POINTER, [_POINTER, _POINTER.as_pointer(), _WORD])
        self.function = ir.Function(module, kind, name)
        self.builder = ir.IRBuilder(self.function.append_basic_block())
        self.mismatch = self.function.append_basic_block("mismatch")
        self.failure = self.function.append_basic_block("failure")

    def arguments(self, kinds: tuple[at.Kind, ...], signature: tuple[Any, ...]) -> list[Any]:
        """Generate code that checks the types of the arguments and unpacks them."""
        builder, (_, arguments, count) = self.builder, self.function.args
        self.demand(builder.icmp_signed("==", count, _WORD(len(kinds))))
        values = []
        for number, (kind, wanted) in enumerate(zip(kinds, signature, strict=True)):
            value = builder.load(builder.gep(arguments, [_WORD(number)]))
            values.append(self.unpacked(value, kind, wanted))
        return values

    def build(self, run: Callable[[], Any]) -> None:
        """Generate the call of the loop, by ``run``, without the GIL, and the results of success and failure."""
        builder = self.builder
        state = self.call("PyEval_SaveThread", _POINTER)
        failed = run()
        self.call("PyEval_RestoreThread", ir.VoidType(), state)
        with builder.if_then(failed, likely=False):  # only an allocation can fail: loops raise nothing else
            self.call("PyErr_NoMemory", _POINTER)
            builder.branch(self.failure)
        self.give(None)
        builder.position_at_end(self.mismatch)
        self.give(NotImplemented)
        builder.position_at_end(self.failure)
        builder.ret(_POINTER(None))

    def call(self, name: str, result: Any, *arguments: Any) -> Any:
        """Generate a call of a function of Python's C API; return its result."""
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self.builder.call(cgutils.get_or_insert_function(self.module, kind, name), arguments)

    def field(self, value: object, offset: int, kind: Any) -> Any:
        """Load the field of an object at an offset."""
        place = self.builder.gep(value, [_WORD(offset)])
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()))

    def known(self, thing: object) -> Any:
        """Load the address of one of ``OBJECTS`` from the table."""
        number = next(number for number, one in enumerate(at.OBJECTS) if one is thing)
        return self.field(self.function.args[0], at.TABLE_AT + 8 * number, _WORD)

    def give(self, thing: object) -> None:
        found = self.builder.inttoptr(self.known(thing), _POINTER)
        self.call("Py_IncRef", ir.VoidType(), found)
        self.builder.ret(found)

    def demand(self, condition: Any) -> None:
        """Generate code that returns NotImplemented unless the condition holds."""
        further = self.function.append_basic_block()
        self.builder.cbranch(condition, further, self.mismatch)
        self.builder.position_at_end(further)

    def demand_type(self, value: object, *kinds: type) -> None:
        found = self.field(value, at.HEAD - 8, _WORD)
        same = [self.builder.icmp_unsigned("==", found, self.known(kind)) for kind in kinds]
        self.demand(same[0] if len(same) == 1 else self.builder.or_(*same))

    def unpacked(self, value: object, kind: at.Kind, wanted: Any) -> Any:
        """Convert a Python object to Numba's representation of its value."""
        builder = self.builder
        if kind == "int":
            self.demand_type(value, int)
            number = self.call("PyLong_AsLongLong", _WORD, value)
            with builder.if_then(builder.icmp_signed("==", number, _WORD(-1)), likely=False):
                error = builder.ptrtoint(self.call("PyErr_Occurred", _POINTER), _WORD)
                further = self.function.append_basic_block()
                builder.cbranch(builder.icmp_signed("==", error, _WORD(0)), further, self.failure)
                builder.position_at_end(further)
            return number
        if kind == "bool":
            word = builder.ptrtoint(value, _WORD)
            true, false = [builder.icmp_unsigned("==", word, self.known(thing)) for thing in (True, False)]
            self.demand(builder.or_(true, false))
            return true
        if kind == "float64":
            self.demand_type(value, float, at.np.float64)
            return self.field(value, at.HEAD, ir.DoubleType())
        if kind == "float32":
            self.demand_type(value, at.np.float32)
            return self.field(value, at.HEAD, ir.FloatType())
        return self.tuple(value, kind, wanted) if kind[0] == "tuple" else self.array(value, kind, wanted)

    def tuple(self, value: Any, kind: at.Kind, wanted: Any) -> Any:
        self.demand_type(value, tuple)
        self.demand(self.builder.icmp_signed("==", self.call("PyTuple_Size", _WORD, value), _WORD(len(kind) - 1)))
        parts = []
        for number, (part, type_of_part) in enumerate(zip(kind[1:], wanted, strict=True)):
            item = self.call("PyTuple_GetItem", _POINTER, value, _WORD(number))
            parts.append(self.unpacked(item, part, type_of_part))
        return self.context.make_tuple(self.builder, wanted, parts)

    def array(self, value: Any, kind: at.Kind, wanted: Any) -> Any:
        from numba.np.arrayobj import populate_array

        builder, (name, axes, contiguous, aligned) = self.builder, kind
        self.demand_type(value, at.np.ndarray)
        found = builder.icmp_unsigned("==", self.field(value, at.DTYPE, _WORD), self.known(dtype(name)))
        found = builder.and_(found, builder.icmp_signed("==", self.field(value, at.AXES, _INT), _INT(axes)))
        flags = builder.and_(self.field(value, at.FLAGS, _INT), _INT(at.CONTIGUOUS | at.ALIGNED))
        as_made = (at.CONTIGUOUS if contiguous else 0) | (at.ALIGNED if aligned else 0)
        self.demand(builder.and_(found, builder.icmp_signed("==", flags, _INT(as_made))))
        array = self.context.make_array(wanted)(self.context, builder)
        lengths, steps = [
            [self.field(self.field(value, place, _POINTER), 8 * axis, _WORD) for axis in range(axes)]
            for place in (at.SHAPE, at.STRIDES)
        ]
        data = builder.bitcast(self.field(value, at.DATA, _POINTER), array.data.type)
        size = self.context.get_constant(types.intp, dtype(name).itemsize)
        populate_array(array, data=data, shape=lengths, strides=steps, itemsize=size, meminfo=None)
        return array._getvalue()


def _define_runtime(module: Any) -> None:
    """Define the functions of Numba's runtime that loops call: they allocate, free and reshape arrays.

    Memory comes from Python's allocator. A header precedes the elements: word 0 is the reference count, word 3 the
    address of the elements, and word 4 their size in bytes.
    """
    void = ir.VoidType()

    def define(name: str, result: Any, *kinds: Any) -> Any:
        function = ir.Function(module, ir.FunctionType(result, kinds), name)
        return ir.IRBuilder(function.append_basic_block()), *function.args

    raw = ir.FunctionType(_POINTER, [_WORD])
    allocate = cgutils.get_or_insert_function(module, raw, "PyMem_RawMalloc")
    free = cgutils.get_or_insert_function(module, ir.FunctionType(void, [_POINTER]), "PyMem_RawFree")
    for name in ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_alloc_safe_aligned"):
        builder, size, align = define(name, _POINTER, _WORD, _INT)
        align = builder.zext(align, _WORD)
        block = builder.call(allocate, [builder.add(size, builder.add(align, _WORD(_HEADER)))])
        word = builder.ptrtoint(block, _WORD)
        with builder.if_then(builder.icmp_unsigned("==", word, _WORD(0)), likely=False):
            builder.ret(_POINTER(None))
        first = builder.add(builder.add(word, _WORD(_HEADER - 1)), align)
        header = builder.bitcast(block, _WORD.as_pointer())
        for place, value in ((0, _WORD(1)), (3, builder.sub(first, builder.urem(first, align))), (4, size)):
            builder.store(value, builder.gep(header, [_WORD(place)]))
        builder.ret(block)
    builder, block = define("NRT_MemInfo_call_dtor", void, _POINTER)
    builder.call(free, [block])
    builder.ret_void()
    # Loops reshape only row-major arrays, for which every reshape succeeds without a copy.
    words = _WORD.as_pointer()
    kinds = _WORD, words, words, _WORD, words, words, _WORD, _INT
    builder, _, _, _, axes, lengths, steps, size, _ = define("numba_attempt_nocopy_reshape", _INT, *kinds)
    step = cgutils.alloca_once_value(builder, size)
    with cgutils.for_range(builder, axes) as loop:
        axis = builder.sub(builder.sub(axes, _WORD(1)), loop.index)
        builder.store(builder.load(step), builder.gep(steps, [axis]))
        builder.store(builder.mul(builder.load(step), builder.load(builder.gep(lengths, [axis]))), step)
    builder.ret(_INT(1))
