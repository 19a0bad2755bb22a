"""Initial values: distributions, the same bounds as PyTorch's, errors."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.nn import init

SIZE = (200, 300)
# Uniform and normal numbers: half-width or standard deviation by formula.
UNIFORM = {
    "uniform_(w, -2.0, 2.0)": 2.0,
    "xavier_uniform_(w, gain=2.0)": 2 * np.sqrt(6 / 500),
    "kaiming_uniform_(w)": np.sqrt(2) * np.sqrt(3 / 300),
    "kaiming_uniform_(w, a=np.sqrt(5))": 1 / np.sqrt(300),
    "kaiming_uniform_(w, mode='fan_out', nonlinearity='tanh')": 5 / 3 * np.sqrt(3 / 200),
}
NORMAL = {
    "normal_(w, 0.0, 3.0)": 3.0,
    "xavier_normal_(w)": np.sqrt(2 / 500),
    "kaiming_normal_(w, nonlinearity='relu')": np.sqrt(2 / 300),
    "kaiming_normal_(w, mode='fan_out', nonlinearity='linear')": np.sqrt(1 / 200),
    "trunc_normal_(w, std=0.5, a=-5.0, b=5.0)": 0.5,
}


def drawn(call: str, size: tuple[int, ...] = SIZE) -> np.ndarray:
    w = rg.nn.Parameter(rg.empty(*size))
    result = eval(f"init.{call}", {"init": init, "w": w, "np": np})
    assert result is w and w.requires_grad and w.is_leaf
    return w.detach().numpy().astype(np.float64)


@pytest.mark.parametrize("call", UNIFORM)
def test_uniform(call: str) -> None:
    kstest = pytest.importorskip("scipy.stats").kstest
    values, bound = drawn(call), UNIFORM[call]
    assert np.abs(values).max() <= bound
    assert kstest(values.ravel(), "uniform", (-bound, 2 * bound)).pvalue > 1e-3


@pytest.mark.parametrize("call", NORMAL)
def test_normal(call: str) -> None:
    kstest = pytest.importorskip("scipy.stats").kstest
    assert kstest(drawn(call).ravel() / NORMAL[call], "norm").pvalue > 1e-3


@pytest.mark.parametrize(
    ("mean", "std", "a", "b"),
    [
        (0, 1, -2, 2),
        (1, 2, -2, 2),
        (0, 1, 3, 5),
        (0, 1, -7, -6),
        (0, 1, 0.1, 0.15),
        (5, 0.5, -np.inf, 4),
        (0, 1, 6, np.inf),
    ],
)
def test_truncated_normal(mean: float, std: float, a: float, b: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    w = rg.empty(20000, dtype=rg.float64)
    values = init.trunc_normal_(w, mean, std, a, b).numpy()
    assert values.min() >= a and values.max() <= b
    expected = stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std)
    assert stats.kstest(values, expected.cdf).pvalue > 1e-3


def test_constants() -> None:
    assert (
        (drawn("constant_(w, 0.5)") == 0.5).all() and (drawn("ones_(w)") == 1).all() and (drawn("zeros_(w)") == 0).all()
    )
    np.testing.assert_array_equal(drawn("eye_(w)", (3, 5)), np.eye(3, 5))


@pytest.mark.parametrize(("size", "groups"), [((4, 3, 5), 1), ((4, 2, 3, 4), 2), ((2, 4, 3, 2, 5), 1), ((6, 1, 3), 3)])
def test_dirac(size: tuple[int, ...], groups: int) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.nn.init.dirac_(torch.empty(*size), groups).numpy()
    np.testing.assert_array_equal(drawn(f"dirac_(w, {groups})", size), expected)


@pytest.mark.parametrize("size", [(4, 7), (7, 4), (5, 5), (4, 2, 3)])
def test_orthogonal(size: tuple[int, ...]) -> None:
    q = drawn("orthogonal_(w, gain=2.0)", size).reshape(size[0], -1)
    product = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(product, 4 * np.eye(min(q.shape)), atol=1e-5)


def test_orthogonal_is_uniform() -> None:
    # A Haar-distributed orthogonal matrix has mean zero in every element.
    mean = np.mean([drawn("orthogonal_(w)", (2, 2)) for _ in range(2000)], axis=0)
    assert np.abs(mean).max() < 0.07


def test_sparse() -> None:
    values = drawn("sparse_(w, 0.25, std=2.0)", (10, 400))
    assert ((values == 0).sum(axis=0) == 3).all()
    assert abs(values[values != 0].std() - 2) < 0.1
    assert len({tuple(column) for column in (values == 0).T}) > 20


def test_seeds_repeat() -> None:
    first = []
    for _ in range(2):
        rg.manual_seed(7)
        first.append(rg.nn.Linear(4, 3).weight.tolist())
    assert first[0] == first[1]
    generators = [rg.Generator().manual_seed(5) for _ in range(2)]
    one, two = (init.kaiming_normal_(rg.empty(3, 3), generator=generator) for generator in generators)
    assert one.tolist() == two.tolist() != init.kaiming_normal_(rg.empty(3, 3), generator=generators[0]).tolist()


def test_gain_and_signatures_as_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for name, param in [
        ("linear", None),
        ("conv2d", None),
        ("tanh", None),
        ("relu", None),
        ("leaky_relu", 0.3),
        ("leaky_relu", None),
        ("selu", None),
        ("sigmoid", None),
    ]:
        assert init.calculate_gain(name, param) == torch.nn.init.calculate_gain(name, param)
    public = [name for name in dir(torch.nn.init) if name.endswith("_") and not name.startswith("_")]
    for name in [*public, "calculate_gain"]:
        ours, theirs = (inspect.signature(getattr(library.nn.init, name)).parameters for library in (rg, torch))
        assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()], name


@pytest.mark.parametrize(
    "call",
    [
        "calculate_gain('sin')",
        "calculate_gain('leaky_relu', True)",
        "xavier_uniform_(w)",
        "kaiming_normal_(w)",
        "orthogonal_(w)",
        "sparse_(w, 0.5)",
        "eye_(w)",
        "dirac_(w)",
        "dirac_(m, 2)",
        "kaiming_uniform_(m, mode='fan')",
    ],
)
def test_errors(call: str) -> None:
    names: dict[str, Any] = {"init": init, "w": rg.empty(3), "m": rg.empty(3, 2, 2)}
    with pytest.raises(ValueError):
        eval(f"init.{call}", names)
    with pytest.raises(ValueError):
        init.trunc_normal_(rg.empty(3), a=1.0, b=0.0)


# How layers begin: the same distribution as PyTorch's, told by their bounds and moments.
LAYERS = [
    "Linear(300, 200)",
    "Conv2d(20, 30, 3, groups=2)",
    "ConvTranspose2d(30, 20, 3)",
    "Bilinear(20, 30, 40)",
    "Embedding(100, 50)",
    "LSTM(40, 50)",
    "GRUCell(40, 50)",
    "MultiheadAttention(64, 4, kdim=32, add_bias_kv=True)",
    "TransformerEncoderLayer(32, 2, 64)",
    "BatchNorm2d(20)",
    "PReLU(20)",
    "Transformer(16, 2, 1, 1, 64)",
    "MultiheadAttention(64, 4)",
]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_begin_as_pytorch(layer: str) -> None:
    torch = pytest.importorskip("torch")
    ks_2samp = pytest.importorskip("scipy.stats").ks_2samp
    torch.manual_seed(0)
    ours, theirs = (eval(f"nn.{layer}", {"nn": library.nn}) for library in (rg, torch))
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        x, y = a.detach().numpy().ravel(), b.detach().numpy().ravel()
        assert (x.std() == 0) == (y.std() == 0), name
        if y.std() == 0:
            np.testing.assert_array_equal(x, y, err_msg=name)
        else:
            assert ks_2samp(x, y).pvalue > 1e-3, name
            assert x.min() < 0 < x.max(), name


@pytest.mark.parametrize("function", [init.trunc_normal_, init.orthogonal_])
def test_random_fractions_are_not_rounded_to_integers(function) -> None:
    with pytest.raises(
        NotImplementedError, match=rf"{function.__name__}: expected a floating Tensor, got int64\(2, 2\)"
    ):
        function(rg.zeros(2, 2, dtype=rg.int64))


@pytest.mark.parametrize("function", [init.kaiming_uniform_, init.kaiming_normal_])
def test_a_tensor_without_elements_is_left_alone_with_a_warning(function) -> None:
    with pytest.warns(UserWarning, match="zero-element"):
        function(rg.empty(0, 1))
