"""Cases of eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

from ...case import together
from .factorizations import TALL, WIDE, without_signs
from .inverses import SQUARE, Function, names, of_normal


def of_symmetric(function: Function) -> Function:
    """A function of symmetric matrices as one of any matrix."""
    return lambda x, *args, **kwargs: function(x + x.mT, *args, **kwargs)


def with_determined_vectors(function: Function) -> Function:
    """Singular values and the vectors that belong to them."""

    def determined(x: Any, **options: Any) -> Any:
        u, s, vh = function(x, **options)
        return u[..., : s.shape[-1]], s, vh[..., : s.shape[-1], :]

    return determined


CASES = [
    *names("linalg.eigh", calls=of_normal(*SQUARE), wrap=lambda f: of_symmetric(without_signs(f)), tolerance=1e-5),
    *names("linalg.eigvalsh", calls=of_normal(*SQUARE), wrap=of_symmetric),
    *names(
        "linalg.svd",
        calls=together(of_normal(*TALL, *WIDE, full_matrices=False), of_normal(*TALL, *WIDE)),
        wrap=lambda f: without_signs(with_determined_vectors(f)),
        tolerance=1e-5,
    ),
    *names("svd", calls=of_normal(*TALL, *WIDE), wrap=without_signs, tolerance=1e-5),
    *names("linalg.svdvals", calls=of_normal(*TALL, *WIDE)),
]
