"""Names of modules and parameters (their paths) and of other leaves (the program's variables)."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from dis import get_instructions, opmap
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..core.source_location import user_frame
from ..core.tensor.tensor import Tensor, is_dense

_OURS = 3  # the references to a frame's dictionary from the frame, a local variable and getrefcount's argument
_CALLERS = 8  # the most frames searched for a variable
_ITEMS = 200  # the largest container searched

if TYPE_CHECKING:
    from ..nn.base.module import Module


@dataclass
class Model:
    """A module with parameters that the program calls from outside of all other modules.

    ``variable`` is the program's variable that refers to the module, ``label`` the module's name in paths, ``prefix``
    the beginning of its submodules' paths, and ``parameters`` the ids of its parameters.
    """

    root: ref[Module]
    variable: str
    label: str
    prefix: str
    parameters: set[int] = field(default_factory=set)


class Names:
    """Paths of modules relative to the outermost called module, and names of leaves.

    The outermost module is named after its class, and the paths of its parameters have no prefix. If a second model has
    paths in common with the first, the second one's paths begin with its variable (``discriminator.0``) or its class.
    A submodule that the program calls directly (``model.encoder(x)``) has its path in the model.
    """

    def __init__(self) -> None:
        self.path = ""  # the path of the innermost active module
        self.classes: dict[str, str] = {}  # class names of modules by path
        self._entered: list[str] = []
        self._modules: dict[int, tuple[ref[Module], str]] = {}
        self._taken: dict[str, ref[object]] = {}
        self._tensors: dict[int, tuple[ref[object], str]] = {}
        self._numbers: dict[int, tuple[ref[object], int]] = {}
        self._count = 0
        self.models: dict[int, Model] = {}  # by id of the outermost module

    def enter(self, module: object) -> None:
        """Record that a module is called."""
        path = self._known(module)
        if path is None and self._entered:
            self._add_late(module)
            path = self._known(module)
        if path is None:
            if self._entered:  # of no model
                path = f"{self.path}.{type(module).__name__}"
            else:
                self._add(module)
                path = self._known(module) or ""
        self._entered.append(self.path)
        self.path = path

    def leave(self, module: object) -> None:
        """Record that a call of a module has ended."""
        self.path = self._entered.pop() if self._entered else ""

    def number(self, x: object) -> int:
        """Return a unique number of a Tensor or an array, from 1."""
        found = self._numbers.get(id(x))
        if found is None or found[0]() is not x:
            self._count += 1
            found = self._numbers[id(x)] = ref(x), self._count
        return found[1]

    def known(self, x: Tensor) -> str:
        """Return the name of a leaf that is already named or belongs to a called module, else ""."""
        found = self._tensors.get(id(x))
        return found[1] if found is not None and found[0]() is x else ""

    def of(self, x: object) -> str:
        """Return the name of a leaf, a Tensor or an array; "" if it is not known."""
        found = self._tensors.get(id(x))
        if found is not None and found[0]() is x:
            return found[1]
        name = variable_name(sys._getframe(1), x)
        self._tensors[id(x)] = ref(x), name
        return name

    def full(self, x: Tensor) -> str:
        """Return the known name of a leaf, which with several models begins with the variable of its model."""
        name = self.known(x)
        if not name or len(self.models) < 2:
            return name
        of = next((one for one in self.models.values() if id(x) in one.parameters), None)
        return name if of is None or of.prefix or not of.variable else f"{of.variable.removeprefix('self.')}.{name}"

    def _known(self, module: object) -> str | None:
        found = self._modules.get(id(module))
        return found[1] if found is not None and found[0]() is module else None

    def _add(self, called: object) -> None:
        """Name a module that is called from outside of all others, with its submodules and those of its model."""
        root, alone = _holder(user_frame(sys._getframe(1)), called)
        modules = dict(root.named_modules())
        clash = len(modules) == 1 and not alone or any(self._is_taken(path) for path in [type(root).__name__, *modules])
        trained = next(root.parameters(), None) is not None
        variable = variable_name(sys._getframe(1), root) if clash or trained else ""
        label = name = clash and variable.removeprefix("self.") or type(root).__name__
        number = 1
        while self._is_taken(label):
            number += 1
            label = f"{name}_{number}"
        model = Model(ref(root), variable, label, f"{label}." if clash else "")
        if trained:
            self.models = {key: x for key, x in self.models.items() if x.root() is not None} | {id(root): model}
        self._add_parts(model, modules)

    def _add_late(self, called: object) -> None:
        """Name a module that was added to a model after the first call, as by ``model.fc = nn.Linear(32, 12)``."""
        for model in self.models.values():
            root = model.root()
            modules = {} if root is None else dict(root.named_modules())
            if any(x is called for x in modules.values()):
                self._add_parts(model, modules)
                return

    def _add_parts(self, model: Model, modules: dict[str, Module]) -> None:
        root, label, prefix = modules[""], model.label, model.prefix
        for path, module in modules.items():
            if self._known(module) is not None:
                continue  # called by itself before it was added to this module
            name = prefix + path if path else label
            self._modules[id(module)] = ref(module), name
            self._taken[name] = ref(module)
            self.classes[name] = type(module).__name__
        for entries in (root.named_parameters(), root.named_buffers()):
            for path, x in entries:
                if not self.known(x):
                    self._tensors[id(x)] = ref(x), prefix + path
        model.parameters = {id(x) for x in root.parameters()}

    def _is_taken(self, path: str) -> bool:
        return path in self._taken and self._taken[path]() is not None


def _holder(frame: FrameType | None, module: object) -> tuple[Any, bool]:
    """Return the largest module that contains ``module``, and whether no other module there has parameters.

    Modules are searched in the program's variables and in the attributes of ``self``.
    """
    found, most, alone = module, 0, True
    for _ in range(_CALLERS):
        if frame is None:
            break
        variables = _variables(frame)
        for value in [*variables.values(), *getattr(variables.get("self"), "__dict__", {}).values()]:
            if value is module or not _has(value, "named_modules"):
                continue
            inside = [part for _, part in value.named_modules()]
            if not any(part is module for part in inside):
                alone = alone and next(value.parameters(), None) is None
            elif len(inside) > most:
                found, most = value, len(inside)
        frame = _within_program(frame)
    return found, alone


def _has(value: object, method: str) -> bool:
    """Return whether an object has a method; False for Python modules, since our ``__getattr__`` searches for hints."""
    return not isinstance(value, (type, ModuleType)) and callable(getattr(value, method, None))


def variable_name(frame: FrameType | None, x: object) -> str:
    """Return the program's name of a Tensor or module: a variable of the outermost function that refers to it."""
    name = ""
    frame = user_frame(frame)
    for _ in range(_CALLERS):
        if frame is None:
            break
        name = _among(_variables(frame), x, _loop_variables(frame.f_code)) or name
        frame = _within_program(frame)
    return name


