"""Compile all loops ahead of time for one level of processors, and link them into one shared library.

    python -m retrograd.kernels.build.make_library [x86-64-v3] [folder]

Without a level the library is for the best one of this processor. A library that is up to date is not built again.

Object files are cached under a digest of their dependencies, so only changed loops are compiled, with one process per
core. The linker is LLVM's, from the package ``ziglang``; no C compiler or header is needed. The folder then contains
the library and its index, which ``kernels/runtime/library.py`` reads.
"""

from __future__ import annotations

import ast
import atexit
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
from multiprocessing import get_context, parent_process
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NamedTuple

from ..._generated.library_loops import LOOPS
from ..runtime import numba_functions
from ..runtime.blas_address import PREFIX as BLAS
from ..runtime.levels import LEVELS, Level, named, target, usable
from ..runtime.library import FORMAT, KERNELS, SLOT, digest_of_sources, symbol
from ..runtime.object_layout import HEAD, ROUTINE

_SHARE = "'int', 'int', 'int', 'int', 'int'"  # the types of the first arguments of a loop on parts of a range


def _array(kind: str, axes: int, contiguous: bool = True) -> str:
    return f"('{kind}', {axes}, {contiguous}, True)"


def _loop(module: str, name: str, *kinds: str) -> tuple[str, str, str]:
    return f"loops.{module}", name, f"({_SHARE}, {', '.join(kinds)})"


def _integers(count: int) -> str:
    return f"('tuple', {', '.join(count * [repr('int')])})"


