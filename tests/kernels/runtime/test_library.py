"""The library of loops: what is opened, what is refused with a word, and what runs where loops are missing."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd._generated.library_loops import LOOPS
from retrograd.core.opaque_calls import LoopMissing, whole
from retrograd.kernels.loops.elements import updates
from retrograd.kernels.runtime import levels, library, loop_calls, numba_functions

LEVEL = levels.LEVELS[0]
SOURCES = ["runtime/object_layout.py", "runtime/thread_protocol.py"]
GELU = "basic_loops.gelu", repr((*["int"] * 5, ("f4", 1, True, True), ("f4", 1, True, True)))


def write(folder: Path, content: bytes = b"no library", **changes: object) -> Path:
    """A library of some bytes, and an index that fits but for the changes."""
    about = {
        "format": library.FORMAT,
        "level": LEVEL.name,
        "head": object.__basicsize__,
        "size": len(content),
        "digest": hashlib.sha256(content).hexdigest(),
        "files": SOURCES,
        "sources": library.digest_of_sources(SOURCES),
    }
    path = folder / f"{LEVEL.name}.json"
    path.write_text(json.dumps(about | changes))
    path.with_suffix(".so").write_bytes(content)
    return path


@pytest.fixture
def opened(monkeypatch):
    """Opens what is in a folder, as the first large call does."""

    def open_in(folder: Path):
        with monkeypatch.context() as patch:
            patch.setattr(library, "usable", lambda: (LEVEL,))
            patch.setattr(library, "folders", lambda: [folder])
            patch.delenv("RETROGRAD_KERNELS", raising=False)
            for function in (library.found, library.opened):
                patch.setattr(library, function.__name__, function.__wrapped__)
            return library.opened()

    return open_in


def test_without_a_library_nothing_is_said(opened, tmp_path):
    assert opened(tmp_path) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"sources": "0"}, "its sources have changed since it was compiled"),
        ({"files": ["gone.py"]}, "gone.py is gone"),
        ({"size": 5}, "it is damaged"),
        ({"digest": "0"}, "it is damaged"),
        ({"level": "x86-64-v9"}, "it was written by another version"),
        ({"format": 0}, "it was written by another version"),
        ({"head": 24}, "it was made for another build of Python"),
        ({}, "it cannot be read"),  # its bytes are no shared library
    ],
)
def test_a_library_that_does_not_fit_is_refused_with_one_warning(changes, reason, opened, tmp_path):
    write(tmp_path, **changes)
    with pytest.warns(RuntimeWarning, match=reason) as said:
        assert opened(tmp_path) is None
    assert len(said) == 1 and "make kernels" in str(said[0].message)
    assert said[0].filename == __file__  # the line of the program, not ours


def test_an_index_or_a_library_that_is_cut_short_is_refused(opened, tmp_path):
    index = write(tmp_path)
    for path in (index.with_suffix(".so"), index):
        path.write_bytes(path.read_bytes()[:5])
        with pytest.warns(RuntimeWarning, match=r"it is damaged|it cannot be read"):
            assert opened(tmp_path) is None
    for garbage in ("[]", "[" * 100_000):
        index.write_text(garbage)
        with pytest.warns(RuntimeWarning, match="it cannot be read"):
            assert opened(tmp_path) is None
    index.with_suffix(".so").unlink()
    write(tmp_path).with_suffix(".so").unlink()
    with pytest.warns(RuntimeWarning, match="it cannot be read"):
        assert opened(tmp_path) is None


def test_a_library_that_is_cut_and_indexed_anew_is_not_opened(opened, tmp_path, monkeypatch):
    """Its digest is right, and a page behind its end would end the process."""
    segments = b"".join(library._SEGMENT.pack(1, 5, offset, 0, 0, 64, 64, 4096) for offset in (0, 176))
    header = library._ELF.pack(b"\x7fELF\2\1", 3, 62, 1, 0, 64, 240, 0, 64, 56, 2, 0, 0, 0)
    whole = header + segments + bytes(240 - 176)
    assert len(whole) == 240 and library._is_whole(whole) and library._is_whole(b"another format")
    for size in (239, 100, 20):
        write(tmp_path, whole[:size])
        with pytest.warns(RuntimeWarning, match="since it is cut short"):
            assert opened(tmp_path) is None


def test_a_library_that_is_replaced_between_check_and_opening_is_refused(opened, tmp_path, monkeypatch):
    def replaces(level, path):
        (tmp_path / "new").write_bytes(path.read_bytes())
        (tmp_path / "new").replace(path)

    monkeypatch.setattr(library, "Library", replaces)
    write(tmp_path)
    with pytest.warns(RuntimeWarning, match="since it was replaced while it was opened"):
        assert opened(tmp_path) is None


def test_a_process_that_compiles_ends_with_its_parent(monkeypatch):
    for package in ("numba", "ziglang"):
        pytest.importorskip(package)
    from retrograd.kernels.build import make_library

    ended = []
    monkeypatch.setattr(make_library.os, "_exit", ended.append)
    make_library._end_with_parent()  # this process has no parent to wait for
    monkeypatch.setattr(make_library, "parent_process", lambda: type("Ended", (), {"join": lambda self: None})())
    make_library._end_with_parent()
    assert ended == [1]


def test_a_folder_that_may_not_be_read_is_one_warning(opened, tmp_path, monkeypatch):
    def refused(path, *args, **kwargs):
        raise PermissionError(13, "Permission denied", str(path))

    for name in ("is_file", "read_text"):
        monkeypatch.setattr(Path, name, refused)
    with pytest.warns(RuntimeWarning, match="it cannot be read .*Permission denied"):
        assert opened(tmp_path) is None


def test_a_library_for_another_processor_is_not_found(monkeypatch, tmp_path):
    write(tmp_path)
    monkeypatch.setattr(library, "folders", lambda: [tmp_path])
    monkeypatch.setattr(library, "usable", lambda: levels.LEVELS[1:])
    assert library.found.__wrapped__() is None


@pytest.mark.parametrize(("gone", "names"), [("", "v4 v3"), ("avx512vl", "v3"), ("avx2", ""), ("flags", "")])
def test_levels_are_those_whose_instructions_all_cores_have(gone, names, monkeypatch, tmp_path):
    flags = " ".join(sorted(LEVEL.flags))
    text = f"flags\t\t: {flags}\n\nflags\t\t: {flags.replace(gone, '') if gone else flags}\n".replace(
        "flags", "x" if gone == "flags" else "flags"
    )
    (tmp_path / "cpuinfo").write_text(text)
    real = open
    monkeypatch.setattr(
        "builtins.open", lambda path, *args: real(tmp_path / "cpuinfo" if "cpuinfo" in str(path) else path, *args)
    )
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    found = levels.usable.__wrapped__()
    assert [level.name.removeprefix("x86-64-") for level in found] == names.split()


def test_other_systems_and_processors_have_no_level(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert levels.usable.__wrapped__() == ()
    monkeypatch.setattr("sys.platform", "darwin")
    assert levels.usable.__wrapped__() == ()


def test_an_unknown_level_is_an_error():
    with pytest.raises(ValueError, match="expected one of the levels .*, got 'x86-64-v9'"):
        levels.named("x86-64-v9")


# What runs where a loop is missing


@pytest.fixture
def no_loops(monkeypatch):
    """All loops are missing, as where the library has none of them and Numba is not installed."""
    calls = []

    def missing(loop, *args):
        calls.append(loop.name)
        raise LoopMissing(loop.name)

    if not kernels.available():
        pytest.skip("there are no compiled loops")
    monkeypatch.setattr(loop_calls.Loop, "__call__", missing)
    monkeypatch.setattr(loop_calls.Loop, "entry", missing)
    none = property(lambda loop: [], lambda loop, entries: loop.__dict__.update(entries=entries))
    monkeypatch.setattr(loop_calls.Loop, "entries", none, raising=False)
    updates._is_there.cache_clear()
    yield calls
    updates._is_there.cache_clear()


def test_operators_and_their_derivatives_are_numpys_where_loops_are_missing(no_loops, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((331, 127)).astype(np.float32)

    def run():
        leaf = rg.tensor(x, requires_grad=True)
        y = F.layer_norm(F.gelu(leaf), (127,)).softmax(-1).sum(0).cumsum(0)
        y.backward(rg.ones_like(y))
        z = rg.matmul(leaf, leaf.T).detach().masked_fill_(rg.ones(331, 331, dtype=rg.bool), 2.0).clone().T.contiguous()
        return y.detach().numpy(), leaf.grad.numpy(), z.numpy()

    found = run()
    assert {"gelu", "layer_norm"} <= set(no_loops)
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    for ours, reference in zip(found, run(), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=2e-5, atol=2e-6)


def test_an_optimizer_counts_its_steps_once_where_its_loop_is_missing(no_loops):
    weight = rg.nn.Parameter(rg.ones(64, 64))
    optimizer = rg.optim.Adam([weight], lr=0.1)
    for _ in range(3):
        weight.grad = rg.ones(64, 64)
        optimizer.step()
    assert "adam" in no_loops
    np.testing.assert_allclose(weight.detach().numpy(), 0.7, rtol=1e-5)


def test_a_function_is_called_again_without_loops_and_then_loops_are_back(monkeypatch):
    seen = []

    @whole
    def function(x):
        seen.append(kernels.compiled() is None)
        if not seen[-1]:
            raise LoopMissing
        return x + 1

    if not kernels.available():
        pytest.skip("there are no compiled loops")
    assert function(1) == 2 and seen == [False, True] and kernels.compiled() is not None


def test_what_waits_for_the_first_large_array_runs_at_once_after_it(monkeypatch):
    """An operator's module that is imported late has loops on all threads, too."""
    monkeypatch.setattr(kernels, "_waiting", [])
    monkeypatch.setattr(kernels, "_shared", [])
    monkeypatch.setattr(kernels, "compiled", lambda: kernels)
    ran = []
    kernels.at_first_use(lambda: ran.append("before"))
    assert not ran
    kernels.share.__wrapped__()
    assert ran == ["before"]
    kernels.at_first_use(lambda: ran.append("after"))
    kernels.share.__wrapped__()
    assert ran == ["before", "after"]


