"""PackedSequence, checkpoint, averaged models, older weight normalization, functional derivatives: against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd.nn.utils import rnn
from retrograd.optim import swa_utils
from retrograd.utils.checkpoint import checkpoint, checkpoint_sequential

torch = pytest.importorskip("torch")


def _same(mine, its, tolerance=1e-5):
    its = its.detach().numpy() if isinstance(its, torch.Tensor) else its
    np.testing.assert_allclose(mine.detach().numpy(), its, rtol=tolerance, atol=tolerance)


def _twin(mine, its):
    its.load_state_dict({name: torch.tensor(value.numpy()) for name, value in mine.state_dict().items()})
    return its


# Packed sequences


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packing_is_pytorchs(batch_first, enforce_sorted):
    lengths = [4, 3, 3, 1] if enforce_sorted else [3, 1, 4, 3]
    x = np.random.default_rng(0).standard_normal((4, 4, 2) if batch_first else (4, 4, 2)).astype(np.float32)
    mine = rnn.pack_padded_sequence(rg.tensor(x), lengths, batch_first, enforce_sorted)
    its = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor(x), lengths, batch_first, enforce_sorted)
    _same(mine.data, its.data)
    assert mine.batch_sizes.tolist() == its.batch_sizes.tolist()
    padded, counts = rnn.pad_packed_sequence(mine, batch_first, padding_value=-1.0, total_length=6)
    reference, other = torch.nn.utils.rnn.pad_packed_sequence(its, batch_first, padding_value=-1.0, total_length=6)
    _same(padded, reference)
    assert counts.tolist() == other.tolist() == lengths


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_recurrent_layers_take_packed_sequences(kind, enforce_sorted):
    mine = getattr(rg.nn, kind)(2, 3, num_layers=2, bidirectional=True, batch_first=True)
    its = _twin(mine, getattr(torch.nn, kind)(2, 3, num_layers=2, bidirectional=True, batch_first=True))
    lengths = [4, 3, 3, 1] if enforce_sorted else [3, 1, 4, 3]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 4, 2)).astype(np.float32)
    h = rng.standard_normal((4, 4, 3)).astype(np.float32)
    a, b = rg.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    states = (rg.tensor(h), torch.tensor(h))
    if kind == "LSTM":
        states = tuple((state, state * 0.5) for state in states)
    out, final = mine(rnn.pack_padded_sequence(a, lengths, True, enforce_sorted), states[0])
    reference, last = its(torch.nn.utils.rnn.pack_padded_sequence(b, lengths, True, enforce_sorted), states[1])
    assert isinstance(out, rnn.PackedSequence) and mine.batch_first
    _same(out.data, reference.data)
    finals = zip(final, last) if kind == "LSTM" else [(final, last)]
    for own, other in finals:
        _same(own, other)
    (out.data**2).sum().backward()
    (reference.data**2).sum().backward()
    _same(a.grad, b.grad)
    for own, other in zip(mine.parameters(), its.parameters()):
        _same(own.grad, other.grad, 1e-4)


def test_padding_of_sequences():
    parts = [[1.0, 2.0, 3.0], [4.0], [5.0, 6.0]]
    for options in ({}, {"batch_first": True}, {"padding_value": -1.0, "padding_side": "left"}):
        mine = rnn.pad_sequence([rg.tensor(part) for part in parts], **options)
        _same(mine, torch.nn.utils.rnn.pad_sequence([torch.tensor(part) for part in parts], **options))
    packed = rnn.pack_sequence([rg.tensor(part) for part in parts], enforce_sorted=False)
    assert [x.tolist() for x in rnn.unpack_sequence(packed)] == parts


def test_lengths_that_do_not_fit_are_refused():
    x = rg.ones(3, 2, 1)
    for lengths, error in (([1, 2], RuntimeError), ([3], ValueError), ([3, 0], RuntimeError), ([4, 1], RuntimeError)):
        with pytest.raises(error):
            rnn.pack_padded_sequence(x, lengths)


# Recomputation


def test_a_checkpoint_has_the_gradients_of_the_plain_program_and_draws_alike():
    layer, dropout = rg.nn.Linear(3, 3), rg.nn.Dropout(0.5)
    outer = rg.ones(3, requires_grad=True) * 2
    calls = []

    def part(x):
        calls.append(1)
        return dropout(rg.tanh(layer(x))) * outer

    def gradients(run):
        x = rg.ones(2, 3, requires_grad=True)
        rg.manual_seed(3)
        y = run(x)
        return [y, *rg.autograd.grad(y.sum(), [x, *layer.parameters(), outer], retain_graph=True)]

    plain = gradients(part)
    repeated = gradients(lambda x: checkpoint(part, x, use_reentrant=False))
    for a, b in zip(plain, repeated, strict=True):
        assert a.tolist() == b.tolist()
    assert len(calls) == 3


def test_a_checkpoint_keeps_nothing_of_its_inside():
    from weakref import ref

    kept = []

    def part(x):
        y = x.exp()
        kept.append(ref(y.array))
        return y.sin().exp().sin()

    x = rg.ones(3, requires_grad=True)
    y = checkpoint(part, x)
    assert kept[0]() is None
    y.sum().backward()
    assert kept[1]() is None


def test_a_checkpoint_can_be_differentiated_twice():
    def second(run):
        x = rg.tensor([0.5, 1.5], dtype=rg.float64, requires_grad=True)
        (first,) = rg.autograd.grad(run(x).sum(), x, create_graph=True)
        return rg.autograd.grad(first.sum(), x)[0].tolist()

    assert second(lambda x: checkpoint(lambda x: x**3, x)) == pytest.approx(second(lambda x: x**3))


def test_a_checkpoint_leaves_random_numbers_as_they_were():
    x = rg.ones(3, requires_grad=True)
    rg.manual_seed(0)
    y = checkpoint(lambda x: x * rg.rand(3), x)
    after = rg.rand(1).item()
    rg.manual_seed(0)
    rg.rand(3)
    assert rg.rand(1).item() == after
    state = rg.get_rng_state()
    y.sum().backward()
    assert rg.get_rng_state().tolist() == state.tolist()


def test_a_chain_in_parts():
    model = rg.nn.Sequential(*[rg.nn.Linear(3, 3) for _ in range(5)])
    x = rg.ones(2, 3, requires_grad=True)
    assert np.allclose(checkpoint_sequential(model, 2, x, use_reentrant=False).detach(), model(x).detach())
    checkpoint_sequential(model, 3, x).sum().backward()
    mine = [p.grad.tolist() for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert mine == [p.grad.tolist() for p in model.parameters()]
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential(model, 9, x)


# Averages of weights


def test_averages_are_pytorchs():
    for options in ({}, {"avg_fn": "ema"}, {"multi_avg_fn": "ema", "use_buffers": True}):
        mine = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.BatchNorm1d(2))
        its = _twin(mine, torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)))
        averages = []
        for module, utils in ((mine, swa_utils), (its, torch.optim.swa_utils)):
            made = dict(options)
            if "avg_fn" in made:
                made["avg_fn"] = utils.get_ema_avg_fn(0.9)
            if "multi_avg_fn" in made:
                made["multi_avg_fn"] = utils.get_ema_multi_avg_fn(0.9)
            averages.append(utils.AveragedModel(module, **made))
        for step in range(3):
            for module, library, average in ((mine, rg, averages[0]), (its, torch, averages[1])):
                with library.no_grad():
                    for parameter in module.parameters():
                        parameter.mul_(1.5).add_(step)
                average.update_parameters(module)
        for (name, value), other in zip(averages[0].state_dict().items(), averages[1].state_dict().values()):
            assert np.allclose(value.numpy(), other.numpy(), rtol=1e-5), name


@pytest.mark.parametrize("strategy, epochs", [("cos", 4), ("linear", 3), ("cos", 0)])
def test_learning_rates_of_averaging_are_pytorchs(strategy, epochs):
    rates = []
    for library in (rg, torch):
        optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=1.0)
        scheduler = library.optim.swa_utils.SWALR(optimizer, 0.1, epochs, strategy)
        rates.append([])
        for _ in range(6):
            optimizer.step()
            scheduler.step()
            rates[-1].append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(rates[1])


def test_statistics_are_computed_anew():
    model = rg.nn.BatchNorm1d(2)
    data = [rg.randn(8, 2) for _ in range(3)]
    swa_utils.update_bn(data, model)
    assert np.allclose(model.running_mean, np.mean([x.numpy().mean(0) for x in data], 0), atol=1e-6)
    assert model.momentum == 0.1


# Older weight and spectral normalization


@pytest.mark.parametrize("dim", [0, 1, None])
def test_older_weight_norm_is_pytorchs(dim):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        its = torch.nn.utils.weight_norm(torch.nn.Linear(3, 2), dim=dim)
    mine = rg.nn.utils.weight_norm(rg.nn.Linear(3, 2), dim=dim)
    assert list(mine.state_dict()) == list(its.state_dict())
    _twin(mine, its)
    for library, layer in ((rg, mine), (torch, its)):
        layer(library.ones(1, 3)).square().sum().backward()
    for a, b in zip(mine.parameters(), its.parameters(), strict=True):
        _same(a.grad, b.grad)
    value = mine(rg.ones(1, 3)).tolist()
    rg.nn.utils.remove_weight_norm(mine)
    assert sorted(mine.state_dict()) == ["bias", "weight"] and np.allclose(mine(rg.ones(1, 3)).tolist(), value)
    with pytest.raises(ValueError, match="not found"):
        rg.nn.utils.remove_weight_norm(mine)


def test_older_spectral_norm_is_pytorchs():
    its = torch.nn.utils.spectral_norm(torch.nn.Conv2d(2, 3, 2))
    mine = rg.nn.utils.spectral_norm(rg.nn.Conv2d(2, 3, 2))
    assert list(mine.state_dict()) == list(its.state_dict())
    _twin(mine, its)
    for _ in range(2):
        _same(mine(rg.ones(1, 2, 4, 4)), its(torch.ones(1, 2, 4, 4)))
    mine(rg.ones(1, 2, 4, 4)).sum().backward()
    its(torch.ones(1, 2, 4, 4)).sum().backward()
    _same(mine.weight_orig.grad, its.weight_orig.grad, 1e-4)
    mine.eval(), its.eval()
    _same(mine(rg.ones(1, 2, 4, 4)), its(torch.ones(1, 2, 4, 4)))
    rg.nn.utils.remove_spectral_norm(mine)
    assert sorted(mine.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not found"):
        rg.nn.utils.remove_spectral_norm(mine)


# Derivatives as functions


def _pair(x, y):
    return x.exp() * y, (x * y).sum()


@pytest.mark.parametrize("create_graph", [False, True])
def test_jacobians_and_hessians_are_pytorchs(create_graph):
    a, b = np.array([0.5, -1.0]), np.array([2.0, 3.0])
    mine, its = rg.autograd.functional, torch.autograd.functional
    x, y, p, q = rg.tensor(a), rg.tensor(b), torch.tensor(a), torch.tensor(b)

    def check(own, other):
        if isinstance(own, tuple):
            for pair in zip(own, other, strict=True):
                check(*pair)
        else:
            _same(own, other, 1e-12)

    options = {"create_graph": create_graph}
    check(mine.jacobian(_pair, (x, y), **options), its.jacobian(_pair, (p, q), **options))
    check(mine.jacobian(lambda x: x**2, x, **options), its.jacobian(lambda x: x**2, p, **options))
    scalar = lambda x, y: (x**3 * y).sum()  # noqa: E731
    check(mine.hessian(scalar, (x, y), **options), its.hessian(scalar, (p, q), **options))
    v = (np.array([1.0, 2.0]), np.array([0.5, -1.0]))
    for name in ("vhp", "hvp"):
        own = getattr(mine, name)(scalar, (x, y), tuple(map(rg.tensor, v)), **options)
        check(own, getattr(its, name)(scalar, (p, q), tuple(map(torch.tensor, v)), **options))
    own = mine.jvp(_pair, (x, y), tuple(map(rg.tensor, v)), **options)
    check(own, its.jvp(_pair, (p, q), tuple(map(torch.tensor, v)), **options))
    w = (v[0], np.array(3.0))
    check(
        mine.vjp(_pair, (x, y), tuple(map(rg.tensor, w)), **options),
        its.vjp(_pair, (p, q), tuple(map(torch.tensor, w)), **options),
    )


def test_jacobians_can_be_differentiated_and_strictness_is_obeyed():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    rg.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        rg.autograd.functional.jacobian(lambda x: rg.ones(2), rg.ones(2), strict=True)
    assert rg.autograd.functional.jacobian(lambda x: rg.ones(2), rg.ones(2)).tolist() == [[0, 0], [0, 0]]


def test_variables_are_tensors_on_the_same_memory():
    x = rg.zeros(2)
    v = rg.autograd.Variable(x, requires_grad=True)
    assert v.requires_grad and not x.requires_grad and isinstance(x, rg.autograd.Variable)
    x[0] = 5.0
    assert v[0].item() == 5.0
