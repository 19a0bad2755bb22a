"""Operands of other array libraries: Tensors leave them the operation, and never hold one inside."""

import operator

import numpy as np
import pytest

import retrograd as rg

BINARY = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split()  # noqa: SIM905
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


class Labelled:
    """As xarray's DataArray: has dtype and shape, and operators of its own, also reflected ones."""

    dtype = np.dtype("f4")
    shape = (2,)
    ndim = 1

    def __array__(self, dtype=None, copy=None):
        return np.ones(2, np.float32)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "labelled", ufunc.__name__

    def __array_function__(self, function, types, args, kwargs):
        return "labelled", function.__name__


def _answer(name):
    return lambda self, other: ("labelled", name)


for _name in BINARY:
    _plain = _name.rstrip("_")
    setattr(Labelled, f"__{_plain}__", _answer(_plain))
    setattr(Labelled, f"__r{_plain}__", _answer("r" + _plain))
for _name in MIRRORED:
    setattr(Labelled, f"__{_name}__", _answer(_name))
Labelled.__hash__ = object.__hash__  # type: ignore[method-assign]


class Refusing:
    """Wants no part of NumPy's protocols, and has no operators."""

    __array_ufunc__ = None
    dtype = np.dtype("f4")
    shape = (2,)


class WithUnits(np.ndarray):
    """A subclass of NumPy's array that computes otherwise."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "with units", ufunc.__name__


TENSORS = [rg.tensor([1.0, 2.0]), rg.tensor([1.0, 2.0], requires_grad=True), rg.tensor([1, 2]), rg.tensor(True)]


@pytest.mark.parametrize("t", TENSORS, ids=repr)
@pytest.mark.parametrize("name", BINARY)
def test_an_operator_leaves_a_foreign_array_its_own_reflected_one(name, t):
    function, plain = getattr(operator, name), name.rstrip("_")
    assert function(t, Labelled()) == ("labelled", "r" + plain)
    assert function(Labelled(), t) == ("labelled", plain)
    assert getattr(t, f"__{plain}__")(Labelled()) is NotImplemented
    assert getattr(t, f"__r{plain}__")(Labelled()) is NotImplemented


@pytest.mark.parametrize("name", MIRRORED)
def test_a_comparison_leaves_a_foreign_array_the_mirrored_one(name):
    assert getattr(operator, name)(TENSORS[0], Labelled()) == ("labelled", MIRRORED[name])


@pytest.mark.parametrize("name", BINARY)
def test_an_in_place_operator_with_a_foreign_array_gives_what_that_makes_of_it(name):
    t = rg.tensor([1.0, 2.0])
    plain = name.rstrip("_")
    assert getattr(operator, "i" + plain)(t, Labelled()) == ("labelled", "r" + plain)
    assert t.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", BINARY)
def test_without_a_reflected_operator_it_is_a_type_error_either_way(name):
    function = getattr(operator, name)
    for other in (Refusing(), None, object()):
        for t in TENSORS:
            with pytest.raises(TypeError, match="unsupported operand"):
                function(t, other)
            with pytest.raises(TypeError, match="unsupported operand"):
                function(other, t)


def test_functions_of_ours_refuse_foreign_arrays_by_name():
    for function in (rg.add, rg.mul, rg.maximum, rg.pow, rg.matmul, rg.eq, rg.clamp):
        for other in (Labelled(), Refusing()):
            with pytest.raises(TypeError, match=function.__name__):
                function(TENSORS[0], other)
    with pytest.raises(TypeError, match="add_"):
        rg.ones(2).add_(Labelled())


def test_ufuncs_and_functions_of_numpy_leave_foreign_arrays_theirs():
    t = TENSORS[1]
    assert np.add(t, Labelled()) == np.add(Labelled(), t) == ("labelled", "add")
    assert np.multiply.outer(t, Labelled()) == ("labelled", "multiply")
    assert np.concatenate([t, Labelled()]) == ("labelled", "concatenate")
    assert np.dot(Labelled(), t) == ("labelled", "dot")
    assert t.__array_function__(np.dot, (rg.Tensor, Labelled), (t, Labelled()), {}) is NotImplemented
    assert t.__array_ufunc__(np.add, "__call__", t, Labelled()) is NotImplemented
    with pytest.raises(TypeError):
        np.add(t, Refusing())


def test_functions_of_numpy_convert_what_leaves_them_the_conversion():
    class Column:
        """As a column of pandas, which takes no part in NumPy's functions but has operators and ufuncs of its own."""

        __array_ufunc__ = Labelled.__array_ufunc__

        def __array__(self, dtype=None, copy=None):
            return np.array([1.0, 3.0])

    t = rg.tensor([1.0, 2.0], dtype=rg.float64, requires_grad=True)
    for result, wanted in [
        (np.where(np.array([True, False]), t, Column()), [1.0, 3.0]),
        (np.stack([Column(), t]).sum(0), [2.0, 5.0]),
        (np.dot(t, Column()), 7.0),
        (np.interp(Column(), (0.0, 2.0), t, right=4.0), [1.5, 4.0]),
    ]:
        assert result.requires_grad and result.tolist() == wanted
    with pytest.raises(TypeError, match="np.where.*object"):
        np.where(object(), t, Column())


def test_a_subclass_of_numpys_array_that_computes_otherwise_is_foreign():
    t, units = TENSORS[0], np.ones(2, np.float32).view(WithUnits)
    assert t + units == ("with units", "add") and units * t == ("with units", "multiply")
    with pytest.raises(TypeError, match="add"):
        rg.add(t, units)


def test_a_masked_array_keeps_its_mask():
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for result in (TENSORS[0] + masked, masked + TENSORS[0]):
        assert isinstance(result, np.ma.MaskedArray) and result.mask.tolist() == [False, True]
    with pytest.raises(TypeError, match="add"):
        rg.add(TENSORS[0], masked)


def test_subclasses_of_numpys_array_that_compute_as_it_does_are_taken():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    t = rg.ones(2, 2, requires_grad=True)
    for out in (t * matrix, matrix * t, rg.mul(matrix, t), np.multiply(t, matrix), rg.where(t > 0, t * matrix, matrix)):
        assert out.requires_grad and type(out.array) is np.ndarray
        assert out.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    (t * matrix).sum().backward()
    assert t.grad.tolist() == [[1.0, 2.0], [3.0, 4.0]]
