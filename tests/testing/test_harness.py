"""The harness is tested itself: a right operator passes every check, and each defect planted here fails one."""

import inspect
import sys
from functools import partial

import numpy as np
import pytest

from retrograd.autograd.gradcheck import GradcheckError
from retrograd.core.graph import backward as walk
from retrograd.core.graph.nodes import Node
from retrograd.core.graph.primitive import Primitive, apply, apply1
from retrograd.core.tensor.tensor import Tensor, new_tensor
from retrograd.ops.math.arithmetic import mul
from retrograd.ops.table import batching
from retrograd.ops.table.registry import Operator
from retrograd.testing import harness, mapping
from retrograd.testing.case import Call, Case
from tests.helpers.against_torch import check_edges, check_torch
from tests.helpers.together import check_all

FAILURE = (AssertionError, GradcheckError)

PROPERTIES = [
    harness.check_forward,
    harness.check_gradient,
    harness.check_second_order,
    harness.check_forward_mode,
    harness.check_dtypes,
    harness.check_layouts,
    harness.check_inputs_unchanged,
    harness.check_no_aliasing,
    harness.check_freed,
    harness.check_mutation,
    harness.check_written_result,
    harness.check_chain,
    mapping.check_vmap,
]


def calls(rng):
    yield Call(rng.standard_normal((2, 3)))
    yield Call(rng.standard_normal(()))
    yield Call(rng.standard_normal((0, 3)))


def pair_calls(rng):
    yield Call(rng.standard_normal((2, 3)), rng.standard_normal((3,)))
    yield Call(rng.standard_normal(()), rng.standard_normal((2,)))


def toy(function, calls=calls, **options):
    return Operator("toy", function), Case("toy", calls, **options)


def square(forward=np.square, rule=lambda g, x: 2 * g * x, **options):
    """The square as an operator, with a part of it replaced."""
    options.setdefault("elementwise", True)
    options.setdefault("promote", "same")
    primitive = Primitive("square", forward, "x", [rule], **options)
    return lambda x: apply1(primitive, x) if not primitive.residuals else apply(primitive, (x,), {})


def product(rule_x=lambda g, y: g * y, rule_y=lambda g, x: g * x):
    primitive = Primitive("product", np.multiply, "x y", [rule_x, rule_y], promote="same")
    return lambda x, y: apply(primitive, (x, y), {})


quick_or_not = pytest.mark.parametrize("quick", [False, True])


@pytest.mark.parametrize("check", PROPERTIES)
def test_right_operators_pass(check):
    check(*toy(square(), reference=np.square))
    check(*toy(product(), pair_calls, reference=np.multiply))


def test_checks_in_one_test_are_all_run_and_told_by_name():
    def wrong(error):
        raise error

    ran = []
    checks = [
        ("first", partial(wrong, AssertionError("a"))),
        ("second", partial(ran.append, 2)),
        ("third", partial(wrong, TypeError("c"))),
        ("last", partial(ran.append, 4)),
    ]
    with pytest.raises(ExceptionGroup, match="^first, third") as caught:
        check_all(checks)
    assert [type(error) for error in caught.value.exceptions] == [AssertionError, TypeError] and ran == [2, 4]
    check_all(checks[1::2])


@quick_or_not
def test_measured_errors_are_small_but_real(quick):
    assert 0 < harness.check_gradient(*toy(square()), quick=quick) < 1e-8
    assert 0 < harness.check_second_order(*toy(square()), quick=quick) < 1e-8


def test_a_wrong_value_fails():
    with pytest.raises(AssertionError, match=r"toy\(float64\(2, 3\)\): forward"):
        harness.check_forward(*toy(square(lambda x: x * x * (1 + 1e-8)), reference=np.square))


@quick_or_not
def test_a_rule_scaled_by_1_001_fails(quick):
    with pytest.raises(AssertionError, match="analytic .*, numerical"):
        harness.check_gradient(*toy(square(rule=lambda g, x: 1.001 * 2 * g * x)), quick=quick)


@quick_or_not
def test_a_second_derivative_scaled_by_1_001_fails(quick):
    """The rule is right on arrays; on Tensors, where higher orders come from, it is scaled."""

    def rule(g, x):
        return (2.002 if isinstance(x, Tensor) else 2) * g * x

    operator, case = toy(square(rule=rule))
    harness.check_gradient(operator, case, quick=quick)
    with pytest.raises(AssertionError, match="second order .*\n.*analytic .*, numerical"):
        harness.check_second_order(operator, case, quick=quick)


