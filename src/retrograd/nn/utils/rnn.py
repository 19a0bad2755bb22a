"""Sequences of different lengths: packed for recurrent layers, or padded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import describe
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.indexing.gather import index_select
from ...ops.make.filled import full
from ...ops.shape.joining import cat
from ...ops.table.documentation import like


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Fields):
    """Sequences of different lengths without padding, ordered by time step, then by decreasing length.

    Attributes:
        data: the elements, ``(total, *)``, where ``total`` is the sum of the lengths.
        batch_sizes: per time step, the number of sequences that reach it.
        sorted_indices: the permutation that sorted the sequences by length; None if they were sorted.
        unsorted_indices: the inverse of ``sorted_indices``.

    >>> import retrograd as rg
    >>> from retrograd.nn.utils.rnn import pack_sequence
    >>> packed = pack_sequence([rg.tensor([1, 2, 3]), rg.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            raise TypeError("PackedSequence: batch_sizes must be given")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequences in another dtype or on another device."""
        return self._with(self.data.to(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequences on a GPU."""
        return self._with(self.data.cuda(*args, **kwargs))

    def cpu(self, *args: object, **kwargs: object) -> PackedSequence:
        """Return the sequences on the CPU."""
        return self.to("cpu", *args, **kwargs)

    def double(self) -> PackedSequence:
        """Return the sequences in float64."""
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        """Return the sequences in float32."""
        return self._with(self.data.float())

    def half(self) -> PackedSequence:
        """Return the sequences in float16."""
        return self._with(self.data.half())

    def long(self) -> PackedSequence:
        """Return the sequences in int64."""
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        """Return the sequences in int32."""
        return self._with(self.data.int())

    def short(self) -> PackedSequence:
        """Return the sequences in int16."""
        return self._with(self.data.short())

    def char(self) -> PackedSequence:
        """Return the sequences in int8."""
        return self._with(self.data.char())

    def byte(self) -> PackedSequence:
        """Return the sequences in uint8."""
        return self._with(self.data.byte())

    def _with(self, data: Tensor) -> PackedSequence:
        return self if data is self.data else type(self)(data, *self[1:])

    @property
    def is_cuda(self) -> bool:
        """Whether the elements are on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the elements are in pinned memory: always False."""
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of a permutation.

    >>> import retrograd as rg
    >>> rg.nn.utils.rnn.invert_permutation(rg.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def lengths_of(lengths: Any) -> np.ndarray:
    array: np.ndarray = np.asarray(lengths.cpu().numpy() if isinstance(lengths, Tensor) else list(lengths))
    return array.astype(np.int64)


def _packed_positions(batch_sizes: np.ndarray, batch: int) -> np.ndarray:
    """Return the rows of the packed elements in the padded Tensor, flattened to ``(T * B, *)``, in packed order."""
    return np.concatenate([step * batch + np.arange(size, dtype=np.int64) for step, size in enumerate(batch_sizes)])


def pack_padded_sequence(
    input: Tensor, lengths: list[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Remove the padding of a batch of sequences.

    Args:
        input: ``(T, B, *)``, or ``(B, T, *)`` with ``batch_first``.
        lengths: the lengths of the sequences, a Tensor or a list.
        batch_first: see ``input``.
        enforce_sorted: require decreasing lengths; if False, the sequences are sorted.

    Raises:
        ValueError: a length is not positive, or the number of lengths is not the number of sequences.
        RuntimeError: the lengths are not decreasing although ``enforce_sorted`` is set.
    """
    counts = lengths_of(lengths)
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    if not counts.size or 0 in input.shape:
        raise RuntimeError(
            f"pack_padded_sequence: cannot pack empty tensors, got {describe(input)} and {counts.size} lengths"
        )
    if counts.ndim != 1 or counts.size != batch:
        raise ValueError(f"pack_padded_sequence: lengths must have {batch} elements, got {counts.tolist()}")
    if counts.min() <= 0:
        raise RuntimeError("Length of all samples has to be greater than 0, but found an element that is <= 0")
    if counts.max() > steps:
        raise RuntimeError(f"pack_padded_sequence: the length {counts.max()} exceeds the {steps} steps of the input")
    order = None
    if not enforce_sorted:
        ranks = np.argsort(-counts, kind="stable")
        order, counts = new_tensor(ranks), counts[ranks]
        input = index_select(input, 1, order)
    elif (np.diff(counts) > 0).any():
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement"
        )
    sizes = (counts[None, :] > np.arange(counts[0])[:, None]).sum(1)
    flat = input.reshape(steps * batch, *input.shape[2:])
    return PackedSequence(index_select(flat, 0, new_tensor(_packed_positions(sizes, batch))), new_tensor(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Pad packed sequences and return them with their lengths; the inverse of ``pack_padded_sequence``.

    Args:
        sequence: the packed sequences.
        batch_first: return ``(B, T, *)`` instead of ``(T, B, *)``.
        padding_value: the value of padding elements.
        total_length: the length to pad to; the longest sequence's by default.

    Raises:
        ValueError: ``total_length`` is less than the length of the longest sequence.

    >>> import retrograd as rg
    >>> from retrograd.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> pad_packed_sequence(pack_sequence([rg.tensor([1.0, 2.0]), rg.tensor([3.0])]), batch_first=True)
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    sizes = lengths_of(sequence.batch_sizes)
    steps, batch = len(sizes), int(sizes[0])
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    data = sequence.data
    padding = full((steps * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = padding.index_copy(0, new_tensor(_packed_positions(sizes, batch)), data).reshape(
        steps, batch, *data.shape[1:]
    )
    lengths = new_tensor((sizes[:, None] > np.arange(batch)[None, :]).sum(0))
    if sequence.unsorted_indices is not None:
        padded = index_select(padded, 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


@like(pad_packed_sequence)
def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Pad sequences ``(T_i, *)`` to one Tensor ``(T, B, *)``.

    Args:
        sequences: Tensors whose shapes differ only in the first dimension.
        batch_first: return ``(B, T, *)`` instead.
        padding_side: ``"right"`` or ``"left"``.

    >>> import retrograd as rg
    >>> rg.nn.utils.rnn.pad_sequence([rg.tensor([1, 2, 3]), rg.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: expected iterable for input sequences, but got arg of type {type(sequences).__name__}"
        )
    listed = list(sequences)
    if not listed:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r}")
    steps = max(x.shape[0] for x in listed)
    rows = []
    for x in listed:
        if x.shape[1:] != listed[0].shape[1:]:
            raise RuntimeError(
                f"pad_sequence: shapes may differ only in the first dimension, got {tuple(x.shape)} and "
                f"{tuple(listed[0].shape)}"
            )
        if x.shape[0] < steps:
            shape = (steps - x.shape[0], *x.shape[1:])
            padding = full(shape, padding_value, dtype=x.dtype, device=x.device)
            x = cat([x, padding] if padding_side == "right" else [padding, x])
        rows.append(x.unsqueeze(0 if batch_first else 1))
    return cat(rows, 0 if batch_first else 1)


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences ``(T_i, *)``; see ``pack_padded_sequence``."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences of a padded Tensor without their padding."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(rows, lengths_of(lengths).tolist(), strict=True)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the individual sequences of a packed sequence."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences, batch_first=True), batch_first=True)
