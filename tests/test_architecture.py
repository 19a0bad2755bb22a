"""The rooms: who imports whom, how large they are, and figures that may only go down.

Every import counts: inside functions, for type checkers alone, and by a string that is a module's name. The top of the
package (`TOP`) gives users rooms by name, as they ask for them: what it imports so is no edge of the graph.
"""

import ast
import gc
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "retrograd"

# Figures of the package and the bound of each, which may only go down: lower it when you lower the figure.
BOUNDS = {
    "lines of operators' docstrings that repeat another one": 31,
    "lines of docstrings that repeat another one": 278,
    "files of 60 lines and fewer, without `__init__.py` and generated ones": 57,
    "uses of Any": 3427,
    "files with a `# mypy:` switch": 15,
    "`type: ignore` comments": 143,
}
Described = ast.FunctionDef | ast.ClassDef | ast.Module
FILES_PER_FOLDER = 14
FULLER_FOLDERS: dict[str, int] = {}  # and how many they may have; these bounds may only go down, too

# Folders of tests that belong to no folder of the package: checks of everything, programs, and helpers.
TESTS_OF_NO_FOLDER = {
    "attack", "compiler/programs", "every_operator", "helpers", "inspect/doctor", "packages", "project", "typing",
}  # fmt: skip

TESTS_OF_NO_MODULE = 111  # modules of tests of several modules; may only go down

# Modules that users import, which name rooms for them: only what they import themselves at once is an edge.
TOP = {"retrograd", "retrograd._hooks"}

# Rooms that compile or call code for NumPy's dtypes, or compare with it; statistics of the doctor's rules, which need
# more digits; and modules in which another branch is right for bfloat16, whose dtype has kind V.
OF_NUMPY_DTYPES = tuple(
    f"retrograd.{room}"
    for room in ("compat", "compiler", "inspect.diagnosing.rules", "kernels", "manual", "onnx", "scipy", "testing")
)
MISSES_BFLOAT16 = {
    "retrograd.core.arrays.dtypes", "retrograd.core.arrays.layout", "retrograd.core.arrays.public_dtypes",
    "retrograd.core.arrays.python_numbers",
    "retrograd.ops.numpy.rules.statistics", "retrograd.ops.reduce.ordering", "retrograd.ops.reduce.sorting",
}  # fmt: skip

# Folders with one module, or with one per folder of ops/.
ONE_SUBJECT = {
    "retrograd._generated", "retrograd.distributed.nn", "retrograd.distributed.optim", "retrograd.signal",
    "retrograd.testing.cases.linear", "retrograd.testing.cases.math", "retrograd.testing.cases.nn", "retrograd.utils",
}  # fmt: skip

# Strings that are names of modules and import nothing: advice in messages.
NAMES_IN_MESSAGES = {"retrograd.ops.numpy.alternatives"}

# Modules that import by names computed at run time: parts of their own room, what a file or the user names, or a job's.
COMPUTE_NAMES = {
    "retrograd", "retrograd.core.missing_names", "retrograd.func", "retrograd.inspect", "retrograd.nn.utils",
    "retrograd.onnx", "retrograd.ops", "retrograd.optim", "retrograd.scipy", "retrograd.scipy.decorators",
    "retrograd.kernels.build.make_library", "retrograd.kernels.runtime.numba_functions",
    "retrograd.ops.math.special.libraries", "retrograd.testing.cases",
    "retrograd.testing.cases.linear.sparse", "retrograd.testing.scipy_cases", "retrograd.compat.as_torch",
    "retrograd.compat.files.pt_reader", "retrograd.compat.legacy_names",
}  # fmt: skip