@quick_or_not
def test_a_rule_wrong_at_one_element_fails(quick):
    def rule(g, x):
        factor = np.ones(x.shape)
        factor[..., -1:] = 1.001
        return 2 * g * x * factor

    with pytest.raises(AssertionError, match=r"d output\[0, 2\] / d input\[0, 2\]"):
        harness.check_gradient(*toy(square(rule=rule), lambda rng: [Call(rng.standard_normal((1, 3)))]), quick=quick)


@quick_or_not
def test_a_nan_gradient_fails(quick):
    with pytest.raises(AssertionError, match="analytic nan"):
        harness.check_gradient(*toy(square(rule=lambda g, x: g * x * np.nan)), quick=quick)


@quick_or_not
def test_a_missing_gradient_fails(quick):
    primitive = Primitive("square", np.square, "x", None)
    with pytest.raises(AssertionError, match="no gradient flows"):
        harness.check_gradient(*toy(lambda x: apply1(primitive, x)), quick=quick)


@quick_or_not
def test_a_rule_right_in_first_order_only_fails(quick):
    def rule(g, x):
        return 2 * g * (x.detach() if isinstance(x, Tensor) else x)

    operator, case = toy(square(rule=rule))
    harness.check_gradient(operator, case, quick=quick)
    with pytest.raises(AssertionError, match="second order"):
        harness.check_second_order(operator, case, quick=quick)


@quick_or_not
def test_a_broadcast_input_whose_gradient_is_one_slice_fails(quick):
    def rule_y(g, x):
        product = g * x
        return product[0] if product.ndim == 2 else product

    with pytest.raises(AssertionError, match="input 1"):
        harness.check_gradient(*toy(product(rule_y=rule_y), pair_calls), quick=quick)


def test_where_without_unbroadcasting_fails(monkeypatch):
    where = Primitive(
        "where",
        np.where,
        "condition x y",
        [None, lambda g, condition: np.where(condition, g, 0.0), lambda g, condition: np.where(condition, 0.0, g)],
    )

    def where_calls(rng):
        yield Call(np.array([True, False, True]), rng.standard_normal((2, 3)), rng.standard_normal(3))

    def function(condition, x, y):
        return apply(where, (condition, x, y), {})

    harness.check_gradient(*toy(function, where_calls))
    monkeypatch.setattr(walk, "fit", lambda g, parent, node: g)
    with pytest.raises(FAILURE, match=r"input 1, float64\(3,\), is float64\(2, 3\)"):
        harness.check_gradient(*toy(function, where_calls))


def test_a_gradient_promoted_to_float64_fails(monkeypatch):
    operator, case = toy(square(rule=lambda g, x: 2 * g * x * np.ones(x.shape, np.float64)))
    harness.check_dtypes(operator, case)
    monkeypatch.setattr(walk, "fit", lambda g, parent, node: g)
    with pytest.raises(AssertionError, match="the gradient has dtype float64, its input float32"):
        harness.check_dtypes(operator, case)


def test_a_result_promoted_to_float64_fails():
    with pytest.raises(AssertionError, match="the result has dtype float64, expected float32"):
        harness.check_dtypes(*toy(square(lambda x: np.square(x.astype(np.float64)))))


def test_an_inaccurate_float32_result_fails():
    def forward(x):
        return np.square(x.astype(np.float16)).astype(x.dtype) if x.dtype == np.float32 else np.square(x)

    with pytest.raises(AssertionError, match="forward in float32"):
        harness.check_dtypes(*toy(square(forward)))


def test_repeated_indices_that_overwrite_fail():
    def overwriting(g, index, x_shape):
        total = np.zeros(x_shape)
        total[index] = g
        return total

    take = Primitive("take", lambda x, index: x[index], "x", [overwriting])

    def take_calls(rng):
        yield Call(rng.standard_normal(3), np.array([0, 2, 2]))

    with pytest.raises(AssertionError, match=r"d output\[1\] / d input\[2\]|d output\[2\] / d input\[2\]"):
        # One row at a time nothing overlaps: all outputs together show the overwriting.
        operator, case = toy(lambda x, index: sum_of(apply(take, (x,), {"index": index.array})), take_calls)
        harness.check_gradient(operator, case)


def sum_of(x):
    total = Primitive("total", lambda x: x.cumsum(), "x", [lambda g: np.flip(np.cumsum(np.flip(g)))])
    return apply1(total, x)


