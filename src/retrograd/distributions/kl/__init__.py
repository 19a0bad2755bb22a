"""The Kullback-Leibler divergence: which function computes it for which pair of families."""

from . import across, within
from .registry import kl_divergence, register_kl

__all__ = ["across", "kl_divergence", "register_kl", "within"]
