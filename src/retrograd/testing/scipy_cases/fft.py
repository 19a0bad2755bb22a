"""Example calls of ``retrograd.scipy.fft``."""

from __future__ import annotations

from functools import partial

from ..case import Call
from . import Draw, case


def trigonometric(form: int, norm: str | None, u: Draw) -> Call:
    return Call(u(-1, 1, 2, 5), form, norm=norm)


def calls(*names: str, complex: bool = False) -> list[object]:
    return [
        case(
            f"fft.{name}",
            lambda u: Call(u(-1, 1, 3, 4) + (1j * u(-1, 1, 3, 4) if complex else 0), norm="ortho"),
            lambda u: Call(u(-1, 1, 2, 4) + (1j * u(-1, 1, 2, 4) if complex else 0), workers=1),
        )
        for name in names
    ]


CASES = [
    *calls("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn"),
    *calls("irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn", complex=True),
    case("fft.fft", lambda u: Call(u(-1, 1, 4, 2) + 1j, 6, 0, "forward")),
    case("fft.fftshift", lambda u: Call(u(-1, 1, 4, 3))),
    case("fft.ifftshift", lambda u: Call(u(-1, 1, 4, 3), axes=1)),
    *(
        case(
            f"fft.{name}",
            *(partial(trigonometric, form, norm) for form in (1, 2, 3, 4) for norm in (None, "ortho", "forward")),
            lambda u: Call(u(-1, 1, 5, 2), 3, 4, 0, orthogonalize=True),
            lambda u: Call(u(-1, 1, 3) + 1j * u(-1, 1, 3), 2, 6),
        )
        for name in ("dct", "idct", "dst", "idst")
    ),
    *(
        case(f"fft.{name}", lambda u: Call(u(-1, 1, 3, 4)), lambda u: Call(u(-1, 1, 2, 3, 4), 1, (2, 5), norm="ortho"))
        for name in ("dctn", "idctn", "dstn", "idstn")
    ),
]
