import math
import operator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retrograd.scalar import Value, dot

positive = st.floats(0.3, 3.0)
number = st.floats(-3.0, 3.0).filter(lambda x: abs(x) > 0.05)

UNARY = {
    "neg": (operator.neg, number),
    "abs": (abs, number),
    "relu": (Value.relu, number),
    "exp": (Value.exp, number),
    "log": (Value.log, positive),
    "sqrt": (Value.sqrt, positive),
    "sin": (Value.sin, number),
    "cos": (Value.cos, number),
    "tanh": (Value.tanh, number),
    "sigmoid": (Value.sigmoid, number),
    "cube": (lambda x: x**3, number),
    "root": (lambda x: x**-0.5, positive),
    "power of two": (lambda x: 2**x, number),
    "reflected": (lambda x: (3 - x) * (2 / x) + (1 + x) * 4, number),
}
BINARY = {
    "+": (operator.add, number, number),
    "-": (operator.sub, number, number),
    "*": (operator.mul, number, number),
    "/": (operator.truediv, number, number),
    "**": (operator.pow, positive, number),
    "dot": (lambda x, y: dot([x, y, x], [y, 2.0, x], y), number, number),
    "shared": (lambda x, y: (x * y + x).tanh() * (x - y / (x * x + 1)), number, number),
}


def check_gradients(function, *numbers, step=1e-5):
    leaves = [Value(x) for x in numbers]
    function(*leaves).backward()
    for i, leaf in enumerate(leaves):
        up, down = ([Value(x + sign * step * (j == i)) for j, x in enumerate(numbers)] for sign in (1, -1))
        slope = (function(*up).data - function(*down).data) / (2 * step)
        assert leaf.grad == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_unary_gradient_agrees_with_central_differences(name, data):
    function, numbers = UNARY[name]
    check_gradients(function, data.draw(numbers))


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_binary_gradient_agrees_with_central_differences(name, data):
    function, first, second = BINARY[name]
    check_gradients(function, data.draw(first), data.draw(second))


def test_forward_numbers():
    x = Value(0.7)
    assert [x.exp().data, x.log().data, x.sqrt().data] == [math.exp(0.7), math.log(0.7), math.sqrt(0.7)]
    assert [x.sin().data, x.cos().data, x.tanh().data] == [math.sin(0.7), math.cos(0.7), math.tanh(0.7)]
    assert x.sigmoid().data == pytest.approx(1 / (1 + math.exp(-0.7)), rel=1e-15)
    assert [(-x).relu().data, x.relu().data, abs(-x).data] == [0.0, 0.7, 0.7]
    assert [(2 - x).data, (2 / x).data, (2**x).data, (x**2).data] == [2 - 0.7, 2 / 0.7, 2**0.7, 0.7**2]
    assert dot([1, 2.0], [Value(3), 4], 5).data == 16.0


def test_micrograd_agrees():
    engine = pytest.importorskip("micrograd.engine")

    def program(kind):  # the sanity check of micrograd's own tests, a few operators longer
        a, b = kind(-4.0), kind(2.0)
        c = a + b
        d = a * b + b**3
        c += c + 1
        c += 1 + c + (-a)
        d += d * 2 + (b + a).relu()
        d += 3 * d + (b - a).relu()
        e = c - d
        f = e**2
        g = f / 2.0
        g += 10.0 / f
        g.backward()
        return [g.data, a.grad, b.grad, e.grad, len(g._prev)]

    assert program(Value) == pytest.approx(program(engine.Value), rel=1e-14)


def test_second_backward_doubles_every_gradient():
    x, y = Value(1.5), Value(-0.5)
    hidden = x * y + x
    result = (hidden.tanh() * hidden).exp()
    result.backward()
    once = [node.grad for node in (x, y, hidden, result)]
    result.backward()
    assert [node.grad for node in (x, y, hidden, result)] == [2 * grad for grad in once]


def test_gradients_of_two_results_add_up():
    x = Value(3.0)
    square = x * x
    (square + 1).backward()
    (square * 2).backward()
    assert (x.grad, square.grad) == (18.0, 3.0)


def test_long_chain():
    x = y = Value(1.0)
    for _ in range(20_000):
        y = y * 1.00001
    y.backward()
    assert x.grad == pytest.approx(y.data, rel=1e-9)


def test_deeply_shared_graph_takes_linear_time():
    x = y = Value(1.0)
    for _ in range(60):  # 2**60 paths
        y = y + y
    y.backward()
    assert x.grad == 2.0**60


