"""Parametrizations: a parameter that is computed, at each use, from trained parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...core.errors import describe
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from ..base.containers import ModuleDict, ModuleList
from ..base.module import Module
from ..parameter import Parameter

_cache: dict[tuple[int, str], object] = {}
_cache_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrized Tensor at most once inside the block.

    >>> with rg.nn.utils.parametrize.cached():
    ...     pass
    """
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one Tensor, applied in order, and their original parameters.

    The first parametrization takes one Tensor, ``original``, or several, ``original0``, ``original1`` and so on.

    Args:
        modules: the parametrizations, in the order in which they are applied.
        original: the Tensor before parametrization; the originals are computed from it by ``right_inverse``, if the
            parametrizations define it.
        unsafe: do not check that shape and dtype are preserved.

    Raises:
        ValueError: ``modules`` is empty, or (unless ``unsafe``) a parametrization changes shape or dtype.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList: modules must contain at least one parametrization, got none")
        super().__init__(modules)
        self.unsafe = unsafe
        value: Any = original
        with no_grad():
            for module in reversed(list(modules)):
                value = _inverse(module, value)
        self.is_tensor = isinstance(value, Tensor)
        _check_originals(value, original)
        before = original.data
        if isinstance(value, Tensor):
            # The Parameter object must not change, because optimizers may reference it.
            kept = original if isinstance(original, Parameter) else value
            if kept is not value:
                kept.data = value.detach()
            self._enter("original", kept)
        else:
            self.ntensors = len(value)
            for place, tensor in enumerate(value):
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor.detach(), requires_grad=original.requires_grad)
                self._enter(f"original{place}", tensor)
        if not unsafe:
            try:
                _check_same(self(), before)
            except Exception:
                original.data = before
                raise

    def _enter(self, name: str, tensor: Tensor) -> None:
        if isinstance(tensor, Parameter):
            self.register_parameter(name, tensor)
        else:
            self.register_buffer(name, tensor)

    def _original_names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{place}" for place in range(self.ntensors)]

    def _originals(self) -> list[Tensor]:
        return [getattr(self, name) for name in self._original_names()]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals such that the parametrized Tensor equals ``value``."""
        result: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse")
                result = module.right_inverse(result)
            given = [result] if isinstance(result, Tensor) else list(result)
            originals = self._originals()
            if len(given) != len(originals):
                raise ValueError(f"right_inverse: expected {len(originals)} Tensors, got {len(given)}")
            for original, new in zip(originals, given, strict=True):
                if original.shape != new.shape or original.dtype != new.dtype:
                    raise ValueError(f"right_inverse: expected a Tensor like {describe(original)}, got {describe(new)}")
                original.copy_(new)

    def forward(self) -> Tensor:
        first, *rest = self
        result = first(*self._originals())
        for module in rest:
            result = module(result)
        return result


def _inverse(module: Module, value: object) -> Any:
    """Return the input from which a parametrization computes ``value``: ``value`` itself without ``right_inverse``."""
    if hasattr(module, "right_inverse"):
        try:
            return module.right_inverse(value)
        except NotImplementedError:
            pass
    return value


def _check_originals(value: object, original: Tensor) -> None:
    if isinstance(value, Tensor):
        if value.dtype != original.dtype or value.device != original.device:
            raise ValueError(
                "register_parametrization: if right_inverse outputs one tensor, it may not change the dtype or device "
                f"of {describe(original)}, got {describe(value)}"
            )
        return
    what = "register_parametrization: right_inverse must return a Tensor or a Sequence of tensors"
    if not isinstance(value, Sequence):
        raise ValueError(f"{what}, got {type(value).__name__}")
    for place, tensor in enumerate(value):
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{what}, got element {place} of the sequence with type {type(tensor).__name__}")


def _check_same(result: Any, original: Tensor) -> None:
    if not isinstance(result, Tensor):
        raise ValueError(
            f"register_parametrization: a parametrization must return a Tensor, got {type(result).__name__}"
        )
    if result.shape != original.shape or result.dtype != original.dtype:
        raise ValueError(
            f"register_parametrization: the parametrized Tensor {describe(result)} must have the shape and dtype of "
            f"the original {describe(original)}; pass unsafe=True to allow another shape or dtype"
        )


def _computed_attribute(name: str) -> property:
    def compute(module: Module) -> Any:
        parametrizations: Any = module.parametrizations
        if not _cache_depth:
            return parametrizations[name]()
        key = (id(module), name)
        if key not in _cache:
            _cache[key] = parametrizations[name]()
        return _cache[key]

    def set_originals(module: Module, value: Tensor) -> None:
        parametrizations: Any = module.parametrizations
        parametrizations[name].right_inverse(value)

    return property(compute, set_originals)


def _set_computed_attributes(module: Module, plain: type[Module], names: tuple[str, ...]) -> None:
    """Set the module's class to a subclass of ``plain`` that computes the attributes ``names``, or to ``plain``."""
    if not names:
        module.__class__ = plain
        return

    def reduce(self: Module, protocol: object) -> Any:
        return _restore, (plain, names), self.__dict__

    attributes: dict[str, object] = {name: _computed_attribute(name) for name in names}
    attributes |= {"__reduce_ex__": reduce, "_plain": plain, "__module__": plain.__module__}
    module.__class__ = type(f"Parametrized{plain.__name__}", (plain,), attributes)


