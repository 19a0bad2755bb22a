"""Containers that register modules and parameters in lists and dictionaries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import index as as_integer
from typing import Any, TypeVar, overload

from ...core.tensor.tensor import Tensor
from ..parameter import Parameter
from .module import Module, _indent

S = TypeVar("S", bound="_ModuleSequence")


class _ModuleSequence(Module):
    """Submodules in order, with the interface of a list."""

    @overload
    def __getitem__(self, idx: int) -> Any: ...

    @overload
    def __getitem__(self: S, idx: slice) -> S: ...

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return self._part(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._key(idx)]

    def _part(self: S, modules: OrderedDict[str, Module | None]) -> S:
        raise NotImplementedError

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._key(idx), module)

    def __delitem__(self, idx: int | slice) -> None:
        keys = list(self._modules)[idx] if isinstance(idx, slice) else [self._key(idx)]
        self._renumber([module for key, module in self._modules.items() if key not in keys])

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __add__(self: S, other: Iterable[Module]) -> S:
        return self._part(OrderedDict()).extend(self).extend(other)

    def __iadd__(self: S, other: Iterable[Module]) -> S:
        return self.extend(other)

    def append(self: S, module: Module) -> S:
        """Append a module."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: S, modules: Iterable[Module]) -> S:
        """Append modules."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"{self._get_name()}.extend: expected an iterable of Modules, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self: S, index: int, module: Module) -> S:
        """Insert a module before ``index``."""
        if not isinstance(module, Module):
            raise AssertionError(f"{self._get_name()}.insert: module must be a Module, got {type(module).__name__}")
        if not -len(self) <= index <= len(self):
            raise IndexError(f"{self._get_name()}.insert: index {index} is out of range for {len(self)} modules")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, key: int | slice) -> Any:
        """Remove the module at an index and return it."""
        module = self[key]
        del self[key]
        return module

    def _renumber(self, modules: Sequence[Module | None]) -> None:
        self._modules = {str(place): module for place, module in enumerate(modules)}

    def _key(self, idx: int) -> str:
        place = as_integer(idx)
        if not -len(self) <= place < len(self):
            raise IndexError(f"{self._get_name()}: index {place} is out of range for {len(self)} modules")
        return list(self._modules)[place]


class Sequential(_ModuleSequence):
    """Apply modules in order, each to the result of the previous one.

    Accepts modules, or one OrderedDict of modules by name.

    >>> model = rg.nn.Sequential(rg.nn.Linear(3, 4), rg.nn.ReLU(), rg.nn.Linear(4, 1))
    >>> model(rg.ones(2, 3)).shape
    (2, 1)
    >>> model[1]
    ReLU()
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for place, module in enumerate(args):
                self.add_module(str(place), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def _part(self: S, modules: OrderedDict[str, Module | None]) -> S:
        return type(self)(modules)

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError(f"Sequential: the number of repetitions must be an integer, got {type(other).__name__}")
        if other <= 0:
            raise ValueError(f"Sequential: the number of repetitions must be positive, got {other}")
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        for module in list((self * other)[len(self) :]):
            self.append(module)
        return self


class ModuleList(_ModuleSequence):
    """A list of modules, registered as submodules.

    Args:
        modules: an iterable of modules.

    Raises:
        TypeError: an element is not a Module.

    >>> rg.nn.ModuleList([rg.nn.Linear(2, 2) for _ in range(3)])
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _part(self: S, modules: OrderedDict[str, Module | None]) -> S:
        return type(self)(modules.values())

    def __repr__(self) -> str:
        lines = []
        # Consecutive modules with equal reprs are grouped: "(0-2): 3 x ...".
        for text, group in groupby(enumerate(map(repr, self)), key=lambda item: item[1]):
            indices = [place for place, _ in group]
            first, last = indices[0], indices[-1]
            label = f"({first})" if first == last else f"({first}-{last}): {len(indices)} x"
            lines.append(_indent(f"{label}{': ' if first == last else ' '}{text}"))
        return f"{self._get_name()}(" + ("\n  " + "\n  ".join(lines) + "\n)" if lines else ")")


class ModuleDict(Module):
    """A dictionary of modules, registered as submodules.

    Args:
        modules: a mapping of names to modules, or (name, module) pairs.

    Raises:
        TypeError: a value is not a Module.

    >>> heads = rg.nn.ModuleDict({"age": rg.nn.Linear(4, 1), "sex": rg.nn.Linear(4, 2)})
    >>> heads["sex"](rg.ones(4)).shape
    (2,)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove the module of a key and return it."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The keys."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The (key, module) pairs."""
        return self._modules.items()

    def values(self) -> Iterable[Any]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add or replace the modules of a mapping or of (key, module) pairs."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


class ParameterList(Module):
    """A list of Parameters, registered with the module that owns it. Tensors become Parameters.

    Args:
        values: an iterable of Tensors or of other values, which are stored unchanged.

    >>> rg.nn.ParameterList([rg.ones(2), rg.ones(3)])
    ParameterList(
        (0): Parameter containing: [retrograd.float32 of size 2]
        (1): Parameter containing: [retrograd.float32 of size 3]
    )
    """

    def __init__(self, values: Iterable[object] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    @overload
    def __getitem__(self, idx: int) -> Any: ...

    @overload
    def __getitem__(self, idx: slice) -> ParameterList: ...

    def __getitem__(self, idx: int | slice) -> Any:
        if isinstance(idx, slice):
            return type(self)(self[place] for place in range(*idx.indices(len(self))))
        return getattr(self, self._key(idx))

    def __setitem__(self, idx: int, param: object) -> None:
        setattr(self, self._key(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[place] for place in range(len(self))])

    def __iadd__(self, parameters: Iterable[object]) -> ParameterList:
        return self.extend(parameters)

    def append(self, value: object) -> ParameterList:
        """Append a value."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[object]) -> ParameterList:
        """Append values."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend: values must be an iterable, got {type(values).__name__}")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return _describe_values(enumerate(self))

    def _key(self, idx: int) -> str:
        place = as_integer(idx)
        if not -len(self) <= place < len(self):
            raise IndexError(f"ParameterList: index {place} is out of range for {len(self)} values")
        return str(place % len(self))

    def forward(self, *args: object, **kwargs: object) -> Any:
        raise RuntimeError("ParameterList is not callable")


class ParameterDict(Module):
    """A dictionary of Parameters, registered with the module that owns it. Tensors become Parameters.

    Args:
        parameters: a mapping of names to values, or (name, value) pairs; values other than Tensors are
            stored unchanged.

    >>> choices = rg.nn.ParameterDict({"left": rg.ones(2)})
    >>> list(choices), choices["left"].requires_grad
    (['left'], True)
    """

    def __init__(self, parameters: object = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise AttributeError(f"ParameterDict: no entry {key!r}")
        return getattr(self, key)

    def __setitem__(self, key: str, value: object) -> None:
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"ParameterDict: the key {key!r} is the name of an attribute; choose another key")
        setattr(self, key, _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return another dictionary of the same Parameters."""
        return type(self)(OrderedDict(self.items()))

    def setdefault(self, key: str, default: object = None) -> Any:
        """Return the value of a key, after setting it to ``default`` if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove a key and return its value."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last (key, value) pair and return it."""
        if not self._keys:
            raise KeyError("ParameterDict.popitem: the dictionary is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def get(self, key: str, default: object = None) -> Any:
        """Return the value of a key, or ``default`` if it is missing."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: object = None) -> ParameterDict:
        """Return a new dictionary that maps every key to ``default``."""
        return type(self)(OrderedDict.fromkeys(keys, default))

    def keys(self) -> Iterable[str]:
        """The keys."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The (key, value) pairs."""
        return [(key, self[key]) for key in self]

    def values(self) -> Iterable[Any]:
        """The values."""
        return [self[key] for key in self]

    def update(self, parameters: object) -> None:
        """Add or replace the values of a mapping or of (key, value) pairs.

        Keys of a mapping that is neither an OrderedDict nor a ParameterDict are added in sorted order, as in PyTorch.
        """
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs.sort()  # as in PyTorch, so that optimizers number the Parameters in the same order
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return _describe_values(self.items())

    def __or__(self, other: object) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: object) -> ParameterDict:
        result = type(self)(other)
        result.update(self)
        return result

    def __ior__(self, other: object) -> ParameterDict:
        self.update(other)
        return self

    def forward(self, *args: object, **kwargs: object) -> Any:
        raise RuntimeError("ParameterDict is not callable")


def _as_parameter(value: object) -> object:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _pairs(name: str, entries: object) -> list[tuple[str, Any]]:
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    if not isinstance(entries, Iterable):
        raise TypeError(f"{name}.update: expected a mapping or (key, value) pairs, got {type(entries).__name__}")
    pairs = []
    for place, entry in enumerate(entries):
        if not isinstance(entry, Iterable):
            raise TypeError(f"{name}.update: element {place} should be a pair, got {type(entry).__name__}")
        entry = tuple(entry)
        if len(entry) != 2:
            raise ValueError(f"{name}.update: element {place} must have length 2, got length {len(entry)}")
        pairs.append(entry)
    return pairs


def _describe_values(values: Iterable[tuple[object, object]]) -> str:
    lines = []
    for key, value in values:
        if isinstance(value, Tensor):
            kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
            device = f" ({value.device})" if value.is_cuda else ""
            size = "x".join(map(str, value.shape))
            lines.append(f"  ({key}): {kind} containing: [{value.dtype} of size {size}{device}]")
        else:
            lines.append(f"  ({key}): Object of type: {type(value).__name__}")
    return "\n".join(lines)