# Names of operators in the engine: NumPy's functions, texts that explain results, and words with another meaning.
NAMES_IN_ENGINE = {
    "retrograd.autograd.arithmetic": None,  # all: explanations
    "retrograd.core.mapping.batched": None,  # all: NumPy's functions, by Python's operators
    "retrograd.core.arrays.unbuffered": {"add", "maximum", "minimum"},  # NumPy's
    "retrograd.core.tensor.mutation": {"add"},  # NumPy's
    "retrograd.core.arrays.public_dtypes": {"complex"},
    "retrograd.core.arrays.summation": {"sum"},  # what a function computes
    "retrograd.core.graph.plan": {"keep", "erase", "mean", "norm", "reshape", "sum"},  # what operators may declare
    "retrograd.core.graph.primitive": {"view"},
    "retrograd.core.meta.arrays": {"where"},
    "retrograd.core.tensor.printing": {"threshold"},
}

# Names by which modules of the compiler decide, none of which is an operator's.
NAMES_IN_COMPILER = {
    "retrograd.compiler.cpu.fusing": {"step.name"},  # of a kernel
    "retrograd.compiler.cpu.interpreter.region_program": {"step.name"},
    "retrograd.compiler.cpu.interpreter.step_code": {"step.name"},
    "retrograd.compiler.cpu.optimizer_updates": {"form.name", "self.name", "term.name"},  # of updates
    "retrograd.compiler.explain": {"step.name"},  # not printed twice
    "retrograd.compiler.passes.expressions": {"function.__name__"},  # of a ufunc
    "retrograd.compiler.trace.traced_arrays": {"getattr(function, '__name__', '')"},  # NumPy's
    "retrograd.compiler.trace.untrace": {"type(function).__name__"},
}

# A room imports itself and what is named here, and the top of the package, which gathers public names.
ROOMS = {
    "core": {"core"},
    "elements": set(),
    "kernels": {"core", "elements", "_generated"},  # a table of loops that follow each other
    "ops": {"core", "elements", "kernels", "_generated"},  # NumPy's functions are rules in terms of the public names
    "autograd": {"core", "ops", "func"},
    "func": {"core", "ops", "autograd"},
    "scalar": {"core", "ops", "autograd", "kernels"},
    "scipy": {"core", "ops", "autograd", "func", "kernels", "ode", "_generated"},
    "ode": {"core", "ops", "autograd", "func"},
    "manual": set(),
    "array_api": {"core", "ops", "scipy", "_generated"},
    "polynomial": {"core", "ops", "scipy", "_generated"},
    "data": {"core", "ops", "files", "distributed"},
    "distributed": {"core", "ops", "autograd", "optim", "_generated"},
    "nn": {"core", "kernels", "ops", "autograd", "func", "distributed", "_generated"},
    "optim": {"core", "elements", "kernels", "ops", "nn", "func"},
    "compiler": {"core", "elements", "ops", "func", "nn", "kernels"},
    "inspect": {"core", "ops", "autograd", "func", "nn", "optim", "data", "scalar", "training"},
    "_generated": {"core", "ops"},
    "testing": {"core", "ops", "autograd", "func", "_generated"},
    "training": {"core", "ops", "nn", "optim", "data", "distributed", "serialization", "safetensors_format"},
    "models": {"core", "ops", "nn"},
    "weights": {"core", "ops", "nn", "models", "files", "serialization"},
    "onnx": {"core", "ops", "nn", "func", "files", "_generated"},
    "sklearn": {"core", "ops", "nn", "optim", "data", "serialization"},
    "distributions": {"core", "ops", "autograd", "_generated"},
    "random": {"core", "ops", "_generated"},
}


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }


MODULES = modules()


@cache
def trees() -> dict[str, tuple[ast.Module, list[ast.AST]]]:
    """The syntax tree of each module, and all its nodes: a million, which are no garbage."""
    gc.disable()
    try:
        parsed = {module: ast.parse(path.read_text()) for module, path in MODULES.items()}
        return {module: (tree, list(ast.walk(tree))) for module, tree in parsed.items()}
    finally:
        gc.enable()


def tree(module: str) -> ast.Module:
    return trees()[module][0]


