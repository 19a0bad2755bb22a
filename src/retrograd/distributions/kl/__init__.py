"""The Kullback-Leibler divergence, with a function per pair of families.

``within`` has pairs of one family and ``across`` of two, ``registry`` finds the function of a pair. Programs call
``kl_divergence`` in ``retrograd.distributions``.
"""

from typing import TYPE_CHECKING

from ...core.missing_names import legacy_names
from . import across, within
from .registry import kl_divergence, register_kl

__all__ = ["across", "kl_divergence", "register_kl", "within"]

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)  # private names of PyTorch
