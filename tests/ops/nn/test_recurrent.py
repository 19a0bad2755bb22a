"""Recurrent layers: long sequences, dropout, errors. Values and gradients are in the operator harness."""

import numpy as np
import pytest

import retrograd as rg

KINDS = [("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)]


def layers(name, gates, count=1, steps=6, seed=0):
    """The arguments of two features and three hidden units, in float64."""
    rng = np.random.default_rng(seed)
    params = []
    for layer in range(count):
        for shape in ((3 * gates, 3 if layer else 2), (3 * gates, 3), (3 * gates,), (3 * gates,)):
            params.append(rg.tensor(0.5 * rng.standard_normal(shape), requires_grad=True))
    x = rg.tensor(rng.standard_normal((steps, 4, 2)), requires_grad=True)
    state = rg.zeros(count, 4, 3, dtype=rg.float64)
    return x, (state, state) if name == "lstm" else state, params


@pytest.mark.parametrize(("name", "gates"), KINDS)
def test_a_sequence_is_its_cells(name, gates):
    x, hx, params = layers(name, gates)
    out, *last = getattr(rg, name)(x, hx, params, True, 1, 0.0, False, False, False)
    state = (hx[0][0], hx[1][0]) if name == "lstm" else hx[0]
    outputs = []
    for t in range(len(x)):
        state = getattr(rg, name + "_cell")(x[t], state, *params)
        outputs.append(state[0] if name == "lstm" else state)
    np.testing.assert_allclose(out.detach(), rg.stack(outputs).detach(), rtol=1e-12)
    g = rg.tensor(np.random.default_rng(1).standard_normal(out.shape))
    one = rg.autograd.grad(out, [x, *params], g)
    two = rg.autograd.grad(rg.stack(outputs), [x, *params], g)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(last[0][0].detach(), out[-1].detach())


@pytest.mark.parametrize(("name", "gates"), KINDS)
def test_one_node_for_a_layer_and_results_of_their_own(name, gates):
    x, hx, params = layers(name, gates)
    out, *last = getattr(rg, name)(x, hx, params, True, 1, 0.0, False, False, False)
    assert not any(np.shares_memory(out.array, state.array) for state in last)
    with rg.no_grad():
        assert not getattr(rg, name)(x, hx, params, True, 1, 0.0, False, False, False)[0].requires_grad


@pytest.mark.parametrize(("name", "gates"), KINDS)
def test_outputs_are_contiguous_if_the_input_is_a_transposed_view(name, gates):
    x, hx, params = layers(name, gates)
    given = x.detach().transpose(0, 1).contiguous()
    results = [
        getattr(rg, name)(y, hx, params, True, 1, 0.0, False, False, first)[0].detach()
        for y, first in ((x, False), (given.transpose(0, 1), False), (given, True))
    ]
    assert all(out.is_contiguous() for out in results)
    for out in (results[1], results[2].transpose(0, 1)):
        np.testing.assert_allclose(out, results[0], rtol=1e-12)


def test_saturated_gates_stay_finite():
    x, hx, params = layers("lstm", 4)
    out, _, c = rg.lstm(x * 1e4, hx, params, True, 1, 0.0, False, False, False)
    (g,) = rg.autograd.grad(out.sum() + c.sum(), x)
    assert np.isfinite(out.detach().numpy()).all()
    assert np.isfinite(g.numpy()).all()


def test_dropout_between_layers_in_training_only():
    rg.manual_seed(0)
    x, hx, params = layers("gru", 3, count=2)

    def run(train):
        return rg.gru(x, hx, params, True, 2, 0.5, train, False, False)[0].detach().numpy()

    np.testing.assert_array_equal(run(False), run(False))
    assert not np.allclose(run(True), run(False))
    assert not np.allclose(run(True), run(True))


@pytest.mark.parametrize(
    "change",
    [
        lambda x, hx, params: (x[0], hx, params),
        lambda x, hx, params: (x[:, :, :1], hx, params),
        lambda x, hx, params: (x, hx[:, :2], params),
        lambda x, hx, params: (x, hx[0], params),
        lambda x, hx, params: (x, hx, params[:3]),
        lambda x, hx, params: (x, hx, [params[0], params[1][:, :2], *params[2:]]),
        lambda x, hx, params: (x.float(), hx, params),
    ],
)
def test_errors(change):
    with pytest.raises(RuntimeError, match="gru"):
        rg.gru(*change(*layers("gru", 3)), True, 1, 0.0, False, False, False)
    with pytest.raises(RuntimeError, match="lstm"):
        x, hx, params = layers("lstm", 4)
        rg.lstm(x, hx[:1], params, True, 1, 0.0, False, False, False)


@pytest.mark.parametrize(("name", "gates"), KINDS)
@pytest.mark.parametrize("lengths", [[3, 6, 1, 3], [2, 2, 2, 2]])
def test_packed_sequences_are_processed_as_if_each_were_alone(name, gates, lengths):
    rng = np.random.default_rng(0)
    kind = {"lstm": rg.nn.LSTM, "gru": rg.nn.GRU}.get(name, rg.nn.RNN)
    more = {"nonlinearity": name[4:]} if name.startswith("rnn") else {}
    layer = kind(2, 3, num_layers=2, bidirectional=True, dtype=rg.float64, **more)
    x = rg.tensor(rng.standard_normal((4, 6, 2)), requires_grad=True)
    hx = [rg.tensor(rng.standard_normal((4, 4, 3)), requires_grad=True) for _ in range(2 if name == "lstm" else 1)]

    def run(x, hx):
        out, last = layer(x, tuple(hx) if name == "lstm" else hx[0])
        return out, last if name == "lstm" else (last,)

    packed = rg.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    out, last = run(packed, hx)
    out, _ = rg.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    found, expected = [*last], [[] for _ in last]
    for row, length in enumerate(lengths):
        alone, ends = run(x[row : row + 1, :length].transpose(0, 1), [state[:, row : row + 1] for state in hx])
        found.append(out[row, :length])
        expected.append(alone[:, 0])
        for states, end in zip(expected, ends, strict=False):
            states.append(end)
    expected = [rg.cat(y, 1) if isinstance(y, list) else y for y in expected]
    weights = [rg.tensor(rng.standard_normal(y.shape)) for y in found]
    inputs = [x, *hx, *layer.parameters()]
    results = []
    for ys in (found, expected):
        for y, z in zip(ys, found, strict=True):
            np.testing.assert_allclose(y.detach(), z.detach(), rtol=1e-10, atol=1e-12)
        results.append(rg.autograd.grad(sum((y * w).sum() for y, w in zip(ys, weights, strict=True)), inputs))
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sizes", [[2, 1], [1, 3], [3, 1, 0], [5, -1]])
def test_batch_sizes_must_be_positive_decreasing_and_complete(sizes):
    x, hx, params = layers("gru", 3)
    with pytest.raises(RuntimeError, match=r"gru.*: expected positive, decreasing batch_sizes with the sum 4, got"):
        rg.gru(x[0], hx, params, True, 1, 0.0, False, False, False, batch_sizes=sizes)
    with pytest.raises(RuntimeError, match=r"expected an input \(total, features\) with batch_sizes"):
        rg.gru(x, hx, params, True, 1, 0.0, False, False, False, batch_sizes=sizes)


@pytest.mark.parametrize("sequences", [2, 4])
def test_states_for_packed_sequences_must_have_as_many_sequences(sequences):
    packed = rg.nn.utils.rnn.pack_padded_sequence(rg.ones(5, 3, 2), [2, 5, 1], enforce_sorted=False)
    with pytest.raises(RuntimeError, match=r"GRU: expected a hidden state of size \(1, 3, 4\)"):
        rg.nn.GRU(2, 4)(packed, rg.zeros(1, sequences, 4))