@pytest.fixture
def jit(monkeypatch):
    """Numba compiles the loops, whichever of them earlier tests have found in the library."""
    monkeypatch.setenv("RETROGRAD_KERNELS", "jit")
    monkeypatch.setattr(library, "opened", lambda: None)
    if not kernels.jits():
        pytest.skip("Numba is not installed")
    kernels.compiled.cache_clear()
    yield
    kernels.compiled.cache_clear()


def test_a_loop_that_cannot_be_compiled_is_one_warning_and_numpys_result(jit, monkeypatch):
    def fails(*args):
        raise AttributeError("populate_array")

    monkeypatch.setattr(numba_functions, "compiled", fails)
    monkeypatch.setattr(loop_calls, "_warned", [])
    monkeypatch.setattr(kernels, "loop", lambda module, name: loop_calls.Loop("tests.nothing", name))
    with pytest.warns(RuntimeWarning, match="could not be compiled .*populate_array.*; NumPy is used instead"):
        y = rg.tanh(rg.ones(300, 300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z = rg.sigmoid(rg.zeros(300, 300))
    assert abs(y.numpy() - np.tanh(1)).max() < 1e-6 and (z.numpy() == 0.5).all()


# Building it


def test_every_loop_of_the_table_is_there():
    """The table is generated: a loop that was renamed or removed since is told here, not where a wheel is made."""
    pytest.importorskip("numba")
    from importlib import import_module

    for module, name, _ in LOOPS:
        assert isinstance(getattr(import_module(f"retrograd.kernels.{module}"), name), loop_calls.Loop), (module, name)


def test_the_library_of_this_checkout_is_current():
    """CI and `make test` bring it up to date; whoever changes a loop afterwards is told here."""
    for package in ("numba", "ziglang"):
        pytest.importorskip(package)
    place = library.found()
    if place is None:
        pytest.skip("there is no library: run `make kernels`")
    from retrograd.kernels.build import make_library

    assert make_library.is_current(place[0], place[1].parent), "run `make kernels`"


@pytest.mark.slow
def test_the_table_has_the_loops_that_examples_call():
    pytest.importorskip("numba")
    command = [sys.executable, "-m", "tools.library_loops", "47"]
    root = Path(rg.__file__).resolve().parents[2]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert not told.stdout, "run `python -m tools.library_loops > src/retrograd/_generated/library_loops.py`"


@pytest.mark.slow
def test_examples_call_the_loops_of_large_arrays():
    pytest.importorskip("numba")
    program = """if True:
        import os, sys
        from itertools import islice
        from tools import library_loops
        os.environ["RETROGRAD_KERNELS"] = "jit"
        sys.meta_path.insert(0, library_loops.Finder())
        import retrograd as rg
        library_loops.programs = lambda every: islice(library_loops.copies(rg.float32), 60)
        library_loops.note_everything()
        print(*{name for _, name, _ in library_loops.found})
    """
    root = Path(rg.__file__).resolve().parents[2]
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert {"outer", "add_product", "stack"} <= set(told.stdout.split()), told.stdout


def test_a_source_that_changes_while_the_library_is_made_is_an_error(tmp_path, monkeypatch):
    for package in ("numba", "ziglang"):
        pytest.importorskip(package)
    if not levels.usable():
        pytest.skip("this processor has no level")
    from retrograd.kernels.build import make_library

    sources = tmp_path / "kernels"
    shutil.copytree(make_library.KERNELS, sources, ignore=shutil.ignore_patterns("__pycache__"))

    def compile(self, jobs):
        for job, path in jobs.items():
            path.write_bytes(b'{"calls": []}\n')
            yield job, ""
        with (sources / "loops/elements/elementwise_loops.py").open("a") as file:
            file.write("# edited\n")

    monkeypatch.setattr(make_library, "KERNELS", sources)
    monkeypatch.setattr(make_library, "ALWAYS", ())
    monkeypatch.setattr(make_library, "LOOPS", [next(loop for loop in LOOPS if "elementwise_loops" in loop[0])])
    monkeypatch.setattr(make_library._Workers, "compile", compile)
    for cached in (make_library._sources, make_library._state, make_library._meaning):
        monkeypatch.setattr(make_library, cached.__name__, cached.__wrapped__)
    with pytest.raises(RuntimeError, match="elementwise_loops.py changed while the library was built"):
        make_library.main(folder=str(tmp_path / "library"))


def test_text_in_sources_recompiles_no_loop(tmp_path, monkeypatch):
    for package in ("numba", "ziglang"):
        pytest.importorskip(package)
    from retrograd.kernels.build import make_library

    path = tmp_path / "loops.py"

    def meaning(text):
        path.write_text(text)
        return make_library._meaning.__wrapped__(path)

    code = '"""Text."""\nclass A:\n    """Text."""\n    def f(x):\n        """Text."""\n        return x + 1\n'
    as_it_was = meaning(code)
    assert meaning(code.replace("Text.", "Other words.") + "# a comment\n") == as_it_was
    assert meaning(code.replace('        """Text."""\n', "")) == as_it_was
    assert meaning(code.replace("x + 1", "x + 2")) != as_it_was != meaning(code.replace("x + 1", "'x'"))


def test_numbas_counts_of_references_become_instructions_of_every_processor():
    """Numba's runtime is compiled for the processor that builds, whose LLVM writes attributes as it likes."""
    pytest.importorskip("numba")
    from retrograd.kernels.build import object_files

    for attributes in ("", "nonnull ", "noundef nonnull "):
        text = f"  %0 = tail call i8 @llvm.x86.atomic.sub.cc.i64(ptr {attributes}%.1, i64 1, i32 4)"
        found = object_files._COUNTED.sub(object_files._counted, text)
        assert "atomicrmw sub ptr %.1, i64 1 seq_cst" in found and not object_files._FOREIGN.search(found)
    assert object_files._FOREIGN.search("call void @llvm.x86.sse2.pause()")[1] == "llvm.x86.sse2.pause"


def test_numbas_private_interface_is_used_where_the_library_is_built_alone():
    package = Path(rg.__file__).resolve().parent
    public = re.compile(r"numba(\.(extending|core\.cgutils|types))?$|numba\.core$")
    for path in package.rglob("*.py"):
        if path.parent != package / "kernels" / "build" and "numba" in (text := path.read_text()):
            for node in ast.walk(ast.parse(text)):
                names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
                names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                for name in filter(None, names):
                    assert not name.startswith("numba") or public.match(name), (path, name)


PROGRAM = """
import sys, time
sys.modules["numba"] = sys.modules["llvmlite"] = None
import numpy as np
import retrograd as rg
from retrograd.kernels.runtime import library
assert library.opened.cache_info().currsize == 0  # nothing is opened at import
library.folders = lambda: [library.Path(sys.argv[1])]
x = np.linspace(-5, 5, 1 << 16, dtype=np.float32)
y = rg.nn.functional.gelu(rg.tensor(x)).numpy()
rg.tensor(x).sigmoid()  # which the library does not have
opened = library.opened()
print(opened.level.name, opened.address(library.symbol(*GELU)) is not None, round(float(y[-1]), 4))
"""


@pytest.mark.slow
def test_a_library_is_built_and_runs_without_numba(tmp_path):
    pytest.importorskip("numba")
    pytest.importorskip("ziglang")
    if not levels.usable():
        pytest.skip("this processor has no level")
    level = levels.usable()[0].name
    build = f"""
from retrograd._generated import library_loops
from retrograd.kernels.build import make_library
make_library.ALWAYS = [loop for loop in make_library.ALWAYS if loop[1] == "serve"]  # the other takes 20 s
make_library.LOOPS = [loop for loop in library_loops.LOOPS if loop[1] == "gelu"]
for _ in range(2):
    assert make_library.main({level!r}, {str(tmp_path)!r}) == 0
"""
    said = subprocess.run([sys.executable, "-c", build], capture_output=True, text=True, check=True).stdout
    assert said.splitlines()[-1] == f"{level}: the library is current"  # the second time
    program = f"GELU = {GELU!r}\n{PROGRAM}"
    command = [sys.executable, "-c", program, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout.split() == [level, "True", "5.0"] and not told.stderr


WITHOUT_NUMBA = """
import fnmatch, importlib, sys
from pathlib import Path
sys.modules["numba"] = sys.modules["llvmlite"] = None
import importlib.util as util
found, util.find_spec = util.find_spec, lambda name, *args: None if name == "numba" else found(name, *args)
import conftest
sources = Path("src")
for file in sorted((sources / "retrograd" / "kernels").rglob("*.py")):
    if "build" in file.parts or any(fnmatch.fnmatch(str(file), glob) for glob in conftest.collect_ignore_glob):
        continue
    importlib.import_module(".".join(file.relative_to(sources).with_suffix("").parts).removesuffix(".__init__"))
"""


def test_sources_that_need_numba_are_not_collected_where_it_is_missing():
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], cwd=Path(__file__).parents[3], check=True)
