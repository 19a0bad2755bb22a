"""Attention: dropout, blocks of rows, errors. Values and gradients against PyTorch are in the operator harness."""

import itertools

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F


def draw(*shape, seed=0, **options):
    return rg.tensor(np.random.default_rng(seed).standard_normal(shape), **options)


def test_dropout_is_unbiased_and_differentiated():
    rg.manual_seed(0)
    q, k, v = draw(1, 400, 4), draw(1, 50, 4, seed=1), draw(1, 50, 3, seed=2, requires_grad=True)
    dropped = F.scaled_dot_product_attention(q * 0, k, v, dropout_p=0.25)
    plain = F.scaled_dot_product_attention(q * 0, k, v)
    assert not np.allclose(dropped.detach(), plain.detach())
    np.testing.assert_allclose(dropped.detach().numpy().mean(1), plain.detach().numpy().mean(1), atol=0.03)
    # The output is linear in v, and the gradient must use the mask of the forward.
    (g,) = rg.autograd.grad(dropped.sum(), v)
    np.testing.assert_allclose((g * v.detach()).sum().item(), dropped.sum().item(), rtol=1e-12)


def test_everything_dropped_gives_zeros():
    x = draw(3, 2)
    assert not F.scaled_dot_product_attention(x, x, x, dropout_p=1.0).numpy().any()


@pytest.mark.parametrize("causal", [False, True])
def test_blocks_of_rows_agree_with_the_plain_formula(causal):
    q, k, v = (draw(2, 300, 4, seed=seed, requires_grad=True) for seed in range(3))
    scores = (q @ k.transpose(-1, -2)) / 2
    if causal:
        scores = scores.masked_fill(rg.tensor(np.triu(np.ones((300, 300), bool), 1)), -np.inf)
    wanted = scores.softmax(-1) @ v
    got = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    np.testing.assert_allclose(got.detach(), wanted.detach(), rtol=1e-10, atol=1e-12)
    g = draw(2, 300, 4, seed=5)
    for a, b in zip(rg.autograd.grad(got, (q, k, v), g), rg.autograd.grad(wanted, (q, k, v), g), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
@pytest.mark.parametrize("mask", [None, (5, 7), (3, 5, 7), (2, 1, 5, 7)])
@pytest.mark.parametrize("query, key, value", [*itertools.permutations([(), (3,), (2, 1)])])
def test_the_leading_dimensions_of_each_operand_broadcast(query, key, value, mask, dropout_p):
    small = draw(*query, 5, 4), draw(*key, 7, 4, seed=1), draw(*value, 7, 6, seed=2)
    small += () if mask is None else (draw(*mask, seed=3),)
    full = [x.expand(2, 3, *x.shape[-2:]).clone() for x in small]
    directions = [draw(*x.shape, seed=4) for x in small]

    def outputs(inputs, directions):
        inputs = [x.requires_grad_() for x in inputs]
        rg.manual_seed(0)
        y = F.scaled_dot_product_attention(*inputs, dropout_p=dropout_p)
        g = rg.autograd.grad((y * draw(2, 3, 5, 6, seed=5)).sum(), inputs, create_graph=True)
        second = rg.autograd.grad(sum((a * b).sum() for a, b in zip(g, directions, strict=True)), inputs)
        return y.detach(), *[x.detach() for x in g], *second

    got = outputs([x.clone() for x in small], directions)
    wanted = outputs(full, [x.expand(2, 3, *x.shape[-2:]) for x in directions])
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y.sum_to_size(x.shape), rtol=1e-9, atol=1e-11)


def test_one_tensor_as_query_key_and_value_to_second_order():
    x = draw(4, 3, requires_grad=True)

    def gradient(attention):
        (g,) = rg.autograd.grad((attention(x) ** 2).sum(), x, create_graph=True)
        (h,) = rg.autograd.grad((g * g).sum(), x)
        return h

    fused = gradient(lambda x: F.scaled_dot_product_attention(x, x, x, scale=1.0))
    plain = gradient(lambda x: (x @ x.transpose(0, 1)).softmax(-1) @ x)
    np.testing.assert_allclose(fused, plain, rtol=1e-10)