def nodes(module: str) -> list[ast.AST]:
    return trees()[module][1]


def parts_that_count(module: str) -> Iterator[ast.AST]:
    """The nodes of a module in which imports are edges, without the names of loggers."""
    if module not in TOP and "getLogger" not in MODULES[module].read_text():
        yield from nodes(module)
        return
    pending: list[ast.AST] = [tree(module)]
    while pending:
        node = pending.pop()
        if module in TOP and isinstance(node, (ast.FunctionDef, ast.If)):
            continue
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "getLogger":
            continue
        yield node
        pending += ast.iter_child_nodes(node)


def imported(module: str) -> Iterator[str]:
    """The modules of the package that a module imports or names."""
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    for node in parts_that_count(module):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*parts, *([node.module] if node.module else [])])
            for name in node.names:
                target = f"{source}.{name.name}" if f"{source}.{name.name}" in MODULES else source
                if target in MODULES:
                    yield target
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield from {node.value} & MODULES.keys() - ({node.value} if module in NAMES_IN_MESSAGES else set())


@cache
def imports() -> dict[str, set[str]]:
    return {module: set(imported(module)) - {module} for module in MODULES}


def repeats(nodes: Iterable[Described]) -> int:
    """How many lines of prose repeat an earlier one. What several operators share belongs in ops/table/wording.py."""
    counts: Counter[str] = Counter()
    for node in nodes:
        example = False
        for line in map(str.strip, (ast.get_docstring(node) or "").split("\n")):
            example = bool(line) and (example or line.startswith(">>>"))
            if line and not example and not re.fullmatch(r"[A-Z]\w+:", line):
                counts[line] += 1
    return sum(count - 1 for count in counts.values())


def names_operator(decorator: ast.expr) -> bool:
    return any("operator" in getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(decorator))


def measured() -> dict[str, int]:
    """The package's figures."""
    texts = {module: path.read_text() for module, path in MODULES.items()}
    parts = [node for module in MODULES for node in nodes(module)]
    described = [node for node in parts if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module))]
    operators = [
        node
        for node in described
        if isinstance(node, ast.FunctionDef) and any(map(names_operator, node.decorator_list))
    ]
    figures = (
        repeats(operators),
        repeats(described),
        sum(
            len(text.splitlines()) <= 60
            for name, text in texts.items()
            if MODULES[name].name != "__init__.py" and "_generated" not in name
        ),
        sum(isinstance(node, ast.Name) and node.id == "Any" for node in parts),
        sum(re.search("^# mypy:", text, re.MULTILINE) is not None for text in texts.values()),
        sum(text.count("# type: ignore") for text in texts.values()),
    )
    return dict(zip(BOUNDS, figures, strict=True))


@pytest.mark.slow
def test_a_figure_of_the_package_only_goes_down():
    over = {figure: (count, BOUNDS[figure]) for figure, count in measured().items() if count > BOUNDS[figure]}
    assert over == {}, "figures that have grown, with the bounds, which may only go down"


def test_no_folder_has_grown_full():
    counts = Counter(path.parent.relative_to(PACKAGE).as_posix() for path in MODULES.values())
    full = {name: count for name, count in counts.items() if count > FULLER_FOLDERS.get(name, FILES_PER_FOLDER)}
    assert full == {}, f"folders with more than {FILES_PER_FOLDER} modules: give each family of them a folder"
    known = {name for name in FULLER_FOLDERS if counts[name] <= FILES_PER_FOLDER}
    assert known == set(), "these folders need no bound of their own any more"


def test_folders_of_tests_mirror_the_package():
    tests = Path(__file__).resolve().parent
    folders = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("test_*.py")}
    lost = {name for name in folders if not (PACKAGE / name).is_dir() and not (PACKAGE / f"{name}.py").is_file()}
    assert {name for name in lost if not any(name.startswith(known) for known in TESTS_OF_NO_FOLDER)} == set()