def _restore(plain: type[Module], names: tuple[str, ...]) -> Module:
    module = plain.__new__(plain)
    _set_computed_attributes(module, plain, names)
    return module


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute ``module.<tensor_name>`` as ``parametrization(original)`` at each access.

    The original becomes ``module.parametrizations.<tensor_name>.original``. A parametrization may define
    ``right_inverse(value)``, which returns the original, or a tuple of originals, of a value. With it, registering the
    first parametrization preserves the value; registering further parametrizations changes the value. Assigning to the
    attribute calls all ``right_inverse`` methods. Several parametrizations are applied in the order of registration.

    Args:
        module: the module that owns the Tensor.
        tensor_name: the name of a parameter or buffer.
        parametrization: the module that computes the Tensor.
        unsafe: allow another shape or dtype than the original's.

    Raises:
        ValueError: the Tensor does not exist, or its shape or dtype would change.

    >>> class Symmetric(rg.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = rg.nn.Linear(3, 3)
    >>> _ = rg.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        entry: Any = module.parametrizations[tensor_name]
        _extend(entry, getattr(module, tensor_name), parametrization, unsafe)
        return module
    table = next((t for t in (module._parameters, module._buffers) if tensor_name in t), None)
    original: Any = None if table is None else table[tensor_name]
    if table is None or original is None:
        raise ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter or buffer {tensor_name!r}"
        )
    entry = ParametrizationList([parametrization], original, unsafe)
    del table[tensor_name]
    if not is_parametrized(module):
        module.add_module("parametrizations", ModuleDict())
    parametrizations: Any = module.parametrizations
    parametrizations[tensor_name] = entry
    _set_computed_attributes(module, type_before_parametrizations(module), tuple(parametrizations.keys()))
    return module


