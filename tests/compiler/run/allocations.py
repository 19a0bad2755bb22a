"""Which arrays NumPy allocates, by a handler of its documented C interface (NEP 49)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

_SET_HANDLER, _GET_HANDLER = 304, 305  # in NumPy's table of functions
_SIZE, _PLACE = ctypes.c_size_t, ctypes.c_void_p
_libc = ctypes.CDLL(None)
for _name, _takes in [("malloc", [_SIZE]), ("calloc", [_SIZE] * 2)]:
    getattr(_libc, _name).restype, getattr(_libc, _name).argtypes = _PLACE, _takes

_sizes: list[int] = []


@ctypes.CFUNCTYPE(_PLACE, _PLACE, _SIZE)
def _malloc(context, size):
    _sizes.append(size)
    return _libc.malloc(size)


@ctypes.CFUNCTYPE(_PLACE, _PLACE, _SIZE, _SIZE)
def _calloc(context, count, size):
    _sizes.append(count * size)
    return _libc.calloc(count, size)


class _Handler(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", _PLACE),
        *[(name, _PLACE) for name in ("malloc", "calloc", "realloc", "free")],
    )


_NAME = b"mem_handler"
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = _PLACE, [ctypes.py_object, ctypes.c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, [_PLACE, ctypes.c_char_p, _PLACE]
_table = ctypes.cast(_pointer(np._core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(_PLACE))
_set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(_table[_SET_HANDLER])
_get_handler = ctypes.PYFUNCTYPE(ctypes.py_object)(_table[_GET_HANDLER])


def _counting():
    """NumPy's own handler, but for these two functions."""
    own = _Handler.from_address(_pointer(_get_handler(), _NAME))
    handler = _Handler(b"counting", own.version, own.context, _malloc_place, _calloc_place, own.realloc, own.free)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handler))  # arrays are freed by it after modules are gone
    return _new_capsule(ctypes.addressof(handler), _NAME, None)


_malloc_place, _calloc_place = [ctypes.cast(function, _PLACE).value for function in (_malloc, _calloc)]
_capsule = _counting()


@contextmanager
def allocations(least: int = 1 << 12) -> Iterator[list[int]]:
    """The bytes of the arrays of at least so many that this thread allocates, when it is over."""
    found: list[int] = []
    _sizes.clear()
    before = _set_handler(_capsule)
    try:
        yield found
    finally:
        _set_handler(before)
        found += [size for size in _sizes if size >= least]
