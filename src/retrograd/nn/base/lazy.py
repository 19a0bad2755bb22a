"""Layers that infer the number of input features from the first input.

``LazyLinear(5)`` has parameters without a shape. Its first call materializes them and turns it into a ``Linear``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.make.creation import tensor
from ..layers.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..layers.linear import Linear
from ..layers.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from ..parameter import Parameter
from .arguments import DeviceLike, DTypeLike, Size
from .module import Module
from .uninitialized import Uninitialized, UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin(Module):
    """A mixin for lazy modules: list it before the layer's class, and define ``initialize_parameters``.

    Attributes:
        cls_to_become: the class after the first call; None leaves the class unchanged.

    Source: PyTorch, torch.nn.modules.lazy.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(_infer, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize parameters and buffers for the inputs of a call; subclasses define it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Whether any parameter or buffer of this module has no shape."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _save_to_state_dict(self, destination: dict[str, object], prefix: str, keep_vars: bool) -> None:
        """Save the state as for any module; uninitialized parameters and buffers are saved without values."""
        lazy = {prefix + name: value for name, value in self._own_tensors().items() if is_lazy(value)}
        tables = self._parameters, self._buffers
        try:
            self._parameters = {name: value for name, value in tables[0].items() if not is_lazy(value)}
            self._buffers = {name: value for name, value in tables[1].items() if not is_lazy(value)}
            known: dict[str, object] = {}
            super()._save_to_state_dict(known, prefix, keep_vars)
        finally:
            self._parameters, self._buffers = tables
        for name in self._state_names():
            key = prefix + name
            destination[key] = lazy[key] if key in lazy else known[key]

    def _own_tensors(self) -> dict[str, Tensor | None]:
        return {**self._parameters, **self._buffers}

    def _load_from_state_dict(
        self, state_dict: dict[str, object], prefix: str, local_metadata: dict[str, object], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Materialize with the shapes in ``state_dict``, then load the state as for any module."""
        given = dict(state_dict)
        for name, own in self._own_tensors().items():
            value = state_dict.get(prefix + name)
            if is_lazy(value) and is_lazy(own):
                del given[prefix + name]
            elif isinstance(own, Uninitialized) and value is not None:
                own.materialize(tuple(value.shape))
        held = {name: value for name, value in self._own_tensors().items() if is_lazy(value)}
        args = local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        tables = self._parameters, self._buffers
        try:
            self._parameters = {name: value for name, value in tables[0].items() if name not in held}
            self._buffers = {name: value for name, value in tables[1].items() if name not in held}
            super()._load_from_state_dict(given, prefix, *args)
        finally:
            self._parameters, self._buffers = tables
        missing_keys += [prefix + name for name in held if prefix + name not in state_dict]


def _infer(module: LazyModuleMixin, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Before the first call: materialize the parameters and change the class."""
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"module {type(module).__name__} has not been fully initialized: "
            "initialize_parameters must materialize all parameters and buffers"
        )
    module._initialize_hook.remove()
    del module._initialize_hook
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become  # type: ignore[assignment]


class LazyLinear(LazyModuleMixin, Linear):
    """``Linear`` that takes ``in_features`` from its first input: ``(*, in_features)`` to ``(*, out_features)``.

    Args:
        out_features: the length of the last dimension of the output.

    >>> layer = rg.nn.LazyLinear(2)
    >>> layer(rg.ones(5, 3)).shape, layer
    ((5, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear
    weight: Parameter

    def __init__(
        self, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Initialize the parameters if they are materialized."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Infer the number of features from the input."""
        if not self.in_features:  # in_features is nonzero if it is known from loaded parameters
            self.in_features = input.shape[-1]
        if self.has_uninitialized_params():
            _materialize(self, weight=(self.out_features, self.in_features), bias=(self.out_features,))
            self.reset_parameters()


def _materialize(module: Module, **shapes: tuple[int, ...]) -> None:
    for name, shape in shapes.items():
        value = getattr(module, name)
        if isinstance(value, Uninitialized):
            value.materialize(shape)


class _LazyLayer(LazyModuleMixin):
    """The base class of lazy layers; their first call changes their class to their second base class."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.cls_to_become is None and len(cls.__bases__) == 2:
            cls.cls_to_become = cls.__bases__[1]


class _LazyConv(_LazyLayer):
    """Common code of lazy convolutions: the layer's arguments without ``in_channels``."""

    rank: ClassVar[int]
    in_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        out_channels: int,
        kernel_size: Size,
        *args: Any,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        **kwargs: Any,
    ) -> None:
        place = self._bias_place
        if len(args) > place:  # bias is among the positional arguments
            bias, args = args[place], (*args[:place], False, *args[place + 1 :])
        else:
            kwargs["bias"] = False
        super().__init__(0, 0, kernel_size, *args, **kwargs)
        self.out_channels = out_channels
        if out_channels % self.groups:
            raise ValueError(f"{type(self).__name__}: groups={self.groups} must divide out_channels={out_channels}")
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    _bias_place: ClassVar[int] = 4  # bias follows stride, padding, dilation and groups

    def reset_parameters(self) -> None:
        """Initialize the parameters if they are materialized."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Infer the number of channels from the input."""
        if not self.has_uninitialized_params() and self.in_channels:
            return
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise RuntimeError(
                f"{type(self).__name__}: expected {self.rank + 1}D or {self.rank + 2}D input, got {describe(input)}"
            )
        channels = input.shape[-self.rank - 1]
        if channels % self.groups:
            raise ValueError(
                f"{type(self).__name__}: groups={self.groups} must divide in_channels={channels} of {describe(input)}"
            )
        self.in_channels = channels
        both = (channels, self.out_channels) if self.transposed else (self.out_channels, channels)
        loaded = not self.has_uninitialized_params()
        _materialize(self, weight=(both[0], both[1] // self.groups, *self.kernel_size), bias=(self.out_channels,))
        if not loaded:
            self.reset_parameters()


class LazyConv1d(_LazyConv, Conv1d):
    """``Conv1d`` that takes ``in_channels`` from its first input: ``(N, C, L)`` to ``(N, C', L')``.

    Args:
        kernel_size, stride, padding, ...: the remaining arguments of ``Conv1d``, in order.

    >>> rg.nn.LazyConv1d(8, 3)(rg.ones(2, 4, 5)).shape
    (2, 8, 3)
    """


class LazyConv2d(_LazyConv, Conv2d):
    """``Conv2d`` that takes ``in_channels`` from its first input: ``(N, C, H, W)`` to ``(N, C', H', W')``.

    Args:
        kernel_size, stride, padding, ...: the remaining arguments of ``Conv2d``, in order.

    >>> rg.nn.LazyConv2d(8, 3)(rg.ones(2, 4, 5, 5)).shape
    (2, 8, 3, 3)
    """


class LazyConv3d(_LazyConv, Conv3d):
    """``Conv3d`` that takes ``in_channels`` from its first input: ``(N, C, D, H, W)`` to ``(N, C', D', H', W')``.

    Args:
        kernel_size, stride, padding, ...: the remaining arguments of ``Conv3d``, in order.

    >>> rg.nn.LazyConv3d(8, 3)(rg.ones(2, 4, 5, 5, 5)).shape
    (2, 8, 3, 3, 3)
    """


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):
    """``ConvTranspose1d`` that takes ``in_channels`` from its first input: ``(N, C, L)`` to ``(N, C', L')``.

    Args:
        kernel_size, stride, padding, ...: the remaining arguments of ``ConvTranspose1d``, in order.

    >>> rg.nn.LazyConvTranspose1d(8, 3)(rg.ones(2, 4, 5)).shape
    (2, 8, 7)
    """


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):
    """``ConvTranspose2d`` that takes ``in_channels`` from its first input: ``(N, C, H, W)`` to ``(N, C', H', W')``.

    Args:
        kernel_size, stride, padding, ...: the remaining arguments of ``ConvTranspose2d``, in order.

    >>> rg.nn.LazyConvTranspose2d(8, 3)(rg.ones(2, 4, 5, 5)).shape
    (2, 8, 7, 7)
    """


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):
    """``ConvTranspose3d`` that takes ``in_channels`` from its first input.

    The shape changes from ``(N, C, D, H, W)`` to ``(N, C', D', H', W')``.

    Args:
        kernel_size, stride, padding, ...: the remaining arguments of ``ConvTranspose3d``, in order.

    >>> rg.nn.LazyConvTranspose3d(8, 3)(rg.ones(2, 4, 5, 5, 5)).shape
    (2, 8, 7, 7, 7)
    """


