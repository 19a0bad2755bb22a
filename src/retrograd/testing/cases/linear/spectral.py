"""Cases of eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

from .factorizations import TALL, WIDE, without_signs
from .inverses import SQUARE, Function, chained, drawn, names


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
    *names("linalg.eigh", calls=drawn(*SQUARE), wrap=lambda f: of_symmetric(without_signs(f)), tolerance=1e-5),
    *names("linalg.eigvalsh", calls=drawn(*SQUARE), wrap=of_symmetric),
    *names(
        "linalg.svd",
        calls=chained(drawn(*TALL, *WIDE, full_matrices=False), drawn(*TALL, *WIDE)),
        wrap=lambda f: without_signs(with_determined_vectors(f)),
        tolerance=1e-5,
    ),
    *names("svd", calls=drawn(*TALL, *WIDE), wrap=without_signs, tolerance=1e-5),
    *names("linalg.svdvals", calls=drawn(*TALL, *WIDE)),
]
