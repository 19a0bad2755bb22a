"""``optim.minimize``: SciPy's methods with derivatives of ours, which are what somebody would have written by hand."""

from collections import namedtuple

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import functional_call

optimize = pytest.importorskip("scipy.optimize")
minimize = rg.optim.minimize

START = [1.3, 0.7, 0.8, 1.9, 1.2]


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


METHODS = {
    "Nelder-Mead": (), "Powell": (), "COBYQA": (), "CG": ("jac",), "BFGS": ("jac",), "L-BFGS-B": ("jac",),
    "TNC": ("jac",), "SLSQP": ("jac",), "Newton-CG": ("jac", "hessp"), "trust-ncg": ("jac", "hessp"),
    "trust-krylov": ("jac", "hessp"), "trust-constr": ("jac", "hessp"), "trust-exact": ("jac", "hess"),
    "dogleg": ("jac", "hess"),
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_a_method_does_what_it_does_with_derivatives_written_by_hand(method):
    if method == "COBYQA":
        pytest.importorskip("scipy", minversion="1.14")
    by_hand = {
        "jac": optimize.rosen_der,
        "hess": optimize.rosen_hess,
        "hessp": optimize.rosen_hess_prod,
    }
    start = [1.1, 0.9, 1.0, 1.1, 1.0] if method == "dogleg" else START  # where the Hessian is positive definite
    given = {name: by_hand[name] for name in METHODS[method]}
    wanted = optimize.minimize(optimize.rosen, start, method=method, tol=1e-7, **given)
    found = minimize(rosenbrock, start, method=method, tol=1e-7)
    assert found.success and isinstance(found.x, np.ndarray)
    assert abs(found.nit - wanted.nit) <= 1 + wanted.nit // 10
    np.testing.assert_allclose(found.x, 1, atol=1e-3)
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-3)


def test_the_whole_hessian_is_formed_where_it_is_asked_for():
    products = minimize(rosenbrock, START, method="Newton-CG")
    whole = minimize(rosenbrock, START, method="Newton-CG", hess=True)
    assert whole.nhev < products.nhev
    np.testing.assert_allclose(whole.x, 1, atol=1e-3)


def test_parameters_of_a_module_come_back_as_the_nest_they_went_in():
    rg.manual_seed(0)
    model, x = rg.nn.Linear(3, 2).double(), rg.randn(20, 3, dtype=rg.float64)
    weight, bias = rg.randn(2, 3, dtype=rg.float64), rg.randn(2, dtype=rg.float64)

    def loss(parameters, y):
        return rg.nn.functional.mse_loss(functional_call(model, parameters, x), y)

    result = minimize(loss, dict(model.named_parameters()), args=x @ weight.T + bias, method="trust-krylov")
    assert list(result.x) == ["weight", "bias"] and not result.x["weight"].requires_grad
    assert rg.allclose(result.x["weight"], weight, atol=1e-6) and rg.allclose(result.x["bias"], bias, atol=1e-6)
    model.load_state_dict(result.x)


def test_leaves_keep_kind_shape_and_dtype_and_the_start_is_left_alone():
    Point = namedtuple("Point", "a b c")
    start = Point(rg.ones(2, 2), np.full(3, 2.0), [1, 2])
    result = minimize(lambda p: sum((leaf**2).sum() for leaf in p), start)
    assert type(result.x) is Point and result.x.a.dtype == rg.float32 and result.x.a.shape == (2, 2)
    assert isinstance(result.x.b, np.ndarray) and result.x.c.shape == (2,)
    assert all(np.abs(np.asarray(leaf)).max() < 1e-5 for leaf in result.x)
    assert start.a.tolist() == [[1, 1], [1, 1]] and start.b.tolist() == [2, 2, 2]


