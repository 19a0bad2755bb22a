"""The update of each optimizer as a function of elements, without branches that depend on elements.

``updates(o)`` returns the functions, ``update(p, g, *state, factors, rates)``, by name. Each returns the new parameter,
followed by the new state. ``factors`` are the numbers that all parameters of a group share. The first three are the
factor of decoupled weight decay, weight decay, and the direction (1, or -1 to maximize). ``rates`` are the numbers that
may differ between parameters. Numbers are compared by Python conditions, elements by ``o.where``.

The order of operations is part of the definition: all forms of an update are bitwise equal. Augmented assignments save
temporary arrays, so an update may overwrite its arguments, except ``g``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .arithmetic import Element

Numbers: TypeAlias = tuple[Element, ...]
Update: TypeAlias = Callable[..., Numbers]


@dataclass(frozen=True)
class Operations:
    """The functions that an update calls, in addition to Python's operators."""

    where: Callable[[Element, Element, Element], Element]
    sqrt: Callable[[Element], Element]
    absolute: Callable[[Element], Element]
    maximum: Callable[[Element, Element], Element]  # propagates NaN, like minimum
    minimum: Callable[[Element, Element], Element]
    neutral: Callable[[Element], bool]  # whether a factor is 1 and may be left out to save time
    absent: Callable[[Element], bool]  # whether a factor is 0, so that its term is left out
    compiled: Callable[[Callable[..., Element]], Element] = lambda function: function
    # Decorates a function that may overflow in float16; it may be computed in float32.
    wide: Callable[[Callable[..., Element]], Callable[..., Element]] = lambda function: function