_PAIRS, _HALVES, _INDICES, _PLANES = _array("u4", 2), _array("u2", 2), _array("i8", 1), _array("u2", 3)
_REALS, _BYTES = _array("f4", 2), _array("i1", 2)
_HALF, _FLOATS, _DOUBLES = _array("u2", 1), _array("f4", 1), _array("f8", 1)
_TILE = _integers(3)
_WINDOW = f"('tuple', {', '.join([_TILE] * 5)})"
_IMAGES = _array("u2", 4)
# The place of the steps, the team of threads, its words and room, and the packed weight of a recurrent layer
_STEPS = _integers(5), _integers(2), _array("i8", 2), _IMAGES, _array("u4", 1)
# Loops that are in the library although no example calls them: for the workers of the thread pool, compiled programs,
# bfloat16 (an optional dependency), and quantized weights of published files.
ALWAYS = (
    ("runtime.thread_protocol", "serve", "('int',)"),
    ("loops.regions.region_loops", "execute", "('int', 'int')"),
    _loop("sequences.recurrent_loops", "pack", _PAIRS, "'bool'", "'int'", "'int'", "'int'", _array("u4", 1)),
    _loop("layout.copy_loops", "narrow_bfloat16", _array("u4", 1), _HALF),
    _loop("layout.copy_loops", "widen_bfloat16", _HALF, _array("u4", 1)),
    _loop("matrices.product_loops", "pair_rows", _PLANES, _array("u4", 3)),
    _loop(
        "matrices.product_loops", "pair_product", _PAIRS, "'bool'", _PAIRS, "'bool'", _PAIRS, "'int'", "'int'",
        _INDICES, _INDICES, _HALVES, "'bool'",
    ),
    _loop(
        "matrices.product_loops", "product", _PAIRS, "'bool'", _PAIRS, "'bool'", _PAIRS, "'int'", "'int'", _INDICES,
        _INDICES,
    ),
    _loop("sequences.recurrent_loops", "lstm", _REALS, *_STEPS, _HALVES, _FLOATS, _array("f4", 3), _HALVES),
    _loop(
        "sequences.recurrent_loops", "lstm_backward", _HALVES, *_STEPS, _REALS, _REALS, _HALVES, _REALS,
        _array("f4", 3), _HALVES, _HALVES, _HALVES,
    ),
    _loop("sequences.recurrent_loops", "gru", _REALS, *_STEPS, _HALVES, _FLOATS, _FLOATS, _REALS, _HALVES),
    _loop(
        "sequences.recurrent_loops", "gru_backward", _HALVES, *_STEPS, _REALS, _HALVES, _REALS, _REALS, _HALVES,
        _HALVES, _HALVES, _HALVES,
    ),
    _loop("sequences.recurrent_loops", "rnn", _REALS, *_STEPS, _HALVES, _FLOATS, "'bool'"),
    _loop(
        "sequences.recurrent_loops", "rnn_backward", _HALVES, *_STEPS, _REALS, _HALVES, _HALVES, "'bool'", _HALVES,
        _HALVES,
    ),
    *[
        _loop(
            "sequences.attention_pairs_loops", name, _integers(8 + more), _array("i8", 2), _integers(11 + more),
            "'bool'", "'float32'", "'float32'",
        )
        for name, more in (("attention", 0), ("attention_backward", 4))
    ],
    _loop(
        "images.convolution_loops", "forward", _array("u4", 6), _array("u4", 4), _array("f4", 2), _WINDOW, _TILE,
        _IMAGES, _array("f4", 4),
    ),
    _loop(
        "images.convolution_loops", "transposed", _array("u4", 4), _array("u4", 4), _WINDOW, _TILE, _array("f4", 6)
    ),
    *[
        _loop(
            "images.convolution_loops", "weight", _array("u2", 6), _IMAGES, _WINDOW, _TILE,
            _array("f4", 4, contiguous),
        )
        for contiguous in (False, True)
    ],
    _loop("images.pooling_loops", "max_pool", _IMAGES, _IMAGES, _array("u1", 4), _WINDOW),
    _loop("images.pooling_loops", "max_pool_backward", _IMAGES, _array("u1", 4), _IMAGES, _WINDOW),
    _loop("statistics.norm_loops", "channel_sums", _PLANES, _FLOATS),
    _loop(
        "statistics.norm_loops", "channel_moments", _PLANES, _DOUBLES, _DOUBLES, _FLOATS, _FLOATS, "'float64'"
    ),
    _loop(
        "statistics.norm_loops", "channel_norm", _PLANES, _DOUBLES, _DOUBLES, "'float64'", _FLOATS, _FLOATS, _PLANES,
        _FLOATS, _FLOATS,
    ),
    _loop(
        "statistics.norm_loops", "channel_norm_backward", _PLANES, _PLANES, _FLOATS, _FLOATS, _FLOATS, _PLANES,
        _DOUBLES, _DOUBLES,
    ),
    _loop(
        "statistics.norm_loops", "channel_norm_max", _array("f4", 3), _DOUBLES, _DOUBLES, "'float64'", _FLOATS, _FLOATS,
        _array("f4", 4), _array("u1", 4), _FLOATS, _FLOATS,
    ),
    _loop(
        "statistics.norm_loops", "channel_norm_max_backward", _array("f4", 3), _array("f4", 4), _array("u1", 4),
        _FLOATS, _FLOATS, _FLOATS, _array("f4", 3), _DOUBLES, _DOUBLES,
    ),
    *[
        _loop("elements.elementwise_loops", f"{name}_with_value", _FLOATS, _FLOATS, _FLOATS)
        for name in ("gelu", "gelu_tanh", "silu")
    ],
    *[_loop("elements.basic_loops", name, _HALF, _HALF) for name in ("relu", "gelu", "gelu_tanh", "silu")],
    *[
        _loop("elements.basic_loops", name, _HALF, _HALF, _HALF)
        for name in ("keep_where_not_zero", "gelu_backward", "gelu_tanh_backward", "silu_backward")
    ],
    _loop("matrices.product_loops", "bfloat16_rows", _REALS, _HALVES, _REALS),
    _loop("matrices.product_loops", "float16_rows", _REALS, _HALVES, _REALS),
    _loop("matrices.product_loops", "block_rows", _REALS, _BYTES, _HALVES, _REALS),
    _loop("matrices.product_loops", "expand_blocks", _BYTES, _HALVES, _REALS),
)  # fmt: skip
ELEMENTS = KERNELS.parent / "elements"
PLAN = ("../_generated/library_loops.py", "build/make_library.py")  # the files that define the library's content
# Modules of kernels that loops import but whose code is in no loop.
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
        """The symbol of the loop or routine in the library."""
        if self.kinds.startswith("("):
            return symbol(f"{self.module.rpartition('.')[2]}.{self.name}", self.kinds)
        return f"{ROUTINE}{self.module}.{self.name}.{self.kinds}"


