"""``checkpoint`` in JAX's form: a transform of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd import checkpoint as _checkpoint


def checkpoint(function: Callable[..., Any], *, preserve_rng_state: bool = True) -> Callable[..., Any]:
    """The function, of whose inside no derivative keeps anything: what it needs is computed a second time.

    A decorator. Under every other transform it has the function's values and derivatives, at the price of one more
    run for each derivative; ``utils.checkpoint.checkpoint(function, *args)`` is the same for a single call.

    Args:
        function: nests of Tensors to one; it has to do the same whenever it is run.
        preserve_rng_state: draw the same random numbers the second time.

    >>> from retrograd.func import checkpoint, grad
    >>> @checkpoint
    ... def f(x):
    ...     return (x**2).exp().sum()
    >>> grad(f)(rg.tensor([0.0, 1.0]))
    tensor([0.    , 5.4366])
    """

    @functools.wraps(function)
    def checkpointed(*args: object, **kwargs: object) -> Any:
        return _checkpoint.run(function, args, kwargs, preserve_rng_state=preserve_rng_state)

    return checkpointed