class _LazyNorm(_LazyLayer):
    """Common code of lazy normalizations: the layer's arguments without ``num_features``."""

    num_features: int
    affine: bool
    weight: Parameter | None
    bias: Parameter | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            for name in ("running_mean", "running_var"):
                self.register_buffer(name, UninitializedBuffer(device=device, dtype=dtype))
            self.num_batches_tracked = tensor(0, device=device)

    def reset_parameters(self) -> None:
        """Initialize the parameters if they are materialized."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Infer the number of channels from the input."""
        if not self.num_features:
            self._check_input_dim(input)
            self.num_features = input.shape[self._channel(input)]
        if self.has_uninitialized_params():
            shape = (self.num_features,)
            _materialize(self, weight=shape, bias=shape, running_mean=shape, running_var=shape)
            self.reset_parameters()

    def _channel(self, input: Tensor) -> int:
        """Return the dimension of the channels."""
        return 1


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """``BatchNorm1d`` that takes ``num_features`` from its first input, of shape ``(N, C, L)``.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype: as for ``BatchNorm1d``.

    >>> rg.nn.LazyBatchNorm1d()(rg.ones(2, 4, 2)).shape
    (2, 4, 2)
    """


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """``BatchNorm2d`` that takes ``num_features`` from its first input, of shape ``(N, C, H, W)``.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype: as for ``BatchNorm2d``.

    >>> rg.nn.LazyBatchNorm2d()(rg.ones(2, 4, 2, 2)).shape
    (2, 4, 2, 2)
    """


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """``BatchNorm3d`` that takes ``num_features`` from its first input, of shape ``(N, C, D, H, W)``.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype: as for ``BatchNorm3d``.

    >>> rg.nn.LazyBatchNorm3d()(rg.ones(2, 4, 2, 2, 2)).shape
    (2, 4, 2, 2, 2)
    """


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """``InstanceNorm1d`` that takes ``num_features`` from its first input, of shape ``(N, C, L)``.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype: as for ``InstanceNorm1d``; by default
            ``affine`` and ``track_running_stats`` are True.

    >>> rg.nn.LazyInstanceNorm1d()(rg.ones(2, 4, 2)).shape
    (2, 4, 2)
    """

    def _channel(self, input: Tensor) -> int:
        return 0 if input.ndim == self.ranks[0] else 1


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """``InstanceNorm2d`` that takes ``num_features`` from its first input, of shape ``(N, C, H, W)``.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype: as for ``InstanceNorm2d``; by default
            ``affine`` and ``track_running_stats`` are True.

    >>> rg.nn.LazyInstanceNorm2d()(rg.ones(2, 4, 2, 2)).shape
    (2, 4, 2, 2)
    """

    def _channel(self, input: Tensor) -> int:
        return 0 if input.ndim == self.ranks[0] else 1


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """``InstanceNorm3d`` that takes ``num_features`` from its first input, of shape ``(N, C, D, H, W)``.

    Args:
        eps, momentum, affine, track_running_stats, device, dtype: as for ``InstanceNorm3d``; by default
            ``affine`` and ``track_running_stats`` are True.

    >>> rg.nn.LazyInstanceNorm3d()(rg.ones(2, 4, 2, 2, 2)).shape
    (2, 4, 2, 2, 2)
    """

    def _channel(self, input: Tensor) -> int:
        return 0 if input.ndim == self.ranks[0] else 1