def main(name: str = "", folder: str = "build/kernels") -> int:
    """Build the library of a level in a folder; return the number of loops that could not be included.

    Raises:
        ValueError: no level has this name.
        RuntimeError: a source file changed while its loops were compiled.
    """
    if not name and not usable():
        _tell(f"no library is built: this processor has none of {', '.join(level.name for level in LEVELS)}\n")
        return 0
    level, place = named(name) if name else usable()[0], Path(folder).resolve()
    if is_current(level, place):
        _tell(f"{level.name}: the library is current\n")
        return 0
    objects = place / "objects" / level.name
    objects.mkdir(parents=True, exist_ok=True)
    before = {path: path.read_bytes() for room in (KERNELS, ELEMENTS) for path in room.rglob("*.py")}
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
            # Loops that failed count, too: a change of their sources must rebuild the library.
            for job in waiting.values():
                files |= _sources(job.module.removeprefix("retrograd.kernels."))
            for job, path in paths.items():
                about, _, parts[job.symbol] = path.read_bytes().partition(b"\n")
                for call in json.loads(about)["calls"]:
                    if call.startswith(ROUTINE):
                        calls[call] = Job(*call.removeprefix(ROUTINE).rsplit(".", 2))
            waiting = {symbol: job for symbol, job in calls.items() if symbol not in parts}
    paths_of = {name: (KERNELS / name).resolve() for name in sorted(files)}
    changed = [name for name, path in paths_of.items() if before.get(path) != path.read_bytes()]
    if changed:
        raise RuntimeError(f"{', '.join(changed)} changed while the library was built; build it again")
    seconds = time.perf_counter() - began
    size = link(place, level, parts, sorted(files))
    _tell(f"{level.name}: {len(parts)} loops and routines, {made} compiled in {seconds:.0f} s, {size / 1e6:.2f} MB\n")
    return left_out


