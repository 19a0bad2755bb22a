"""``checkpoint`` as a function transform, like ``jax.checkpoint``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from ..autograd import checkpoint as _checkpoint

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(function: Callable[P, R], *, preserve_rng_state: bool = True) -> Callable[P, R]:
    """Return a version of ``function`` that saves no intermediate values and recomputes them in the backward pass.

    Values and derivatives are those of ``function``; each derivative costs one more run of it.
    ``utils.checkpoint.checkpoint(function, *args)`` does the same for a single call.

    Args:
        function: takes and returns nests of Tensors; it must compute the same in every run.
        preserve_rng_state: use the same random numbers in the recomputation.

    >>> from retrograd.func import checkpoint, grad
    >>> @checkpoint
    ... def f(x):
    ...     return (x**2).exp().sum()
    >>> grad(f)(rg.tensor([0.0, 1.0]))
    tensor([0.    , 5.4366])
    """

    @functools.wraps(function)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        return _checkpoint.run(function, args, kwargs, preserve_rng_state=preserve_rng_state)

    return checkpointed
