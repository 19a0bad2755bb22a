"""Clipping, parameters as a vector, parametrizations."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn.utils import parametrizations, parametrize

# Clipping


def with_gradients(library: Any, scale: float = 1.0) -> list[Any]:
    random = np.random.default_rng(0)
    parameters = []
    for shape in ((3, 4), (), (5,), (0, 2), (2,)):
        parameter = library.nn.Parameter(library.tensor(random.standard_normal(shape)))
        if shape != (2,):
            parameter.grad = library.tensor(scale * random.standard_normal(shape))
        parameters.append(parameter)
    return parameters


@pytest.mark.parametrize("norm_type", [2, 1.0, 3.5, 0.0, float("inf")])
@pytest.mark.parametrize("scale", [0.01, 10.0])
def test_clip_grad_norm(norm_type: float, scale: float) -> None:
    torch = pytest.importorskip("torch")
    results = []
    for library in (rg, torch):
        parameters = with_gradients(library, scale)
        # PyTorch has no infinity norm of an empty Tensor.
        parameters = [p for p in parameters if p.numel()]
        total = library.nn.utils.clip_grad_norm_(iter(parameters), 0.7, norm_type)
        results.append([total.numpy(), *[p.grad.numpy() for p in parameters if p.grad is not None]])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_clip_grad_norm_of_nothing_and_of_one() -> None:
    assert float(nn.utils.clip_grad_norm_([], 1.0)) == 0
    assert float(nn.utils.clip_grad_norm_([nn.Parameter(rg.ones(2))], 1.0)) == 0
    x = nn.Parameter(rg.ones(4))
    x.grad = rg.ones(4)
    assert float(nn.utils.clip_grad_norm_(x, 1.0)) == 2
    np.testing.assert_allclose(x.grad.numpy(), 0.5, rtol=1e-6)


def test_clip_grad_norm_writes_in_place_and_spares_what_fits() -> None:
    parameters = with_gradients(rg)
    arrays = [p.grad.array for p in parameters if p.grad is not None]
    before = [array.copy() for array in arrays]
    nn.utils.clip_grad_norm_(parameters, 1e6)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))
    nn.utils.clip_grad_norm_(parameters, 0.1)
    assert all(p.grad.array is a for p, a in zip([p for p in parameters if p.grad is not None], arrays, strict=True))
    assert not np.array_equal(arrays[0], before[0])


def test_clip_grad_norm_of_bad_gradients() -> None:
    x = nn.Parameter(rg.ones(2))
    for bad in (float("nan"), float("inf")):
        x.grad = rg.tensor([1.0, bad])
        with pytest.raises(RuntimeError, match="total norm"):
            nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)
        assert x.grad[0].item() == 1
    x.grad = rg.tensor([1e30, 1.0])
    assert float(nn.utils.get_total_norm([x.grad], 3.0)) == float("inf")
    x.grad = rg.tensor([1.0, float("nan")])
    nn.utils.clip_grad_norm_([x], 1.0)
    assert np.isnan(x.grad.numpy()).all()


def test_half_precision_norm_does_not_overflow() -> None:
    x = nn.Parameter(rg.ones(4, dtype=rg.float16))
    x.grad = rg.full((4,), 1000.0, dtype=rg.float16)
    assert float(nn.utils.clip_grad_norm_([x], 1.0)) == 2000
    np.testing.assert_allclose(x.grad.numpy(), 0.5, rtol=1e-3)
    assert x.grad.dtype == rg.float16


def test_norm_of_many_elements_is_accurate() -> None:
    x = np.random.default_rng(0).standard_normal(4_000_000).astype(np.float32)
    exact = np.sqrt(np.sum(x.astype(np.float64) ** 2))
    assert abs(float(nn.utils.get_total_norm([rg.tensor(x)])) / exact - 1) < 1e-6


def test_clip_grad_norm_under_create_graph() -> None:
    x = nn.Parameter(rg.tensor([1.0, 2.0]))
    (x**3).sum().backward(create_graph=True)
    nn.utils.clip_grad_norm_([x], 1.0)
    assert abs(float(rg.linalg.norm(x.grad.detach())) - 1) < 1e-5


def test_clip_grad_value() -> None:
    parameters = with_gradients(rg, 3.0)
    expected = [np.clip(p.grad.numpy(), -0.5, 0.5) for p in parameters if p.grad is not None]
    nn.utils.clip_grad_value_(parameters, 0.5)
    for p, value in zip(parameters, expected, strict=False):
        np.testing.assert_array_equal(p.grad.numpy(), value)


# Vectors


def test_parameters_to_vector_and_back() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    vector = nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (11,)
    vector.sum().backward()
    assert all((p.grad == 1).all() for p in model.parameters())
    values = rg.arange(11.0)
    nn.utils.vector_to_parameters(values, model.parameters())
    assert model[0].weight.tolist() == [[0, 1, 2], [3, 4, 5]] and model[1].bias.tolist() == [10]
    assert all(p.requires_grad and p.is_leaf for p in model.parameters())
    np.testing.assert_array_equal(nn.utils.parameters_to_vector(model.parameters()).detach().numpy(), values.numpy())
    with pytest.raises(RuntimeError, match="fewer"):
        nn.utils.vector_to_parameters(rg.ones(5), model.parameters())
    with pytest.raises(TypeError):
        nn.utils.vector_to_parameters([1.0], model.parameters())


# Parametrizations


class Double(nn.Module):
    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return 2 * x

    def right_inverse(self, x: rg.Tensor) -> rg.Tensor:
        return x / 2


class Split(nn.Module):
    def forward(self, x: rg.Tensor, y: rg.Tensor) -> rg.Tensor:
        return x + y

    def right_inverse(self, x: rg.Tensor) -> tuple[rg.Tensor, rg.Tensor]:
        return x / 4, 3 * x / 4


class Wider(nn.Module):
    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return rg.cat([x, x])


def test_register_keeps_value_and_parameter() -> None:
    layer = nn.Linear(3, 2)
    weight, value = layer.weight, layer.weight.tolist()
    assert parametrize.register_parametrization(layer, "weight", Double()) is layer
    assert layer.weight.tolist() == value and layer.parametrizations.weight.original is weight
    assert [name for name, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert isinstance(layer, nn.Linear) and type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.is_parametrized(layer) and not parametrize.is_parametrized(layer, "bias")
    layer(rg.ones(1, 3)).sum().backward()
    assert weight.grad.tolist() == [[2.0] * 3] * 2
    parametrize.register_parametrization(layer, "weight", Double())
    np.testing.assert_allclose(layer.weight.tolist(), np.array(value) * 2)  # a further one changes the value
    np.testing.assert_allclose(weight.tolist(), np.array(value) / 2)
    layer.weight = rg.ones(2, 3)
    assert weight.tolist() == [[0.25] * 3] * 2 and layer.weight.tolist() == [[1.0] * 3] * 2
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight is weight and weight.tolist() == [[1.0] * 3] * 2 and type(layer) is nn.Linear
    assert list(layer.state_dict()) == ["bias", "weight"]


class WithoutInverse(nn.Module):
    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return x + 1

    def right_inverse(self, x: rg.Tensor) -> rg.Tensor:
        raise NotImplementedError


def returning(result: Callable[[rg.Tensor], Any]) -> nn.Module:
    """A parametrization whose ``right_inverse`` gives something of its own."""

    class Odd(nn.Module):
        def forward(self, x: rg.Tensor, *others: rg.Tensor) -> rg.Tensor:
            return x.float()

        def right_inverse(self, x: rg.Tensor) -> Any:
            return result(x)

    return Odd()


def test_a_parametrization_whose_inverse_is_not_implemented_starts_from_the_value() -> None:
    layer = nn.Linear(3, 2)
    value = layer.weight.detach().clone()
    for count in (1, 2):
        parametrize.register_parametrization(layer, "weight", WithoutInverse())
        assert rg.allclose(layer.weight, value + count)
    assert rg.equal(layer.parametrizations.weight.original, value)


@pytest.mark.parametrize(
    "result",
    [lambda x: None, lambda x: (None, x), lambda x: x.bool(), lambda x: x.reshape(3, 2)],
    ids=["None", "tuple", "bool", "shape"],
)
def test_a_parametrization_that_is_refused_leaves_the_module_as_it_was(result: Callable[[rg.Tensor], Any]) -> None:
    layer = nn.Linear(3, 2)
    value = layer.weight.detach().clone()
    with pytest.raises(ValueError, match="right_inverse|shape and dtype"):
        parametrize.register_parametrization(layer, "weight", returning(result))
    assert not parametrize.is_parametrized(layer) and rg.equal(layer.weight, value)
    parametrize.register_parametrization(layer, "weight", Double())
    with pytest.raises(ValueError, match="right_inverse|shape and dtype"):
        parametrize.register_parametrization(layer, "weight", returning(result))
    assert rg.equal(layer.weight, value) and len(layer.parametrizations.weight) == 1


def test_several_originals_buffers_and_removal() -> None:
    layer = nn.Linear(3, 2)
    value = layer.weight.tolist()
    parametrize.register_parametrization(layer, "weight", Split())
    assert list(layer.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    np.testing.assert_allclose(layer.weight.tolist(), value, rtol=1e-6)
    with pytest.raises(ValueError, match="one original"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.register_parametrization(layer, "bias", Double())
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and parametrize.is_parametrized(layer, "bias")
    original = layer.parametrizations.bias.original
    parametrize.remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert layer.bias is original and not parametrize.is_parametrized(layer)
    norm = nn.BatchNorm1d(2)
    parametrize.register_parametrization(norm, "running_var", Double())
    assert "parametrizations.running_var.original" in dict(norm.named_buffers())


def test_parametrize_errors() -> None:
    layer = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="shape and dtype"):
        parametrize.register_parametrization(layer, "weight", Wider())
    assert not parametrize.is_parametrized(layer) and list(layer.state_dict()) == ["weight", "bias"]
    with pytest.raises(ValueError, match="no parameter or buffer"):
        parametrize.register_parametrization(layer, "weigth", Double())
    with pytest.raises(ValueError, match="not parametrized"):
        parametrize.remove_parametrizations(layer, "weight")
    parametrize.register_parametrization(layer, "weight", Wider(), unsafe=True)
    assert layer.weight.shape == (4, 3)
    with pytest.raises(RuntimeError, match="right_inverse"):
        layer.weight = rg.ones(4, 3)


def test_cached_computes_once() -> None:
    calls = []

    class Count(nn.Module):
        def forward(self, x: rg.Tensor) -> rg.Tensor:
            calls.append(1)
            return x * 1

    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Count())
    calls.clear()
    with parametrize.cached():
        assert layer.weight is layer.weight
        layer(rg.ones(1, 2))
    assert len(calls) == 1
    assert layer.weight is not layer.weight and len(calls) == 3


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_parametrized_modules_are_copied(copied: Any) -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    other = copied(layer)
    parametrize.register_parametrization(other, "bias", Double())
    assert not parametrize.is_parametrized(layer, "bias") and isinstance(layer.bias, nn.Parameter)
    x = rg.ones(1, 3)
    np.testing.assert_allclose(other(x).tolist(), layer(x).tolist(), rtol=1e-6)
    with rg.no_grad():
        other.parametrizations.weight.original0.zero_()
    assert float(layer.weight.detach().abs().sum()) > 0


@pytest.mark.parametrize("dim", [0, 1, -2, None])
@pytest.mark.parametrize("layer", ["Linear(3, 4)", "Conv1d(2, 3, 2)"])
def test_weight_norm_as_pytorch(layer: str, dim: int | None) -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 2, 3))
    theirs = torch.nn.utils.parametrizations.weight_norm(eval(f"nn.{layer}", {"nn": torch.nn}).double(), dim=dim)
    ours = parametrizations.weight_norm(eval(f"nn.{layer}", {"nn": nn}).double(), dim=dim)
    assert repr(ours) == repr(theirs)
    assert [(k, tuple(v.shape)) for k, v in ours.state_dict().items()] == [
        (k, tuple(v.shape)) for k, v in theirs.state_dict().items()
    ]
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    for library, module in ((rg, ours), (torch, theirs)):
        module(library.tensor(x)).square().sum().backward()
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-10, atol=1e-12, err_msg=name)


def test_weight_norm_takes_older_states() -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 2, bias=False))
    layer.load_state_dict({"weight_g": rg.full((2, 1), 5.0), "weight_v": rg.ones(2, 3)})
    np.testing.assert_allclose(layer.weight.tolist(), 5 / np.sqrt(3), rtol=1e-6)


@pytest.mark.parametrize("layer", ["Linear(4, 3)", "Conv2d(2, 3, 2)", "ConvTranspose1d(2, 3, 2)"])
def test_spectral_norm(layer: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.utils.parametrizations.spectral_norm(eval(f"nn.{layer}", {"nn": torch.nn}).double())
    ours = parametrizations.spectral_norm(eval(f"nn.{layer}", {"nn": nn}).double())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: v.numpy().copy() for k, v in theirs.state_dict().items()})
    for training in (True, False):
        for module in (ours.train(training), theirs.train(training)):
            module.zero_grad()
            module.weight.square().sum().backward()
        gradients = [m.parametrizations.weight.original.grad.numpy() for m in (ours, theirs)]
        np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-8)
    ours.train()
    for _ in range(200):
        _ = ours.weight
    matrix = ours.eval().weight.detach().numpy()
    matrix = np.moveaxis(matrix, 1 if "Transpose" in layer else 0, 0).reshape(
        matrix.shape[int("Transpose" in layer)], -1
    )
    assert abs(np.linalg.svd(matrix)[1][0] - 1) < 1e-8


# Packed sequences


CASTS = {
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "half": "float16",
    "float": "float32",
}


@pytest.mark.parametrize("name", [*CASTS, "double"])
def test_packed_sequences_are_cast_and_stay_themselves_where_nothing_changes(name: str) -> None:
    packed = nn.utils.rnn.pack_padded_sequence(rg.ones(3, 2, 4), [3, 2])
    cast = getattr(packed, name)()
    assert cast.data.dtype == np.dtype(CASTS.get(name, "float64")) and getattr(cast, name)() is cast
    assert cast.batch_sizes is packed.batch_sizes and packed.cpu() is packed and packed.to("cpu") is packed


def test_what_cannot_be_packed_or_padded_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="cannot pack empty"):
        nn.utils.rnn.pack_padded_sequence(rg.ones(0, 0), [])
    with pytest.raises(RuntimeError, match="expected iterable .* got arg of type int"):
        nn.utils.rnn.pad_sequence(5)


def test_a_pruned_module_is_pickled() -> None:
    layer = nn.utils.prune.l1_unstructured(nn.Linear(3, 2), "weight", 2)
    copied = pickle.loads(pickle.dumps(layer))
    x = rg.ones(1, 3)
    assert rg.equal(copied(x), layer(x)) and nn.utils.prune.is_pruned(copied)