def test_a_test_of_a_module_lies_at_its_path():
    """``tests/a/test_b.py`` tests ``a/b.py``, as does ``test_b_of_c.py``; the tests of a whole package may be in it."""
    tests = Path(__file__).resolve().parent
    known = {tuple(module.replace("._", ".").split(".")[1:]) for module in MODULES}
    without = 0
    for path in tests.rglob("test_*.py"):
        folder, words = path.parent.relative_to(tests).parts, path.stem.split("_")[1:]
        places = {(*folder, "_".join(words[:count])) for count in range(1, len(words) + 1)}
        without += known.isdisjoint(places | ({folder} if folder[-1:] == ("_".join(words),) else set()))
    assert without <= TESTS_OF_NO_MODULE, "test modules without a module of their name, which may only become fewer"


def test_each_folder_says_what_lives_there_and_who_calls_it():
    folders = [name for name, path in MODULES.items() if path.name == "__init__.py" and name not in TOP | ONE_SUBJECT]
    short = [name for name in folders if len((ast.get_docstring(tree(name)) or "").split()) < 20]
    assert short == [], "say in each `__init__` what lives in the folder and who may call it"


@pytest.mark.slow
def test_no_module_stands_in_a_circle():
    visited: dict[str, bool] = {}  # False while a module is on the path that is being followed

    def follow(module: str, path: tuple[str, ...]) -> None:
        if visited.get(module):
            return
        assert module not in visited, "a circle: " + " -> ".join((*path[path.index(module) :], module))
        visited[module] = False
        for target in sorted(imports()[module]):
            follow(target, (*path, module))
        visited[module] = True

    for module in sorted(MODULES):
        follow(module, ())


@pytest.mark.slow
def test_names_of_modules_are_computed_only_where_it_is_known():
    computing = {
        module
        for module in MODULES
        for node in nodes(module)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", getattr(node.func, "id", "")).strip("_") in ("import_module", "import")
        and not (node.args and isinstance(node.args[0], ast.Constant))
    }
    assert computing <= COMPUTE_NAMES


def test_rooms_import_what_is_below_them():
    def room(module: str) -> str:
        return module.split(".")[1] if "." in module else ""

    wrong = [
        f"{module} imports {target}"
        for module, targets in imports().items()
        for target in targets
        if room(module) in ROOMS and room(target) not in ROOMS[room(module)] | {room(module), ""}
    ]
    assert sorted(wrong) == []


def test_core_and_ops_do_not_import_the_top_of_the_package():
    assert [
        module for module in MODULES if ".core." in module or ".ops." in module if "retrograd" in imports()[module]
    ] == []


def test_only_the_command_imports_the_harness():
    users = {module for module, targets in imports().items() if any(".testing" in target for target in targets)}
    assert {module.split(".")[1] for module in users} <= {"testing", "cli", "compat"}  # whose table names it


def test_the_graph_knows_no_tensor_and_the_engine_no_operator():
    assert imports()["retrograd.core.graph.nodes"] == {"retrograd.core.graph.modes", "retrograd.core.graph.plan"}
    assert not any(".ops" in target for module, targets in imports().items() if ".core" in module for target in targets)


def test_the_engine_decides_nothing_by_the_name_of_a_primitive():
    from retrograd.core.graph.primitive import Primitive
    from retrograd.ops.table.registry import OPERATORS

    assert OPERATORS  # loads all operators
    loaded = [
        vars(module) for name, module in sys.modules.items() if name.startswith(("retrograd.core", "retrograd.ops"))
    ]
    names = {x.name for members in loaded for x in members.values() if isinstance(x, Primitive)}
    found = {}
    for module in sorted(MODULES):
        if not module.startswith(("retrograd.core", "retrograd.autograd")):
            continue
        calls = [node for node in nodes(module) if isinstance(node, ast.Call) and node.args]
        declared = [node.args[0] for node in calls if getattr(node.func, "id", "") in ("Primitive", "_replacing")]
        words = {node.value for node in nodes(module) if isinstance(node, ast.Constant) and node not in declared}
        if words & names:
            known = NAMES_IN_ENGINE.get(module, set())
            found[module] = known and words & names
    assert found == NAMES_IN_ENGINE


