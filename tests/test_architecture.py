"""The rooms: who imports whom. Imports inside functions count; those for type checkers alone do not."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "retrograd"

# A room imports itself and what is named here, and the top of the package, which gathers public names.
ROOMS = {
    "core": {"core"},
    "kernels": {"core", "_generated"},  # a table of loops that follow each other
    "ops": {"core", "kernels", "_generated"},  # NumPy's functions are rules in terms of the public names
    "autograd": {"core", "ops", "func"},
    "func": {"core", "ops", "autograd"},
    "scalar": {"core", "ops", "autograd", "kernels"},
    "manual": set(),
    "data": {"core", "ops", "files", "distributed"},
    "distributed": {"core", "ops", "autograd", "optim", "_generated"},
    "nn": {"core", "kernels", "ops", "autograd", "func", "distributed", "_generated"},
    "optim": {"core", "kernels", "ops", "nn", "func"},
    "compiler": {"core", "ops", "func", "nn", "kernels"},
    "inspect": {"core", "ops", "autograd", "func", "nn", "optim", "scalar", "training"},
    "_generated": {"core", "ops"},
    "testing": {"core", "ops", "autograd", "func", "_generated"},
    "training": {"core", "ops", "nn", "optim", "data", "distributed", "serialization", "safetensors_format"},
    "models": {"core", "ops", "nn"},
    "weights": {"core", "ops", "nn", "models", "files", "serialization"},
    "onnx": {"core", "ops", "nn", "func", "files", "_generated"},
    "sklearn": {"core", "ops", "nn", "optim", "data", "serialization"},
    "distributions": {"core", "ops", "autograd", "_generated"},
}


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }


MODULES = modules()


def imported(module: str) -> Iterator[str]:
    """The modules of the package that a module imports when it runs."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*parts, *([node.module] if node.module else [])])
            for name in node.names:
                target = f"{source}.{name.name}" if f"{source}.{name.name}" in MODULES else source
                if target in MODULES:
                    yield target


@cache
def imports() -> dict[str, set[str]]:
    return {module: set(imported(module)) - {module} for module in MODULES}


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
    assert {module.split(".")[1] for module in users} <= {"testing", "cli"}


def test_the_graph_knows_no_tensor_and_the_engine_no_operator():
    assert imports()["retrograd.core.graph.nodes"] == {"retrograd.core.graph.modes", "retrograd.core.graph.plan"}
    assert not any(".ops" in target for module, targets in imports().items() if ".core" in module for target in targets)


def test_no_file_has_outgrown_its_subject():
    long = {
        module: lines
        for module, path in MODULES.items()
        if "_generated" not in module and (lines := len(path.read_text().splitlines())) > 600
    }
    assert long == {}


def test_only_the_command_imports_the_legacy_names():
    users = {module for module, targets in imports().items() if any(".compat" in target for target in targets)}
    assert {module.split(".")[1] for module in users} <= {"compat", "cli", "as_torch"}