def is_current(level: Level, place: Path) -> bool:
    """Return whether a folder has the library of a level, built from the current sources."""
    index = place / f"{level.name}.json"
    try:
        about = json.loads(index.read_text())
        library = index.with_suffix(".so").read_bytes()
        return bool(
            about["made"] == _dependencies_digest(level)
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
        """Compile jobs, each to a file; yield each finished job, and why it cannot be included, or ""."""
        if not jobs:
            return
        if self.pool is None:
            count, context = os.cpu_count() or 1, get_context("spawn")
            self.pool = ProcessPoolExecutor(count, context, initializer=_begin, initargs=(self.level.name,))
        pending = {self.pool.submit(_to_file, job, path): job for job, path in jobs.items()}
        for future in as_completed(pending):
            yield pending[future], future.result()


def prepare(level: str) -> None:
    """Configure this process to compile for a level; call it before importing modules of loops."""
    from . import object_files

    Thread(target=_end_with_parent, daemon=True).start()
    gc.disable()  # collecting garbage takes a tenth of the time and frees little: Numba keeps most objects
    target[:] = [named(level)]
    numba_functions.makers[:] = [object_files]


def _begin(level: str) -> None:
    """Prepare a worker process, which will exit without freeing the millions of objects that Numba keeps."""
    atexit.register(os._exit, 0)
    prepare(level)


def _end_with_parent() -> None:
    """End this process when its parent ends: a worker of a killed pool would wait for its next loop forever."""
    parent = parent_process()
    if parent is not None:  # None if this is not a worker process
        parent.join()
        os._exit(1)


def _to_file(job: Job, path: Path) -> str:
    """Compile a loop to a file; return why it cannot be in the library, or ""."""
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
    """Return a line of JSON, followed by the object file of a loop or routine."""
    from . import object_files

    made = getattr(import_module(job.module), job.name)
    if job.kinds.startswith("("):
        return object_files.compile(made.recipe, literal_eval(job.kinds), job.symbol)
    return object_files.compile_routine(made, job.kinds, job.symbol)


def _is_known(call: str) -> bool:
    """Return whether the function that a loop calls is defined when the library is opened."""
    return call.startswith((ROUTINE, BLAS, "Py")) or call in _OF_C or f"@{call}(" in _MEMORY


@cache
def _sources(module: str) -> frozenset[str]:
    """Return the files that a module's code depends on: the module, what it imports, and the compiler."""
    found: set[str] = set()
    waiting = [module, "build.object_files"]
    while waiting:
        name = waiting.pop()
        file = f"{name.replace('.', '/')}.py"
        if name.startswith("elements."):  # the package next to ``kernels``
            file = f"../{file}"
        path = KERNELS / file
        if name in _NO_CODE or file in found or not path.is_file():
            continue
        found.add(file)
        waiting += _imports(name, path)
    return frozenset(found)


@cache
def _imports(module: str, path: Path) -> tuple[str, ...]:
    """Return the modules of the packages ``kernels`` and ``elements`` that a file may import."""
    return tuple(_imported(module, path))


def _imported(module: str, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = module.split(".")[: -node.level]
            inside = [*base, *(node.module.split(".") if node.module else ())]
            if node.level > len(module.split(".")) and inside[:1] != ["elements"]:
                continue  # neither in ``kernels`` nor in ``elements``
            yield ".".join(inside)
            yield from (".".join([*inside, alias.name]) for alias in node.names)


@cache
def _versions() -> tuple[Any, ...]:
    from importlib.metadata import version

    return *map(version, ("numba", "llvmlite", "ziglang")), FORMAT, HEAD


def _dependencies_digest(level: Level) -> str:
    """Return a digest of the library's dependencies other than its sources, such as the table of loops."""
    return hashlib.sha256(repr((ALWAYS, LOOPS, level.width, level.features, _versions())).encode()).hexdigest()


@cache
def _state(module: str) -> str:
    """Return a module's sources without docstrings, comments, layout and the order of imports."""
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
    """Return whether a statement is only a string, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _digest(job: Job, level: Level) -> str:
    """Return a digest of the dependencies of a loop's object file."""
    of_sources = _state(job.module.removeprefix("retrograd.kernels."))
    settings = level.name, level.width, level.cpu, level.features, level.triple
    return hashlib.sha256(repr((tuple(job), settings, _versions(), of_sources)).encode()).hexdigest()


def _keep(path: Path, content: bytes) -> None:
    """Write a file atomically: another process may write the file at the same time, or stop this process."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    new.write_bytes(content)
    os.replace(new, path)


def _tell(text: str) -> None:
    """Print progress; at a terminal, overwrite the same line."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="", flush=True)
    else:
        print(text.rstrip("\n"), flush=True)


def link(place: Path, level: Level, parts: dict[str, bytes], files: list[str]) -> int:
    """Link object files into the library of a level, and write its index; return its size in bytes."""
    with TemporaryDirectory(dir=place / "objects") as pieces:  # two processes may build the same library at once
        content = _linked_parts(Path(pieces), level, parts)
    about = {
        "format": FORMAT,
        "level": level.name,
        "head": HEAD,
        "size": len(content),
        "made": _dependencies_digest(level),
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
    """Return the library that consists of some object files, which are written to a folder."""
    paths = []
    for number, code in enumerate([*parts.values(), _beside(level)]):
        paths.append(pieces / f"{number}.o")
        paths[-1].write_bytes(code)
    if platform.libc_ver()[0] == "glibc":  # elsewhere libm is part of the C library, which Python has loaded
        paths.append(_library_of_mathematics(pieces, level))
    response = pieces / "files"
    response.write_text("\n".join(map(str, paths)))
    library = pieces / "library.so"
    options = ["-Bsymbolic", "-z", "now", "--hash-style=gnu", "--strip-all", "--build-id=none", "--as-needed"]
    _linked(library, *options, f"@{response}")
    return library.read_bytes()


def _linked(path: Path, *arguments: str) -> None:
    """Write a shared library with LLVM's linker."""
    command = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-o", str(path), *arguments]
    subprocess.run(command, check=True)


def _library_of_mathematics(place: Path, level: Level) -> Path:
    """Return a stub of libm, from which the linker learns which library has its functions."""
    names = sorted(_MATHEMATICS | {f"{name}f" for name in _MATHEMATICS})
    functions = "\n".join(f"define void @{name}() {{ ret void }}" for name in names)
    made, path = place / "mathematics.o", place / "mathematics.so"
    made.write_bytes(_assembled(functions, level))
    _linked(path, "-soname", "libm.so.6", str(made))
    return path


def _beside(level: Level) -> bytes:
    """Return the object file of an allocator, and of BLAS functions that jump to addresses stored in variables."""
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
    """Return the object file of LLVM text."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(level.triple).create_target_machine(
        cpu=level.cpu, features=level.features, opt=3, reloc="pic", codemodel="default"
    )
    code: bytes = machine.emit_object(llvm.parse_assembly(f'target triple = "{level.triple}"\n{text}'))
    return code


# The header of an allocation, as in ``object_files``: it has the reference count and the address of the elements.
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
