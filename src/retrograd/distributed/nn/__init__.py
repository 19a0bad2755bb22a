"""Differentiable collectives, as in ``torch.distributed.nn``."""

from . import functional as functional
from .functional import *  # noqa: F403
from .functional import __all__ as __all__
