"""``nn.attention.flex_attention``: attention whose scores are changed and masked by functions of a program.

PyTorch generates a kernel from the functions. Here they are called once, on index Tensors that broadcast over batch,
heads, queries and keys, and the scores are materialized.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import NamedTuple

from ...._generated import functional as F
from ...._generated.toplevel import arange, argsort, ones, where, zeros, zeros_like
from ....core.arrays.devices import Device
from ....core.tensor.tensor import Tensor

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


NAMES: dict[str, str | dict[str, object]] = {
    "nn.attention.flex_attention": "AuxOutput AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE and_masks "
    "create_block_mask create_mask flex_attention noop_mask or_masks",
}