def test_a_recursive_topological_sort_fails(monkeypatch):
    def recursive(roots, since):
        order = []
        seen = set()

        def visit(node):
            if type(node) is Node and node not in seen:
                seen.add(node)
                for parent in node.parents:
                    visit(parent)
                order.append(node)

        for root in roots:
            visit(root)
        return order[::-1], {}

    assert harness.check_chain(*toy(square(lambda x: x * 1.0, lambda g: g)))
    monkeypatch.setattr(walk, "reachable", recursive)
    with pytest.raises(RecursionError):
        harness.check_chain(*toy(square(lambda x: x * 1.0, lambda g: g)))


def test_chains_are_longer_than_the_recursion_limit():
    limits, before, depth = [], sys.getrecursionlimit(), len(inspect.stack(0))

    def counted(x):
        limits.append(sys.getrecursionlimit())
        return square(lambda x: x * 1.0, lambda g: g)(x)

    harness.check_chain(*toy(counted))
    assert len(limits) > limits[-1] - depth and sys.getrecursionlimit() == before


def test_nan_from_the_branch_not_taken_fails():
    pytest.importorskip("torch")
    with np.errstate(invalid="ignore"):
        relu = square(lambda x: np.where(x > 0, x, 0.0), lambda g, x: g * (x > 0) / (x > 0))
        operator, case = toy(
            relu,
            lambda rng: [Call(np.array([0.5, 2.0]))],
            torch="torch.relu",
            edge_calls=lambda rng: [Call(np.array([-1.0, 2.0]))],
        )
        harness.check_gradient(operator, case)
        with pytest.raises(AssertionError, match="gradient of input 0 against PyTorch: at .* got nan, expected 0"):
            check_edges(operator, case)


def test_pytorch_disagreeing_fails():
    pytest.importorskip("torch")
    check_torch(*toy(square(), torch="torch.square"))
    with pytest.raises(AssertionError, match="forward against PyTorch"):
        check_torch(*toy(square(), torch="torch.exp"))
    with pytest.raises(AssertionError, match="gradient of input 0 against PyTorch"):
        check_torch(*toy(square(rule=lambda g, x: g * x), torch="torch.square"))
    with pytest.raises(AssertionError, match=r"PyTorch has no torch\.toy"):
        check_torch(*toy(square()))


def test_stale_saved_arrays_fail():
    """A residual that is the input itself is not protected from writes."""
    stale = square(lambda x: (np.square(x), x), lambda g, kept: 2 * g * kept, residuals="kept")
    harness.check_gradient(*toy(stale))
    with pytest.raises(AssertionError, match="after inputs or integer results were written"):
        harness.check_mutation(*toy(stale))


def test_a_saved_result_that_is_written_fails():
    def forward(x):
        ans = np.exp(x)
        return ans, ans

    stale = square(forward, lambda g, kept: g * kept, residuals="kept")
    harness.check_gradient(*toy(stale))
    with pytest.raises(AssertionError, match="scaled in place"):
        harness.check_written_result(*toy(stale))


def test_an_operator_that_writes_its_input_fails():
    def forward(x):
        x *= x
        return x.copy()

    with pytest.raises(AssertionError, match="the call changed an input"):
        harness.check_inputs_unchanged(*toy(square(forward)))


def test_a_rule_that_writes_its_cotangent_fails():
    def rule(g, x):
        g *= 2
        return g * x

    with pytest.raises(AssertionError, match="changed a cotangent"):
        harness.check_inputs_unchanged(*toy(square(rule=rule), lambda rng: [Call(rng.standard_normal((2, 3)))]))


def test_a_rule_that_writes_what_was_saved_fails():
    def rule(g, x):
        x *= 2
        return g * x

    with pytest.raises(AssertionError, match="the backward pass changed an input"):
        harness.check_inputs_unchanged(*toy(square(rule=rule), lambda rng: [Call(rng.standard_normal((2, 3)))]))


def test_gradients_that_share_memory_fail(monkeypatch):
    add = Primitive("add", np.add, "x y", [lambda g: g, lambda g: g])
    operator, case = toy(
        lambda x, y: apply(add, (x, y), {}), lambda rng: [Call(rng.standard_normal(3), rng.standard_normal(3))]
    )
    harness.check_no_aliasing(operator, case)
    monkeypatch.setattr(walk, "_add_to_grad", lambda leaf, g, *rest: setattr(leaf, "_grad", new_tensor(g)))
    with pytest.raises(AssertionError, match="shares memory with"):
        harness.check_no_aliasing(operator, case)


