"""Pruning: set elements of a parameter to zero by a mask, applied in each forward during training.

A pruned parameter ``weight`` becomes ``weight_orig``, the mask a buffer ``weight_mask``, and ``weight`` their product,
computed before each forward. ``remove`` makes the product the parameter again.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal

from ...core.tensor.tensor import Tensor
from ...ops.make.filled import ones_like, zeros_like
from ...ops.make.random import rand, rand_like
from ...ops.reduce.sorting import topk
from ...ops.table.documentation import like
from ..base.module import Module
from .convert_parameters import parameters_to_vector

Amount = int | float
Scores = Tensor | None
Norm = float | Literal["fro", "nuc"]


class BasePruningMethod(ABC):
    """The base class of pruning methods; subclasses define ``compute_mask``.

    Attributes:
        PRUNING_TYPE: ``"unstructured"``, ``"structured"`` (whole slices along ``dim``) or ``"global"``: which elements
            of an already pruned parameter the method receives.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    def __call__(self, module: Module, inputs: object) -> None:
        """Multiply the parameter by its mask, before a forward."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for importance scores ``t``, combined with an earlier mask."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the parameter times its mask."""
        original, mask = getattr(module, self._tensor_name + "_orig"), getattr(module, self._tensor_name + "_mask")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Module, name: str, *args: object, importance_scores: Scores = None, **kwargs: object) -> Any:
        """Prune a parameter of a module, in addition to earlier prunings, and return the registered method."""
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        scores = _scores(importance_scores, original, f"parameter {name} of {module}")
        earlier = _method_of(module, name)
        if earlier is None:
            mask = ones_like(original).detach()
        else:
            mask = getattr(module, name + "_mask").detach().clone()
            container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
            container.add_pruning_method(method)
            method = container
        mask = method.compute_mask(scores.detach(), default_mask=mask)
        if earlier is None:
            del module._parameters[name]
            module.register_parameter(name + "_orig", original)
        else:
            _forget_hook(module, name)
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Scores = None) -> Tensor:
        """Return a Tensor times the mask computed for it, without changing a module."""
        scores = _scores(importance_scores, t, "tensor t")
        return t * self.compute_mask(scores, default_mask=ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Replace the parameter by its pruned values. The method remains registered as a hook."""
        name = self._tensor_name
        pruned = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        assert original is not None
        original.data = pruned.detach()
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def _scores(given: Scores, like: Tensor, what: str) -> Tensor:
    if given is not None and given.shape != like.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {given.shape} vs {like.shape}"
        )
    return like if given is None else given


def _methods(module: Module) -> Iterator[tuple[int, BasePruningMethod]]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod):
            yield key, hook


def _method_of(module: Module, name: str) -> BasePruningMethod | None:
    return next((method for _, method in _methods(module) if method._tensor_name == name), None)


def _forget_hook(module: Module, name: str) -> None:
    for key in [key for key, method in _methods(module) if method._tensor_name == name]:
        del module._forward_pre_hooks[key]


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter; each method receives the elements that the methods before it left.

    Args:
        args: the pruning methods, in the order of application.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: object) -> None:
        """Append a method for the same parameter."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after applying the last method to the unpruned elements."""
        method = self._pruning_methods[-1]
        left: Any = tuple([slice(None)] * t.ndim)
        if method.PRUNING_TYPE == "unstructured":
            left = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            dim = _dimension(t, method.dim)
            others = [axis for axis in range(t.ndim) if axis != dim]
            kept = default_mask.sum(dim=others) != 0
            left = tuple([kept if axis == dim else slice(None) for axis in range(t.ndim)])
        elif method.PRUNING_TYPE != "global":
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = default_mask.to(dtype=t.dtype).clone()
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(dtype=t.dtype)
        return mask


class Identity(BasePruningMethod):
    """A method that prunes nothing, but registers a mask of ones."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the earlier mask."""
        return default_mask


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Amount) -> None:
        self.amount = _amount(amount)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the earlier mask with zeros at the ``amount`` least important elements."""
        count = _count(self.amount, t.numel())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[topk(self.importance(t).reshape(-1), count, largest=False).indices] = 0
        return mask

    @abstractmethod
    def importance(self, t: Tensor) -> Tensor:
        """The importance of each element."""


class RandomUnstructured(_Unstructured):
    """Prune random elements.

    Args:
        amount: the number of elements, or a fraction as a float.
    """

    def importance(self, t: Tensor) -> Tensor:
        """Random numbers."""
        return rand_like(t)


@like(RandomUnstructured)
class L1Unstructured(_Unstructured):
    """Prune the elements with the smallest absolute values."""

    def importance(self, t: Tensor) -> Tensor:
        """The absolute values."""
        return t.abs()


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: Amount, dim: int = -1) -> None:
        self.amount = _amount(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the earlier mask with zeros in the ``amount`` least important slices."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{t.shape} with {t.ndim} dims"
            )
        dim = _dimension(t, self.dim)
        length = t.shape[dim]
        count = _count(self.amount, length)
        if not count:
            return default_mask
        kept = topk(self.importance(t, dim), length - count, largest=True).indices
        mask = zeros_like(t)
        mask[tuple([kept if axis == dim else slice(None) for axis in range(t.ndim)])] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    @abstractmethod
    def importance(self, t: Tensor, dim: int) -> Tensor:
        """The importance of each slice along a dimension."""


class RandomStructured(_Structured):
    """Prune random slices along a dimension.

    Args:
        amount: the number of slices, or a fraction as a float.
        dim: the dimension along which slices are counted.
    """

    def importance(self, t: Tensor, dim: int) -> Tensor:
        """Random numbers."""
        return rand(t.shape[dim], device=t.device)


@like(RandomStructured)
class LnStructured(_Structured):
    """Prune the slices along a dimension with the smallest norms.

    Args:
        n: the order of the norm.
    """

    def __init__(self, amount: Amount, n: Norm, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def importance(self, t: Tensor, dim: int) -> Tensor:
        """The norms of the slices."""
        others = [axis for axis in range(t.ndim) if axis != dim]
        return t.norm(p=self.n, dim=others)


class CustomFromMask(BasePruningMethod):
    """Prune by a given mask.

    Args:
        mask: zeros where elements are pruned, ones elsewhere.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the earlier mask times the mask of this method."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Convert a parameter to the form of a pruned parameter, with a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Amount) -> Module:
    """Prune random elements of a parameter: ``amount`` is their number, or a fraction as a float."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Amount, importance_scores: Scores = None) -> Module:
    """Prune the elements with the smallest absolute values (or absolute ``importance_scores``).

    >>> layer = rg.nn.Linear(2, 1, bias=False)
    >>> with rg.no_grad():
    ...     _ = layer.weight.copy_(rg.tensor([[3.0, -0.5]]))
    >>> layer = rg.nn.utils.prune.l1_unstructured(layer, "weight", 1)
    >>> layer.weight, layer.weight_mask
    (tensor([[ 3., -0.]], grad_fn=<mul>), tensor([[1., 0.]]))
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Amount, dim: int) -> Module:
    """Prune random slices of a parameter along a dimension."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Amount, n: Norm, dim: int, importance_scores: Scores = None
) -> Module:
    """Prune the slices along a dimension with the smallest norms of order ``n`` (or of ``importance_scores``)."""
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter by a given mask."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: object,
) -> None:
    """Prune several parameters together: ``amount`` counts elements of all of them.

    Args:
        parameters: pairs of a module and a parameter's name.
        pruning_method: an unstructured method.
        importance_scores: a mapping from such pairs to scores that replace the parameter's values.
        kwargs: arguments of the method.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    places = [(module, name, getattr(module, name)) for module, name in parameters]
    given = importance_scores or {}
    scores = parameters_to_vector([given.get((module, name), value) for module, name, value in places])
    masks = parameters_to_vector([getattr(module, name + "_mask", ones_like(value)) for module, name, value in places])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = ""
    mask = PruningContainer(method).compute_mask(scores.detach(), masks.detach())
    start = 0
    for module, name, value in places:
        custom_from_mask(module, name, mask[start : start + value.numel()].view_as(value))
        start += value.numel()


def remove(module: Module, name: str) -> Module:
    """Turn a pruned parameter into an ordinary parameter, with zeros at the pruned elements.

    Raises:
        ValueError: the parameter is not pruned.
    """
    method = _method_of(module, name)
    if method is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    method.remove(module)
    _forget_hook(module, name)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module or of a submodule is pruned."""
    return any(True for submodule in module.modules() for _ in _methods(submodule))


def _amount(amount: Amount) -> Amount:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or not isinstance(amount, numbers.Integral) and amount > 1:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
    return amount


def _count(amount: Amount, size: int) -> int:
    count = int(amount) if isinstance(amount, numbers.Integral) else round(amount * size)
    if count > size:
        raise ValueError(f"amount={count} should be smaller than the number of parameters to prune={size}")
    return count


def _dimension(t: Tensor, dim: int) -> int:
    if not -t.ndim <= dim < t.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
    return dim % t.ndim
