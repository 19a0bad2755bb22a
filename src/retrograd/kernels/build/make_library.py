"""Compile all loops ahead of time for one level of processors, and link them into one shared library.

    python -m retrograd.kernels.build.make_library [x86-64-v3] [folder]

Without a level the library is for the best one of this processor.

Object files are kept under a digest of all that they depend on, so that only what has changed is compiled again. The
linker is LLVM's, which the package ``ziglang`` brings; no C compiler or header is needed. The folder then has a library
and its index, which ``kernels/runtime/library.py`` reads.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ..._generated.library_loops import LOOPS
from ..runtime.blas_address import PREFIX as BLAS
from ..runtime.levels import Level, named, usable
from ..runtime.library import FORMAT, KERNELS, SLOT, digest_of_sources, symbol
from ..runtime.loop_calls import Loop
from ..tiles import vector_width
from .compile_ahead import Job
from .object_layout import HEAD, ROUTINE

SERVE = ("runtime.thread_protocol", "serve", "('int',)")  # what helpers of the pool do
# Modules of kernels that the modules of loops import, without any code of theirs in the loops.
_NO_CODE = {
    f"runtime.{name}" for name in ["library", "levels", "loop_calls", "threads", "result_arrays", "cores", "settings"]
}
_NO_CODE |= {"build.compile_ahead", "build.compiled_loops", "chunked"}
_MATHEMATICS = {"acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "fmod", "log"}
_MATHEMATICS |= {"log10", "log1p", "log2", "pow", "sin", "sinh", "sqrt", "tan", "tanh"}
_OF_C = _MATHEMATICS | {f"{name}f" for name in _MATHEMATICS} | {"memcpy", "memset", "memmove"}


def main(name: str = "", folder: str = "build/kernels") -> int:
    """Make the library of a level in a folder; how many loops are not in it.

    Raises:
        ValueError: there is no level of that name, or without a name none that this processor has.
    """
    if not name and not usable():
        raise ValueError("this processor has none of the levels for which loops are compiled")
    level, place = named(name) if name else usable()[0], Path(folder).resolve()
    vector_width.target[:] = [level]
    objects = place / "objects" / level.name
    objects.mkdir(parents=True, exist_ok=True)
    waiting = [Job(f"retrograd.kernels.{module}", loop, kinds) for module, loop, kinds in (SERVE, *LOOPS)]
    total, made, left_out, files = len(waiting), 0, [], set[str]()
    parts: dict[str, bytes] = {}
    began = time.perf_counter()
    while waiting:
        job = waiting.pop(0)
        name = name_of(job)
        if name in parts:
            continue
        path = objects / f"{_digest(job, level)}.loop"
        try:
            if not path.is_file():
                made += 1
                _keep(path, compiled(job))
                _tell(f"{len(parts) + 1:4d} of {total}: {job.module.removeprefix('retrograd.kernels.')}.{job.name}")
            head, _, code = path.read_bytes().partition(b"\n")
            about = json.loads(head)
            strange = [call for call in about["calls"] if not _is_known(call)]
            if strange:
                raise RuntimeError(f"it calls {', '.join(strange)}")
        except Exception as error:
            left_out.append(job)
            print(f"not in the library: {job.module}.{job.name} {job.kinds}: {error}", file=sys.stderr)
            continue
        parts[name] = code
        files |= _sources(job.module.removeprefix("retrograd.kernels."))
        routines = [Job(*call.removeprefix(ROUTINE).rsplit(".", 2)) for call in about["calls"] if _is_routine(call)]
        total += len({name_of(routine) for routine in routines} - {*parts, *map(name_of, waiting)})
        waiting[:0] = routines
    seconds = time.perf_counter() - began
    size = link(place, level, parts, sorted(files))
    _tell(f"{level.name}: {len(parts)} loops and routines, {made} compiled in {seconds:.0f} s, {size / 1e6:.2f} MB\n")
    return len(left_out)


def name_of(job: Job) -> str:
    """By what name the library has a loop, or a routine, for some kinds of arguments."""
    return symbol(*job.key) if job.kinds.startswith("(") else f"{ROUTINE}{job.module}.{job.name}.{job.kinds}"


def compiled(job: Job) -> bytes:
    """The object file of a loop or a routine, behind a line of JSON."""
    from . import compiled_loops

    if job.kinds.startswith("("):
        return Loop(job.module, job.name).code(literal_eval(job.kinds), name_of(job))
    return compiled_loops.code(job)


def _is_routine(call: str) -> bool:
    return call.startswith(ROUTINE)


def _is_known(call: str) -> bool:
    """Whether what a loop calls is there when the library is opened."""
    return call.startswith((ROUTINE, BLAS, "Py")) or call in _OF_C or f"@{call}(" in _MEMORY


@cache
def _sources(module: str) -> frozenset[str]:
    """The files of kernels that a module's code depends on: its own, those that it imports, and what compiles it."""
    found: set[str] = set()
    waiting = [module, "build.object_files"]
    while waiting:
        name = waiting.pop()
        path = KERNELS / f"{name.replace('.', '/')}.py"
        file = path.relative_to(KERNELS).as_posix()
        if name in _NO_CODE or file in found or not path.is_file():
            continue
        found.add(file)
        waiting += _imports(name, path)
    return frozenset(found)


