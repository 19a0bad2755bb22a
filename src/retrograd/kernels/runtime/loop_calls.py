"""Compiled loops as functions of Python: from the library, or compiled now where Numba is installed.

A loop is machine code for each kind of arguments. Code and Python meet in one function per kind, which takes Python's
objects: it compares their types with those that it was made for, reads arrays where they lie, lets go of Python's lock,
and runs the loop. It answers ``NotImplemented`` to other arguments. A loop that is neither in the library nor can be
compiled raises ``LoopMissing``, before it has written anything.
"""

from __future__ import annotations

import ctypes
import os
import struct
import warnings
from collections.abc import Callable
from functools import cache
from threading import RLock

import numpy as np

from ...core.opaque_calls import LoopMissing
from ..build.object_layout import OBJECTS, PREFIX, Kind, kind_of_array
from . import library

_table = struct.pack(f"{len(OBJECTS)}P", *map(id, OBJECTS))
_lock = RLock()
_warned: list[str] = []


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class Loop:
    """A compiled loop, by the names of its module and of itself there: ``loop(*args)``.

    ``recipe`` is what ``object_files.compile`` makes machine code of; where it is None, the module is imported for it,
    or its ``source`` run, when something has to be compiled.
    """

    def __init__(self, module: str, name: str, recipe: object = None, source: str = "") -> None:
        self.module = module
        self.name = name
        self.recipe = recipe
        self.source = source
        self._entries: list[Callable[..., object]] = []
        self._found: dict[tuple[Kind, ...], Callable[..., object] | None] = {}

    def __call__(self, *args: object) -> None:
        for entry in self._entries:
            if entry(*args) is not NotImplemented:
                return
        args = tuple(map(plain, args))
        self.entry(*args)(*args)

    def entry(self, *args: object) -> Callable[..., object]:
        """The function of these arguments' kinds, which answers ``NotImplemented`` to others.

        Raises:
            LoopMissing: there is none.
        """
        kinds = tuple(map(kind_of, args))
        with _lock:
            if kinds not in self._found:
                address = self._address(kinds)
                made = None if address is None else python_function(address)
                self._found[kinds] = made
                if made is not None:
                    self._entries.append(made)
            found = self._found[kinds]
        if found is None:
            raise LoopMissing(f"there is no compiled loop {self.full_name} for {kinds}; install numba to compile it")
        return found

    def _address(self, kinds: tuple[Kind, ...]) -> int | None:
        opened = None if self.source else library.opened()
        address = None if opened is None else opened.address(library.symbol(self.full_name, repr(kinds)))
        if address is not None:
            return address
        try:
            from ..build import compiled_loops

            return compiled_loops.address(self.full_name, repr(kinds), lambda: self.code(kinds))
        except ImportError:
            return None
        except Exception as error:
            warn_of(self.full_name, error)
            return None

    @property
    def full_name(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.name}"

    def code(self, kinds: tuple[Kind, ...], name: str = "") -> bytes:
        """Compile the loop for arguments of some kinds; the object file defines a function ``name``."""
        from ..build import compiled_loops

        symbol = name or f"{PREFIX}{self.full_name}"
        return compiled_loops.loop_code(self.module, self.name, kinds, symbol, self.recipe, self.source)


class Loops:
    """The loops of a module as its attributes, without importing it."""

    def __init__(self, module: str) -> None:
        self._module = f"retrograd.kernels.{module}"

    def __getattr__(self, name: str) -> Loop:
        loop = self.__dict__[name] = Loop(self._module, name)
        return loop


loops = cache(Loops)


def warn_of(name: str, error: Exception) -> None:
    """Warn, once per process, that a loop could not be compiled."""
    if not _warned:
        _warned.append(name)
        warnings.warn(
            f"the loop {name} could not be compiled ({type(error).__name__}: {error}); NumPy computes in its place",
            RuntimeWarning,
            stacklevel=3,
        )


def plain(value: object) -> object:
    """The argument with the types that machine code knows."""
    if isinstance(value, np.ndarray):
        value = value.view(np.ndarray) if type(value) is not np.ndarray else value
        plain_dtype = np.dtype(value.dtype.str)
        return value if value.dtype is plain_dtype else value.view(plain_dtype)
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.bool_):
        return bool(value)
    return int(value) if isinstance(value, np.integer) else value


def kind_of(value: object) -> Kind:
    """The kind of an argument."""
    kind = type(value)
    if type(value) is np.ndarray:
        return kind_of_array(value.dtype, value.ndim, value.flags.c_contiguous, value.flags.aligned)
    if isinstance(value, tuple) and kind is tuple:
        return ("tuple", *map(kind_of, value))
    if kind in (int, bool):
        return kind.__name__
    if kind in (float, np.float64):
        return "float64"
    if kind is np.float32:
        return "float32"
    raise TypeError(f"compiled loops take arrays, numbers and tuples of these, not {kind.__name__}")


_methods: list[_Method] = []  # which functions of Python point to


def python_function(address: int) -> Callable[..., object]:
    """The function of Python whose C function is at an address, with the table as its self."""
    method = _Method(b"loop", address, 0x80, None)  # METH_FASTCALL
    _methods.append(method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: Callable[..., object] = make(ctypes.addressof(method), _table, None)
    return function


def _after_fork() -> None:
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
