"""Schedulers of the learning rate, with PyTorch's names, arguments and numbers.

Most schedulers are chainable: they multiply the current learning rate of each group by a ratio, so that several
schedulers, or the user, may change it. The other schedulers compute the learning rate from ``initial_lr`` alone.
``optim``, ``inspect`` and ``sklearn`` import them.
"""

from typing import TYPE_CHECKING

from ...core.missing_names import legacy_names
from ...ops.table.documentation import complete as _complete
from .base import ARGUMENTS as _ARGUMENTS
from .base import LRScheduler as LRScheduler
from .combined import ChainedScheduler as ChainedScheduler
from .combined import SequentialLR as SequentialLR
from .cycles import CosineAnnealingLR as CosineAnnealingLR
from .cycles import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from .cycles import CyclicLR as CyclicLR
from .cycles import OneCycleLR as OneCycleLR
from .factors import ConstantLR as ConstantLR
from .factors import ExponentialLR as ExponentialLR
from .factors import LambdaLR as LambdaLR
from .factors import LinearLR as LinearLR
from .factors import MultiplicativeLR as MultiplicativeLR
from .factors import MultiStepLR as MultiStepLR
from .factors import PolynomialLR as PolynomialLR
from .factors import StepLR as StepLR
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau

_complete(globals(), object, _ARGUMENTS)

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