@pytest.mark.parametrize("a", [-1e4, -800.0, 800.0, 1e4])
def test_saturated_functions_are_stable(a):
    for method, limits in ((Value.tanh, (-1.0, 1.0)), (Value.sigmoid, (0.0, 1.0))):
        x = Value(a)
        y = method(x)
        y.backward()
        assert (y.data, x.grad) == (limits[a > 0], 0.0)
    assert Value(-1e4).exp().data == 0.0


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: Value(0.0).log(), ValueError, r"log of \[0\.0\]"),
        (lambda: Value(-1.0).log(), ValueError, r"log of \[-1\.0\]"),
        (lambda: Value(-1.0).sqrt(), ValueError, r"sqrt of \[-1\.0\]"),
        (lambda: Value(-8.0) ** (1 / 3), ValueError, "integer exponent"),
        (lambda: Value(0.0) ** -1, ZeroDivisionError, r"\*\*-1 of \[0\.0\]"),
        (lambda: Value(0.0) ** Value(-1.0), ZeroDivisionError, r"\*\* of \[0\.0, -1\.0\]"),
        (lambda: 1 / Value(0.0), ZeroDivisionError, r"/ of \[1\.0, 0\.0\]"),
        (lambda: Value(1000.0).exp(), OverflowError, r"exp of \[1000\.0\]"),
        (lambda: Value(1e200) * 1e200, OverflowError, r"\* of"),
        (lambda: Value(1e200) ** 2, OverflowError, r"\*\*2 of"),
        (lambda: dot([1e200], [1e200]), OverflowError, "dot of"),
        (lambda: dot([1.0, 2.0], [1.0]), ValueError, "got 2 weights and 1 inputs"),
        (lambda: Value("3"), TypeError, "must be a real number"),
        (lambda: Value(Value(3.0)), TypeError, "must be a real number"),
        (lambda: Value(6.0, (Value(2.0),), "triple"), TypeError, "1 operands of 'triple' need as many slopes, got 0"),
        (lambda: Value(None), TypeError, "must be a real number, got a NoneType: None"),
        (lambda: Value([1.0]), TypeError, "must be a real number, got a list"),
        (lambda: Value(1j), TypeError, "must be a real number, got a complex"),
        (lambda: Value(1.0) ** "2", TypeError, "must be a real number, got '2'"),
        (lambda: "2" ** Value(1.0), TypeError, "must be a real number, got '2'"),
        (lambda: Value(1.0) * [1.0], TypeError, "must be a real number, got a list"),
        (lambda: Value(1.0) + "3", TypeError, "must be a real number"),
    ],
)
def test_bad_input_is_refused(function, error, message):
    with pytest.raises(error, match=message):
        function()


def test_infinite_derivative_is_refused_and_changes_nothing():
    x, y = Value(0.0), Value(2.0)
    result = x.sqrt() + y * y
    assert result.data == 4.0
    with pytest.raises(OverflowError, match="the gradient of leaf"):
        result.backward()
    assert (x.grad, y.grad, result.grad) == (0.0, 0.0, 0.0)


def test_a_power_without_a_derivative_by_its_exponent_names_the_power():
    x, exponent = Value(-2.0), Value(2.0)
    assert (x**exponent).data == 4.0
    with pytest.raises(OverflowError, match=r"gradient of leaf .* is inf, from \*\* of \[-2\.0, 2\.0\]"):
        (x**exponent).backward()
    (x**2).backward()
    assert x.grad == -4.0


def test_branch_without_influence_passes_nothing_on():
    x = Value(0.0)
    (x.sqrt() * 0 + x * 3).backward()
    assert x.grad == 3.0


def test_number_is_right_where_the_slope_is_beyond_floats():
    assert (Value(1e-200) ** -1).data == pytest.approx(1e200)


def test_kinks():
    for function in (abs, Value.relu):
        x = Value(0.0)
        function(x).backward()
        assert x.grad == 0.0


def test_power_at_zero():
    for exponent, slope in ((0, 0.0), (1, 1.0), (2, 0.0)):
        x = Value(0.0)
        (x**exponent).backward()
        assert x.grad == slope


def test_comparisons_and_float():
    x, y = Value(2.0), Value(3)
    assert x < y <= 3 and y > 2.5 and x >= 2 and x == 2 and x != y and y > x
    assert sorted([y, x]) == [2, 3] and max(x, y) is y
    assert float(y) == 3.0 and type(y.data) is float
    assert len({Value(1.0), Value(1.0)}) == 2
    with pytest.raises(TypeError):
        assert x < "3"


def test_numpy_scalars_become_floats():
    np = pytest.importorskip("numpy")
    x = np.float64(2.0) * Value(np.float32(3.0))
    assert isinstance(x, Value) and type(x.data) is float and x.data == 6.0
    assert np.int64(3) > Value(2.0)


@pytest.mark.parametrize("function", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow])
def test_an_array_is_taken_element_by_element_on_either_side(function):
    np = pytest.importorskip("numpy")
    array, x = np.array([[1.0, 2.0], [3.0, 4.0]]), Value(2.0)
    for apply in (lambda x: function(x, array), lambda x: function(array, x)):
        result = apply(x)
        assert result.shape == array.shape and result.dtype == object
        assert [value.data for value in result.flat] == apply(2.0).ravel().tolist()
        x.grad = 0.0
        result.sum().backward()
        slope = (apply(2.0 + 1e-6) - apply(2.0 - 1e-6)).sum() / 2e-6
        assert x.grad == pytest.approx(slope, rel=1e-6)


def test_a_single_number_of_numpy_is_a_number():
    np = pytest.importorskip("numpy")
    assert Value(np.array(3.0)).data == 3.0 and (Value(2.0) * np.array(3.0)).data == 6.0
    for array in (np.array([1.0]), np.array([1.0, 2.0])):
        with pytest.raises(TypeError, match="must be a real number, got a ndarray"):
            Value(array)


def test_a_tensor_is_refused_lest_its_gradient_be_lost():
    rg = pytest.importorskip("retrograd")
    for tensor in (rg.tensor(3.0, requires_grad=True), rg.tensor(3.0), rg.tensor([1.0, 2.0])):
        x = Value(2.0)
        for act in (lambda: Value(tensor), lambda: x * tensor, lambda: tensor * x, lambda: tensor + x):  # noqa: B023
            with pytest.raises(TypeError, match=r"real number, got a Tensor|got Value|unsupported operand"):
                act()


def test_a_step_of_the_chain_rule_by_hand():
    a, b, c = Value(2.0), Value(-3.0), Value(10.0)
    product = a * b
    result = product + c
    result.grad = 1.0
    for node in (result, product, c, b, a):
        node._backward()
    assert [node.grad for node in (a, b, c, product)] == [-3.0, 2.0, 1.0, 1.0]


def test_a_subclass_of_value_takes_part():
    class Named(Value):
        __slots__ = ()

    x = Named(3.0)
    (dot([x, 2.0], [x, 1.0]) + x * x).backward()
    assert x.grad == 12.0
