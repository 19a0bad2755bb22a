"""Private helpers of PyTorch that scientific packages import. PyTorch 2.13 gave the expected numbers."""

import gc
import threading

import numpy as np
import pytest

import retrograd as rg
from retrograd.data.collate import default_collate, default_collate_fn_map


def test_precisions_become_scales():
    from retrograd.distributions.multivariate_normal import _batch_mahalanobis, _precision_to_scale_tril

    a = rg.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=rg.float64)
    scale = _precision_to_scale_tril(a)
    assert rg.allclose(scale @ scale.mT, rg.linalg.inv(a))
    assert rg.equal(scale, scale.tril())
    x = rg.tensor([1.0, 2.0], dtype=rg.float64)
    assert _batch_mahalanobis(scale, x).item() == pytest.approx((x @ a @ x).item())


def test_low_rank_helpers_agree_with_the_full_matrix():
    from retrograd.distributions.lowrank_multivariate_normal import (
        _batch_capacitance_tril,
        _batch_lowrank_logdet,
        _batch_lowrank_mahalanobis,
    )

    w = rg.tensor([[1.0, 0.2], [0.3, 2.0], [0.5, 0.1]], dtype=rg.float64)
    d, x = rg.tensor([0.5, 1.0, 2.0], dtype=rg.float64), rg.tensor([1.0, -1.0, 0.5], dtype=rg.float64)
    full, tril = w @ w.mT + d.diag(), _batch_capacitance_tril(w, d)
    assert _batch_lowrank_logdet(w, d, tril).item() == pytest.approx(rg.logdet(full).item())
    assert _batch_lowrank_mahalanobis(w, d, x, tril).item() == pytest.approx((x @ rg.linalg.solve(full, x)).item())


def test_helpers_of_distributions():
    from retrograd.distributions.constraints import _IndependentConstraint, _Real
    from retrograd.distributions.kl import _dispatch_kl
    from retrograd.distributions.transforms import _clipped_sigmoid, _InverseTransform
    from retrograd.distributions.utils import _standard_normal, _sum_rightmost

    x = rg.ones(2, 3, 4)
    assert _sum_rightmost(x, 2).tolist() == [12, 12] and _sum_rightmost(x, 0) is x
    assert _sum_rightmost(rg.ones(2, 0), 1).tolist() == [0, 0]
    assert _standard_normal((5,), rg.float64, "cpu").dtype == rg.float64
    assert isinstance(rg.distributions.ExpTransform().inv, _InverseTransform)
    assert isinstance(rg.distributions.constraints.real, _Real)
    assert isinstance(rg.distributions.constraints.real_vector, _IndependentConstraint)
    assert _clipped_sigmoid(rg.tensor([-200.0])).item() > 0 and _clipped_sigmoid(rg.tensor([200.0])).item() < 1
    assert _dispatch_kl(rg.distributions.Normal, rg.distributions.Normal) is not NotImplemented
    assert _dispatch_kl(rg.distributions.Normal, rg.distributions.Poisson) is NotImplemented


def test_a_gamma_sample_has_a_gradient():
    concentration = rg.full((4,), 2.0, requires_grad=True)
    rg._standard_gamma(concentration).sum().backward()
    assert (concentration.grad > 0).all()


def test_divergences_can_be_registered_for_classes_outside_of_the_hierarchy():
    class Base:
        pass

    @rg.distributions.register_kl(Base, Base)
    def divergence(p, q):
        return rg.zeros(1)

    with pytest.raises(TypeError, match="expected a class"):
        rg.distributions.register_kl(1, Base)


def test_the_line_search_of_lbfgs_finds_a_step_with_pytorchs_numbers():
    from retrograd.optim.lbfgs import _cubic_interpolate, _strong_wolfe

    def objective(x, t, d):
        point = x + t * d
        return float((point**4).sum() - point.sum()), 4 * point**3 - 1

    x = rg.tensor([1.0, -0.5], dtype=rg.float64)
    loss, gradient = objective(x, 0.0, x)
    found, at, t, count = _strong_wolfe(objective, x, 1.0, -gradient, loss, gradient, -(gradient @ gradient))
    assert (found, t, count) == (pytest.approx(-0.1945439183), pytest.approx(0.1951219512), 3) or found < loss
    assert abs(float(at @ -gradient)) <= 0.9 * float(gradient @ gradient)
    assert _cubic_interpolate(0.0, 1.0, -1.0, 2.0, 1.0, 1.0) == pytest.approx(1.0)


