"""Quasirandom points: Sobol sequences, which cover a unit cube more evenly than random points."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from .core.arrays.dtypes import as_dtype, get_default_dtype
from .core.tensor.tensor import Tensor, new_tensor
from .ops.make.generators import Generator
from .ops.make.random import randint

__all__ = ["SobolEngine"]

BITS = 30


@cache
def _table() -> tuple[Any, Any]:
    """Return the primitive polynomials, as bits of integers, and the first direction numbers of every dimension."""
    try:
        with (files("scipy.stats") / "_sobol_direction_numbers.npz").open("rb") as file:
            stored = np.load(file)
            return stored["poly"].astype(np.int64), stored["vinit"].astype(np.int64)
    except (ImportError, OSError) as error:
        raise ImportError("SobolEngine reads its direction numbers from SciPy: pip install scipy") from error


def _direction_numbers(dimension: int) -> Any:
    """Return ``BITS`` direction numbers per dimension; consecutive points in Gray code order differ by one of them."""
    polynomials, first = (part[:dimension] for part in _table())
    numbers = np.ones((dimension, BITS), np.int64)
    degrees = np.array([int(polynomial).bit_length() - 1 for polynomial in polynomials])
    for degree in set(degrees.tolist()) - {0, -1}:
        rows = np.flatnonzero(degrees == degree)
        own = numbers[rows]
        own[:, :degree] = first[rows, :degree]
        for j in range(degree, BITS):
            following = own[:, j - degree].copy()
            for k in range(degree):
                has_term = polynomials[rows] >> (degree - 1 - k) & 1
                following ^= has_term * (own[:, j - k - 1] << (k + 1))
            own[:, j] = following
        numbers[rows] = own
    numbers[0] = 1
    return numbers << np.arange(BITS - 1, -1, -1)


class SobolEngine:
    """Draw points of a Sobol sequence in the unit cube; without scrambling the points equal PyTorch's.

    Args:
        dimension: the number of coordinates, up to 21201.
        scramble: shift the points and permute their digits at random; this preserves the evenness.
        seed: the seed of the scrambling; None uses the default generator.

    Attributes:
        num_generated: the number of points drawn or skipped.

    Raises:
        ValueError: ``dimension`` is out of range.
        ImportError: SciPy, which supplies the direction numbers, is not installed.

    Source: Joe and Kuo, Constructing Sobol sequences with better two-dimensional projections, 2008; Owen, Scrambling
    Sobol and Niederreiter-Xing points, 1998.

    >>> from retrograd.quasirandom import SobolEngine
    >>> SobolEngine(2).draw(4)
    tensor([[0.  , 0.  ],
            [0.5 , 0.5 ],
            [0.75, 0.25],
            [0.25, 0.75]])
    """

    MAXBIT = BITS
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], got {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        self._numbers = _direction_numbers(dimension)
        self._shift = np.zeros(dimension, np.int64)
        if scramble:
            self._mix()
        self._point = self._shift
        self.num_generated = 0

    def _mix(self) -> None:
        """Multiply the digits of the direction numbers by random lower triangular matrices, and draw the shift."""
        generator = None if self.seed is None else Generator().manual_seed(self.seed)
        places = np.arange(BITS, dtype=np.int64)
        shift = randint(0, 2, (self.dimension, BITS), generator=generator, device="cpu")
        matrices = randint(0, 2, (self.dimension, BITS, BITS), generator=generator, device="cpu")
        lower = np.tril(matrices.array, -1) + np.eye(BITS, dtype=np.int64)
        digits = self._numbers[:, None, :] >> places[::-1, None] & 1  # most significant digit first
        mixed = lower @ digits & 1
        self._numbers = (mixed << places[::-1, None]).sum(1)
        self._shift = (shift.array << places).sum(1)

    def _following(self, count: int) -> Any:
        """Return the next points as integers, one per row."""
        indices = np.arange(self.num_generated, self.num_generated + count, dtype=np.int64)
        # Consecutive points differ by the direction number at the lowest zero bit of the previous point's index.
        before = indices[indices > 0] - 1
        lowest = np.log2((before + 1 & ~before).astype(np.float64)).astype(np.int64)
        steps = self._numbers[:, lowest].T
        if count and indices[0] == 0:
            steps = np.concatenate([np.zeros((1, self.dimension), np.int64), steps])
        points = np.bitwise_xor.accumulate(steps, axis=0) ^ self._point
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: object = None) -> Tensor:
        """Return the next ``n`` points as ``(n, dimension)``.

        Args:
            n: the number of points.
            out: receives the result.
            dtype: the dtype of the result; the default dtype if None.
        """
        points = self._following(n)
        if n:
            self._point = points[-1]
        self.num_generated += n
        kind = get_default_dtype() if dtype is None else as_dtype(dtype)
        result = new_tensor(points.astype(kind) * np.asarray(2.0**-BITS, kind))
        if out is None:
            return result
        out.resize_as_(result).copy_(result)  # type: ignore[attr-defined]
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: object = None) -> Tensor:
        """Return the next ``2**m`` points, which preserve the balance of the sequence.

        Raises:
            ValueError: the total number of points would not be a power of 2.
        """
        count = 2**m
        total = self.num_generated + count
        if total & total - 1:
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points "
                f"have been previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do "
                "this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(count, out, dtype)

    def reset(self) -> SobolEngine:
        """Restart with the first point."""
        self._point = self._shift
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Skip ``n`` points."""
        place = self.num_generated + n
        if place:  # the Gray code of the last index selects the direction numbers to combine
            code = place - 1 ^ (place - 1) >> 1
            digits = [bit for bit in range(BITS) if code >> bit & 1]
            self._point = self._shift ^ np.bitwise_xor.reduce(self._numbers[:, digits], axis=1)
        self.num_generated = place
        return self

    def __repr__(self) -> str:
        told = [f"dimension={self.dimension}"]
        if self.scramble:
            told.append("scramble=True")
        if self.seed is not None:
            told.append(f"seed={self.seed}")
        return f"SobolEngine({', '.join(told)})"
