"""Embeddings: tables of learned vectors, indexed by integers."""

from __future__ import annotations

from ...core.errors import describe
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import functional as F
from .. import init
from ..base.arguments import DeviceLike, DTypeLike
from ..base.module import Module
from ..parameter import Parameter, new_parameter


class _EmbeddingBase(Module):
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Tensor | None,
        freeze: bool,
        device: DeviceLike,
        dtype: DTypeLike,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"{name}: padding_idx={padding_idx} is out of range for num_embeddings={num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            self.weight = new_parameter((num_embeddings, embedding_dim), device, dtype)
            self.weight.requires_grad_(not freeze)
            self.reset_parameters()
        else:
            if weight.shape != (num_embeddings, embedding_dim):
                raise AssertionError(
                    f"{name}: the weight {describe(weight)} does not match num_embeddings={num_embeddings} and "
                    f"embedding_dim={embedding_dim}"
                )
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw standard normal vectors; the vector of ``padding_idx`` is zero."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _options(self) -> list[str]:
        parts = []
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append(f"scale_grad_by_freq={self.scale_grad_by_freq}")
        return parts


class Embedding(_EmbeddingBase):
    """``weight[index]``: integers ``(*)`` to vectors ``(*, embedding_dim)``.

    Args:
        num_embeddings: the number of vectors.
        embedding_dim: the length of each vector.
        padding_idx: the index whose vector is initially zero and receives no gradient.
        max_norm: rows that are looked up are scaled down in the table so that their norm is at most this bound.
        norm_type: the order of the norm that ``max_norm`` bounds.
        scale_grad_by_freq: divide gradients by the number of occurrences of an index in the batch.
        sparse: for ``SparseAdam``, which updates only rows with a gradient; gradients are dense nevertheless.
        device, dtype: device and dtype of the table.

    Raises:
        AssertionError: ``padding_idx`` is out of range.
        IndexError: when called, an index is out of range.

    Attributes:
        weight: ``(num_embeddings, embedding_dim)``, initially standard normal.

    >>> rg.nn.Embedding(10, 3)(rg.tensor([[1, 2], [4, 5]])).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            _freeze,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        padding = [] if self.padding_idx is None else [f"padding_idx={self.padding_idx}"]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *padding, *self._options()])

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return a layer with the given table ``(num_embeddings, embedding_dim)``, not trained if ``freeze``."""
        if embeddings.ndim != 2:
            raise AssertionError(f"Embedding: expected a table of 2 dimensions, got {describe(embeddings)}")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


@like(Embedding, F.embedding_bag, raises="IndexError")
class EmbeddingBag(_EmbeddingBase):
    """Look up vectors and reduce each bag of them to its sum, mean or maximum: to ``(bags, embedding_dim)``.

    Bags are the rows of a matrix ``(bags, length)``, or parts of a vector that begin at ``offsets`` ``(bags,)``.
    ``per_sample_weights``, of the shape of the integers, are factors in sums.

    Args:
        include_last_offset: ``offsets`` ends with the length of the vector.
        padding_idx: an index that is ignored.

    Raises:
        ValueError: when called, ``offsets`` are missing for a vector, or given for a matrix.

    >>> bags = rg.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bags(rg.tensor([1, 2, 4, 5, 4]), rg.tensor([0, 3])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            num_embeddings,
            embedding_dim,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight,
            False,
            device,
            dtype,
        )
        self.mode = mode
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        padding = [] if self.padding_idx is None else [f"padding_idx={self.padding_idx}"]
        shape = f"{self.num_embeddings}, {self.embedding_dim}"
        return ", ".join([shape, *self._options(), f"mode={self.mode!r}", *padding])

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return a layer with the given table ``(num_embeddings, embedding_dim)``, not trained if ``freeze``."""
        if embeddings.ndim != 2:
            raise AssertionError(f"EmbeddingBag: expected a table of 2 dimensions, got {describe(embeddings)}")
        rows, columns = embeddings.shape
        bag = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            _weight=embeddings,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad_(not freeze)
        return bag
