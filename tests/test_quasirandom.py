"""Sobol sequences: PyTorch's points, and what scrambling leaves of their evenness."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.quasirandom import SobolEngine

pytest.importorskip("scipy")


@pytest.mark.parametrize("dimension", [1, 2, 7, 40, 1111, 21201])
def test_points_are_pytorchs_however_they_are_drawn(dimension):
    torch = pytest.importorskip("torch")
    ours, theirs = SobolEngine(dimension), torch.quasirandom.SobolEngine(dimension)
    for count in (1, 3, 0, 17):
        np.testing.assert_array_equal(ours.draw(count).numpy(), theirs.draw(count).numpy())
    ours.fast_forward(1000)
    theirs.fast_forward(1000)
    np.testing.assert_array_equal(ours.draw(5, dtype=rg.float64).numpy(), theirs.draw(5, dtype=torch.float64).numpy())
    assert ours.num_generated == theirs.num_generated == 1026
    ours.reset()
    assert ours.draw().tolist() == [[0] * dimension]


def test_skipping_is_drawing():
    one, other = SobolEngine(3, scramble=True, seed=5), SobolEngine(3, scramble=True, seed=5)
    points = one.draw(300, dtype=rg.float64)
    for skipped in (0, 1, 7, 100):
        other.fast_forward(skipped)
        start = other.num_generated
        np.testing.assert_array_equal(other.draw(9, dtype=rg.float64).numpy(), points[start : start + 9].numpy())
    other.reset().fast_forward(0)
    np.testing.assert_array_equal(other.draw(2, dtype=rg.float64).numpy(), points[:2].numpy())


def test_scrambled_points_are_as_even_and_depend_on_the_seed():
    drawn = [SobolEngine(5, scramble=True, seed=seed).draw(1024, dtype=rg.float64).numpy() for seed in (1, 1, 2)]
    assert (drawn[0] == drawn[1]).all() and (drawn[0] != drawn[2]).any()
    for points in drawn:
        assert points.min() >= 0 and points.max() < 1
        counts = np.stack([np.bincount((points[:, d] * 1024).astype(int), minlength=1024) for d in range(5)])
        assert (counts == 1).all()  # one point in each of 1024 intervals, along every dimension
        pairs = (points[:, 0] * 32).astype(int) * 32 + (points[:, 1] * 32).astype(int)
        assert (np.bincount(pairs, minlength=1024) == 1).all()


def test_what_does_not_fit_is_refused():
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="Supported range"):
            SobolEngine(dimension)
    engine = SobolEngine(2)
    assert engine.draw_base2(3).shape == (8, 2)
    assert engine.draw_base2(3).shape == (8, 2)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(3)
    out = rg.empty(0)
    assert engine.draw(2, out=out) is out and out.shape == (2, 2)
    assert repr(SobolEngine(2, True, 3)) == "SobolEngine(dimension=2, scramble=True, seed=3)"
    assert rg.quasirandom.SobolEngine is SobolEngine