def test_the_compiler_asks_what_a_primitive_declares_and_not_for_its_name():
    """``Instruction.numpy_name`` is for functions of NumPy, which declare nothing."""
    found: dict[str, set[str]] = {}
    for module in MODULES:
        if module.startswith("retrograd.compiler."):
            functions = [node for node in nodes(module) if isinstance(node, ast.FunctionDef)]
            texts = {ast.unparse(name) for function in functions for name in _decisive_names(function)}
            texts = {text for text in texts if not re.search(r"(dtype|dtype\(dtype\)|ufunc)\.(name|__name__)$", text)}
            found |= {module: texts} if texts else {}
    assert found == NAMES_IN_COMPILER


def _decisive_names(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The names of objects that a function compares, or looks up in a table, also by a variable."""
    parts = list(ast.walk(function))
    given: dict[str, list[ast.expr]] = {}
    for node in parts:
        if isinstance(node, ast.Assign):
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts, strict=False))
            for target, value in pairs:
                values = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
                given.setdefault(getattr(target, "id", ""), []).extend(filter(_is_name, values))
    for node in parts:
        read: list[ast.expr] = []
        if isinstance(node, ast.Compare) and not isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            read = [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            read = [node.slice]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get":
            read = node.args[:1]
        for x in read:
            yield from [x] if _is_name(x) else given.get(getattr(x, "id", "-"), ())


def _is_name(node: ast.expr) -> bool:
    called = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr"
    attribute = getattr(node.args[1], "value", "") if called else getattr(node, "attr", "")
    return attribute in ("name", "__name__")


def test_tests_for_floating_numbers_include_bfloat16():
    found = {
        name for name in MODULES if not name.startswith(OF_NUMPY_DTYPES) and any(map(_misses_bfloat16, nodes(name)))
    }
    assert found == MISSES_BFLOAT16, "bfloat16 has kind V; use FLOATING, INEXACT, is_differentiable, limits"


def _misses_bfloat16(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("finfo", "issubdtype"):
        return ast.unparse(node.args[0]) not in ("float", "np.float32", "np.float64")  # NumPy's, for a dtype in general
    left = getattr(node, "left", None)
    if not isinstance(node, ast.Compare) or "kind" not in (getattr(left, "attr", ""), getattr(left, "id", "")):
        return False
    kinds = getattr(node.comparators[0], "value", None)
    return isinstance(kinds, str) and "f" in kinds and set(kinds) <= set("biufc")


def test_no_file_has_outgrown_its_subject():
    long = {
        module: lines
        for module, path in MODULES.items()
        if "_generated" not in module and (lines := len(path.read_text().splitlines())) > 600
    }
    assert long == {}


def test_only_the_command_imports_the_legacy_names():
    users = {module for module, targets in imports().items() if any(".compat" in target for target in targets)}
    files = {module for module, targets in imports().items() if any(".compat.files" in target for target in targets)}
    assert {module.split(".")[1] for module in users - files} <= {"compat", "cli", "as_torch"}
    assert {module.split(".")[1] for module in files} <= {"compat", "serialization"}  # which reads and writes .pt files


def test_files_that_docstrings_and_comments_name_exist():
    names = {path.name for folder in ("src", "tests", "tools") for path in (PACKAGE.parents[1] / folder).rglob("*.py")}
    gone = {
        f"{module} names {found}"
        for module, path in MODULES.items()
        for found in re.findall(r"`+(?:[a-z_]+/)*([a-z_]+\.py)`+", path.read_text())
        if found not in names
    }
    assert gone == set()