def test_a_graph_that_is_kept_alive_fails():
    kept = []

    def function(x):
        kept.append(square()(x))
        return kept[-1]

    with pytest.raises(AssertionError, match="the node of output 0, the array of output 0 is still alive"):
        harness.check_freed(*toy(function))


def test_a_cycle_that_only_the_collector_frees_fails():
    def function(x):
        result = square()(x)
        result._node.hooks = {0: lambda g, result=result: None}
        return result

    with pytest.raises(AssertionError, match="still alive"):
        harness.check_freed(*toy(function))


def test_an_operator_that_ignores_strides_fails():
    scrambled = square(lambda x: np.square(x.ravel(order="K").reshape(x.shape)))
    with pytest.raises(AssertionError, match="on transposed inputs"):
        harness.check_layouts(*toy(scrambled))


def test_forward_mode_that_disagrees_fails():
    """A sum over an axis is not elementwise, whatever the primitive says."""
    cumsum = Primitive(
        "cumsum", lambda x: np.cumsum(x, axis=-1), "x", [lambda g: np.flip(np.cumsum(np.flip(g)))], elementwise=True
    )
    operator, case = toy(lambda x: apply1(cumsum, x), lambda rng: [Call(rng.standard_normal(3))])
    harness.check_gradient(operator, case)
    with pytest.raises(AssertionError, match="forward mode gives"):
        harness.check_forward_mode(operator, case)


def test_a_wrong_in_place_form_fails(monkeypatch):
    operator, case = toy(square())
    with pytest.raises(AssertionError, match="has no method toy_"):
        harness.check_inplace(operator, case)
    monkeypatch.setattr(Tensor, "toy_", lambda self: self.mul_(self), raising=False)
    assert harness.check_inplace(operator, case) == 3
    monkeypatch.setattr(Tensor, "toy_", lambda self: self.mul_(2.0), raising=False)
    with pytest.raises(AssertionError, match="forward"):
        harness.check_inplace(operator, case)
    monkeypatch.setattr(Tensor, "toy_", lambda self: mul(self, self), raising=False)
    with pytest.raises(AssertionError, match="must return the Tensor it was called on"):
        harness.check_inplace(operator, case)


def total(batch):
    """The sum along an axis, with a batching rule."""
    rule = lambda g, x_shape, dim: np.broadcast_to(np.expand_dims(g, dim), x_shape)  # noqa: E731
    primitive = Primitive("total", lambda x, dim: x.sum(axis=dim), "x", [rule], batch=batch)
    return toy(lambda x: apply(primitive, (x,), {"dim": 1}), lambda rng: [Call(rng.standard_normal((3, 3, 3)))])


def test_a_batching_rule_with_a_wrong_axis_fails():
    assert mapping.check_vmap(*total(batching.along("dim"))) < 1e-12
    with pytest.raises(
        AssertionError, match=r"toy\(float64\(3, 3, 3\)\): vmap, arguments \[0\] mapped along 0: output 0"
    ):
        mapping.check_vmap(*total(lambda call: call.below([call.full(0)], {"dim": 2 + call.params["dim"]})))
    with pytest.raises(AssertionError, match="vmap, arguments"):
        mapping.check_vmap(*total(lambda call: call.below([call.full(0)], {"dim": call.params["dim"]}).movedim(0, -1)))


def test_a_batching_rule_that_loses_the_gradient_fails():
    rule = batching.along("dim")
    with pytest.raises(AssertionError, match="grad of vmap"):
        mapping.check_vmap(*total(lambda call: rule(call).detach()))


def test_a_batching_rule_that_mixes_examples_fails():
    rule = batching.along("dim")
    with pytest.raises(AssertionError, match="vmap, arguments"):
        mapping.check_vmap(*total(lambda call: rule(call).flip(0)))


@pytest.mark.slow
def test_a_batching_rule_for_mapped_second_arguments_is_checked():
    def first_only(call):
        return call.below([call.full(0), call.values[1][:1] if call.mapped[1] else call.values[1]])

    rules = [lambda g, y: g * y, lambda g, x: g * x]
    primitive = Primitive("product", np.multiply, "x y", rules, promote="same", batch=first_only)
    with pytest.raises(AssertionError, match=r"vmap, arguments \[1\]"):
        mapping.check_vmap(
            *toy(lambda x, y: apply(primitive, (x, y), {}), lambda rng: [Call(*rng.standard_normal((2, 3, 3)))])
        )