@pytest.mark.parametrize(
    ("shapes", "options"),
    [
        (((3,), (3, 2), (3, 2)), {}),
        (((3, 2), (3, 4), (3, 2)), {}),
        (((3, 2), (3, 2), (4, 2)), {}),
        (((3, 2), (3, 2), (3, 2)), {"dropout_p": 1.5}),
        (((3, 2), (3, 2), (3, 2)), {"attn_mask": rg.ones(3, 4, dtype=rg.float64)}),
        (((3, 2), (3, 2), (3, 2)), {"attn_mask": rg.ones(3, 3, dtype=rg.int64)}),
        (((3, 2, 2), (2, 2, 2), (2, 2, 2)), {"enable_gqa": True}),
    ],
)
def test_errors_name_operator_and_shapes(shapes, options):
    with pytest.raises(RuntimeError, match="scaled_dot_product_attention"):
        F.scaled_dot_product_attention(*(draw(*shape) for shape in shapes), **options)


def test_heads_dropout_only_in_training():
    x, w = draw(3, 2, 4), draw(12, 4)
    arguments = (x, x, x, 4, 2, w, None, None, None, False, 0.9, rg.eye(4, dtype=rg.float64), None)
    for need_weights in (False, True):
        one, _ = F.multi_head_attention_forward(*arguments, training=False, need_weights=need_weights)
        two, _ = F.multi_head_attention_forward(*arguments, training=False, need_weights=need_weights)
        three, _ = F.multi_head_attention_forward(*arguments, training=True, need_weights=need_weights)
        np.testing.assert_array_equal(one, two)
        assert not np.allclose(one, three)


def test_the_bias_of_the_input_projection_may_have_another_dtype():
    module = rg.nn.MultiheadAttention(4, 2, batch_first=True, dtype=rg.float64)
    module.in_proj_bias = rg.nn.Parameter(rg.randn(12, dtype=rg.float16))
    x = rg.randn(2, 3, 4, dtype=rg.float64)
    output, _ = module(x, x, x)
    output.sum().backward()
    assert output.dtype == rg.float64 and module.in_proj_bias.grad.dtype == rg.float16
    module.in_proj_bias = rg.nn.Parameter(module.in_proj_bias.detach().double())
    assert rg.equal(output, module(x, x, x)[0])


def test_gumbel_softmax():
    rg.manual_seed(0)
    logits = rg.tensor(np.log([[0.1, 0.2, 0.7]] * 20000), requires_grad=True)
    hard = F.gumbel_softmax(logits, hard=True)
    np.testing.assert_allclose(hard.detach().numpy().mean(0), [0.1, 0.2, 0.7], atol=0.02)
    np.testing.assert_allclose(hard.detach().numpy().max(1), 1.0, rtol=1e-12)
    soft = F.gumbel_softmax(logits, tau=0.5)
    np.testing.assert_allclose(soft.detach().numpy().sum(1), 1.0, rtol=1e-12)
    (g,) = rg.autograd.grad(hard[:, 0].sum(), logits)
    assert np.isfinite(g.numpy()).all() and g.numpy().any()


@pytest.mark.parametrize("dtype", [rg.float16, rg.bfloat16, rg.float64])
def test_a_mask_of_float32_is_added_to_scores_of_other_dtypes_without_overflow(dtype):
    q = rg.randn(2, 3, 4).to(dtype).requires_grad_()
    mask = rg.tensor([[0.0, -1e9, 0.3], [-1e9, -1e9, -1e9], [1.0, 2.0, -3.0]])
    out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    wide = q.detach().double()
    expected = F.scaled_dot_product_attention(wide, wide, wide, attn_mask=mask.double())
    rows = [0, 2]  # in the row that is masked out, float32 absorbs the scores
    assert out.dtype is dtype and bool(out.isfinite().all())
    assert np.allclose(out.detach().double().numpy()[:, rows], expected.numpy()[:, rows], atol=2e-2)
    out.double().sum().backward()
    assert q.grad.dtype is dtype and bool(q.grad.isfinite().all())
    with pytest.raises(RuntimeError, match="attn_mask"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=mask.long())
