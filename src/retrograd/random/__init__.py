"""Random numbers as pure functions of a key, as in ``jax.random``, and PyTorch's names of ``torch.random``.

For example, ``rg.random.normal(rg.random.key(0), (3,))``. The package is imported at its first use.
"""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names
from .keys import bernoulli, categorical, fold_in, key, normal, permutation, randint, split, uniform

__all__ = ["bernoulli", "categorical", "fold_in", "key", "normal", "permutation", "randint", "split", "uniform"]

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
