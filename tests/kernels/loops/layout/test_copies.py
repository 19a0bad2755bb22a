"""Copies of large arrays by lines, whole or turned, into parts of others; elements of ufuncs in rows that lie apart."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.kernels import share
from retrograd.kernels.loops.elements import ufuncs
from retrograd.kernels.loops.layout import copies

pytestmark = [
    pytest.mark.slow,  # all of them compile loops
    pytest.mark.skipif(not kernels.available(), reason="Numba is not installed"),
]
BACKWARDS = slice(None, None, -1)
PLACES = {
    "whole": (),
    "columns": (..., slice(3, None)),
    "rows": (slice(5, -5),),
    "rows apart": (slice(None, None, 2),),
    "rows backwards": (BACKWARDS,),
    "columns backwards": (..., BACKWARDS),
    "all backwards": (BACKWARDS, BACKWARDS, BACKWARDS),
    "part of columns backwards": (..., slice(500, 20, -1)),
    "the middle": (slice(None), slice(1, -1), slice(None)),
    "the middle backwards": (slice(None), BACKWARDS, slice(2, -2)),
    "columns apart": (..., slice(None, None, 3)),
}


@pytest.fixture(autouse=True)
def shared():
    share()


@pytest.mark.parametrize("kind", ["f4", "f8", "i8", "c8", "f2", "?"])
@pytest.mark.parametrize("name", PLACES)
def test_parts_of_arrays_are_copied_and_written(name, kind):
    x = (100 * np.random.default_rng(0).standard_normal((20, 33, 611))).astype(kind)
    part = x[PLACES[name]]
    for found in (copies.copied(part), copies.cloned(part)):
        np.testing.assert_array_equal(found, part)
        assert not np.may_share_memory(found, x)
    assert copies.copied(part).flags.c_contiguous
    out = np.zeros_like(x)
    wanted = out.copy()
    wanted[PLACES[name]] = part
    copies.write(out[PLACES[name]], part)
    np.testing.assert_array_equal(out, wanted)
    copies.write(out[PLACES[name]], 7)
    wanted[PLACES[name]] = 7
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("name", ["one", "rows", "columns", "matrices", "rows of some"])
def test_what_is_repeated_is_copied_out(name):
    x = np.random.default_rng(0).standard_normal((20, 33, 611)).astype("f")
    part = {"one": x[3, 4, 5], "rows": x[0, 0], "columns": x[:1, :, :1], "matrices": x[:1], "rows of some": x[:, :1]}
    repeated = np.broadcast_to(part[name], x.shape)
    out = np.zeros_like(x)
    copies.write(out, repeated)
    for found in (copies.copied(repeated), copies.cloned(repeated), out):
        assert found.flags.c_contiguous and found.flags.writeable
        np.testing.assert_array_equal(found, repeated)


@pytest.mark.parametrize("shape", [(300_000,), (2, 150_000), (5, 1, 7, 9000), (3, 4, 5, 6, 1000)])
def test_flips_rolls_and_joins_of_many_shapes(shape):
    x = np.random.default_rng(1).standard_normal(shape).astype("f")
    t = rg.tensor(x)
    for axis in range(x.ndim):
        np.testing.assert_array_equal(rg.flip(t, axis).numpy(), np.flip(x, axis))
        np.testing.assert_array_equal(rg.roll(t, 3, axis).numpy(), np.roll(x, 3, axis))
        both = rg.cat([t, t.flip(axis)], axis)
        np.testing.assert_array_equal(both.numpy(), np.concatenate([x, np.flip(x, axis)], axis))


def test_rows_apart_go_through_numpys_loops_by_all_threads(monkeypatch):
    launched = []
    launch = ufuncs.launch
    monkeypatch.setattr(ufuncs, "launch", lambda *args: launched.append(args[0].name) or launch(*args))
    x, y = np.random.default_rng(2).standard_normal((2, 700, 801)).astype("f")
    t, u = rg.tensor(x), rg.tensor(y)
    pairs = [
        (t[:, 1:] - t[:, :-1], x[:, 1:] - x[:, :-1]),
        (t[::2] * u[::2], x[::2] * y[::2]),
        (t * u[:, :1], x * y[:, :1]),
        (t[:, :700] + u[0, :700], x[:, :700] + y[0, :700]),
        (t[:, 1:] / u[:, 3:4], x[:, 1:] / y[:, 3:4]),
        (t[:, 1:] - 2.5, x[:, 1:] - np.float32(2.5)),
        (-t[:, 100:], -x[:, 100:]),
        (t[1:, 1:] + u[:-1, 1:], x[1:, 1:] + y[:-1, 1:]),
    ]
    for ours, wanted in pairs:
        np.testing.assert_array_equal(ours.numpy(), wanted)
    assert launched == ["rows"] * len(pairs)
    turned = t.T[1:] * u.T[1:]
    np.testing.assert_array_equal(turned.numpy(), (x.T[1:] * y.T[1:]))
    assert len(launched) == len(pairs)  # rows there have their elements apart
