"""NVRTC by ctypes: whether CUDA's sources compile, which needs no GPU."""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes.util import find_library
from functools import cache
from pathlib import Path
from typing import Any


@cache
def nvrtc() -> ctypes.CDLL | None:
    """The library, of NVIDIA's package for Python or the system's, or None."""
    try:
        package = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        package = None
    places: list[str] = []
    for folder in package.submodule_search_locations or () if package is not None else ():
        places += map(str, sorted((Path(folder) / "lib").glob("libnvrtc.so*")))
        places += map(str, sorted((Path(folder) / "bin").glob("nvrtc64*.dll")))
    places += [str(path) for path in sorted(Path("/usr/local").glob("cuda*/lib64/libnvrtc.so"))]
    system = find_library("nvrtc")
    for place in [*places, *([system] if system else [])]:
        try:
            return ctypes.CDLL(place)
        except OSError:
            continue
    return None


def compiled(source: str, options: tuple[str, ...] = ()) -> str:
    """The PTX of a source. Raises RuntimeError with the compiler's log where it is wrong."""
    library = nvrtc()
    assert library is not None
    program = ctypes.c_void_p()
    call(library, "nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"source.cu", 0, None, None)
    try:
        given = [option.encode() for option in (*options, "--gpu-architecture=compute_80")]
        status = library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        log = text(library, program, "ProgramLog")
        if status:
            raise RuntimeError(f"NVRTC: status {status}\n{log}")
        return text(library, program, "PTX")
    finally:
        call(library, "nvrtcDestroyProgram", ctypes.byref(program))


def text(library: Any, program: Any, what: str) -> str:
    size = ctypes.c_size_t()
    call(library, f"nvrtcGet{what}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    call(library, f"nvrtcGet{what}", program, buffer)
    return buffer.value.decode()


def call(library: Any, name: str, *args: Any) -> None:
    status = getattr(library, name)(*args)
    if status:
        raise RuntimeError(f"{name}: status {status}")
