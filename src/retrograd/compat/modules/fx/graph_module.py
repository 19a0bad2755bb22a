"""``GraphModule``: a module whose ``forward`` is code that a graph generates."""

from __future__ import annotations

import copy
import os
from pathlib import Path

from ....core.tensor.tensor import Tensor
from ....nn.base.module import Module
from ....nn.parameter import Parameter
from .code import PythonCode, PyTreeCodeGen, compile_source
from .graph import Graph
from .names import root as package_name
from .node import Value


class GraphModule(Module):
    """A module that consists of a graph and the modules, Parameters and buffers that its nodes name.

    Args:
        root: a module, or a dict from paths to values, which has everything that nodes of the graph name.
        graph: the graph. After changes of it call ``recompile``.
        class_name: the name that ``print`` shows.
    """

    def __new__(cls, *args: Value, **kwargs: Value) -> GraphModule:
        """Return an instance of a class of its own, which has the generated ``forward``."""
        base = next(kind for kind in cls.__mro__ if not kind.__dict__.get("_is_generated"))
        return object.__new__(type(base.__name__, (base,), {"_is_generated": True, "__module__": base.__module__}))

    def __init__(self, root: Module | dict[str, Value], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        self._name(class_name)
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attribute(root, self, str(node.target))
        elif isinstance(root, dict):
            self._assign_all(root, graph)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self.meta: dict[str, Value] = {}
        if hasattr(root, "meta") and isinstance(root.meta, dict):
            self.meta.update(root.meta)

    def _name(self, class_name: str) -> None:
        self.__class__.__name__ = class_name

    def _assign_all(self, values: dict[str, Value], graph: Graph) -> None:
        targets = dict.fromkeys(str(node.target) for node in graph.nodes if node.op in ("get_attr", "call_module"))
        for target in targets:
            if target not in values:
                raise RuntimeError(
                    f"Node referenced target {target} but that target was not provided in `root`! "
                    f"root has {list(values)}"
                )
        for target in sorted(targets, key=lambda path: path.count(".")):
            _assign(self, target, values[target])

    # The graph and its code

    @property
    def graph(self) -> Graph:
        """The graph. An assignment generates the code."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        owned = g.owning_module is not None and g.owning_module is not self
        self.__dict__["_graph"] = copy.deepcopy(g) if owned else g
        self._graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The Python code of ``forward``."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Please report a bug to PyTorch")
        return self._code

    def recompile(self) -> PythonCode:
        """Generate ``forward`` from the graph. Call it after changes of the graph."""
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self.__dict__.update(_in_spec=codegen.in_spec, _out_spec=codegen.out_spec)
        generated = self._graph.python_code(root_module="self")
        self.__dict__["_code"] = generated.src
        names = compile_source(generated.src, dict(generated.globals))
        setattr(type(self), "forward", names[codegen._func_name])  # noqa: B010  a method of each instance's class
        return generated

    def print_readable(self, print_output: bool = True, **options: Value) -> str:
        """Print and return the code as a class, with the code of submodules that are GraphModules."""
        body = self.code.strip("\n ").replace("\n", "\n    ")
        text = f"class {self._get_name()}({package_name()}.nn.Module):\n    {body}\n"
        for child in self.children():
            if isinstance(child, GraphModule):
                text += "\n    " + child.print_readable(False).strip().replace("\n", "\n    ") + "\n"
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return (
            f"{super().__repr__()}\n{self._code}\n# To see more debug info, please use `graph_module.print_readable()`"
        )

    # Submodules

    def add_submodule(self, target: str, m: Module) -> bool:
        """Insert a module at a path; missing parents become empty modules. Return False if a parent is no module."""
        *path, name = target.split(".")
        where: Module = self
        for part in path:
            child = getattr(where, part, None)
            if child is None:
                child = Module()
                setattr(where, part, child)
            if not isinstance(child, Module):
                return False
            where = child
        where.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the submodule at a path. Return False if there is none."""
        path, _, name = target.rpartition(".")
        try:
            where = self.get_submodule(path)
        except AttributeError:
            return False
        if not isinstance(getattr(where, name, None), Module):
            return False
        delattr(where, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the submodules that no node of the graph names."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            parts = str(node.target).split(".")
            used |= {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
            if node.op == "call_module":
                try:
                    inside = self.get_submodule(str(node.target)).named_modules()
                except AttributeError:
                    continue
                used |= {f"{node.target}.{name}" for name, _ in inside if name}
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Write the module to a folder as a Python package: its code, and files with its state.

        Args:
            folder: the folder, which is created.
            module_name: the name of the class in ``module.py``.
        """
        from ....serialization import save
        from ...files.pt_writer import write

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        package = package_name()
        save(self.state_dict(), place / "state_dict.pt")
        lines = []
        for name, child in self.named_children():
            with (place / f"{name}.pt").open("wb") as stream:
                write(child, stream, whole=True)
            lines.append(f"        self.{name} = {package}.load(r'{place / name}.pt', weights_only=False)")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                lines.append(f"        self.register_buffer({name!r}, {package}.empty({list(buffer.shape)}))")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                lines.append(f"        self.{name} = {package}.nn.Parameter({package}.empty({list(parameter.shape)}))")
        body = self.code.strip("\n ").replace("\n", "\n    ")
        text = (
            f"import {package}\nfrom math import inf, nan\nNoneType = type(None)\nfrom {package} import device\n\n\n"
            f"class {module_name}({package}.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            + "".join(f"{line}\n" for line in lines)
            + f"        self.load_state_dict({package}.load(r'{place}/state_dict.pt'))\n\n    {body}\n"
        )
        (place / "module.py").write_text(text)
        (place / "__init__.py").write_text("from .module import *\n")

    # Copies and pickles

    def __deepcopy__(self, memo: dict[int, Value]) -> GraphModule:
        state = {key: value for key, value in self.__dict__.items() if key != "_graph"}
        copied = _restored(self._kind(), self._get_name())
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(state, memo))
        copied.graph = copy.deepcopy(self._graph, {})
        return copied

    def __copy__(self) -> GraphModule:
        copied = _restored(self._kind(), self._get_name())
        for key, value in self.__dict__.items():
            copied.__dict__[key] = dict(value) if key in ("_parameters", "_buffers", "_modules") else value
        copied.graph = self._graph
        return copied

    def __reduce__(self) -> tuple[Value, ...]:
        state = self.__getstate__()
        for key in ("_code", "_in_spec", "_out_spec"):
            state.pop(key, None)
        return _restored, (self._kind(), self._get_name()), state

    def __setstate__(self, state: dict[str, Value]) -> None:
        graph = state.pop("_graph", None)
        Module.__setstate__(self, state)
        if graph is not None:
            self.graph = graph

    def _kind(self) -> type[GraphModule]:
        return next(kind for kind in type(self).__mro__ if not kind.__dict__.get("_is_generated"))


def _restored(kind: type[GraphModule], name: str) -> GraphModule:
    """Return an instance without a graph."""
    module = kind.__new__(kind)
    Module.__init__(module)
    module._name(name)
    return module


def _copy_attribute(source: Module, to: Module, path: str) -> None:
    *parts, name = path.split(".")
    for part in parts:
        child: Value = getattr(source, part)
        if child is getattr(to, part, None):
            return
        if not hasattr(to, part):
            to.add_module(part, Module()) if isinstance(child, Module) else setattr(to, part, child)
        source, to = child, getattr(to, part)
    value = getattr(source, name)
    _enter(to, name, value)


def _assign(module: Module, path: str, value: Value) -> None:
    *parts, name = path.split(".")
    for part in parts:
        if not hasattr(module, part):
            module.add_module(part, Module())
        module = getattr(module, part)
    _enter(module, name, value)


def _enter(module: Module, name: str, value: Value) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        if name in module._buffers or not hasattr(module, name):
            module._buffers.pop(name, None)
            module.register_buffer(name, value)
        return
    setattr(module, name, value)
