"""Compiled loops as functions of Python: found in memory, on disk, or compiled now.

A loop is machine code for each kind of arguments, in an object file that LLVM loads and links (``llvmlite``); Numba,
whose import takes longer than that of all else, is needed only to compile one (``objects.py``). Code and Python meet
in one function per kind, which takes Python's objects: it compares their types with those that it was made for, reads
arrays where they lie, lets go of Python's lock, and runs the loop. It answers ``NotImplemented`` to other arguments.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from functools import cache
from importlib import import_module
from threading import RLock
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from ..runtime import blas_address
from . import code_store
from .compile_ahead import Job, ahead, following
from .object_layout import OBJECTS, PREFIX, ROUTINE, Kind, kind_of_array

PATIENCE = 1.0  # seconds of compiling that go without a word
CALLED = (
    "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_NoMemory", "PyTuple_Size", "PyTuple_GetItem", "Py_IncRef",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree",
)  # fmt: skip
_table = struct.pack(f"{len(OBJECTS)}P", *map(id, OBJECTS))
_lock = RLock()


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


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


class Loop:
    """A compiled loop, by the names of its module and of itself there: ``loop(*args)``.

    ``recipe`` is what ``objects.compile`` makes machine code of; where it is None, the module is imported for it, or
    its ``source`` run, when something has to be compiled.
    """

    def __init__(self, module: str, name: str, recipe: Any = None, source: str = "") -> None:
        self.module = module
        self.name = name
        self.recipe = recipe
        self.source = source
        self._entries: list[Callable[..., Any]] = []
        self._found: dict[tuple[Kind, ...], Callable[..., Any]] = {}

    def __call__(self, *args: Any) -> None:
        for entry in self._entries:
            if entry(*args) is not NotImplemented:
                return
        args = tuple(map(_plain, args))
        self.entry(*args)(*args)

    def entry(self, *args: object) -> Callable[..., Any]:
        """The function of these arguments' kinds, which answers ``NotImplemented`` to others."""
        kinds = tuple(map(kind_of, args))
        with _lock:
            if kinds not in self._found:
                self._found[kinds] = self._make(kinds)
            return self._found[kinds]

    def _make(self, kinds: tuple[Kind, ...]) -> Callable[..., Any]:
        entry = _function(_address(self._full_name, repr(kinds), lambda: self.code(kinds)))
        self._entries.append(entry)
        return entry

    @property
    def _full_name(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.name}"

    def code(self, kinds: tuple[Kind, ...]) -> bytes:
        """The object file for arguments of some kinds, compiled now."""
        from . import object_files

        return object_files.compile(self.recipe or self._defined().recipe, kinds, f"{PREFIX}{self._full_name}")

    def _defined(self) -> Any:
        """The loop that its module defines."""
        if not self.source:
            return getattr(import_module(self.module), self.name)
        scope: dict[str, Any] = {"__name__": self.module}
        exec(compile(self.source, f"<{self.module}>", "exec"), scope)
        return scope[self.name]


class Loops:
    """The loops of a module as its attributes, without importing it."""

    def __init__(self, module: str) -> None:
        self._module = f"retrograd.kernels.{module}"

    def __getattr__(self, name: str) -> Loop:
        loop = self.__dict__[name] = Loop(self._module, name)
        return loop


loops = cache(Loops)


def _plain(value: object) -> Any:
    """The argument with the types that machine code knows."""
    if isinstance(value, np.ndarray):
        value = value.view(np.ndarray) if type(value) is not np.ndarray else value
        plain = np.dtype(value.dtype.str)
        return value if value.dtype is plain else value.view(plain)
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, np.bool_):
        return bool(value)
    return int(value) if isinstance(value, np.integer) else value


def kind_of(value: Any) -> Kind:
    """The kind of an argument."""
    kind = type(value)
    if kind is np.ndarray:
        return kind_of_array(value.dtype, value.ndim, value.flags.c_contiguous, value.flags.aligned)
    if kind is tuple:
        return ("tuple", *map(kind_of, value))
    if kind in (int, bool):
        return kind.__name__
    if kind in (float, np.float64):
        return "float64"
    if kind is np.float32:
        return "float32"
    raise TypeError(f"compiled loops take arrays, numbers and tuples of these, not {kind.__name__}")


@cache
def _engine() -> Any:
    """LLVM's linker in memory. It outlives the interpreter: helpers may be inside of what it has linked."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in CALLED:
        llvm.add_symbol(PREFIX + name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    blas_address.available()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(codemodel="jitdefault", jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))
    return engine


def _address(name: str, kinds: str, make: Callable[[], bytes]) -> int:
    """Where the machine code of that name is, for arguments of some kinds: found on disk, or compiled now."""
    payload = code_store.read(name, kinds)
    if payload is None:
        ahead.wait((name, kinds))
        payload = code_store.read(name, kinds)
    address = None if payload is None else _linked(payload)
    if address is not None:
        compiled.found += 1
        return address
    ahead.ask(following((name, kinds)))
    began = time.perf_counter()
    payload = make()
    seconds = time.perf_counter() - began
    compiled.add(seconds)
    address = _linked(payload)
    if address is None:
        raise RuntimeError(f"the loop {name} calls what is not there: {payload[:400]!r}")
    ahead.compiled(seconds, compiled.seconds, code_store.write(name, kinds, payload))
    return address


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
    address: int = engine.get_function_address(about["name"])
    return address


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
    job = _job(name)
    return _address(*job.key, lambda: code(job))


def code(job: Job) -> bytes:
    """The object file of a loop or a routine, compiled now."""
    from . import object_files

    if job.kinds.startswith("("):
        return Loop(job.module, job.name, source=job.source).code(literal_eval(job.kinds))
    routine = getattr(import_module(job.module), job.name)
    return object_files.compile_routine(routine, job.kinds, f"{ROUTINE}{job.module}.{job.name}.{job.kinds}")


_methods: list[_Method] = []  # which functions of Python point to


def _function(address: int) -> Callable[..., Any]:
    """The function of Python whose C function is at an address, with the table as its self."""
    method = _Method(b"loop", address, 0x80, None)  # METH_FASTCALL
    _methods.append(method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: Callable[..., Any] = make(ctypes.addressof(method), _table, None)
    return function


def _after_fork() -> None:
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
