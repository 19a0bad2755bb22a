"""autograd.functional: names, meanings and types of errors are PyTorch's."""

import numpy as np
import pytest

import retrograd as rg
from tests.func.programs import QUIET, assert_same

torch = pytest.importorskip("torch")
pytestmark = QUIET
A, B, V = np.array([1.0, 2.0, -0.5]), np.array([0.3, -1.0, 2.0]), np.array([1.0, 10.0, -1.0])


def single(m):
    return lambda x: m.sin(x) * x.sum()


def several(m):
    return lambda x, y: (x * y, (x**2).sum() + (y**2).sum(), m.outer(x, y))


def scalar(m):
    return lambda x: (x**3).sum() * x.prod()


def scalar_of_two(m):
    return lambda x, y: (x**2 * m.exp(y)).sum() * y[0]


def tensors(m, *arrays):
    return tuple(m.tensor(array) for array in arrays)


CASES = {
    "vjp": lambda m, AF, o: AF.vjp(single(m), *tensors(m, A, V), **o),
    "vjp of several": lambda m, AF, o: AF.vjp(
        several(m), tensors(m, A, B), (*tensors(m, V, 2.0), m.ones(3, 3, dtype=m.float64)), **o
    ),
    "vjp of one element": lambda m, AF, o: AF.vjp(scalar(m), *tensors(m, A), **o),
    "jvp": lambda m, AF, o: AF.jvp(single(m), *tensors(m, A, V), **o),
    "jvp of several": lambda m, AF, o: AF.jvp(several(m), tensors(m, A, B), tensors(m, V, A), **o),
    "jacobian": lambda m, AF, o: AF.jacobian(single(m), *tensors(m, A), **o),
    "jacobian of several": lambda m, AF, o: AF.jacobian(several(m), tensors(m, A, B), **o),
    "hessian": lambda m, AF, o: AF.hessian(scalar(m), *tensors(m, A), **o),
    "hessian of two": lambda m, AF, o: AF.hessian(scalar_of_two(m), tensors(m, A, B), **o),
    "hvp": lambda m, AF, o: AF.hvp(scalar(m), *tensors(m, A, V), **o),
    "hvp of two": lambda m, AF, o: AF.hvp(scalar_of_two(m), tensors(m, A, B), tensors(m, V, A), **o),
    "vhp": lambda m, AF, o: AF.vhp(scalar(m), *tensors(m, A, V), **o),
    "vhp of two": lambda m, AF, o: AF.vhp(scalar_of_two(m), tensors(m, A, B), tensors(m, V, A), **o),
}
OPTIONS = [{}, {"create_graph": True}, {"strict": True}, {"create_graph": True, "strict": True}]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", CASES)
def test_products_and_matrices_are_pytorchs(name, options):
    mine = CASES[name](rg, rg.autograd.functional, options)
    assert_same(mine, CASES[name](torch, torch.autograd.functional, options))


VECTORIZED = [
    ("jacobian", {"vectorize": True}),
    ("jacobian", {"vectorize": True, "create_graph": True}),
    ("jacobian", {"vectorize": True, "strategy": "forward-mode"}),
    ("jacobian of several", {"vectorize": True}),
    ("jacobian of several", {"vectorize": True, "strategy": "forward-mode"}),
    ("hessian", {"vectorize": True}),
    ("hessian of two", {"vectorize": True}),
    ("hessian of two", {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}),
]


@pytest.mark.parametrize(("name", "options"), VECTORIZED)
def test_vectorized_matrices_are_pytorchs(name, options):
    mine = CASES[name](rg, rg.autograd.functional, options)
    assert_same(mine, CASES[name](torch, torch.autograd.functional, options))


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}])
def test_a_jacobian_is_differentiated_with_create_graph(options):
    def by_weight(m, options):
        x, w = m.tensor(A, requires_grad=True), m.tensor(B, requires_grad=True)
        found = m.autograd.functional.jacobian(lambda x: m.sin(x * w), x, create_graph=True, **options)
        return m.autograd.grad((found**2).sum(), (x, w))

    assert_same(by_weight(rg, options), by_weight(torch, {}))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_recorded_without_create_graph(name):
    def required(nest):
        return nest.requires_grad if isinstance(nest, rg.Tensor) else any(map(required, nest))

    assert not required(CASES[name](rg, rg.autograd.functional, {}))


def constant(m):
    return lambda x: m.ones(3, dtype=m.float64)


WRONG = {
    "strict output": lambda m, AF, x: AF.jacobian(constant(m), x, strict=True),
    "strict input": lambda m, AF, x: AF.jacobian(lambda x, y: x * 2, (x, x), strict=True),
    "strict jvp": lambda m, AF, x: AF.jvp(constant(m), x, x, strict=True),
    "strict, recorded linear jvp": lambda m, AF, x: AF.jvp(lambda x: x.clone(), x, x, strict=True, create_graph=True),
    "strict hvp": lambda m, AF, x: AF.hvp(lambda x: x.sum(), x, x, strict=True),
    "strict, recorded hvp": lambda m, AF, x: AF.hvp(lambda x: x.sum(), x, x, strict=True, create_graph=True),
    "strict and vectorized": lambda m, AF, x: AF.jacobian(single(m), x, strict=True, vectorize=True),
    "strict and vectorized hessian": lambda m, AF, x: AF.hessian(scalar(m), x, strict=True, vectorize=True),
    "forward alone": lambda m, AF, x: AF.jacobian(single(m), x, strategy="forward-mode"),
    "forward hessian alone": lambda m, AF, x: AF.hessian(scalar(m), x, outer_jacobian_strategy="forward-mode"),
    "no tensors": lambda m, AF, x: AF.vjp(lambda x: 1, x),
    "number": lambda m, AF, x: AF.jacobian(single(m), 1.0),
    "integers": lambda m, AF, x: AF.jacobian(single(m), x.to(m.int64)),
    "no vector": lambda m, AF, x: AF.vjp(single(m), x),
    "size of the vector": lambda m, AF, x: AF.jvp(single(m), x, x[:2]),
    "number of vectors": lambda m, AF, x: AF.vjp(single(m), x, (x, x)),
    "vector for a scalar": lambda m, AF, x: AF.hvp(single(m), x, x),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_pytorch_refuses_is_refused_by_the_same_type(name):
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)) as wanted:
        WRONG[name](torch, torch.autograd.functional, torch.tensor(A))
    with pytest.raises(wanted.type):
        WRONG[name](rg, rg.autograd.functional, rg.tensor(A))


def test_a_strategy_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="strategy must be 'reverse-mode' or 'forward-mode', got 'sideways'"):
        rg.autograd.functional.jacobian(single(rg), rg.tensor(A), strategy="sideways")
