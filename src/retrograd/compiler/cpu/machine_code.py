"""Compile LLVM text to functions that Python calls; the machine code stays in memory.

llvmlite, a dependency of Numba, compiles the text without Numba: the dozen distinct loops of a region of 100
instructions take Numba seconds to type and lower, and LLVM a tenth of that to compile. The addresses of NumPy's loops
and BLAS differ between processes, so the code refers to them by symbols that are bound when the code is loaded.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays.dtypes import DType
from ...kernels import multiplies, turned_on
from ...kernels.runtime import blas_address
from ...kernels.runtime.loop_calls import warn_of
from ...kernels.runtime.numba_functions import routine_address
from ...kernels.runtime.object_layout import routine_symbol
from ...kernels.tiles.vector_width import wide

HEAD = object.__basicsize__  # offset of an object's own fields; the first field of an array is its data pointer
# The offset of a tuple's items.
ITEMS = tuple.__basicsize__
BLAS = blas_address.PREFIX
_WORD = ctypes.sizeof(ctypes.c_void_p)


@cache
def available() -> bool:
    """Return whether regions can be compiled: LLVM is available, and objects have CPython's memory layout."""
    if not turned_on():
        return False
    try:
        import llvmlite.binding as llvm

        if llvm.llvm_version_info[0] < 16 or _WORD != 8:  # LLVM before 16 has typed pointers
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
    """A compiled function of one tuple; ``call`` returns 0, or the status of a failed check."""

    def __init__(self, engine: object, address: int, quick: bool) -> None:
        self._engine = engine  # owns the code
        prototype = (ctypes.PYFUNCTYPE if quick else ctypes.CFUNCTYPE)(ctypes.c_int, ctypes.py_object)
        self.call = prototype(address)


def function(text: str, quick: bool) -> Function:
    """Return the function ``entry`` of a module of LLVM text.

    Args:
        text: the module.
        quick: whether to hold the GIL, because the call takes no longer than to reacquire the GIL.

    Raises:
        RuntimeError: LLVM rejects the module. This is a bug of the package; a warning reports it once.
    """
    try:
        return _loaded(text, quick)
    except RuntimeError as error:
        warn_of("of several instructions", error)
        raise


def _loaded(text: str, quick: bool) -> Function:
    import llvmlite.binding as llvm

    machine, code = _machine(), _compiled(text)
    empty = llvm.parse_assembly("")
    empty.triple = machine.triple
    engine = llvm.create_mcjit_compiler(empty, _machine(fresh=True))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Function(engine, engine.get_function_address("entry"), quick)


@lru_cache(256)
def _compiled(text: str) -> bytes:
    import llvmlite.binding as llvm

    machine = _machine()
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


def _machine(fresh: bool = False, made: list[object] = []) -> Any:  # noqa: B006
    """Return the target machine of this processor; an engine needs a fresh one, which it owns."""
    import llvmlite.binding as llvm

    if fresh or not made:
        cpu, features = _processor()
        target = llvm.Target.from_default_triple()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=3, jit=True, codemodel="jitdefault")
        if fresh:
            return machine
        made.append(machine)
    return made[0]


# Symbols


LINALG = "numpy.linalg._umath_linalg"
_HOMES = ("numpy", "scipy.special", LINALG)  # modules with ufuncs


def _is_known(ufunc: np.ufunc, home: str) -> bool:
    """Return whether module ``home`` has the ufunc under its own name, so that the name is unique."""
    return getattr(sys.modules.get(home), ufunc.__name__, None) is ufunc


class InnerLoop(NamedTuple):
    """NumPy's inner loop of a ufunc for some dtypes, with its symbol for LLVM."""

    address: int
    data: int  # the loop's last argument
    symbol: str

    @property
    def data_symbol(self) -> str:
        """The symbol of the last argument."""
        return f"@{self.symbol}_data" if self.data else "null"

    def add_symbols(self) -> None:
        """Let LLVM find the symbols."""
        import llvmlite.binding as llvm

        llvm.add_symbol(self.symbol, self.address)
        if self.data:
            llvm.add_symbol(f"{self.symbol}_data", self.data)


@cache
def inner_loop(ufunc: np.ufunc, kinds: str) -> InnerLoop | None:
    """Return NumPy's inner loop of a ufunc for some dtypes (``"ff->f"``), or None.

    Its address is in NumPy's documented ufunc struct.
    """
    if kinds not in ufunc.types:
        return None
    at = ufunc.types.index(kinds)
    fields = id(ufunc) + HEAD + 16
    functions, data = [ctypes.c_void_p.from_address(fields + _WORD * index).value for index in range(2)]
    loop = ctypes.c_void_p.from_address((functions or 0) + _WORD * at).value
    datum = ctypes.c_void_p.from_address(data + _WORD * at).value if data else None
    if not functions or not loop:
        return None
    homes = [home for home in _HOMES if _is_known(ufunc, home)]
    if not homes:
        return None
    name = f"retrograd_{homes[0]}_{ufunc.__name__}_{kinds.replace('->', '_').replace('?', 'b1')}".replace(".", "_")
    return InnerLoop(loop, datum or 0, name)


def gemm(dtype: DType) -> str | None:
    """Return the symbol of BLAS's matrix product for float32 or float64, with 64-bit integers."""
    if not multiplies():
        return None
    blas_address.name_for_llvm()
    return f"{BLAS}{'s' if dtype == np.float32 else 'd'}gemm"


@cache
def gemv(dtype: DType) -> str | None:
    """Return the symbol of BLAS's product of a matrix and a vector, with 64-bit integers, or None."""
    import llvmlite.binding as llvm

    kind = f"{'s' if dtype == np.float32 else 'd'}gemv"
    address = None if gemm(dtype) is None else blas_address.vector_product(kind)
    if address is None:
        return None
    llvm.add_symbol(BLAS + kind, address)
    return BLAS + kind


@cache
def tiles(dtype: DType) -> str | None:
    """Return the symbol of ``tiles.product_at`` for float32 or float64, or None."""
    return _product("tiles.tiles", "product_at", 10, dtype)


@cache
def packing(dtype: DType) -> str | None:
    """Return the symbol of ``packed_products.packed_product_at`` for float32 or float64, or None."""
    return _product("tiles.packed_products", "packed_product_at", 11, dtype)


def _product(module: str, function: str, numbers: int, dtype: DType) -> str | None:
    import llvmlite.binding as llvm

    routine = f"retrograd.kernels.{module}", function, "i" * numbers + ("f" if dtype == np.float32 else "d")
    try:
        address = routine_address(*routine)
    except Exception as error:
        warn_of(function, error)
        return None
    if address is None:
        return None
    llvm.add_symbol(routine_symbol(*routine), address)
    return routine_symbol(*routine)


@cache
def power() -> str | None:
    """Return the symbol of the C library's ``pow``, which Python's ``**`` calls."""
    import llvmlite.binding as llvm

    address = power_address()
    if address is None:
        return None
    llvm.add_symbol("retrograd_pow", address)
    return "retrograd_pow"


def power_address() -> int | None:
    """Return the address of the C library's ``pow``."""
    from ...kernels.runtime.threads import foreign

    found = foreign("pow")
    return None if found is None else found[0]
