"""Derivatives under vmap of layers that look at their values or keep them: in single precision, against a loop."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.func import grad, hessian, jacfwd, jacrev, jvp, linearize, vmap

LAYERS = {
    "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w),
    "group_norm": lambda x, w: F.group_norm(x.t()[None], 2, w, w),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, w, True),
    "instance_norm": lambda x, w: F.instance_norm(x.t()[None], weight=w, bias=w),
    "rms_norm": lambda x, w: F.rms_norm(x, (4,), w),
    "attention": lambda x, w: F.scaled_dot_product_attention(x * w, x, x * w),
    "causal attention": lambda x, w: F.scaled_dot_product_attention(x * w, x, x, is_causal=True),
    "masked attention": lambda x, w: F.scaled_dot_product_attention(x, x * w, x, x @ x.t() * w[0]),
}
DERIVATIVES = {
    "grad": lambda f, x, w: grad(lambda w: f(x, w).sin().sum())(w),
    "jvp by the weight": lambda f, x, w: jvp(lambda w: f(x, w).sin(), (w,), (w,))[1],
    "jvp by the input": lambda f, x, w: jvp(lambda x: f(x, w).sin(), (x,), (x,))[1],
    "linearize": lambda f, x, w: linearize(lambda w: f(x, w).sin(), w)[1](w),
    "jacrev": lambda f, x, w: jacrev(lambda w: f(x, w).flatten()[:3])(w),
    "jacfwd": lambda f, x, w: jacfwd(lambda w: f(x, w).flatten()[:3])(w),
    "hessian": lambda f, x, w: hessian(lambda w: f(x, w).sin().sum())(w),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_differentiated_for_each_example_in_single_precision(layer, derivative):
    rng = np.random.default_rng(0)
    x = rg.Tensor(rng.standard_normal((3, 6, 4)).astype(np.float32))
    w = rg.Tensor(rng.standard_normal(4).astype(np.float32))

    def of_one(x):
        return DERIVATIVES[derivative](LAYERS[layer], x, w)

    wanted = np.stack([of_one(example).numpy() for example in x])
    np.testing.assert_allclose(vmap(of_one)(x).numpy(), wanted, rtol=2e-3, atol=1e-4)


def test_squares_that_overflow_in_one_example_leave_the_second_derivatives_of_all():
    x = rg.Tensor(np.float32([[1.0, 2.0, 4.0], [1e20, 2e20, 4e20]]))

    def product(x):
        return jvp(grad(lambda w: (F.layer_norm(x, (3,), w) ** 3).sum()), (rg.ones(3),), (rg.ones(3),))[1]

    np.testing.assert_allclose(vmap(product)(x).numpy(), np.stack([product(example).numpy() for example in x]), 1e-5)
