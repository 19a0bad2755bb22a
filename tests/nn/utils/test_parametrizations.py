"""Orthogonal matrices, and parametrizations taken over from another module."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn.utils import parametrizations, parametrize

SHAPES = [(4, 4), (5, 3), (3, 5), (1, 4), (2, 4, 4), (2, 5, 3), (2, 3, 5), (0, 3, 2)]


def is_orthogonal(matrix: rg.Tensor) -> bool:
    tall = matrix.mT if matrix.shape[-2] < matrix.shape[-1] else matrix
    identity = rg.eye(tall.shape[-1], dtype=tall.dtype)
    return rg.allclose(tall.mH @ tall, identity.expand_as(tall.mH @ tall), atol=1e-8)


def with_matrix(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> nn.Module:
    random = np.random.default_rng(seed)
    module = nn.Module()
    values = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    module.weight = nn.Parameter(rg.tensor((values if dtype == np.complex128 else values.real).astype(dtype)))
    return module


@pytest.mark.parametrize("use_trivialization", [True, False])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_orthogonal_matrices_stay_so_while_they_are_trained(
    shape: tuple[int, ...], dtype: Any, orthogonal_map: str, use_trivialization: bool
) -> None:
    module = with_matrix(shape, dtype)
    keywords: Any = {"orthogonal_map": orthogonal_map, "use_trivialization": use_trivialization}
    if dtype == np.complex128 and orthogonal_map == "householder":
        with pytest.raises(ValueError, match="does not support complex"):
            parametrizations.orthogonal(module, "weight", **keywords)
        return
    parametrizations.orthogonal(module, "weight", **keywords)
    assert module.weight.shape == shape and is_orthogonal(module.weight)
    target = with_matrix(shape, dtype, seed=1).weight.detach()
    optimizer = rg.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        loss = (module.weight - target).abs().square().sum()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert is_orthogonal(module.weight) and (losses[-1] < losses[0] or not losses[0])
    # An orthogonal matrix that is assigned stays as it is; one that is not becomes its factor Q.
    parametrized = parametrizations.orthogonal(with_matrix(shape, dtype, seed=2))
    exact = parametrized.weight.detach().clone()
    if not use_trivialization and orthogonal_map != "householder":
        with pytest.raises(NotImplementedError, match="not possible to assign"):
            module.weight = exact
        return
    module.weight = exact
    assert rg.allclose(module.weight, exact)
    module.weight = 2 * exact
    assert rg.allclose(module.weight, exact)


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 3, 3)], ids=str)
def test_orthogonal_parametrizations_equal_pytorch(shape: tuple[int, ...], orthogonal_map: str) -> None:
    torch = pytest.importorskip("torch")
    start, change, weights = (np.random.default_rng(seed).standard_normal(shape) for seed in range(3))
    change = np.tril(change, -1) if shape[-2] >= shape[-1] else np.triu(change, 1)
    results = []
    for library in (rg, torch):
        module = library.nn.Module()
        module.weight = library.nn.Parameter(library.tensor(start))
        library.nn.utils.parametrizations.orthogonal(module, "weight", orthogonal_map, use_trivialization=False)
        original = module.parametrizations.weight.original
        with library.no_grad():
            original.add_(library.tensor(change))
        (module.weight * library.tensor(weights)).sum().backward()
        results.append((module.weight.detach().numpy(), original.grad.numpy()))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "householder"])
def test_a_matrix_of_zeros_becomes_orthogonal(orthogonal_map: str) -> None:
    module = nn.Module()
    module.weight = nn.Parameter(rg.zeros(4, 3, dtype=rg.float64))
    for use_trivialization in (True, False):
        copied = copy.deepcopy(module)
        parametrizations.orthogonal(copied, "weight", orthogonal_map, use_trivialization=use_trivialization)
        assert is_orthogonal(copied.weight)


def test_orthogonal_names_what_does_not_fit() -> None:
    layer = nn.Linear(3, 4)
    with pytest.raises(ValueError, match=r"must be one of .* got 'foo'"):
        parametrizations.orthogonal(layer, "weight", "foo")
    with pytest.raises(ValueError, match=r"expected a matrix or batch of matrices, got float32\(4,\)"):
        parametrizations.orthogonal(layer, "bias")
    with pytest.raises(ValueError, match="no parameter or buffer 'nothing'"):
        parametrizations.orthogonal(layer, "nothing")
    parametrizations.orthogonal(layer)
    with pytest.raises(ValueError, match=r"of shape \(4, 3\), got float32\(5, 5\)"):
        layer.weight = rg.zeros(5, 5)


class Doubled(nn.Module):
    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return 2 * x


def test_parametrizations_are_transferred_with_their_originals() -> None:
    source, target = nn.Linear(3, 3), nn.Linear(3, 3)
    parametrizations.weight_norm(source)
    parametrize.register_parametrization(source, "bias", Doubled())
    source.register_buffer("scale", rg.ones(2))
    parametrize.register_parametrization(source, "scale", Doubled())
    assert parametrize.transfer_parametrizations_and_params(source, target, "weight") is target
    assert parametrize.is_parametrized(target, "weight") and not parametrize.is_parametrized(target, "bias")
    target = parametrize.transfer_parametrizations_and_params(source, nn.Linear(3, 3))
    for name in ("weight", "bias", "scale"):
        assert rg.equal(getattr(source, name), getattr(target, name))
    assert target.parametrizations.weight.original0 is source.parametrizations.weight.original0
    assert [name for name, _ in target.named_buffers()] == ["parametrizations.scale.original"]
    plain = nn.Linear(3, 3)
    assert parametrize.transfer_parametrizations_and_params(plain, nn.Linear(3, 3)).weight.is_leaf
    with pytest.raises(ValueError, match="'nothing' of ParametrizedLinear is not parametrized"):
        parametrize.transfer_parametrizations_and_params(source, target, "nothing")
