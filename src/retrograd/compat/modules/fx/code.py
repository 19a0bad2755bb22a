"""Generate the Python code of a graph, and compile it."""

from __future__ import annotations

import builtins
import enum
import linecache
import math
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import count
from types import ModuleType
from typing import ClassVar, Protocol

import numpy as np

from ....core.arrays.devices import Device
from .names import GENERATED, Namespace, public_name, qualified_name, root
from .node import Argument, Node, Value, map_arg, type_repr

TransformCode = Callable[[list[str]], list[str]]

# Functions of ``operator`` as code.
_BINARY = {
    "add": "+", "and_": "&", "eq": "==", "floordiv": "//", "ge": ">=", "gt": ">", "le": "<=", "lshift": "<<",
    "lt": "<", "matmul": "@", "mod": "%", "mul": "*", "ne": "!=", "or_": "|", "pow": "**", "rshift": ">>", "sub": "-",
    "truediv": "/", "xor": "^",
}  # fmt: skip
_AUGMENTED = {
    "iadd": "+", "iand": "&", "ifloordiv": "//", "ilshift": "<<", "imatmul": "@", "imod": "%", "imul": "*",
    "ior": "|", "ipow": "**", "irshift": ">>", "isub": "-", "itruediv": "/", "ixor": "^",
}  # fmt: skip
_TEMPLATES = {
    **{getattr(operator, name): f"{{}} {sign} {{}}" for name, sign in _BINARY.items()},
    operator.getitem: "{}[{}]", operator.invert: "~{}", operator.neg: "-{}", operator.pos: "+{}",
}  # fmt: skip
_IN_PLACE = {getattr(operator, name): f"{sign}=" for name, sign in _AUGMENTED.items()}


@dataclass
class PythonCode:
    """Generated code: its source, and the global names that it reads."""

    src: str
    globals: dict[str, Value]
    line_map: dict[int, int] = field(default_factory=dict)


