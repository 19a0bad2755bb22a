"""Draw an elementwise function and its derivative as a small SVG, and find the points where the derivative jumps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import retrograd as rg

SAMPLES = 301
WIDTH, HEIGHT = 460, 260
LEFT, BOTTOM, TOP = 38, 24, 10
NEAR = 1e-5  # distance at which one-sided derivatives are taken
KINKS = (-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True)
class Curves:
    """Values and derivatives at points, and the kinks as (place, from the left, at the place, from the right)."""

    x: np.ndarray
    value: np.ndarray
    derivative: np.ndarray
    kinks: list[tuple[float, float, float, float]]


def elementwise(function: Callable[..., Any]) -> bool:
    """Whether a call with one Tensor gives a result of its shape whose elements depend on one element each."""
    x = np.array([0.3, 0.7, -0.55, -0.41])
    try:
        with rg.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first = [function(rg.from_numpy(x)), function(rg.from_numpy(x))]
            turned = function(rg.from_numpy(x[::-1].copy()))
            other = function(rg.from_numpy(np.append(x[:3], 0.9)))
    except (TypeError, ValueError, RuntimeError, IndexError, AttributeError, ImportError):
        return False
    results = [*first, turned, other]
    if not all(
        isinstance(one, rg.Tensor) and one.is_dense and one.shape == (4,) and one.array.dtype == np.float64
        for one in results
    ):
        return False
    a, b, c, d = (one.numpy() for one in results)
    pairs = ((a, b), (a[::-1], c), (a[:3], d[:3]))
    same = all(np.array_equal(one, other, equal_nan=True) for one, other in pairs)
    return same and not np.array_equal(a, x)  # a copy is no function to draw


def measure(function: Callable[..., Any]) -> Curves | None:
    """Return the curves where the function is finite; None if there is no derivative to draw."""
    x = np.linspace(-3, 3, SAMPLES)
    finite = np.isfinite(_value(function, x))
    if finite.mean() < 0.5:
        wide = np.linspace(-6, 6, SAMPLES)
        inside = wide[np.isfinite(_value(function, wide))]
        if not len(inside):
            return None
        x = np.linspace(inside.min(), inside.max(), SAMPLES)
    found = _derivative(function, x)
    if found is None:
        return None
    places = np.array([place for place in KINKS if x[0] < place < x[-1]])
    kinks = []
    if len(places):
        sides = [_derivative(function, places + shift) for shift in (-NEAR, 0.0, NEAR)]
        with np.errstate(invalid="ignore"):
            jumps = np.abs(_value(function, places + NEAR) - _value(function, places - NEAR)) > 1e-3
        for place, left, at, right, jump in zip(places, *sides, jumps):
            if not jump and np.isfinite([left, right]).all() and abs(left - right) > 1e-2:
                kinks.append((float(place), float(left), float(at), float(right)))
    return Curves(x, _value(function, x), found, kinks)


def _value(function: Callable[..., Any], x: np.ndarray) -> np.ndarray:
    with rg.no_grad():
        return function(rg.from_numpy(x)).numpy()


def _derivative(function: Callable[..., Any], x: np.ndarray) -> np.ndarray | None:
    input = rg.from_numpy(x).requires_grad_()
    output = function(input)
    if not output.requires_grad:
        return None
    output.sum().backward()
    return None if input.grad is None else input.grad.numpy()


def draw(curves: Curves, name: str) -> str:
    """Return the SVG; its colors are the site's."""
    low, high = _limits(np.concatenate([curves.value, curves.derivative]))
    right, left = curves.x[-1], curves.x[0]

    def across(x: float) -> float:
        return LEFT + (x - left) / (right - left) * (WIDTH - LEFT - 8)

    def up(y: float) -> float:
        return TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg class="curves" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name} and its derivative">',
        f'<clipPath id="box"><rect x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - 8}" height="{HEIGHT - TOP - BOTTOM}"/>'
        "</clipPath>",
    ]
    for x in _ticks(left, right):
        parts.append(f'<path class="grid" d="M{across(x):.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{across(x):.1f}" y="{HEIGHT - 8}" text-anchor="middle">{x:g}</text>')
    for y in _ticks(low, high):
        parts.append(f'<path class="grid" d="M{LEFT} {up(y):.1f}H{WIDTH - 8}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for kind, values in (("value", curves.value), ("derivative", curves.derivative)):
        path, pen, before = "", False, 0.0
        for x, y in zip(curves.x, values):
            drawn = bool(np.isfinite(y)) and low - (high - low) < y < high + (high - low)
            jump = pen and abs(y - before) > 0.12 * (high - low)
            if drawn:
                path += f"{'L' if pen and not jump else 'M'}{across(x):.1f} {up(y):.1f}"
            pen, before = drawn, y
        parts.append(f'<path class="{kind}" clip-path="url(#box)" d="{path}"/>')
    for place, _, at, _ in curves.kinks:
        if np.isfinite(at) and low <= at <= high:
            parts.append(f'<circle cx="{across(place):.1f}" cy="{up(at):.1f}" r="4"/>')
    return "".join(parts) + "</svg>"


def _limits(values: np.ndarray) -> tuple[float, float]:
    """Return the limits of the vertical axis, without the far ends of values that grow without bound."""
    values = values[np.isfinite(values)]
    (low, high), (least, most) = np.percentile(values, [4, 96]), (values.min(), values.max())
    if most - least < 1.5 * (high - low):
        low, high = least, most
    low, high = max(min(low, 0.0), -8.0), min(max(high, 0.0), 8.0)
    space = 0.08 * (high - low) or 1.0
    return float(low - space), float(high + space)


def _ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** np.floor(np.log10(high - low))
    while (high - low) / step < 3:
        step /= 2
    return [float(round(number * step, 9)) for number in range(int(np.ceil(low / step)), int(high / step) + 1)]