def _imports(module: str, path: Path) -> Iterator[str]:
    """The modules of kernels that a file may import."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = module.split(".")[: -node.level]
            if node.level > len(module.split(".")):
                continue  # of another room
            inside = [*base, *(node.module.split(".") if node.module else ())]
            yield ".".join(inside)
            yield from (".".join([*inside, alias.name]) for alias in node.names)


@cache
def _versions() -> tuple[Any, ...]:
    import llvmlite
    import numba
    import numpy

    return numba.__version__, llvmlite.__version__, numpy.__version__, sys.version_info[:2], FORMAT, HEAD


@cache
def _state(module: str) -> str:
    return digest_of_sources(sorted(_sources(module)))


def _digest(job: Job, level: Level) -> str:
    """Of all that the object file of a loop depends on."""
    of_sources = _state(job.module.removeprefix("retrograd.kernels."))
    target = level.name, level.width, level.features
    return hashlib.sha256(repr((tuple(job), target, _versions(), of_sources)).encode()).hexdigest()


def _keep(path: Path, content: bytes) -> None:
    """Whoever stops this program finds a whole file or none."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def _tell(text: str) -> None:
    """What is done, in one line at a terminal."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)
    else:
        print(text.rstrip("\n"), flush=True)


def link(place: Path, level: Level, parts: dict[str, bytes], files: list[str]) -> int:
    """Link object files into the library of a level, and write its index; its size in bytes."""
    pieces = place / "objects" / level.name / "pieces"
    pieces.mkdir(exist_ok=True)
    paths = []
    for number, code in enumerate([*parts.values(), _beside(level)]):
        paths.append(pieces / f"{number}.o")
        paths[-1].write_bytes(code)
    response = pieces / "files"
    response.write_text("\n".join(map(str, paths)))
    library = place / f"{level.name}.so"
    new = library.with_suffix(".new")
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-Bsymbolic", "-z", "now", "--hash-style=gnu"]
    command += ["--strip-all", "--build-id=none", "-o", str(new), f"@{response}"]
    subprocess.run(command, check=True)
    content = new.read_bytes()
    about = {
        "format": FORMAT,
        "level": level.name,
        "head": HEAD,
        "size": len(content),
        "digest": hashlib.sha256(content).hexdigest(),
        "files": files,
        "sources": digest_of_sources(files),
    }
    os.replace(new, library)
    _keep(library.with_suffix(".json"), json.dumps(about, indent=1).encode())
    for path in (*paths, response):
        path.unlink()
    return len(content)


def _beside(level: Level) -> bytes:
    """The object file of what loops call: BLAS by addresses in words of its own, and Numba's functions for memory."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    lines = [f'target triple = "{triple}"', _MEMORY]
    for kind, real in (("sgemm", "float"), ("dgemm", "double")):
        types = ["i32"] * 3 + ["i64"] * 3 + [real] + ["i64"] * 4 + [real] + ["i64"] * 2
        named = ", ".join(f"{one} %a{number}" for number, one in enumerate(types))
        lines += [
            f"@{BLAS}{kind}{SLOT} = global ptr null",
            f"define void @{BLAS}{kind}({named}) {{",
            f"  %f = load ptr, ptr @{BLAS}{kind}{SLOT}",
            f"  musttail call void %f({named})",
            "  ret void",
            "}",
        ]
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=level.name, features=level.features, opt=3, reloc="pic", codemodel="default"
    )
    code: bytes = machine.emit_object(llvm.parse_assembly("\n".join(lines)))
    return code


# As ``object_files`` defines them: before the numbers come the count of references, and where the numbers are.
_MEMORY = """
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
define ptr @NRT_Allocate(i64 %size) {
  %block = call ptr @PyMem_RawMalloc(i64 %size)
  ret ptr %block
}
define void @NRT_Free(ptr %block) {
  call void @PyMem_RawFree(ptr %block)
  ret void
}
define ptr @NRT_MemInfo_alloc(i64 %size) {
  %whole = add i64 %size, 64
  %block = call ptr @PyMem_RawMalloc(i64 %whole)
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %fill
fill:
  %numbers = getelementptr i8, ptr %block, i64 64
  store i64 1, ptr %block
  %place = getelementptr i64, ptr %block, i64 3
  store ptr %numbers, ptr %place
  %length = getelementptr i64, ptr %block, i64 4
  store i64 %size, ptr %length
  br label %end
end:
  ret ptr %block
}
"""


if __name__ == "__main__":
    sys.exit(1 if main(*sys.argv[1:]) else 0)
