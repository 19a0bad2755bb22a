"""CUDA's streams and graphs of guarded arrays: while a stream captures, all that is done to arrays is taken down.

What is captured must not happen: the stand-in does it, to have arrays to go on with, and puts back at the end what was
written. A launch does all of it again, in the same memory. Reading an element while capturing is an error, as on a GPU.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.compiler.cuda import processor
from tests.helpers import guarded

JOINING = ("concatenate", "stack")  # of more than 8 arrays: CuPy copies their addresses to the device
READS = ("get", "item", "tolist", "tobytes", "__bool__", "__int__", "__float__", "__complex__", "__format__")


class Tape:
    """What is captured now: calls, and what they have written."""

    current: Tape | None = None
    depth = 0

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = []
        self.before: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []


def arrays_in(nest: Any) -> Iterator[Any]:
    if isinstance(nest, guarded.GuardedArray):
        yield nest
    elif isinstance(nest, (list, tuple)):
        for item in nest:
            yield from arrays_in(item)
    elif isinstance(nest, dict):
        yield from arrays_in(list(nest.values()))


def taken_down(original: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which a capture takes down."""

    def call(*args: Any, **kwargs: Any) -> Any:
        tape = Tape.current
        if tape is None or Tape.depth:
            return original(*args, **kwargs)
        many = isinstance(args[1] if args[1:] else None, (list, tuple)) and len(args[1]) > 8
        if any(isinstance(x, np.ndarray) and x.ndim for x in args) or many and args[0].__name__ in JOINING:
            guarded.cupy.cuda.pinned(1)
        before = [(x._array, x._array.copy()) for x in arrays_in((args, kwargs))]
        Tape.depth += 1
        try:
            result = original(*args, **kwargs)
        finally:
            Tape.depth -= 1
        tape.before += [(array, old) for array, old in before if array.tobytes() != old.tobytes()]
        tape.calls.append((original, args, kwargs, result))
        return result

    return call


def refused(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any) -> Any:
        if Tape.current is not None and not Tape.depth:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing")
        return original(self, *args)

    return call


class Graph:
    launches = 0

    def __init__(self, tape: Tape) -> None:
        self.tape = tape

    def launch(self) -> None:
        Graph.launches += 1
        for original, args, kwargs, result in self.tape.calls:
            if getattr(args[0] if args else None, "__name__", "") == "empty":
                continue
            made = list(arrays_in(original(*args, **kwargs)))
            for old, new in zip(arrays_in(result), made, strict=True):
                if old is not new and not np.may_share_memory(old._array, new._array):
                    old._array[...] = new._array


class Stream:
    def __init__(self) -> None:
        self.tape: Tape | None = None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        assert self.tape is None, "a capture was left open"

    def synchronize(self) -> None:
        assert Tape.current is None

    def begin_capture(self, mode: int = 0) -> None:
        self.tape = Tape.current = Tape()

    def end_capture(self) -> Graph:
        tape, self.tape, Tape.current = self.tape, None, None
        assert tape is not None
        for array, old in reversed(tape.before):
            array[...] = old
        return Graph(tape)


@contextlib.contextmanager
def streams(monkeypatch: Any) -> Iterator[None]:
    """Inside, the guarded CuPy has streams that capture."""
    kind = guarded.GuardedArray
    for owner in (guarded.Function, guarded.Ufunc):
        monkeypatch.setattr(owner, "__call__", taken_down(owner.__call__))
    monkeypatch.setattr(guarded.Ufunc, "at", taken_down(guarded.Ufunc.at))
    for name, member in list(vars(kind).items()):
        if name in READS:
            monkeypatch.setattr(kind, name, refused(member))
        elif isinstance(member, types.FunctionType) and name not in (
            "__init__",
            "__array_ufunc__",
            "__array_function__",
            "__array__",
            "__len__",
            "__repr__",
            "__reduce__",
        ):
            monkeypatch.setattr(kind, name, taken_down(member))
    function = processor.RawModule.get_function
    monkeypatch.setattr(processor.RawModule, "get_function", lambda self, name: taken_down(function(self, name)))
    cuda = guarded.cupy.cuda
    pool = types.SimpleNamespace(malloc=lambda size: None, total_bytes=lambda: 0, free_all_blocks=lambda: None)
    offered = {
        "Stream": Stream, "MemoryPool": lambda: pool, "using_allocator": lambda malloc: contextlib.nullcontext(),
        "get_current_stream": lambda: Stream(), "runtime": types.SimpleNamespace(streamCaptureModeThreadLocal=1),
        "pinned": pool.malloc, "set_pinned_memory_allocator": lambda malloc: setattr(cuda, "pinned", malloc),
    }  # fmt: skip
    for name, value in offered.items():
        monkeypatch.setattr(cuda, name, value, raising=False)
    monkeypatch.setitem(vars(guarded.cupy), "get_default_pinned_memory_pool", lambda: pool)
    yield