def test_bounds_are_scipys_or_a_nest():
    def square(p):
        return (p["a"] ** 2).sum() + p["b"].sum()

    start = {"a": rg.ones(2), "b": rg.ones(3)}
    by_name = minimize(square, start, bounds={"a": (0.5, None), "b": (-1, [0, 1, 2])})
    assert by_name.x["a"].tolist() == [0.5, 0.5] and by_name.x["b"].tolist() == [-1, -1, -1]
    by_number = minimize(square, start, bounds=[(0.5, None)] * 2 + [(-1, 1)] * 3)
    scipys = minimize(square, start, bounds=optimize.Bounds([0.5] * 2 + [-1] * 3, [np.inf] * 2 + [1] * 3))
    assert by_number.fun == scipys.fun == by_name.fun


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_constraints_are_differentiated_too(method):
    # The example of SciPy's tutorial on constrained minimization.
    bounds = optimize.Bounds([0, -0.5], [1.0, 2.0])
    if method == "SLSQP":
        inside = {
            "type": "ineq",
            "fun": lambda x: [1 - x[0] - 2 * x[1], 1 - x[0] ** 2 - x[1], 1 - x[0] ** 2 + x[1]],
        }
        constraints = [inside, {"type": "eq", "fun": lambda x: 2 * x[0] + x[1] - 1}]
    else:
        linear = optimize.LinearConstraint([[1, 2], [2, 1]], [-np.inf, 1], [1, 1])
        constraints = [
            linear,
            optimize.NonlinearConstraint(lambda x: [x[0] ** 2 + x[1], x[0] ** 2 - x[1]], -np.inf, 1),
        ]
    result = minimize(rosenbrock, [0.5, 0], method=method, constraints=constraints, bounds=bounds)
    np.testing.assert_allclose(result.x, [0.41494531, 0.17010937], atol=1e-5)
    if method == "trust-constr":
        assert result.constr_nhev[1] > 0  # the constraint's Hessian was ours, not a quasi-Newton guess


def test_a_callback_sees_the_nest_in_both_of_scipys_forms():
    seen = []
    minimize(lambda p: (p["x"] ** 2).sum(), {"x": rg.ones(2)}, callback=lambda xk: seen.append(xk["x"]))

    def stop(intermediate_result):
        seen.append(intermediate_result.x["x"])
        raise StopIteration

    result = minimize(lambda p: (p["x"] ** 2).sum(), {"x": rg.ones(2)}, callback=stop)
    assert result.status == 99 and len(seen) > 1 and all(isinstance(x, rg.Tensor) for x in seen)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((lambda x: x**2, rg.ones(3)), {}, RuntimeError, "fun must return one real number, got float32\\(3,\\)"),
        ((lambda x: x.detach().numpy().sum(), rg.ones(3)), {}, TypeError, "got float32, which has no gradient"),
        ((lambda x: None, rg.ones(3)), {}, TypeError, "fun must return a Tensor, got NoneType"),
        ((lambda x: x.sum(), rg.ones(3, dtype=rg.int64)), {}, TypeError, "x0 must be of floating dtype, got int64"),
        ((lambda x: x.sum(), {"a": "x"}), {}, TypeError, r"x0\['a'\] must be a Tensor, an array or numbers, got str"),
        ((lambda x: x.sum(), {}), {}, ValueError, "x0 contains no numbers"),
        ((lambda x: x.sum(), rg.ones(3)), {"method": "steepest"}, ValueError, "Unknown solver steepest"),
        ((lambda x: x.sum(), rg.ones(3)), {"method": 3}, TypeError, "method must be the name of a SciPy method"),
        ((lambda x: x["a"].sum(), {"a": rg.ones(2)}), {"bounds": {"b": (0, 1)}}, ValueError, r"bounds\['a'\] is miss"),
        ((lambda x: x.sum(), rg.ones(2)), {"bounds": (0, [1, 2, 3])}, ValueError, r"bounds has shape \(3,\)"),
        (
            (lambda x: x.sum(), rg.ones(2)),
            {"constraints": {"type": "eq"}},
            ValueError,
            "a function under the key 'fun'",
        ),
        ((3, rg.ones(3)), {}, TypeError, "fun must be a function, got int"),
    ],
)
def test_a_wrong_argument_is_named(arguments, options, error, message):
    with pytest.raises(error, match=message):
        minimize(*arguments, **options)
