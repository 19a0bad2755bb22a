"""Numbers that guards compare: by type and sign as well, wherever they stand."""

import cmath
import types

import numpy as np
import pytest

import retrograd as rg

PLACES = {
    "a list": ([None], lambda place, n: place.__setitem__(0, n), lambda place: place[0]),
    "a dict": ({}, lambda place, n: place.__setitem__("n", n), lambda place: place["n"]),
    "an object": (types.SimpleNamespace(), lambda place, n: setattr(place, "n", n), lambda place: place.n),
}


@pytest.mark.parametrize("number", [0.0, 0j, complex(-1.0, 0.0)])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n], lambda n: {"n": n}], ids=["plain", "list", "dict"])
def test_a_number_among_the_arguments_has_a_sign(number, wrap):
    def told_apart(x, nest):
        n = nest[0] if isinstance(nest, list) else nest["n"] if isinstance(nest, dict) else nest
        return x * (1.0 if cmath.phase(n) > 0 or repr(n)[0] != "-" else 2.0)

    compiled = rg.compile(told_apart)
    for n in (number, number.conjugate() if number else -number) * 2:
        assert compiled(rg.ones(1), wrap(n)).item() == told_apart(rg.ones(1), wrap(n)).item()


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("numbers", [(0.0, -0.0), (1, 1.0), (1.0, 1), (1, True), (0, -0.0)], ids=str)
def test_a_number_from_outside_has_a_type_and_a_sign(name, numbers):
    place, put, read = PLACES[name]

    def times(x):
        return x * read(place), 1.0 / (x * read(place))

    put(place, numbers[0])
    compiled = rg.compile(times)
    x = rg.ones(1, dtype=rg.int32)
    for n in numbers * 2:
        put(place, n)
        assert repr(compiled(x)) == repr(times(x))


def test_zeros_in_a_numpy_array_from_outside_have_a_sign():
    array = np.array([0.0], np.float32)
    compiled = rg.compile(lambda x: x / rg.tensor(array))
    assert compiled(rg.ones(1)).item() == np.inf
    array[0] = -0.0
    assert compiled(rg.ones(1)).item() == -np.inf


@pytest.mark.parametrize("kind", ["global", "argument"])
def test_a_number_that_has_varied_is_still_told_from_one_of_another_type(kind):
    """A variable that has become an input of the program takes numbers of its type alone."""

    def f(x, n=None):
        return rg.full((2,), holder.n if n is None else n) + x

    holder = types.SimpleNamespace(n=1.0)
    compiled = rg.compile(f)
    x = rg.ones(2, dtype=rg.int32)
    for n in (1.0, 2.0, 3.0, 4, 5, True, np.float64(2.0), rg.tensor(1.5), 6.0):
        holder.n = n
        arguments = (x,) if kind == "global" else (x, n)
        assert repr(compiled(*arguments)) == repr(f(*arguments))


@pytest.mark.parametrize("fallback", [True, False])
def test_code_that_asks_for_the_type_of_a_number_gets_that_of_the_number(fallback):
    n = 1.0

    def of_variable(x):
        return x * 2 if type(n) is float else x * 3

    def of_argument(x, k):
        return x * len(type(k).__name__)

    def of_element(x):
        return x * len(type(x.sum().item()).__name__)

    x = rg.ones(2)
    first, second, third = (rg.compile(f, fallback=fallback) for f in (of_variable, of_argument, of_element))
    for k in (1.0, 2.0, 3.0, 4.0):
        n = k
        assert first(x).tolist() == [2, 2]
        assert second(x, k).tolist() == [5, 5]
    if fallback:
        with pytest.warns(UserWarning, match="runs eagerly: reads the number"):
            assert [third(x).tolist() for _ in range(4)] == [[5, 5]] * 4
    else:
        with pytest.raises(rg.compiler.DataDependent, match="reads the number"):
            third(x)


@pytest.mark.parametrize(
    "shaped",
    [
        lambda x, n: x * x[:n].shape[0],
        lambda x, n: x * len(x[1:n].unbind()),
        lambda x, n: x.flatten()[:n].reshape(-1, 1).sum(1),
        lambda x, n: x[:: n // 10].flatten() * 2.0,
        lambda x, n: rg.zeros(n).sum() + rg.arange(0.0, 1.0, 0.5 / n).numel() + x,
        lambda x, n: rg.cat([x] * n).repeat(n, 1)[-1],
    ],
    ids=["shape", "unbind", "reshape", "stride", "sizes", "repeat"],
)
def test_shapes_that_follow_from_a_number_that_varies_are_those_of_the_call(shaped):
    """After its second value a number is an input: what the program takes from a shape holds for one value only."""
    compiled = rg.compile(shaped)
    x = rg.arange(84.0).reshape(42, 2)
    for n in (40, 40, 34, 40, 30, 40):
        wanted, got = shaped(x, n), compiled(x, n)
        assert got.shape == wanted.shape and rg.equal(got, wanted)


def test_a_number_in_a_slice_of_one_length_needs_one_program():
    compiled = rg.compile(lambda x, n: x[n : n + 4] * 2.0)
    x = rg.arange(40.0)
    for n in (0, 7, 9, 11, 20):
        assert rg.equal(compiled(x, n), x[n : n + 4] * 2.0)
    assert compiled.summary().startswith("compiled: 2 programs")
