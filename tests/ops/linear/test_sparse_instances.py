"""Sparse Tensors are Tensors to ``isinstance``: what needs an array of all elements refuses them, the rest is right."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.tensor.tensor import is_dense

DENSE = [[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 4.0]]
ARGUMENTS = [(), (0,), (0, 1), (2.0,), (rg.ones(3, 3),), (rg.eye(3).to_sparse(),), (0, rg.tensor([0, 1])), ((3, 3),)]
KINDS = {"coo": lambda: rg.tensor(DENSE).to_sparse(), "csr": lambda: rg.tensor(DENSE).to_sparse_csr()}
# What speaks of the layout, the object or the memory, which the dense Tensor has in another way.
OWN = """__annotations__
    __dict__ __dir__ __doc__ __format__ __getattribute__ __getstate__ __hash__ __module__ __reduce__ __reduce_ex__
    __repr__ __setstate__ __sizeof__ __str__ __weakref__ array coalesce col_indices crow_indices cuda data dense_dim
    device flat grad_fn indices is_coalesced is_dense is_sparse is_sparse_csr layout sparse_dim to_sparse
    to_sparse_coo values"""


def dense(x):
    if isinstance(x, (tuple, list)):
        return tuple(map(dense, x))
    return x.to_dense() if isinstance(x, rg.Tensor) else x


def agree(a, b):
    if isinstance(a, rg.Tensor) and isinstance(b, rg.Tensor):
        return a.shape == b.shape and np.allclose(a.numpy(force=True), b.numpy(force=True), equal_nan=True)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(agree, a, b))
    return type(a) is type(b) and a == b


def test_a_sparse_tensor_is_a_tensor():
    for make in KINDS.values():
        assert isinstance(make(), rg.Tensor) and rg.is_tensor(make()) and not is_dense(make())
    assert is_dense(rg.ones(2)) and not is_dense(1.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_each_method_of_tensors_gives_the_dense_result_or_an_error_on_a_sparse_one(kind):
    wrong, refused, right = [], 0, 0
    for name in sorted(set(dir(rg.Tensor)) - set(OWN.split())):
        if (
            name.startswith("_")
            and not name.endswith("__")
            or name.startswith(("__array", "__init", "__class", "__new", "__firstlineno", "__static"))
        ):
            continue
        for args in ARGUMENTS:
            sparse, full = KINDS[kind](), rg.tensor(DENSE)
            try:
                found = getattr(sparse, name)
                result = dense(found(*args) if callable(found) else found)
            except (NotImplementedError, TypeError, RuntimeError, AttributeError, IndexError, ValueError) as error:
                assert not isinstance(error, RecursionError), name
                refused += 1
                continue
            if result is NotImplemented:  # Python's own error follows
                continue
            try:
                found = getattr(full, name)
                expected = dense(found(*map(dense, args)) if callable(found) else found)
            except Exception as error:
                expected = error
            right += 1
            if not agree(result, expected) and not ("div" in name and args == (0,)):  # zeros stay zeros
                wrong.append((name, args, result, expected))
    assert not sorted({(name, str(result)[:40]) for name, args, result, _ in wrong})
    assert refused > 1000 and right > 40


@pytest.mark.filterwarnings("ignore")
def test_each_operator_refuses_a_sparse_tensor_with_words_or_gives_the_dense_result():
    from retrograd.ops.table.registry import OPERATORS

    x = KINDS["coo"]()
    refused = 0
    for operator in OPERATORS.values():
        for args in ((x,), (x, x), (x, rg.tensor(DENSE)), (rg.tensor(DENSE), x)):
            try:
                result = operator.function(*args)
            except (NotImplementedError, TypeError, RuntimeError, ValueError, IndexError, AttributeError) as error:
                assert not isinstance(error, RecursionError), operator.name
                refused += isinstance(error, TypeError | NotImplementedError)
                continue
            if isinstance(result, rg.Tensor) and not operator.name.startswith(("rand", "cuda", "cpu", "to_sparse")):
                expected = operator.function(*map(dense, args))
                assert result.shape == expected.shape, operator.name
                assert operator.name.startswith("empty") or agree(dense(result), dense(expected)), operator.name
    assert refused > 1000


def test_comparing_a_sparse_tensor_raises_instead_of_comparing_identities():
    x = KINDS["coo"]()
    for compare in (lambda: x == 0, lambda: x == x, lambda: rg.ones(3, 3) == x, lambda: x < 1):
        with pytest.raises(NotImplementedError, match="to_dense"):
            compare()


def test_a_sparse_tensor_has_no_numpy_array():
    for call in (lambda x: x.numpy(), np.asarray, np.sum, lambda x: x.array):
        with pytest.raises(TypeError, match="sparse"):
            call(KINDS["coo"]())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_are_sparse_and_keep_the_values(kind, again):
    x = KINDS[kind]().requires_grad_()
    made = again(x)
    assert type(made) is type(x) and made.requires_grad and made.is_leaf
    assert made.to_dense().tolist() == DENSE
    module = nn.Module()
    module.register_buffer("graph", x.detach())
    assert again(module).graph.to_dense().tolist() == DENSE


def test_gradients_of_a_sparse_leaf_from_grad_backward_and_hooks_agree():
    x, seen = KINDS["coo"]().requires_grad_(), []
    handle = x.register_hook(seen.append)

    def loss():
        return ((x @ rg.ones(3, 1)) ** 2).sum()

    (gradient,) = rg.autograd.grad(loss(), x)
    loss().backward(inputs=[x])
    wanted = [[0.0, 4.0, 0.0], [8.0, 0.0, 8.0], [0.0, 0.0, 8.0]]
    for found in (gradient, x.grad, *seen):
        assert found.to_dense().tolist() == wanted
    assert len(seen) == 2 and x.is_leaf and x.grad_fn is None
    handle.remove()
    x.register_hook(lambda g: g * 2)
    assert rg.autograd.grad(loss(), [x])[0].to_dense().tolist() == (2 * rg.tensor(wanted)).tolist()
    assert rg.autograd.grad(rg.ones(1, requires_grad=True).sum(), [x], allow_unused=True) == (None,)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_transforms_and_compiled_programs_take_sparse_arguments_as_before(reentrant):
    x, vector = KINDS["coo"](), rg.ones(3, 1, requires_grad=True)

    def product(a, v):
        return ((a @ v) ** 2).sum()

    rg.utils.checkpoint.checkpoint(product, x, vector, use_reentrant=reentrant).backward()
    wanted = [[8.0], [8.0], [56.0]]
    assert vector.grad.tolist() == wanted
    assert rg.func.grad(lambda v: product(x, v))(rg.ones(3, 1)).tolist() == wanted
    assert rg.vmap(lambda v: x @ v)(rg.ones(2, 3, 1)).tolist() == [[[2.0], [4.0], [4.0]]] * 2
    with rg.autocast("cpu"):
        assert rg.spmm(x, rg.ones(3, 1).relu()).dtype is rg.bfloat16
    compiled = rg.compile(product)
    for scale in (1.0, 2.0, 3.0):
        assert compiled(x * scale, rg.ones(3, 1)).item() == 36 * scale**2
    for transform in (lambda: rg.func.grad(lambda a: product(a, vector))(x), lambda: rg.vmap(lambda a: a.sum())(x)):
        with pytest.raises(ValueError, match="SparseTensor"):
            transform()


def test_a_function_refuses_a_sparse_argument_that_requires_grad():
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a._values() ** 2

        @staticmethod
        def backward(ctx, g):
            return g

    assert Square.apply(KINDS["coo"]()).tolist() == [4.0, 1.0, 9.0, 16.0]
    with pytest.raises(NotImplementedError, match="Square: a sparse Tensor"):
        Square.apply(KINDS["coo"]().requires_grad_())