def _variables(frame: FrameType) -> dict[str, Any]:
    """Return the variables of a frame as a new dictionary.

    Before Python 3.13 the frame of a function caches the dictionary of its variables, which keeps their values alive.
    The cached dictionary is cleared unless the program refers to it (through ``locals()``) or a debugger is active,
    which writes it back to the variables.
    """
    found = frame.f_locals
    variables = dict(found)
    copied = frame.f_code.co_flags & CO_OPTIMIZED and type(found) is dict and sys.getrefcount(found) <= _OURS
    if copied and frame.f_trace is None and sys.gettrace() is None:
        found.clear()
    return variables


def _within_program(frame: FrameType) -> FrameType | None:
    """Return the frame of the program's function that called this frame; None for code at the top level of a module."""
    return None if frame.f_code.co_name == "<module>" else user_frame(frame.f_back)


@lru_cache(maxsize=1000)
def _loop_variables(code: CodeType) -> frozenset[str]:
    """Return the loop variables of a function. They are poor names for Tensors, since each refers to several items."""
    names: list[str] = []
    wanted = 0  # the number of names that follow
    loops = opmap["FOR_ITER"] in code.co_code[::2]  # fast check: decoding all takes milliseconds
    for instruction in get_instructions(code) if loops else ():
        if instruction.opname == "FOR_ITER":
            wanted = 1
        elif instruction.opname == "UNPACK_SEQUENCE" and wanted:
            wanted += int(instruction.arg or 0) - 1
        elif instruction.opname.startswith("STORE_") and wanted:
            names += instruction.argval if isinstance(instruction.argval, tuple) else [str(instruction.argval)]
            wanted -= 1
        elif wanted and instruction.opname not in ("CACHE", "SWAP", "EXTENDED_ARG"):
            wanted = 0
    return frozenset(names)


def _among(variables: dict[str, object], x: object, loops: frozenset[str] = frozenset()) -> str:
    array = getattr(x, "array", x)
    found = ""
    for name, value in variables.items():
        if value is x or value is array or is_dense(value) and value.array is array:
            if name not in loops:
                return name
            found = found or name
    for name, value in variables.items():
        if isinstance(value, (list, tuple)) and len(value) <= _ITEMS:
            for index, item in enumerate(value):
                if item is x or item is array or is_dense(item) and item.array is array:
                    return f"{name}[{index}]"
        elif isinstance(value, dict) and len(value) <= _ITEMS and not name.startswith("__"):
            for key, item in value.items():
                if item is x or item is array or is_dense(item) and item.array is array:
                    return f"{name}[{key!r}]"
        elif name == "self":
            for key, item in getattr(value, "__dict__", {}).items():
                if item is x or item is array or is_dense(item) and item.array is array:
                    return f"self.{key}"
    return found


def leaf_names(leaves: Iterable[Tensor], known: Iterable[Names], root: Any = None) -> dict[int, str]:
    """Return names of leaves by id: from the module ``root``, from traces, or from the caller's variables.

    A parameter that no trace has seen is named by a variable that refers to its module: ``model.0.weight``.
    """
    names = {} if root is None else {id(x): path for path, x in root.named_parameters()}
    missing = [x for x in leaves if id(x) not in names]
    held: dict[int, str] | None = None
    for x in missing:
        name = next((name for one in known if (name := one.known(x))), "")
        if not name:
            held = _in_modules(user_frame(sys._getframe(1))) if held is None else held
            name = held.get(id(x)) or variable_name(sys._getframe(1), x)
        if name:
            names[id(x)] = name
    return names


def _in_modules(frame: FrameType | None) -> dict[int, str]:
    """Return the parameters of modules in variables of the caller and of its callers."""
    names: dict[int, str] = {}
    for _ in range(_CALLERS):
        if frame is None:
            break
        for variable, value in _variables(frame).items():
            if _has(value, "named_parameters"):
                for path, x in value.named_parameters():
                    names.setdefault(id(x), f"{variable}.{path}")
        frame = _within_program(frame)
    return names
