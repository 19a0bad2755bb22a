"""Cases of eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

from ....case import together
from ..solving.inverses import SQUARE, Function, names, of_complex, of_normal
from .factorizations import COMPLEX, TALL, WIDE, without_phases


def of_symmetric(function: Function) -> Function:
    """A function of symmetric and Hermitian matrices as one of any matrix."""
    return lambda x, *args, **kwargs: function(x + x.mH, *args, **kwargs)


def with_determined_vectors(function: Function) -> Function:
    """Singular values and the vectors that belong to them."""

    def determined(x: Any, **options: Any) -> Any:
        u, s, vh = function(x, **options)
        return u[..., : s.shape[-1]], s, vh[..., : s.shape[-1], :]

    return determined


def with_shared_phase(function: Function) -> Function:
    """Also the product of U and V^H, of whose phases only the difference counts."""

    def shared(x: Any, **options: Any) -> Any:
        u, s, vh = with_determined_vectors(function)(x, **options)
        return *without_phases(lambda: (u, s, vh))(), u @ vh

    return shared


CASES = [
    *names(
        "linalg.eigh",
        calls=together(of_normal(*SQUARE), of_complex((3, 3), (2, 2, 2))),
        wrap=lambda f: of_symmetric(without_phases(f)),
        tolerance=1e-5,
    ),
    *names("linalg.eigvalsh", calls=together(of_normal(*SQUARE), of_complex((3, 3))), wrap=of_symmetric),
    *names(
        "linalg.svd",
        calls=together(of_normal(*TALL, *WIDE, full_matrices=False), of_normal(*TALL, *WIDE), COMPLEX),
        wrap=with_shared_phase,
        tolerance=1e-5,
    ),
    *names("svd", calls=together(of_normal(*TALL, *WIDE), COMPLEX), wrap=without_phases, tolerance=1e-5),
    *names("linalg.svdvals", calls=together(of_normal(*TALL, *WIDE), COMPLEX)),
]
