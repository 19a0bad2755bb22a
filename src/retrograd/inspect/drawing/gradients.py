"""The colors of gradients: gray near the usual norm, towards blue where they vanish, towards red where they explode.

The scale is logarithmic and relative to a reference, the usual norm near the loss, because norms of healthy networks
differ by orders of magnitude between programs but rarely by more than a factor of 30 within one. Blue and red are the
hues of Okabe and Ito, and the line's pattern shows the same without color: dots for zero, dashes for vanishing, double
width for exploding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from ..pages.template import clean
from .picture import LEAVES, Picture

STEPS = (1.5, 2.5, 4.0)  # decades from the reference at which the color becomes stronger
LOWEST, HIGHEST = 1e-6, 1e2  # limits of the reference: all gradients may vanish or explode


class Look(NamedTuple):
    """How a line of a level is drawn: its color on white and on black, and its least width."""

    light: str
    dark: str
    width: float = 1.4


LOOKS = {
    "zero": Look("#005a9c", "#3fa9ff", 2.4),
    "low3": Look("#0072b2", "#56b4e9", 2.2),
    "low2": Look("#4a9fd0", "#4389b4", 1.8),
    "low1": Look("#8fb9d3", "#4a6d85"),
    "even": Look("#8a929a", "#858e98"),
    "high1": Look("#d9a08a", "#a8715a"),
    "high2": Look("#df7442", "#d77a4c", 2.2),
    "high3": Look("#c93a00", "#ff7a3d", 3.4),
    "bad": Look("#b0006e", "#ff79c6", 3.0),
    "none": Look("#c3c9d0", "#444c56"),
}


def reference(norms: Iterable[float | None]) -> float:
    """Return the usual norm, the median near the loss; ``norms`` are in the order of the calls.

    The backward pass begins at the loss, so what vanishes or explodes differs from the last quarter of the operators.

    >>> reference([1e-9, 1e-7, 1e-5, 1e-3, 0.0, 0.1, 0.2, 0.3, float("nan"), None]), reference([1e9]), reference([])
    (0.1, 100.0, 1.0)
    """
    known = [norm for norm in norms if norm is not None and 0 < norm < math.inf]
    return min(max(median(known[-max(5, len(known) // 4) :]), LOWEST), HIGHEST) if known else 1.0


def usual_norm(picture: Picture) -> float:
    """Return the norm near which gradients are gray, over all steps; of the leaves if no operator's is known."""
    results = [norm for v in picture.vertices if v.kind not in LEAVES and v.shapes != ((),) for norm in v.flows]
    return reference(results if any(results) else [norm for vertex in picture.vertices for norm in vertex.flows])


def has_gradients(picture: Picture) -> bool:
    """Return whether a gradient is known anywhere."""
    return any(norm is not None for vertex in picture.vertices for norm in vertex.flows)


def level(norm: float | None, usual: float) -> str:
    """Return the class of a gradient's norm.

    >>> [level(norm, 1.0) for norm in (None, 0.0, 1e-5, 1e-3, 0.5, 1e2, 1e9, float("inf"))]
    ['none', 'zero', 'low3', 'low2', 'even', 'high1', 'high3', 'bad']
    """
    if norm is None:
        return "none"
    if not math.isfinite(norm):
        return "bad"
    if norm == 0:
        return "zero"
    away = math.log10(norm / usual)
    strength = sum(abs(away) >= step for step in STEPS)
    return "even" if not strength else f"{'low' if away < 0 else 'high'}{strength}"


def rules() -> str:
    """Return the style of the levels' lines, of the classes ``g-zero`` and so on."""
    light, dark = [
        "".join(
            f".rg .g-{name} path{{stroke:{look[place]}}}.rg .g-{name} .head{{fill:{look[place]};stroke:none}}"
            for name, look in LOOKS.items()
        )
        for place in (0, 1)
    ]
    widths = "".join(f".rg .g-{name} path{{stroke-width:{look.width}}}" for name, look in LOOKS.items())
    return f"{light}{widths}@media(prefers-color-scheme:dark){{{dark}}}"


def variables() -> str:
    """Return the colors as variables of a page: ``--g-zero`` and so on."""
    light, dark = ["".join(f"--g-{name}:{look[place]};" for name, look in LOOKS.items()) for place in (0, 1)]
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"


def legend(usual: float, widths: bool) -> str:
    """Return the legend as HTML: the colors with the norms at which they change, and the line width if ``widths``."""
    low, high = [[_rounded(usual * 10 ** (sign * step)) for step in STEPS] for sign in (-1, 1)]
    texts = [
        "zero",
        f"below {low[2]}: vanishing",
        f"below {low[1]}",
        f"below {low[0]}",
        f"usual, near {_rounded(usual)}",
    ]
    texts += [f"above {high[0]}", f"above {high[1]}", f"above {high[2]}: exploding", "NaN or infinite", "no gradient"]
    rows = [
        f'<li><svg class="rg" width="26" height="12" aria-hidden="true"><g class="e g-{name}"><path d="M1 6H25"/></g>'
        f"</svg>{clean(text)}</li>"
        for name, text in zip(LOOKS, texts, strict=True)
    ]
    wide = "<li>wider: keeps more bytes</li>" if widths else ""
    return f'<ul class="legend"><li><b>gradient norm</b></li>{"".join(rows)}{wide}</ul>'


def _rounded(value: float) -> str:
    return f"{float(f'{value:.1g}'):g}"
