"""Legacy and private names of ``nn`` and ``optim`` that programs use, and ``nn.attention.flex_attention``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import wraps
from inspect import signature
from itertools import repeat
from math import prod, sqrt
from typing import Any, NamedTuple, TypeVar, cast

from ..._generated import functional as F
from ..._generated.toplevel import arange, argsort, ones, where, zeros, zeros_like
from ...autograd.gradients import grad
from ...core.arrays.devices import Device
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...nn import init as _init
from ...nn.base.arguments import DeviceLike
from ...nn.base.module import Module
from ...nn.base.state import IncompatibleKeys
from ...nn.base.uninitialized import UninitializedBuffer as UninitializedBuffer
from ...nn.base.uninitialized import UninitializedParameter as UninitializedParameter
from ...nn.base.uninitialized import is_lazy as is_lazy
from ...nn.layers.convolution import _ConvTransposeNd
from ...nn.layers.linear import Linear
from ...nn.layers.normalization import LocalResponseNorm
from ...nn.losses.losses import NLLLoss
from ...nn.parallel.data_parallel import DataParallel as DataParallel
from ...nn.utils import clip_grad as _clip_grad
from ...optim.lr_scheduler.base import LRScheduler
from ...optim.optimizer import _Required

Result = TypeVar("Result")

# Modules

_ConvTransposeMixin = _ConvTransposeNd
_IncompatibleKeys = IncompatibleKeys
NonDynamicallyQuantizableLinear = Linear


def _addindent(s_: str, numSpaces: int) -> str:
    return s_.replace("\n", "\n" + " " * numSpaces)


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` under its older name."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


class NLLLoss2d(NLLLoss):
    """``NLLLoss``, which also accepts images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn("NLLLoss2d is deprecated; use NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


class Container(Module):
    """A Module with the submodules given by keyword."""

    def __init__(self, **kwargs: Module) -> None:
        super().__init__()
        warnings.warn("nn.Container is deprecated. All of its functionality is in nn.Module", stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


# Deprecated names of ``nn.utils`` and ``nn.init``


def _deprecated(module: str, name: str, present: Callable[..., Result]) -> Callable[..., Result]:

    @wraps(present)
    def function(*args: object, **kwargs: object) -> Result:
        message = f"{module}{name} is now deprecated in favor of {module}{name}_."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return present(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    return function


clip_grad_norm = _deprecated("", "clip_grad_norm", _clip_grad.clip_grad_norm_)
clip_grad_value = _deprecated("", "clip_grad_value", _clip_grad.clip_grad_value_)


def skip_init(module_cls: Callable[..., Module], *args: object, device: DeviceLike = "cpu", **kwargs: object) -> Module:
    """Return a new module whose parameters and buffers are uninitialized.

    Raises:
        RuntimeError: the class is not a Module, or has no argument ``device``.
    """
    if not issubclass(cast(type, module_cls), Module):
        raise RuntimeError(f"skip_init: expected a Module, got {module_cls}")
    if "device" not in signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} must have an argument 'device'")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)


_INITIALIZERS = (
    "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform xavier_normal xavier_uniform"
)


# ``nn.modules.utils``: arguments that are one value or one value per dimension


def _ntuple(n: int, name: str = "parse") -> Callable[[object], tuple[object, ...]]:
    def parse(x: object) -> tuple[object, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Result, ...], n: int) -> tuple[Result, ...]:
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: int | list[int] | None, defaults: list[int]) -> int | list[int]:
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size or ()):
        raise ValueError(f"Input dimension should be at least {len(out_size or ()) + 1}")
    return [v if v is not None else d for v, d in zip(out_size or (), defaults[-len(out_size or ()) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, object], prefix: str) -> None:
    """Remove a prefix, such as that of ``DataParallel``, from the keys of a state dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)


# ``nn.grad``


def _gradient(convolution: Callable[..., Tensor], axes: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:

    def with_respect_to_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: int = 1,
    ) -> Tensor:
        x = zeros(*input_size, dtype=weight.dtype, device=weight.device, requires_grad=True)
        y = convolution(x, weight, None, stride, padding, dilation, groups)
        return grad(y, x, grad_output, create_graph=grad_output.requires_grad or weight.requires_grad)[0]

    def with_respect_to_weight(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: int = 1,
    ) -> Tensor:
        w = zeros(*weight_size, dtype=input.dtype, device=input.device, requires_grad=True)
        y = convolution(input, w, None, stride, padding, dilation, groups)
        return grad(y, w, grad_output, create_graph=grad_output.requires_grad or input.requires_grad)[0]

    for function, argument in ((with_respect_to_input, "input"), (with_respect_to_weight, "weight")):
        function.__name__ = function.__qualname__ = f"conv{axes}d_{argument}"
        function.__doc__ = f"Return the gradient of ``conv{axes}d`` with respect to {argument}, given its size."
    return with_respect_to_input, with_respect_to_weight


conv1d_input, conv1d_weight = _gradient(F.conv1d, 1)
conv2d_input, conv2d_weight = _gradient(F.conv2d, 2)
conv3d_input, conv3d_weight = _gradient(F.conv3d, 3)


# ``nn.attention``: attention has one implementation, whichever kernel is selected


class SDPBackend(IntEnum):
    """PyTorch's attention kernels."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


def sdpa_kernel(backends: object, set_priority: bool = False) -> AbstractContextManager[None]:
    """Return a context manager that has no effect."""
    return nullcontext()


# Private names of ``optim.optimizer`` that third-party optimizers import, and of ``optim.lr_scheduler``

_RequiredParameter = _Required
ParamsT = params_t = Iterable[object]
_params_doc = _foreach_doc = _maximize_doc = _capturable_doc = _differentiable_doc = _fused_doc = ""
_LRScheduler = LRScheduler


def _use_grad_for_differentiable(func: Callable[..., Result]) -> Callable[..., Result]:
    """Return an optimizer's step that records no computational graph."""

    @wraps(func)
    def step(self: object, *args: object, **kwargs: object) -> Result:
        with no_grad():
            return func(self, *args, **kwargs)

    return step


def _get_value(x: object) -> object:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Result) -> Result:
    return x