class CodeGen:
    """Generates the code of ``forward``. Subclasses change the arguments, the result, and how they are converted."""

    def __init__(self) -> None:
        self._body_transformer: TransformCode | None = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the line with ``def forward``. ``free_vars`` are the arguments, with annotations and defaults."""
        names = free_vars if free_vars and free_vars[0] == "self" else ["self", *free_vars]
        return f"def {self._func_name}({', '.join(names)}){maybe_return_annotation}:"

    _func_name: ClassVar[str] = "forward"

    def generate_output(self, output_args: Argument) -> str:
        """Return the line that returns the result."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Value) -> Value:
        """Convert the arguments of a call to the values of the placeholders."""
        return args

    def process_outputs(self, outputs: Value) -> Value:
        """Convert the value of the output node to the result of a call."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Value]]:
        """Return further global names of the code, and their values."""
        return []


class PyTreeCodeGen(CodeGen):
    """Generates code whose arguments are containers, which it flattens, and which are rebuilt for the result."""

    def __init__(self, orig_args: list[str], in_spec: Value, out_spec: Value) -> None:
        super().__init__()
        self.orig_args, self.in_spec, self.out_spec = orig_args, in_spec, out_spec

    def process_inputs(self, *inputs: Value) -> Value:
        return self.in_spec.leaves_of(list(inputs))

    def process_outputs(self, outputs: Value) -> Value:
        return outputs if self.out_spec is None else self.out_spec.unflatten(list(outputs))

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        if not self.orig_args:
            return super().gen_fn_def(free_vars, maybe_return_annotation)
        names = [name.split(":")[0].split("=")[0].strip() for name in free_vars]
        head = super().gen_fn_def(self.orig_args, "")
        given = ", ".join(name for name in self.orig_args if name != "self")
        return f"{head}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec([{given}], self._in_spec)"

    def generate_output(self, output_args: Argument) -> str:
        if self.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({output_args!r}, self._out_spec)"

    def additional_globals(self) -> list[tuple[str, Value]]:
        pytree = import_module("retrograd.utils._pytree")
        flattening = ModuleType("fx_pytree")
        vars(flattening).update(tree_flatten_spec=lambda tree, spec: spec.leaves_of(tree))
        return [("pytree", pytree), ("fx_pytree", flattening)]


class Coded(Protocol):
    """The part of a graph's interface that the generation of code needs."""

    _codegen: CodeGen

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes in order."""


class _Writer:
    """Writes the lines of a graph's nodes, and collects the global names that they read."""

    def __init__(self, graph: Coded, root_module: str, namespace: Namespace) -> None:
        self.root_module, self.namespace = root_module, namespace
        self.globals: dict[str, Value] = {}
        self.arguments: list[str] = []
        self.lines: list[str] = []
        self.annotation = ""
        self.wrapped: dict[str, None] = {}
        self._dying = _last_uses(graph)
        self.codegen = graph._codegen
        for name, value in self.codegen.additional_globals():
            self.globals[name] = value

    def entered(self, hint: str, value: Value) -> str:
        public = public_name(value) if callable(value) else None
        if public is not None:
            name = f"{root()}.{public}"
            self.globals[root()] = sys.modules[root()]
            return name
        name = hint.replace(".", "_")
        if self.globals.get(name, value) is value:
            name = self.namespace.create_name(name, value) if name not in self.globals else name
        else:
            name = self.namespace.create_name(name, value)
        self.globals[name] = value
        return name

    def text(self, a: Argument) -> str:
        if isinstance(a, Node):
            return a.name
        if isinstance(a, tuple):
            if hasattr(a, "_fields"):
                return f"{self.entered(type(a).__name__, type(a))}({', '.join(map(self.text, a))})"
            return f"({', '.join(map(self.text, a))}{',' if len(a) == 1 else ''})"
        if isinstance(a, list):
            return f"[{', '.join(map(self.text, a))}]"
        if isinstance(a, dict):
            return f"{{{', '.join(f'{self.text(key)}: {self.text(value)}' for key, value in a.items())}}}"
        if isinstance(a, slice):
            return f"slice({self.text(a.start)}, {self.text(a.stop)}, {self.text(a.step)})"
        if isinstance(a, bool) or a is None or a is ... or isinstance(a, (str, int)) and not isinstance(a, enum.Enum):
            return repr(a)
        if isinstance(a, float):
            return self._float(a)
        if isinstance(a, enum.Enum):
            return f"{self.entered(type(a).__name__, type(a))}.{a.name}"
        if isinstance(a, Device):
            self.globals["device"] = Device
            return f"device({str(a)!r})" if a.index is not None else f"device(type={a.type!r})"
        if isinstance(a, np.dtype):
            return self._dtype(a)
        if callable(a):
            return self.entered(qualified_name(a), a)
        text = repr(a)
        try:
            known = isinstance(a, complex) or eval(text, {"__builtins__": {}}) == a
        except Exception:
            known = False
        return text if known else self.entered(f"_constant_{type(a).__name__}", a)

    def _float(self, a: float) -> str:
        if math.isfinite(a):
            return repr(a)
        name = "nan" if math.isnan(a) else "inf"
        self.globals[name] = GENERATED[name]
        return name if a != -math.inf else "-inf"

    def _dtype(self, a: Value) -> str:
        package = sys.modules["retrograd"]
        name = str(a).rpartition(".")[2]
        if getattr(package, name, None) != a:
            return self.entered(f"_dtype_{name}", a)
        self.globals[root()] = sys.modules[root()]
        return f"{root()}.{name}"

    def call(self, args: Iterable[Argument], kwargs: dict[str, Argument]) -> str:
        return ", ".join([*map(self.text, args), *(f"{key} = {self.text(value)}" for key, value in kwargs.items())])

    def path(self, target: str) -> str:
        """Return a path below the root module as code. Parts that are not identifiers need ``getattr``."""
        code = self.root_module
        for part in target.split("."):
            code = f"{code}.{part}" if part.isidentifier() else f'getattr({code}, "{part}")'
        return code

    def write(self, node: Node) -> None:
        annotation = ""
        if node.type is not None:
            self._annotate(node.type)
            annotation = f" : {type_repr(node.type)}"
        if node.op == "placeholder":
            default = f" = {self.text(node.args[0])}" if node.args else ""
            self.arguments.append(f"{node.target}{annotation}{default}")
            raw = str(node.target).lstrip("*")
            if raw != node.name:
                self.lines.append(f"{node.name} = {raw}")
            return
        if node.op == "output":
            if node.type is not None:
                self.annotation = f" -> {type_repr(node.type)}"
            self.lines.append(self._result(node))
            return
        code = self.expression(node)
        last = [*self._dying.get(node, ()), *([] if node.users else [node])]
        release = f";  {' = '.join(f'{used.name}' for used in last)} = None" if last else ""
        statement = code if node.target in _IN_PLACE else f"{node.name}{annotation} = {code}"
        self.lines.append(f"{statement}{release}")

    def _annotate(self, kind: Value) -> None:
        for part in (kind, *getattr(kind, "__args__", ())):
            module = getattr(part, "__module__", "builtins").partition(".")[0]
            if module == "retrograd":
                self.globals[root()] = sys.modules[root()]
            elif module != "builtins":
                self.globals[module] = sys.modules[module]

    def _result(self, node: Node) -> str:
        if type(self.codegen).generate_output is CodeGen.generate_output:
            return f"return {self.text(node.args[0])}"
        return self.codegen.generate_output(_Text(self.text(node.args[0])))

    def expression(self, node: Node) -> str:
        if node.op == "call_method":
            return f"{self._receiver(node.args[0])}.{node.target}({self.call(node.args[1:], node.kwargs)})"
        if node.op == "call_module":
            return f"{self.path(str(node.target))}({self.call(node.args, node.kwargs)})"
        if node.op == "get_attr":
            return self.path(str(node.target))
        function: Value = node.target
        if node.meta.get("is_wrapped"):
            self.wrapped[str(function.__name__)] = None
        template = _TEMPLATES.get(function)
        if template is not None and not node.kwargs and len(node.args) == template.count("{}"):
            return template.format(*map(self.text, node.args))
        if function in _IN_PLACE:
            first, other = map(self.text, node.args)
            return f"{first} {_IN_PLACE[function]} {other};  {node.name} = {first}"
        is_attribute = function is getattr and len(node.args) == 2 and not node.kwargs
        if is_attribute and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{self._receiver(node.args[0])}.{node.args[1]}"
        own = str(getattr(function, "__name__", ""))
        if getattr(builtins, own, None) is function:
            return f"{own}({self.call(node.args, node.kwargs)})"
        return f"{self.entered(qualified_name(function), function)}({self.call(node.args, node.kwargs)})"

    def _receiver(self, a: Argument) -> str:
        code = self.text(a)
        return code if isinstance(a, Node) else f"({code})"


