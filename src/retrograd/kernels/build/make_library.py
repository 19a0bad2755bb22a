"""Compile all loops ahead of time for one level of processors, and link them into one shared library.

    python -m retrograd.kernels.build.make_library [x86-64-v3] [folder]

Without a level the library is for the best one of this processor. A library that is current is left as it is.

Object files are kept under a digest of all that they depend on, so that only what has changed is compiled again, by as
many processes as there are cores. The linker is LLVM's, which the package ``ziglang`` brings; no C compiler or header
is needed. The folder then has a library and its index, which ``kernels/runtime/library.py`` reads.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ..._generated.library_loops import LOOPS
from ..runtime import numba_functions
from ..runtime.blas_address import PREFIX as BLAS
from ..runtime.levels import LEVELS, Level, named, target, usable
from ..runtime.library import FORMAT, KERNELS, SLOT, digest_of_sources, symbol
from ..runtime.object_layout import HEAD, ROUTINE

# What no example call names: what helpers of the pool do, and the execution of regions.
ALWAYS = (
    ("runtime.thread_protocol", "serve", "('int',)"),
    ("loops.regions.region_loops", "execute", "('int', 'int')"),
)
PLAN = ("../_generated/library_loops.py", "build/make_library.py")  # the files that say what is in the library
# Modules of kernels that the modules of loops import, without any code of theirs in the loops.
_NO_CODE = {
    f"runtime.{name}"
    for name in ("library", "levels", "loop_calls", "threads", "result_arrays", "cores", "numba_functions")
} | {"chunked"}
_MATHEMATICS = {"acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "fmod", "log"}
_MATHEMATICS |= {"log10", "log1p", "log2", "pow", "sin", "sinh", "sqrt", "tan", "tanh"}
_OF_C = _MATHEMATICS | {f"{name}f" for name in _MATHEMATICS} | {"memcpy", "memset", "memmove"}


class Job(NamedTuple):
    """A loop, or a routine, and the kinds of its arguments."""

    module: str
    name: str
    kinds: str

    @property
    def symbol(self) -> str:
        """The name in the library."""
        if self.kinds.startswith("("):
            return symbol(f"{self.module.rpartition('.')[2]}.{self.name}", self.kinds)
        return f"{ROUTINE}{self.module}.{self.name}.{self.kinds}"


def main(name: str = "", folder: str = "build/kernels") -> int:
    """Make the library of a level in a folder; how many loops are not in it.

    Raises:
        ValueError: there is no level of that name.
        RuntimeError: a source file changed while its loops were compiled.
    """
    if not name and not usable():
        _tell(f"no library is made: this processor has none of {', '.join(level.name for level in LEVELS)}\n")
        return 0
    level, place = named(name) if name else usable()[0], Path(folder).resolve()
    if is_current(level, place):
        _tell(f"{level.name}: the library is current\n")
        return 0
    objects = place / "objects" / level.name
    objects.mkdir(parents=True, exist_ok=True)
    before = {path: path.read_bytes() for path in KERNELS.rglob("*.py")}
    jobs = [Job(f"retrograd.kernels.{module}", loop, kinds) for module, loop, kinds in (*ALWAYS, *LOOPS)]
    waiting = {job.symbol: job for job in jobs}
    parts: dict[str, bytes] = {}
    files = set[str]()
    made, left_out, began = 0, 0, time.perf_counter()
    with _Workers(level) as workers:
        while waiting:
            total, calls = len(parts) + len(waiting), dict[str, Job]()
            paths = {job: objects / f"{_digest(job, level)}.loop" for job in waiting.values()}
            missing = {job: path for job, path in paths.items() if not path.is_file()}
            made += len(missing)
            done = total - len(missing)
            for job, problem in workers.compile(missing):
                done += 1
                _tell(f"{done:4d} of {total}: {job.module.removeprefix('retrograd.kernels.')}.{job.name}")
                if problem:
                    left_out += 1
                    print(f"not in the library: {job.module}.{job.name} {job.kinds}: {problem}", file=sys.stderr)
                    del paths[job]
            for job, path in paths.items():
                about, _, parts[job.symbol] = path.read_bytes().partition(b"\n")
                files |= _sources(job.module.removeprefix("retrograd.kernels."))
                for call in json.loads(about)["calls"]:
                    if call.startswith(ROUTINE):
                        calls[call] = Job(*call.removeprefix(ROUTINE).rsplit(".", 2))
            waiting = {symbol: job for symbol, job in calls.items() if symbol not in parts}
    changed = [name for name in sorted(files) if before.get(KERNELS / name) != (KERNELS / name).read_bytes()]
    if changed:
        raise RuntimeError(f"{', '.join(changed)} changed while the library was made; make it again")
    seconds = time.perf_counter() - began
    size = link(place, level, parts, sorted(files))
    _tell(f"{level.name}: {len(parts)} loops and routines, {made} compiled in {seconds:.0f} s, {size / 1e6:.2f} MB\n")
    return left_out


def is_current(level: Level, place: Path) -> bool:
    """Whether a folder has the library of a level that would be made of the sources as they are."""
    index = place / f"{level.name}.json"
    try:
        about = json.loads(index.read_text())
        library = index.with_suffix(".so").read_bytes()
        return bool(
            about["made"] == _made(level)
            and about["sources"] == digest_of_sources(about["files"])
            and about["planned"] == digest_of_sources(about["plan"])
            and about["digest"] == hashlib.sha256(library).hexdigest()
        )
    except (OSError, ValueError, KeyError):
        return False


class _Workers:
    """Processes that compile loops, started when the first loop has to be compiled."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def compile(self, jobs: dict[Job, Path]) -> Iterator[tuple[Job, str]]:
        """Compile jobs, each to a file; yield each job when it is done, with why it cannot be in the library."""
        if not jobs:
            return
        if self.pool is None:
            count, context = os.cpu_count() or 1, get_context("spawn")
            self.pool = ProcessPoolExecutor(count, context, initializer=prepare, initargs=(self.level.name,))
        pending = {self.pool.submit(_to_file, job, path): job for job, path in jobs.items()}
        for future in as_completed(pending):
            yield pending[future], future.result()