def _dispatch_sqrt(x: Tensor | float) -> Tensor | float:
    return x.sqrt() if isinstance(x, Tensor) else sqrt(x)


def _default_to_fused_or_foreach(params: object, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    return False, False


_NN = "Container CrossMapLRN2d DataParallel NLLLoss2d UninitializedBuffer UninitializedParameter is_lazy"


# ``nn.attention.flex_attention``: attention whose scores are changed and masked by functions of a program. PyTorch
# generates a kernel from the functions. Here they are called once, on index Tensors that broadcast over batch, heads,
# queries and keys, and the scores are materialized.

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Allow every pair of a query and a key."""
    return ones((), dtype="bool", device=batch.device)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the function of the pairs that all functions allow."""

    def and_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = noop_mask(b, h, q_idx, kv_idx)
        for mask_mod in mask_mods:
            result = result & mask_mod(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the function of the pairs that any function allows."""

    def or_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = zeros((), dtype="bool", device=b.device)
        for mask_mod in mask_mods:
            result = result | mask_mod(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _positions(shape: tuple[int, ...], device: Device | str | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the indices of batch, head, query and key, each along its own dimension."""
    b, h, q, k = (
        arange(n, device=device).reshape([-1 if i == d else 1 for i in range(4)]) for d, n in enumerate(shape)
    )
    return b, h, q, k


def _accepts_scores(mod: Callable[..., Tensor]) -> bool:
    import inspect

    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return sum(p.kind in kinds and p.default is p.empty for p in inspect.signature(mod).parameters.values()) == 5


def create_mask(
    mod_fn: ScoreMod | MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device | str | None = None,
) -> Tensor:
    """Return which pairs a function allows, for each batch, head, query and key. Scores of -inf are not allowed."""
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    positions = _positions(shape, device)
    if _accepts_scores(mod_fn):
        score: Tensor = mod_fn(zeros(shape, device=device), *positions)  # type: ignore[call-arg]
        return ~score.isneginf().expand(shape)
    mask: Tensor = mod_fn(*positions)  # type: ignore[call-arg]
    return mask.expand(shape)


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of selected blocks per row, and the indices of all blocks, the selected blocks first."""
    return dense.sum(-1).int(), argsort(dense.int(), dim=-1, descending=True, stable=True).int()


def _dense(count: Tensor, indices: Tensor) -> Tensor:
    """Return the mask of blocks from their number per row and their indices."""
    listed = arange(indices.shape[-1], device=count.device) < count.unsqueeze(-1)
    return zeros_like(indices).scatter(-1, indices.long(), listed.int())


@dataclass(eq=False)
class BlockMask:
    """A mask by blocks of queries and keys: some are computed in full, others with ``mask_mod``, others not at all.

    ``create_block_mask`` and ``from_kv_blocks`` create it.
    """

    seq_lengths: tuple[int, int]
    kv_num_blocks: Tensor
    kv_indices: Tensor
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None
    q_num_blocks: Tensor | None
    q_indices: Tensor | None
    full_q_num_blocks: Tensor | None
    full_q_indices: Tensor | None
    BLOCK_SIZE: tuple[int, int]
    mask_mod: MaskMod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        **options: object,
    ) -> BlockMask:
        """Return the mask of blocks that are listed per row of blocks.

        Args:
            kv_num_blocks: number of blocks of keys per batch, head and block of queries.
            kv_indices: the indices of these blocks, followed by any others.
            full_kv_num_blocks, full_kv_indices: number and indices of the blocks that need no ``mask_mod``.
            BLOCK_SIZE: queries and keys per block.
            mask_mod: the function of single pairs.
            seq_lengths: numbers of queries and keys; by default the numbers in whole blocks.
            compute_q_blocks: whether to list the blocks of queries per block of keys, too.
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        lengths = seq_lengths or (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        full = full_kv_num_blocks, full_kv_indices
        columns: tuple[Tensor | None, Tensor | None] = (None, None)
        full_columns: tuple[Tensor | None, Tensor | None] = (None, None)
        if compute_q_blocks:
            columns = _ordered(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_columns = _ordered(_dense(full_kv_num_blocks, full_kv_indices).mT)
        mod = mask_mod or noop_mask
        return cls(lengths, kv_num_blocks, kv_indices, *full, *columns, *full_columns, size, mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of pairs."""
        return prod(self.shape)

    def to_dense(self) -> Tensor:
        """Return the mask of blocks that are computed."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        return dense if self.full_kv_num_blocks is None else dense | self._full()

    def _full(self) -> Tensor:
        assert self.full_kv_num_blocks is not None and self.full_kv_indices is not None
        return _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def sparsity(self) -> float:
        """Return the percentage of pairs in blocks that are not computed."""
        computed = int(self.to_dense().sum()) * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def to(self, device: Device | str | None) -> BlockMask:
        """Return the mask on another device."""
        return self._mapped(lambda x: x.to(device))

    def __getitem__(self, index: int | slice | Tensor | tuple[int | slice | Tensor, ...]) -> BlockMask:
        return self._mapped(lambda x: x[index])

    def _mapped(self, function: Callable[[Tensor], Tensor]) -> BlockMask:
        changed = {name: function(x) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **changed)  # type: ignore[arg-type]

    def allowed(self, shape: tuple[int, ...], device: Device | str | None) -> Tensor:
        """Return the mask of single pairs, which broadcasts to batch, heads, queries and keys."""
        pairs = self.mask_mod(*_positions(shape, device)) & self._pairs(_dense(self.kv_num_blocks, self.kv_indices))
        return pairs if self.full_kv_num_blocks is None else pairs | self._pairs(self._full())

    def _pairs(self, blocks: Tensor) -> Tensor:
        queries, keys = self.seq_lengths
        rows = blocks.repeat_interleave(self.BLOCK_SIZE[0], -2)[..., :queries, :]
        return rows.repeat_interleave(self.BLOCK_SIZE[1], -1)[..., :keys].bool()

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, BLOCK_SIZE={self.BLOCK_SIZE})"


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device | str | None = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    **options: object,
) -> BlockMask:
    """Return the blocks of a mask.

    Args:
        mask_mod: ``mask_mod(b, h, q_idx, kv_idx)`` returns whether the query may attend to the key.
        B, H: sizes of batch and heads; None if the mask does not depend on them.
        Q_LEN, KV_LEN: numbers of queries and keys.
        device: where the Tensors are.
        BLOCK_SIZE: queries and keys per block.
    """
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    padded = F.pad(mask.int(), (0, -KV_LEN % size[1], 0, -Q_LEN % size[0]))
    rows, columns = padded.shape[-2] // size[0], padded.shape[-1] // size[1]
    pairs = padded.reshape(*padded.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    full = pairs == size[0] * size[1]
    partial = _ordered((pairs > 0) & ~full)
    return BlockMask.from_kv_blocks(*partial, *_ordered(full), size, mask_mod, (Q_LEN, KV_LEN))


class AuxRequest(NamedTuple):
    """A choice of the values that ``flex_attention`` returns in addition to its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The values that ``AuxRequest`` selected."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: ScoreMod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, object] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, AuxOutput]:
    """Return attention whose scores a function changes.

    Args:
        query: (B, heads, queries, E).
        key: (B, heads, keys, E).
        value: (B, heads, keys, Ev).
        score_mod: ``score_mod(score, b, h, q_idx, kv_idx)`` returns the changed scores.
        block_mask: the pairs of queries and keys that are not masked.
        scale: factor of the scores; 1 / sqrt(E) by default.
        enable_gqa: whether several heads of queries share one head of keys and values.
        return_lse: whether to return the logarithm of the sum of the scores' exponentials, too.
        kernel_options: accepted for compatibility.
        return_aux: the additional results.
    """
    heads = query.shape[1]
    if key.shape[1] != heads:
        if not enable_gqa or heads % key.shape[1]:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={key.shape[1]}"
                ". Try setting enable_gqa=True for GQA."
            )
        key, value = (x.repeat_interleave(heads // x.shape[1], 1) for x in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    shape = tuple(scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *_positions(shape, query.device)).to(query.dtype)
    if block_mask is not None:
        if tuple(block_mask.seq_lengths) != shape[2:]:
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={shape[2]} and "
                f"kv_len={shape[3]}. Please create a new block mask, or adjust this one."
            )
        scores = scores.masked_fill(~block_mask.allowed(shape, query.device), float("-inf"))
    lse = scores.logsumexp(-1)
    # A query that may attend to no key has only scores of -inf, and the result 0.
    weights = (scores - where(lse.isinf(), zeros_like(lse), lse).unsqueeze(-1)).exp()
    result = weights @ value
    if return_aux is not None:
        maxima = scores.amax(-1) if return_aux.max_scores else None
        return result, AuxOutput(lse if return_aux.lse else None, maxima)
    return (result, lse) if return_lse else result


NAMES: Mapping[str, str | Mapping[str, object]] = {
    "nn": _NN,
    "nn.modules": f"{_NN} Linear LocalResponseNorm Module NLLLoss NonDynamicallyQuantizableLinear "
    "_ConvTransposeMixin _ConvTransposeNd _IncompatibleKeys _addindent",
    "nn.attention": "SDPBackend sdpa_kernel",
    "nn.attention.flex_attention": "AuxOutput AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE and_masks "
    "create_block_mask create_mask flex_attention noop_mask or_masks",
    "nn.grad": "conv1d_input conv1d_weight conv2d_input conv2d_weight conv3d_input conv3d_weight",
    "nn.init": {name: _deprecated("nn.init.", name, getattr(_init, f"{name}_")) for name in _INITIALIZERS.split()},
    "nn.modules.utils": "_list_with_default _ntuple _pair _quadruple _reverse_repeat_tuple _single _triple "
    "consume_prefix_in_state_dict_if_present",
    "nn.utils": "clip_grad_norm clip_grad_value skip_init",
    "optim.lr_scheduler": "_LRScheduler",
    "optim.optimizer": "ParamsT _RequiredParameter _capturable_doc _default_to_fused_or_foreach _differentiable_doc "
    "_dispatch_sqrt _foreach_doc _fused_doc _get_value _maximize_doc _params_doc _stack_if_compiling "
    "_use_grad_for_differentiable params_t",
}