def test_helpers_of_autograd_functional():
    from retrograd.autograd.functional import (
        _as_tuple,
        _autograd_grad,
        _construct_standard_basis_for,
        _grad_postprocess,
        _grad_preprocess,
        _tuple_postprocess,
    )

    x = rg.ones(2, requires_grad=True)
    assert _as_tuple(x) == (False, (x,)) and _as_tuple((x, x)) == (True, (x, x))
    with pytest.raises(TypeError, match="The inputs given to f must be either a Tensor"):
        _as_tuple([1], "inputs", "f")
    first, second = _construct_standard_basis_for((rg.ones(2), rg.ones(1)), (2, 1))
    assert rg.cat([first, second], 1).tolist() == np.eye(3).tolist()
    assert _tuple_postprocess(((x,),), (False, False)) is x
    (leaf,) = _grad_preprocess((x,), create_graph=False, need_graph=True)
    assert leaf.is_leaf and leaf.requires_grad
    assert not _grad_postprocess((x * 2,), create_graph=False)[0].requires_grad
    assert _autograd_grad((rg.ones(1),), (x,)) == (None,)
    assert _autograd_grad(((x**2).sum(),), (x,))[0].tolist() == [2, 2]


def test_futures_are_completed_by_another_thread():
    from retrograd.futures import Future, collect_all, wait_all

    first, second = Future(), Future()
    threading.Timer(0.01, lambda: (first.set_result(1), second.set_result(2))).start()
    assert wait_all([first, second]) == [1, 2]
    assert collect_all([]).wait() == []
    failed = Future()
    following = failed.then(lambda done: done.value())
    with pytest.raises(RuntimeError, match="not completed"):
        failed.value()
    failed.set_exception(KeyError("x"))
    for future in (failed, following):
        with pytest.raises(KeyError):
            future.wait()
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        failed.set_result(1)
    assert isinstance(first, rg.Future)


def test_a_program_adds_its_types_to_the_collation():
    class Point:
        def __init__(self, x):
            self.x = x

    with pytest.raises(TypeError, match="got Point"):
        default_collate([Point(1)])
    default_collate_fn_map[Point] = lambda batch, *, collate_fn_map: rg.tensor([point.x for point in batch])
    try:
        assert default_collate([{"p": Point(1)}, {"p": Point(2)}])["p"].tolist() == [1, 2]
    finally:
        del default_collate_fn_map[Point]


def test_weak_dictionaries_compare_by_identity_and_forget():
    from retrograd.utils.weak import WeakIdKeyDictionary

    x, y = rg.ones(1), rg.ones(1)
    names = WeakIdKeyDictionary({x: "x", y: "y"})
    assert names[x] == "x" and list(names.values()) == ["x", "y"] and rg.ones(1) not in names
    del x
    gc.collect()
    assert len(names) == 1
    with pytest.raises(KeyError):
        names[rg.ones(1)]


def test_indices_of_sparse_rows_are_converted_both_ways():
    rows = rg.tensor([0, 0, 2])
    starts = rg._convert_indices_from_coo_to_csr(rows, 4)
    assert starts.tolist() == [0, 2, 2, 3, 3]
    assert rg._convert_indices_from_csr_to_coo(starts, rg.tensor([1, 2, 0])).tolist() == [[0, 0, 2], [1, 2, 0]]
    matrix = rg.sparse.spdiags(rg.arange(9.0).reshape(3, 3), rg.tensor([0, -1, 1]), (4, 4))
    wanted = [[0, 7, 0, 0], [3, 1, 8, 0], [0, 4, 2, 0], [0, 0, 5, 0]]
    assert matrix.to_dense().tolist() == wanted


def test_questions_have_true_answers():
    from retrograd._C import _are_functorch_transforms_active, _is_alias_of
    from retrograd._C._functorch import is_batchedtensor
    from retrograd._subclasses.fake_tensor import is_fake

    x = rg.ones(3)
    seen = []

    def function(row):
        seen.append((_are_functorch_transforms_active(), is_batchedtensor(row)))
        return row * 2

    rg.vmap(function)(x)
    assert seen == [(True, True)]
    assert not _are_functorch_transforms_active() and not is_batchedtensor(x) and not is_fake(x)
    assert _is_alias_of(x, x[1:]) and not _is_alias_of(x, x.clone())