def updates(o: Operations) -> Mapping[str, Update]:
    """Return the update of each optimizer, by name."""
    where, sqrt, absolute, maximum, minimum = o.where, o.sqrt, o.absolute, o.maximum, o.minimum
    neutral, absent = o.neutral, o.absent
    found: dict[str, Update] = {}

    def update(function: Update) -> Update:
        found[function.__name__] = o.compiled(function)
        return function

    @o.compiled
    def directed(p: Element, g: Element, decay: Element, sign: Element) -> Element:
        """Return the gradient with weight decay, in the direction of descent."""
        d = g if neutral(sign) else g * sign
        if absent(decay):
            return d
        penalty = p * decay
        penalty += d
        return penalty

    @o.compiled
    def towards(average: Element, value: Element, rate: Element, rest: Element) -> Element:
        """``average + rate * (value - average)`` from the nearer end: rate 1 is exact; ``rest = 1 - rate``."""
        away = value - average
        if rate < 0.5:
            away *= rate
            average += away
            return average
        away *= rest
        return value - away

    @o.compiled
    def towards_square(average: Element, value: Element, keep: Element, fresh: Element) -> Element:
        """``keep * average + fresh * value**2``: no square overflows by itself, as ``inf - inf`` is NaN."""
        square = value * fresh
        square *= value
        average *= keep
        average += square
        return average

    @o.compiled
    def root(x: Element, eps: Element) -> Element:
        """Return a denominator, ``sqrt(x) + eps``."""
        x = sqrt(x)
        x += eps
        return x

    @o.compiled
    def divided(p: Element, rate: Element, numerator: Element, denominator: Element) -> Element:
        """``p - rate * numerator / denominator``, where the quotient without the rate may overflow."""
        step = numerator * rate
        step /= denominator
        p -= step
        return p

    descended = o.wide(divided)

    @update
    def averaged(average: Element, value: Element, factors: Numbers, rates: Numbers) -> Numbers:
        rate, rest = factors
        return (towards(average, value, rate, rest),)

    @update
    def sgd(p: Element, g: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, lr = factors
        p -= directed(p, g, decay, sign) * lr
        return (p,)

    @update
    def momentum(p: Element, g: Element, velocity: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, lr, momentum, nesterov = factors
        (fresh,) = rates
        d = directed(p, g, decay, sign)
        velocity *= momentum
        velocity += d if neutral(fresh) else d * fresh
        p -= (velocity if nesterov == 0 else velocity * momentum + d) * lr
        return p, velocity

    @update
    def asgd(p: Element, g: Element, average: Element, factors: Numbers, rates: Numbers) -> Numbers:
        _, decay, sign = factors
        eta, shrink, mu, rest = rates
        step = directed(p, g, decay, sign) * eta
        p *= shrink
        p -= step
        return p, p if mu == 1 else towards(average, p, mu, rest)

    @o.compiled
    def moments(p: Element, g: Element, m: Element, v: Element, factors: Numbers) -> Numbers:
        """Return the parameter after decoupled weight decay, the direction, and the new moments."""
        shrink, decay, sign, slow, rest, keep, fresh = factors
        if not neutral(shrink):
            p *= shrink
        d = directed(p, g, decay, sign)
        return p, d, towards(m, d, slow, rest), towards_square(v, d, keep, fresh)

    @update
    def adam(p: Element, g: Element, m: Element, v: Element, factors: Numbers, rates: Numbers) -> Numbers:
        rate, eps = rates
        p, _, m, v = moments(p, g, m, v, factors)
        return descended(p, rate, m, root(v, eps)), m, v

    @update
    def amsgrad(
        p: Element, g: Element, m: Element, v: Element, largest: Element, factors: Numbers, rates: Numbers
    ) -> Numbers:
        rate, eps = rates
        p, _, m, v = moments(p, g, m, v, factors)
        largest = maximum(largest, v)
        return descended(p, rate, m, root(largest, eps)), m, v, largest

    @update
    def adamax(p: Element, g: Element, m: Element, norm: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, slow, rest, keep, eps = factors
        (rate,) = rates
        d = directed(p, g, decay, sign)
        norm *= keep
        m, norm = towards(m, d, slow, rest), maximum(norm, absolute(d) + eps)
        return descended(p, rate, m, norm), m, norm

    @update
    def nadam(p: Element, g: Element, m: Element, v: Element, factors: Numbers, rates: Numbers) -> Numbers:
        of_gradient, of_moment, correction, eps = rates
        p, d, m, v = moments(p, g, m, v, factors)
        below = root(v * correction, eps)
        return descended(descended(p, of_gradient, d, below), of_moment, m, below), m, v

    @update
    def radam(p: Element, g: Element, m: Element, v: Element, factors: Numbers, rates: Numbers) -> Numbers:
        rate, certain, eps = rates
        p, _, m, v = moments(p, g, m, v, factors)
        if certain == 0:
            p -= m * rate
        else:
            p = descended(p, rate, m, root(v, eps))
        return p, m, v

    @update
    def adagrad(p: Element, g: Element, total: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, eps = factors
        (rate,) = rates
        d = directed(p, g, decay, sign)
        total += d * d
        return descended(p, rate, d, root(total, eps)), total

    @update
    def adadelta(p: Element, g: Element, v: Element, u: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, lr, eps, keep, fresh = factors
        d = directed(p, g, decay, sign)
        v = towards_square(v, d, keep, fresh)
        delta = sqrt(u + eps)
        delta /= sqrt(v + eps)  # the quotient of the squares may overflow
        delta *= d
        p -= delta * lr
        return p, v, towards_square(u, delta, keep, fresh)

    @update
    def rmsprop(p: Element, g: Element, v: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, lr, eps, keep, fresh = factors
        d = directed(p, g, decay, sign)
        v = towards_square(v, d, keep, fresh)
        return descended(p, lr, d, root(v, eps)), v

    @update
    def rmsprop_momentum(
        p: Element, g: Element, v: Element, velocity: Element, factors: Numbers, rates: Numbers
    ) -> Numbers:
        shrink, decay, sign, lr, eps, keep, fresh, momentum = factors
        d = directed(p, g, decay, sign)
        v = towards_square(v, d, keep, fresh)
        velocity *= momentum
        velocity += d / root(v, eps)
        p -= velocity * lr
        return p, v, velocity

    @o.compiled
    def deviation(v: Element, mean: Element, largest: Element) -> Element:
        """Return the root of the variance. ``mean**2 <= v``, so v is inf where ``mean**2`` is: inf - inf is NaN."""
        return sqrt(v - minimum(mean * mean, largest))

    @update
    def centered(p: Element, g: Element, v: Element, mean: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, lr, eps, keep, fresh, rest = factors
        (largest,) = rates
        d = directed(p, g, decay, sign)
        v, mean = towards_square(v, d, keep, fresh), towards(mean, d, fresh, rest)
        return descended(p, lr, d, deviation(v, mean, largest) + eps), v, mean

    @update
    def centered_momentum(
        p: Element, g: Element, v: Element, mean: Element, velocity: Element, factors: Numbers, rates: Numbers
    ) -> Numbers:
        shrink, decay, sign, lr, eps, keep, fresh, rest, momentum = factors
        (largest,) = rates
        d = directed(p, g, decay, sign)
        v, mean = towards_square(v, d, keep, fresh), towards(mean, d, fresh, rest)
        velocity *= momentum
        velocity += d / (deviation(v, mean, largest) + eps)
        p -= velocity * lr
        return p, v, mean, velocity

    @update
    def rprop(p: Element, g: Element, last: Element, size: Element, factors: Numbers, rates: Numbers) -> Numbers:
        shrink, decay, sign, smallest, largest, zero = factors
        less, more = rates
        d = g if neutral(sign) else g * sign
        agreement = d * last
        size = where(agreement > zero, size * more, where(agreement < zero, size * less, size))
        size = minimum(maximum(size, smallest), largest)
        d = where(agreement < zero, zero, d)
        # elements with a NaN gradient are not updated, as in PyTorch
        p -= where(d > zero, size, where(d < zero, -size, size * zero))
        return p, d, size

    return found