def prepare(level: str) -> None:
    """Let this process compile for a level, before any module of loops is imported."""
    from . import object_files

    gc.disable()  # a tenth of the time: Numba keeps most objects that it creates
    target[:] = [named(level)]
    numba_functions.makers[:] = [object_files]


def _to_file(job: Job, path: Path) -> str:
    """Compile a loop to a file; why it cannot be in the library, or nothing."""
    try:
        code = compiled(job)
        strange = [call for call in json.loads(code.partition(b"\n")[0])["calls"] if not _is_known(call)]
        if strange:
            return f"it calls {', '.join(strange)}"
        _keep(path, code)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def compiled(job: Job) -> bytes:
    """The object file of a loop or a routine, behind a line of JSON."""
    from . import object_files

    made = getattr(import_module(job.module), job.name)
    if job.kinds.startswith("("):
        return object_files.compile(made.recipe, literal_eval(job.kinds), job.symbol)
    return object_files.compile_routine(made, job.kinds, job.symbol)


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
    from importlib.metadata import version

    return *map(version, ("numba", "llvmlite", "ziglang")), FORMAT, HEAD


def _made(level: Level) -> str:
    """A digest of what a library depends on besides its sources: of its table of loops, among others."""
    return hashlib.sha256(repr((ALWAYS, LOOPS, level.width, level.features, _versions())).encode()).hexdigest()


@cache
def _state(module: str) -> str:
    """The meaning of a module's sources: docstrings, comments, layout and the order of imports change no code."""
    return "\n".join([name + _meaning(KERNELS / name) for name in sorted(_sources(module))])


@cache
def _meaning(path: Path) -> str:
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [part for part in node.body if not _is_text(part)]
    nodes = tree.body
    imports = [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]
    return "\n".join([*sorted(map(ast.dump, imports)), *[ast.dump(node) for node in nodes if node not in imports]])


def _is_text(node: ast.AST) -> bool:
    """Whether a statement is only a string, as a docstring is."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _digest(job: Job, level: Level) -> str:
    """Of all that the object file of a loop depends on."""
    of_sources = _state(job.module.removeprefix("retrograd.kernels."))
    settings = level.name, level.width, level.cpu, level.features, level.triple
    return hashlib.sha256(repr((tuple(job), settings, _versions(), of_sources)).encode()).hexdigest()


def _keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, whoever stops this program, or writes the same file meanwhile."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
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
    with TemporaryDirectory(dir=place / "objects") as pieces:  # two processes may make one library
        content = _linked_parts(Path(pieces), level, parts)
    about = {
        "format": FORMAT,
        "level": level.name,
        "head": HEAD,
        "size": len(content),
        "made": _made(level),
        "digest": hashlib.sha256(content).hexdigest(),
        "files": files,
        "sources": digest_of_sources(files),
        "plan": PLAN,
        "planned": digest_of_sources(PLAN),
    }
    _keep(place / f"{level.name}.so", content)
    _keep(place / f"{level.name}.json", json.dumps(about, indent=1).encode())
    return len(content)


def _linked_parts(pieces: Path, level: Level, parts: dict[str, bytes]) -> bytes:
    """The library of object files, which are written to a folder."""
    paths = []
    for number, code in enumerate([*parts.values(), _beside(level)]):
        paths.append(pieces / f"{number}.o")
        paths[-1].write_bytes(code)
    if platform.libc_ver()[0] == "glibc":  # else mathematics is a part of the C library, which Python has loaded
        paths.append(_library_of_mathematics(pieces, level))
    response = pieces / "files"
    response.write_text("\n".join(map(str, paths)))
    library = pieces / "library.so"
    options = ["-Bsymbolic", "-z", "now", "--hash-style=gnu", "--strip-all", "--build-id=none", "--as-needed"]
    _linked(library, *options, f"@{response}")
    return library.read_bytes()


def _linked(path: Path, *arguments: str) -> None:
    """Write a shared library by LLVM's linker."""
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-o", str(path), *arguments]
    subprocess.run(command, check=True)


def _library_of_mathematics(place: Path, level: Level) -> Path:
    """A library of the name of C's mathematics, from which the linker learns where these functions are."""
    names = sorted(_MATHEMATICS | {f"{name}f" for name in _MATHEMATICS})
    functions = "\n".join(f"define void @{name}() {{ ret void }}" for name in names)
    made, path = place / "mathematics.o", place / "mathematics.so"
    made.write_bytes(_assembled(functions, level))
    _linked(path, "-soname", "libm.so.6", str(made))
    return path


def _beside(level: Level) -> bytes:
    """The object file of what loops call: BLAS by addresses in words of its own, and Numba's functions for memory."""
    lines = [_MEMORY]
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
    return _assembled("\n".join(lines), level)


def _assembled(text: str, level: Level) -> bytes:
    """The object file of LLVM text."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(level.triple).create_target_machine(
        cpu=level.cpu, features=level.features, opt=3, reloc="pic", codemodel="default"
    )
    code: bytes = machine.emit_object(llvm.parse_assembly(f'target triple = "{level.triple}"\n{text}'))
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