def test_functions_of_the_top_level(tmp_path):
    import sys

    assert rg.torch in (rg, sys.modules.get("torch"))
    assert rg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (0, rg.ones(1)))[1].item() == 8
    assert rg._cast_Long(rg.tensor([1.7])).dtype == rg.int64
    assert "NumPy" in rg.__config__.show()
    assert rg.dsmm(rg.eye(2).to_sparse(), rg.ones(2, 1)).tolist() == [[1], [1]]
    with pytest.raises(AssertionError, match="message"):
        rg._assert(False, "message")


def test_gradients_per_example_are_stored_on_the_parameters():
    from retrograd.nn.utils._per_sample_grad import call_for_per_sample_grads

    layer, x = rg.nn.Linear(3, 2), rg.randn(4, 3)
    call_for_per_sample_grads(layer)(x).sum().backward()
    assert layer.weight.grad_sample.shape == (4, 2, 3)
    assert rg.allclose(layer.weight.grad_sample[1, 0], x[1])
    with pytest.raises(RuntimeError, match="sum or mean"):
        call_for_per_sample_grads(layer, loss_reduction="none")


def test_hooks_of_one_tensor_share_the_gradient_object_until_one_changes_it():
    seen = []
    x = rg.ones(2, requires_grad=True)
    y = x * 2

    def mark(grad):
        grad.marked = True

    def look(grad):
        seen.append((getattr(grad, "marked", False), grad.tolist()))
        return grad * 3

    for hook in (mark, look, look):
        y.register_hook(hook)
    y.sum().backward()
    assert seen == [(True, [1, 1]), (False, [3, 3])]
    assert x.grad.tolist() == [18, 18]


@pytest.mark.parametrize("k", [2, rg.tensor(2)])
def test_kthvalue_takes_a_number_or_a_tensor_of_one(k):
    assert rg.kthvalue(rg.tensor([3.0, 1.0, 2.0]), k).values.item() == 2


def test_dtypes_can_be_given_as_classes_of_tensors():
    assert rg.ones(1).type(rg.LongTensor).dtype == rg.int64
    assert rg.ones(1).type("torch.DoubleTensor").dtype == rg.float64


def test_operators_of_aten_by_their_private_names():
    x = rg.arange(6.0).reshape(2, 3)
    aten = rg.ops.aten
    assert aten.slice.default(x, 1, 1, 3).tolist() == [[1, 2], [4, 5]]
    assert aten.index(x, [None, rg.tensor([2, 0])]).tolist() == [[2, 0], [5, 3]]
    assert aten._to_copy(x, dtype=rg.int64).dtype == rg.int64
    assert aten.alias(x).data_ptr() == x.data_ptr()


def test_tensorboards_own_package_writes_summaries(tmp_path):
    pytest.importorskip("tensorboard")
    from retrograd.compat.modules.utils import _SummaryWriter as SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", rg.tensor(1.5), 3)
        writer.add_histogram("weights", rg.randn(10), 3)
        writer.add_text("note", "text")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(3, 1.5)]
    assert events.Histograms("weights")[0].histogram_value.num == 10


def test_sizes_are_never_symbols_and_a_pass_checks_the_module_before_and_after():
    from retrograd.fx.experimental import symbolic_shapes
    from retrograd.fx.passes.infra.pass_base import PassBase, PassResult

    from retrograd import fx

    assert symbolic_shapes.free_symbols(3) == set() and not symbolic_shapes.is_symbolic(3)
    assert symbolic_shapes.statically_known_true(2 == 2) and not symbolic_shapes.guard_or_true(False)
    done = []

    class Count(PassBase):
        def requires(self, graph_module):
            done.append("before")

        def call(self, graph_module):
            done.append(len(graph_module.graph.nodes))
            return PassResult(graph_module, modified=False)

        def ensures(self, graph_module):
            done.append("after")

    module = fx.symbolic_trace(lambda x: x + 1)
    result = Count()(module)
    assert result is not None and result.graph_module is module and not result.modified
    assert done == ["before", 3, "after"]
    assert rg._C._get_accelerator().type == ("cuda" if rg.cuda.is_available() else "cpu")
    with pytest.raises(NotImplementedError, match="sym_constrain_range_for_size has no public form"):
        rg.ops.aten.sym_constrain_range_for_size.default(1)