def _extend(entry: ParametrizationList, value: Tensor, parametrization: Module, unsafe: bool) -> None:
    """Append a parametrization; the originals are unchanged."""
    if not unsafe:
        with no_grad():
            result: Any = parametrization(value)
            _check_same(result, value)
            start = _inverse(parametrization, result)
        if not isinstance(start, Tensor):
            raise ValueError(f"parametrization.right_inverse must return a tensor, got {type(start).__name__}")
        if start.dtype != value.dtype or start.shape != value.shape:
            raise ValueError(
                f"parametrization.right_inverse must return a Tensor like {describe(value)}, got {describe(start)}; "
                "pass unsafe=True to allow another shape or dtype"
            )
    entry.append(parametrization)
    entry.unsafe = entry.unsafe or unsafe


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a Tensor of the module, or any Tensor, is parametrized.

    Args:
        module: any module.
        tensor_name: the name of one of its Tensors; None for any.

    >>> layer = rg.nn.utils.parametrizations.weight_norm(rg.nn.Linear(2, 2))
    >>> rg.nn.utils.parametrize.is_parametrized(layer), rg.nn.utils.parametrize.is_parametrized(layer, "bias")
    (True, False)
    """
    entries = module._modules.get("parametrizations")
    if not isinstance(entries, ModuleDict) or not len(entries):
        return False
    return tensor_name is None or tensor_name in entries


@like(is_parametrized)
def type_before_parametrizations(module: Module) -> type[Module]:
    """Return the class of the module before parametrization.

    >>> layer = rg.nn.utils.parametrizations.weight_norm(rg.nn.Linear(2, 2))
    >>> rg.nn.utils.parametrize.type_before_parametrizations(layer).__name__
    'Linear'
    """
    return getattr(type(module), "_plain", type(module))


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Apply the parametrizations of one module's Tensors to another module.

    Both modules share the parametrizations and the originals afterwards. A Tensor that ``to_module`` lacks is
    registered.

    Args:
        from_module: the source; if it has no parametrizations, nothing is done.
        to_module: the module to parametrize.
        tensor_name: the name of one Tensor; None for all parametrized Tensors.

    Returns:
        ``to_module``.

    Raises:
        ValueError: ``from_module`` has parametrizations, but not of ``tensor_name``.

    >>> layer = rg.nn.utils.parametrizations.weight_norm(rg.nn.Linear(2, 2))
    >>> other = rg.nn.utils.parametrize.transfer_parametrizations_and_params(layer, rg.nn.Linear(2, 2))
    >>> bool((other.weight == layer.weight).all())
    True
    """
    if not is_parametrized(from_module):
        return to_module
    if tensor_name is not None and not is_parametrized(from_module, tensor_name):
        raise ValueError(
            f"transfer_parametrizations_and_params: {tensor_name!r} of {type(from_module).__name__} is not parametrized"
        )
    source: Any = from_module.parametrizations
    for name in [*source.keys()] if tensor_name is None else [tensor_name]:
        entry: ParametrizationList = source[name]
        if not hasattr(to_module, name):
            value = getattr(from_module, name).detach()
            if isinstance(entry._originals()[0], Parameter):
                to_module.register_parameter(name, Parameter(value))
            else:
                to_module.register_buffer(name, value)
        for parametrization in entry:
            register_parametrization(to_module, name, parametrization, unsafe=entry.unsafe)
        parametrizations: Any = to_module.parametrizations
        for original, tensor in zip(entry._original_names(), entry._originals(), strict=True):
            setattr(parametrizations[name], original, tensor)
    return to_module


@like(register_parametrization)
def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Turn a parametrized Tensor into an ordinary parameter (or buffer).

    Args:
        tensor_name: the name of the Tensor.
        leave_parametrized: keep the parametrized value; if False, restore the original.

    Raises:
        ValueError: the Tensor is not parametrized, or has several originals and ``leave_parametrized`` is False.

    >>> layer = rg.nn.utils.parametrizations.weight_norm(rg.nn.Linear(2, 2))
    >>> _ = rg.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> sorted(layer.state_dict())
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} is not parametrized")
    parametrizations: Any = module.parametrizations
    entry = parametrizations[tensor_name]
    if not leave_parametrized and not entry.is_tensor:
        raise ValueError("remove_parametrizations: leave_parametrized=False needs a parametrization with one original")
    original = entry._originals()[0]
    result = original
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if entry.is_tensor:
            original.data = value
        else:
            result = Parameter(value) if isinstance(original, Parameter) else value
    del parametrizations[tensor_name]
    _set_computed_attributes(module, type_before_parametrizations(module), tuple(parametrizations.keys()))
    if not len(parametrizations):
        del module.parametrizations
    if isinstance(result, Parameter):
        module.register_parameter(tensor_name, result)
    else:
        module.register_buffer(tensor_name, result)
    return module
