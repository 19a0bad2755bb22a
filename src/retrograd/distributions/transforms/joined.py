"""Apply one transform to each piece along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from ..._generated.toplevel import cat, stack
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import constraints
from ..constraints import Constraint
from ..utils import sum_rightmost
from .base import Transform


class _JoinedTransform(Transform):
    """One transform per piece of the input; a subclass defines how the input is split and joined."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(transform, Transform) for transform in tseq):
            raise TypeError(f"{type(self).__name__}: expected a sequence of Transforms, got {tseq!r}")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> _JoinedTransform:
        new = super().with_cache(cache_size)
        new.transforms = [transform.with_cache(cache_size) for transform in self.transforms]
        return new

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(transform.bijective for transform in self.transforms)

    @property
    def length(self) -> int:
        """The length of the dimension."""
        raise NotImplementedError

    def _cut(self, x: Tensor) -> Sequence[Tensor]:
        raise NotImplementedError

    def _join(self, pieces: Sequence[Tensor]) -> Tensor:
        raise NotImplementedError

    def _pieces(self, x: Tensor) -> Sequence[Tensor]:
        name = type(self).__name__
        if not -x.dim() <= self.dim < x.dim():
            raise ValueError(f"{name}: dim {self.dim} is out of range for a Tensor with {x.dim()} dimensions")
        if x.shape[self.dim] != self.length:
            raise ValueError(f"{name}: dimension {self.dim} must have length {self.length}, got {tuple(x.shape)}")
        return self._cut(x)

    def _call(self, x: Tensor) -> Tensor:
        return self._join([t(piece) for t, piece in zip(self.transforms, self._pieces(x), strict=True)])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._join([t.inv(piece) for t, piece in zip(self.transforms, self._pieces(y), strict=True)])


class CatTransform(_JoinedTransform):
    """One transform per piece along ``dim``; the outputs are joined by ``rg.cat``.

    Args:
        tseq: one transform per piece.
        dim: the dimension that is split into pieces.
        lengths: the lengths of the pieces, by default 1 each.
        cache_size: the size of the caches, 0 or 1.

    >>> distributions = rg.distributions
    >>> transform = distributions.CatTransform([distributions.ExpTransform(), distributions.identity_transform])
    >>> transform(rg.tensor([0.0, 5.0]))
    tensor([1., 5.])
    """

    _compared = ("transforms", "dim", "lengths")

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"CatTransform: got {len(self.transforms)} transforms and {len(self.lengths)} lengths")

    @property
    def event_dim(self) -> int:
        return max(transform.event_dim for transform in self.transforms)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.cat([transform.domain for transform in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.cat([transform.codomain for transform in self.transforms], self.dim, self.lengths)

    def _cut(self, x: Tensor) -> Sequence[Tensor]:
        return x.split(self.lengths, self.dim)

    def _join(self, pieces: Sequence[Tensor]) -> Tensor:
        return cat(pieces, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = [
            sum_rightmost(t.log_abs_det_jacobian(piece, image), self.event_dim - t.event_dim)
            for t, piece, image in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True)
        ]
        # A batch dimension remains in the log-determinant; an event dimension has been summed over.
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        if dim < 0:
            return cat(terms, dim=dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total


@like(CatTransform)
class StackTransform(_JoinedTransform):
    """One transform per index along ``dim``; the outputs are joined by ``rg.stack``.

    >>> distributions = rg.distributions
    >>> transform = distributions.StackTransform([distributions.ExpTransform(), distributions.identity_transform])
    >>> transform(rg.tensor([0.0, 5.0]))
    tensor([1., 5.])
    """

    _compared = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    @property
    def length(self) -> int:
        return len(self.transforms)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.stack([transform.domain for transform in self.transforms], self.dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.stack([transform.codomain for transform in self.transforms], self.dim)

    def _cut(self, x: Tensor) -> Sequence[Tensor]:
        return x.unbind(self.dim)

    def _join(self, pieces: Sequence[Tensor]) -> Tensor:
        return stack(pieces, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._join(
            [
                t.log_abs_det_jacobian(piece, image)
                for t, piece, image in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True)
            ]
        )
