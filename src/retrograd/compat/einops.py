"""A backend of einops for Tensors, and its layers as Modules. They are added when a program imports einops."""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from numpy import ndarray

from ..core.arrays.dtypes import FLOATING
from ..core.tensor.tensor import Tensor, new_tensor
from ..nn.base.module import Module
from ..nn.parameter import Parameter


def find_spec(name: str, path: Any) -> ModuleSpec | None:
    """Return the spec of a module of einops that is extended or created here."""
    if name == "einops._backends":
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _BackendLoader(spec.loader)  # type: ignore[assignment]
        return spec
    return ModuleSpec(name, _Layers())  # type: ignore[arg-type]


class _BackendLoader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        define_backend(module)


def define_backend(backends: Any) -> None:
    """Define einops' backend for Tensors. einops finds it among the subclasses of its ``AbstractBackend``."""
    from .._generated import toplevel as rg

    class RetrogradBackend(backends.AbstractBackend):  # type: ignore[misc]
        framework_name = "retrograd"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: object) -> Tensor:
            tensor = new_tensor(x)
            tensor.requires_grad = self.is_float_type(tensor)
            return tensor

        def to_numpy(self, x: Tensor) -> ndarray:
            return x.detach().cpu().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return rg.arange(start, stop)

        def reduce(self, x: object, operation: str, reduced_axes: Any) -> Any:
            if operation in ("min", "max"):
                return getattr(x, f"a{operation}")(tuple(reduced_axes))
            if operation in ("sum", "mean"):
                return getattr(x, operation)(tuple(reduced_axes))
            for axis in sorted(reduced_axes, reverse=True):
                x = getattr(x, operation)(axis)
            return x

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return x.permute(axes)

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return rg.stack(tensors)

        def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
            lengths = [-1] * n_axes
            for place, length in pos2len.items():
                x = x.unsqueeze(place)
                lengths[place] = length
            return x.expand(lengths)

        def tile(self, x: Tensor, repeats: Any) -> Tensor:
            return x.repeat(repeats)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return rg.cat(tensors, axis)

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.unsqueeze(new_position)

        def is_float_type(self, x: Tensor) -> bool:
            return x.dtype.kind in FLOATING

        def layers(self) -> ModuleType:
            return import_module("einops.layers.retrograd")

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return rg.einsum(pattern, *x)

    backends.RetrogradBackend = RetrogradBackend  # a strong reference: __subclasses__ has only weak references


class _Layers:
    """Loads ``einops.layers.retrograd``, which is also ``einops.layers.torch`` unless PyTorch is imported."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        mixins = import_module("einops.layers")
        einmix = import_module("einops.layers._einmix")

        class Rearrange(mixins.RearrangeMixin, Module):  # type: ignore[misc, name-defined]
            def forward(self, input: Tensor) -> Any:
                return self._apply_recipe(input)

        rearrange: Any = Rearrange  # Any, because the constructor is that of the mixin

        class Reduce(mixins.ReduceMixin, Module):  # type: ignore[misc, name-defined]
            def forward(self, input: Tensor) -> Any:
                return self._apply_recipe(input)

        class EinMix(einmix._EinmixMixin, Module):  # type: ignore[misc, name-defined]
            def _create_parameters(
                self, weight_shape: Any, weight_bound: Any, bias_shape: Any, bias_bound: Any
            ) -> None:
                self.weight = _uniform(weight_shape, weight_bound)
                self.bias = None if bias_shape is None else _uniform(bias_shape, bias_bound)

            def _create_rearrange_layers(
                self,
                pre_reshape_pattern: Any,
                pre_reshape_lengths: Any,
                post_reshape_pattern: Any,
                post_reshape_lengths: Any,
            ) -> None:
                self.pre_rearrange = pre_reshape_pattern and rearrange(pre_reshape_pattern, **pre_reshape_lengths)
                self.post_rearrange = post_reshape_pattern and rearrange(post_reshape_pattern, **post_reshape_lengths)

            def forward(self, input: Tensor) -> Any:
                from .._generated import toplevel as rg

                x = input if self.pre_rearrange is None else self.pre_rearrange(input)
                x = rg.einsum(self.einsum_pattern, x, self.weight)
                x = x if self.bias is None else x + self.bias
                return x if self.post_rearrange is None else self.post_rearrange(x)

        for layer in (Rearrange, Reduce, EinMix):
            layer.__module__ = module.__name__
            layer.__qualname__ = layer.__name__
            setattr(module, layer.__name__, layer)


def _uniform(shape: Any, bound: float) -> Parameter:
    from .._generated.toplevel import empty
    from ..nn import init

    return Parameter(init.uniform_(empty(tuple(shape)), -bound, bound))