class _Text(str):
    """Code whose repr has no quotation marks."""

    def __repr__(self) -> str:
        return str(self)


def _last_uses(graph: Coded) -> dict[Node, list[Node]]:
    """Return for each node the nodes that no later node reads, so that the code can release their values."""
    last: dict[Node, Node] = {}
    dying: dict[Node, list[Node]] = {}

    for node in reversed(graph.nodes):
        if node.op == "placeholder":
            continue

        def visit(used: Node, user: Node = node) -> None:
            if used not in last:
                last[used] = user
                dying.setdefault(user, []).append(used)

        map_arg((node.args, node.kwargs), visit)
    return dying


def python_code(graph: Coded, root_module: str, namespace: Namespace) -> PythonCode:
    """Return the code of a graph: a function ``forward`` of the root module and the placeholders."""
    writer = _Writer(graph, root_module, namespace)
    for node in graph.nodes:
        writer.write(node)
    lines = writer.lines or ["pass"]
    if graph._codegen._body_transformer is not None:
        lines = graph._codegen._body_transformer([f"{line}\n" for line in lines])
        lines = "".join(lines).splitlines()
    head = graph._codegen.gen_fn_def(_keywords_last(writer.arguments), writer.annotation)
    wraps = ""
    if writer.wrapped:
        wraps = f"from {root()}.fx import wrap\n" + "\n".join(f'wrap("{name}")' for name in writer.wrapped)
    body = "\n".join(f"    {line}" if line else "" for line in lines)
    return PythonCode(f"{wraps}\n\n\n{head}\n{body}\n    ", writer.globals)


def _keywords_last(arguments: list[str]) -> list[str]:
    return sorted(arguments, key=lambda name: name.startswith("*") + name.startswith("**"))


_numbers = count()


def compile_source(source: str, names: dict[str, Value]) -> dict[str, Value]:
    """Run source code and return its names. Tracebacks and ``inspect.getsource`` show the source."""
    file = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    exec(compile(source, file, "exec"), names)
    return names
