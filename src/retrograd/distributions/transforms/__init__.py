"""Invertible functions with their log-determinants, under the names of ``torch.distributions.transforms``.

``base`` has the class, composition and inverse, ``elementwise``, ``joined`` and ``shaped`` the transforms by kind.
``families`` and ``TransformedDistribution`` import them.
"""

from typing import TYPE_CHECKING

from ...core.missing_names import legacy_names
from .base import ComposeTransform, IndependentTransform, Transform, identity_transform
from .elementwise import (
    AbsTransform,
    AffineTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from .joined import CatTransform, StackTransform
from .shaped import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    ReshapeTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)  # private names of PyTorch
