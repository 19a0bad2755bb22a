"""From LLVM's text to functions that Python calls, by llvmlite, which Numba brings; machine code is kept on disk.

LLVM is given its text at once, without Numba: a region of a hundred instructions becomes a dozen different loops, which
Numba takes seconds to type and lower, and LLVM a tenth of that to compile.

What lies elsewhere in every process, NumPy's loops and BLAS, the code calls by names that are bound when it is loaded.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from functools import cache
from typing import Any

import numpy as np

from ...kernels import compiled, multiplies
from ...kernels.build.code_store import read_region, write_region
from ...kernels.tiles.vector_width import wide

HEAD = object.__basicsize__  # bytes before an object's own fields, of which an array's first is where its elements lie
ITEMS = tuple.__basicsize__  # bytes before a tuple's items
BLAS = "retrograd_cblas_"  # with which the names of its functions begin, as in kernels/runtime/blas_address.py
_WORD = ctypes.sizeof(ctypes.c_void_p)


@cache
def available() -> bool:
    """Whether regions can be compiled: there is a processor's LLVM, and objects lie in memory as they do in CPython."""
    if compiled() is None:
        return False
    try:
        import llvmlite.binding as llvm

        if llvm.llvm_version_info[0] < 16 or _WORD != 8:  # pointers had types before
            return False
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        array, ufunc = np.zeros(1), id(np.exp) + HEAD
        counts = [ctypes.c_int.from_address(ufunc + at).value for at in (0, 4, 8, 4 * _WORD)]
        held = (array,)
        item = ctypes.c_void_p.from_address(id(held) + ITEMS).value
        data = ctypes.c_void_p.from_address(id(array) + HEAD).value
        return item == id(array) and data == array.ctypes.data and counts == [1, 1, 2, len(np.exp.types)]
    except Exception:
        return False


class Function:
    """A compiled function of one tuple, which gives a status: 0, or what went wrong."""

    def __init__(self, engine: Any, address: int, quick: bool) -> None:
        self._engine = engine  # lets go of the code when it goes
        prototype = (ctypes.PYFUNCTYPE if quick else ctypes.CFUNCTYPE)(ctypes.c_int, ctypes.py_object)
        self.call = prototype(address)


def function(text: str, quick: bool) -> Function:
    """The function ``entry`` of a module of LLVM's text.

    Args:
        text: the module.
        quick: whether Python's lock is kept, since the call takes no longer than to take it again.
    """
    import llvmlite.binding as llvm

    machine = _machine()
    key = hashlib.sha256(repr((text, llvm.llvm_version_info, machine.triple, _processor())).encode()).hexdigest()
    code = read_region(key)
    if code is None:
        code = _compiled(text, machine)
        write_region(key, code)
    empty = llvm.parse_assembly("")
    empty.triple = machine.triple
    engine = llvm.create_mcjit_compiler(empty, _machine(fresh=True))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Function(engine, engine.get_function_address("entry"), quick)


def _compiled(text: str, machine: Any) -> bytes:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options()
    options.speed_level, options.loop_vectorization, options.slp_vectorization = 3, True, True
    options.loop_interleaving = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


@cache
def _processor() -> tuple[str, str]:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), wide(llvm.get_host_cpu_features().flatten())


def _machine(fresh: bool = False, made: list[Any] = []) -> Any:  # noqa: B006
    """The processor as a target; an engine takes its own away."""
    import llvmlite.binding as llvm

    if fresh or not made:
        cpu, features = _processor()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True, codemodel="jitdefault")
        if fresh:
            return machine
        made.append(machine)
    return made[0]


# Names that code calls


def _is_known(ufunc: np.ufunc, home: str) -> bool:
    """Whether a module is where the ufunc has its name, so that no other one has it."""
    return getattr(sys.modules.get(home), ufunc.__name__, None) is ufunc


@cache
def inner_loop(ufunc: np.ufunc, kinds: str) -> tuple[str, str] | None:
    """The names of NumPy's own loop of a ufunc for some dtypes (``"ff->f"``), and of the datum that it is called with.

    NumPy's documented struct of a ufunc says where they are.
    """
    import llvmlite.binding as llvm

    if kinds not in ufunc.types:
        return None
    at = ufunc.types.index(kinds)
    fields = id(ufunc) + HEAD + 16
    functions, data = [ctypes.c_void_p.from_address(fields + _WORD * index).value for index in range(2)]
    loop = ctypes.c_void_p.from_address((functions or 0) + _WORD * at).value
    datum = ctypes.c_void_p.from_address(data + _WORD * at).value if data else None
    if not functions or not loop:
        return None
    homes = [home for home in ("numpy", "scipy.special") if _is_known(ufunc, home)]
    if not homes:
        return None
    name = f"retrograd_{homes[0]}_{ufunc.__name__}_{kinds.replace('->', '_').replace('?', 'b1')}".replace(".", "_")
    llvm.add_symbol(name, loop)
    if datum is None:
        return name, "null"
    llvm.add_symbol(f"{name}_data", datum)
    return name, f"@{name}_data"


def gemm(dtype: Any) -> str | None:
    """The name of BLAS's product for float32 or float64, with integers of 64 bits."""
    return f"{BLAS}{'s' if dtype == np.float32 else 'd'}gemm" if multiplies() else None


@cache
def tiles(dtype: Any) -> str:
    """The name of ``tiles.product_at`` for float32 or float64."""
    return _product("tiles.tiles", "product_at", 10, dtype)


@cache
def packing(dtype: Any) -> str:
    """The name of ``panels.packed_product_at`` for float32 or float64."""
    return _product("tiles.packed_products", "packed_product_at", 11, dtype)


def _product(module: str, function: str, numbers: int, dtype: Any) -> str:
    from ...kernels.build.compiled_loops import routine

    kinds = "i" * numbers + ("f" if dtype == np.float32 else "d")
    return routine(f"retrograd.kernels.{module}", function, kinds)


@cache
def power() -> str | None:
    """The name of the C library's ``pow``, which Python's ``**`` is."""
    import llvmlite.binding as llvm

    from ...kernels.runtime.threads import foreign

    found = foreign("pow")
    if found is None:
        return None
    llvm.add_symbol("retrograd_pow", found[0])
    return "retrograd_pow"
