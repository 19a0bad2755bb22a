"""Loops that the library does not hold: their machine code is found on disk, or compiled now.

A loop is machine code for each kind of arguments, in an object file that LLVM loads and links (``llvmlite``); Numba,
whose import takes longer than that of all else, is needed only to compile one (``object_files``).
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any

import llvmlite.binding as llvm

from ..runtime import blas_address, library
from . import code_store
from .compile_ahead import Job, ahead, following
from .object_layout import PREFIX, ROUTINE, Kind

PATIENCE = 1.0  # seconds of compiling that go without a word
CALLED = (
    "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_NoMemory", "PyTuple_Size", "PyTuple_GetItem", "Py_IncRef",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree",
)  # fmt: skip


class Compiled:
    """What this process has compiled, and how long that took; what it has found on disk."""

    def __init__(self) -> None:
        self.loops, self.seconds, self.found = 0, 0.0, 0

    def add(self, seconds: float) -> None:
        """A loop is compiled. Who waits at a terminal is told once what takes so long."""
        before = self.seconds
        self.loops, self.seconds = self.loops + 1, before + seconds
        if before <= PATIENCE < self.seconds and sys.stderr is not None and sys.stderr.isatty():
            print("retrograd: compiling loops for this machine; they are kept for the next run", file=sys.stderr)


compiled = Compiled()


@cache
def _engine() -> Any:
    """LLVM's linker in memory. It outlives the interpreter: helpers may be inside of what it has linked."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in CALLED:
        llvm.add_symbol(PREFIX + name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    name_blas()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return engine


@cache
def name_blas() -> None:
    """Let code that LLVM loads call NumPy's BLAS by our names."""
    for kind, address in (blas_address.addresses() or {}).items():
        llvm.add_symbol(blas_address.PREFIX + kind, address)


def address(name: str, kinds: str, make: Callable[[], bytes]) -> int:
    """Where the machine code of that name is, for arguments of some kinds: found on disk, or compiled now."""
    payload = code_store.read(name, kinds)
    if payload is None:
        ahead.wait((name, kinds))
        payload = code_store.read(name, kinds)
    found = None if payload is None else _linked(payload)
    if found is not None:
        compiled.found += 1
        return found
    ahead.ask(following((name, kinds)))
    began = time.perf_counter()
    payload = make()
    seconds = time.perf_counter() - began
    compiled.add(seconds)
    found = _linked(payload)
    if found is None:
        raise RuntimeError(f"the loop {name} calls what is not there: {payload[:400]!r}")
    ahead.compiled(seconds, compiled.seconds, code_store.write(name, kinds, payload))
    return found


def _linked(payload: bytes) -> int | None:
    """Where the function of an object file is, behind a line of JSON; None where it calls what is not there."""
    head, _, code = payload.partition(b"\n")
    about = json.loads(head)
    engine = _engine()
    routines = [n for n in about["calls"] if n.startswith(ROUTINE) and llvm.address_of_symbol(n) is None]
    ahead.ask([_job(name) for name in routines[1:]])
    for name in routines:
        llvm.add_symbol(name, _routine(name))
    if any(llvm.address_of_symbol(name) is None for name in about["calls"]):
        from . import object_files

        object_files.prepare()  # something of Numba's, which has to be there
        if any(llvm.address_of_symbol(name) is None for name in about["calls"]):
            return None
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    place: int = engine.get_function_address(about["name"])
    return place


def routine(module: str, function: str, kinds: str) -> str:
    """The name by which code that LLVM loads can call a routine from now on."""
    name = f"{ROUTINE}{module}.{function}.{kinds}"
    if llvm.address_of_symbol(name) is None:
        llvm.add_symbol(name, _routine(name))
    return name


def _job(name: str) -> Job:
    """What makes the routine that loops call by a name."""
    return Job(*name.removeprefix(ROUTINE).rsplit(".", 2))


def _routine(name: str) -> int:
    """Where the routine is that loops call by a name."""
    opened = library.opened()
    found = None if opened is None else opened.address(name)
    job = _job(name)
    return address(*job.key, lambda: code(job)) if found is None else found


def code(job: Job) -> bytes:
    """The object file of a loop or a routine, compiled now."""
    from . import object_files

    if job.kinds.startswith("("):
        symbol = f"{PREFIX}{job.module.rpartition('.')[2]}.{job.name}"
        return loop_code(job.module, job.name, literal_eval(job.kinds), symbol, source=job.source)
    routine = getattr(import_module(job.module), job.name)
    return object_files.compile_routine(routine, job.kinds, f"{ROUTINE}{job.module}.{job.name}.{job.kinds}")


def loop_code(
    module: str, name: str, kinds: tuple[Kind, ...], symbol: str, recipe: object = None, source: str = ""
) -> bytes:
    """Compile a loop for arguments of some kinds; the object file defines a function ``symbol``.

    The loop is made of ``recipe``; where that is None, of the definition in its module or in ``source``.
    """
    from . import object_files

    if recipe is None:
        scope: dict[str, object] = {"__name__": module}
        if source:
            exec(compile(source, f"<{module}>", "exec"), scope)
        recipe = attrgetter("recipe")(scope[name] if source else getattr(import_module(module), name))
    return object_files.compile(recipe, kinds, symbol)
