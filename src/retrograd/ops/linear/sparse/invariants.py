"""The checks of the order of sparse indices, which constructors make only where they are enabled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from types import TracebackType
from typing import ClassVar, ParamSpec, TypeVar

from ....core.arrays import Array

P = ParamSpec("P")
T = TypeVar("T")


class check_sparse_tensor_invariants:
    """Enable or disable the default of ``check_invariants`` in constructors of sparse Tensors: a context or decorator.

    The shapes and the range of indices are always checked. With ``check_invariants`` also their order: row-major for
    ``is_coalesced=True``, and ascending in each row or column for compressed layouts, each index once.

    Args:
        enable: the state within the context or the decorated function. Outside, the checks are disabled at first.

    >>> with rg.sparse.check_sparse_tensor_invariants():
    ...     rg.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0])
    Traceback (most recent call last):
    RuntimeError: sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0]): expected col_indices to ascend within each row, ...
    """

    _enabled: ClassVar[bool] = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Return whether constructors check the order of indices by default."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Let constructors check the order of indices by default."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Let constructors check the order of indices only with ``check_invariants=True``."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. "
                "Use a different context manager instance for context nesting."
            )
        self.saved_state = self.is_enabled()
        check_sparse_tensor_invariants._enabled = self.state

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        check_sparse_tensor_invariants._enabled = bool(self.saved_state)
        self.saved_state = None

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> T:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return checked


def check_order(check_invariants: bool | None, at: Array, lengths: Sequence[int], expected: str) -> None:
    """If wanted, by default if enabled, raise an error unless the coordinates ``at`` ascend in row-major order."""
    if check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants:
        flat = at[:0].sum(axis=0)
        for length, index in zip(lengths, at, strict=False):
            flat = flat * length + index
        if (flat[1:] <= flat[:-1]).any():
            raise RuntimeError(f"expected {expected}, each index once")
