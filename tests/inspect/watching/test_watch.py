"""Watching a training run: what is put on record, at which steps, and that nothing is left behind."""

from __future__ import annotations

import io
import json
import math
import sys

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.core.arrays.fp_warnings import silent
from retrograd.core.graph.modes import modes, watchers
from retrograd.core.graph.observers import Observer, attach, detach, observing
from retrograd.inspect.watching.measures import WHOLE, densities_over_time, norm_of, reading, sample_of
from retrograd.inspect.watching.measures import distributions as distributions_of
from retrograd.nn import functional as F


def distributions(arrays, bins=30):
    return distributions_of([reading(array) for array in arrays], bins)


def network():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with rg.no_grad():
        model[0].weight.fill_(1.0)
        model[0].bias[1:3] = -100.0  # two dead units of four
    return model, rg.optim.SGD(model.parameters(), lr=0.1)


def step(model, optimizer, x=None):
    optimizer.zero_grad()
    loss = model(rg.ones(5, 3) if x is None else x).square().sum()
    loss.backward()
    return loss


def left_nothing(model):
    return not watchers and not modes.observers and not any(m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("shape", [(), (7,), (30, 20), (300, 130), (0, 3)])
def test_distributions_are_numpys(shape, dtype):
    values = np.random.default_rng(0).normal(2, 3, size=shape).astype(dtype)
    before = values.copy()
    (found,) = distributions([values], bins=7)
    exact = np.abs(values).astype(np.float64) if dtype == np.complex64 else values.astype(np.float64)
    assert found.size == exact.size and found.finite
    assert found.norm == pytest.approx(np.linalg.norm(exact.ravel()), rel=1e-5)
    if exact.size:
        assert found.rms == pytest.approx(np.sqrt(np.mean(exact**2)), rel=1e-5)
        assert found.mean == pytest.approx(exact.mean(), rel=1e-4)
        assert found.std == pytest.approx(exact.std(), rel=1e-4, abs=1e-12)
        assert (found.minimum, found.maximum) == pytest.approx((exact.min(), exact.max()), rel=1e-6)
        if 1 < exact.size <= WHOLE:
            np.testing.assert_array_equal(found.counts, np.histogram(exact, 7)[0])
        assert WHOLE / 3 < found.counts.sum() <= WHOLE or found.counts.sum() == exact.size
    np.testing.assert_array_equal(values, before)


def test_distributions_of_many_arrays_are_those_of_each():
    random = np.random.default_rng(0)
    arrays = [random.normal(size=size) * scale for size, scale in ((5, 1), (0, 1), (2000, 1e-20), (1, 3), (40, 1e200))]
    arrays.append(np.full(600, 2.0))
    with silent():
        pairs = [(found, *distributions([array])) for found, array in zip(distributions(arrays), arrays, strict=True)]
    for together, alone in pairs:
        np.testing.assert_array_equal(together.counts, alone.counts)
        assert together.norm == alone.norm and together.zeros == alone.zeros
        assert (together.mean, together.std) == pytest.approx((alone.mean, alone.std), nan_ok=True)


def test_what_is_not_finite_shows_in_the_norm_and_is_left_out_elsewhere():
    few = np.array([1.0, np.inf, -1.0])
    many = np.ones((40, 50), np.float32)
    many[3, 4] = np.nan
    for values, norm in ((few, math.inf), (many, math.nan), (np.full(3, np.nan), math.nan)):
        (found,) = distributions([values])
        assert found.norm == pytest.approx(norm, nan_ok=True) and not found.finite
        finite = values[np.isfinite(values)]
        assert (found.mean, found.std) == pytest.approx(
            (finite.mean(), finite.std()) if finite.size else (math.nan, math.nan), nan_ok=True
        )


@pytest.mark.parametrize("scale", [1e-42, 1e-25, 1.0, 1e25])
def test_norms_do_not_lose_what_squares_would(scale):
    values = np.linspace(1, 2, 70_000).astype(np.float32) * np.float32(scale)
    doubles = np.linspace(1, 2, 100) * 1e250
    with silent():
        norm, of_doubles = norm_of(values), norm_of(doubles)
    assert norm == pytest.approx(np.linalg.norm(values.astype(np.float64)), rel=1e-4)
    assert of_doubles == pytest.approx(1e250 * np.linalg.norm(np.linspace(1, 2, 100)))


def test_records_are_the_same_whether_they_are_read_at_once_or_in_the_end(monkeypatch):
    runs = []
    for at_once in (True, False):
        monkeypatch.setattr("retrograd.inspect.watching.watch._SECONDS", math.inf)
        rg.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 300), nn.ReLU(), nn.Linear(300, 2))
        optimizer = rg.optim.SGD(model.parameters(), lr=0.2)
        with inspect.watch(model, optimizer, every=1, live=False) as w:
            for number in range(60):  # more than are completed together
                step(model, optimizer, rg.ones(5, 3) * (1 + number % 3))
                optimizer.step()
                assert not at_once or len(w.records) == number + 1
        runs.append(w)
    first, second = runs
    assert first.alarms == second.alarms != []
    assert [alarm.step for alarm in first.alarms] == [alarm.step for alarm in second.alarms]
    for a, b in zip(first.records, second.records, strict=True):
        assert a.losses == b.losses and a.activations == b.activations and a.update_ratios == b.update_ratios
        for table, other in ((a.weights, b.weights), (a.gradients, b.gradients)):
            for name, found in table.items():
                assert found.norm == other[name].norm and found.minimum == other[name].minimum
                np.testing.assert_array_equal(found.counts, other[name].counts)


def test_samples_meet_all_columns():
    columns = np.broadcast_to(np.arange(64.0), (512, 64)).copy()
    assert set(sample_of(columns)) == set(range(64))


def test_histograms_over_time_are_densities_on_common_bins():
    random = np.random.default_rng(0)
    samples = [random.normal(size=4000), 3 + random.normal(size=4000), np.full(10, np.nan)]
    records = [distributions([values[:1000], values[1000:]], 40) for values in samples[:2]]
    edges, densities = densities_over_time([*records, distributions([samples[2]])], bins=50)
    width = np.diff(edges)
    np.testing.assert_allclose(densities @ width, [1, 1, 0])
    middle = (edges[1:] + edges[:-1]) / 2
    np.testing.assert_allclose((densities[:2] * width) @ middle, [0, 3], atol=0.15)


def test_a_record_says_what_happened():
    model, optimizer = network()
    with inspect.watch(model, optimizer, every=1) as w:
        for _ in range(2):
            loss = step(model, optimizer)
            raw = math.sqrt(sum(float((p.grad**2).sum().item()) for p in model.parameters()))
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            before = {name: p.detach().numpy().copy() for name, p in model.named_parameters()}
            gradients = {name: p.grad.numpy().copy() for name, p in model.named_parameters()}
            optimizer.step()
            record = w.records[-1]
            assert record.losses == [pytest.approx(loss.item())] and record.loss == record.losses[0]
            assert record.rates == [0.1]
            assert record.total_norm_before_clipping == pytest.approx(raw, rel=1e-5)
            assert record.total_norm == pytest.approx(0.5, rel=1e-4)
            assert record.activations["1"].dead == 0.5 and record.activations["1"].kind == "relu"
            for name, p in model.named_parameters():
                assert record.gradients[name].norm == pytest.approx(np.linalg.norm(gradients[name]), rel=1e-5)
                assert record.weights[name].mean == pytest.approx(before[name].mean(), rel=1e-5)
                moved = np.linalg.norm(p.detach().numpy() - before[name]) / np.linalg.norm(before[name])
                assert record.update_ratios[name] == pytest.approx(moved, rel=1e-4)
    step(model, optimizer)
    optimizer.step()
    assert len(w.records) == 2
    assert left_nothing(model)


def test_every_third_step_is_recorded_and_the_others_are_not_observed():
    model, optimizer = network()
    observed = []
    with inspect.watch(model, optimizer, every=3) as w:
        for _ in range(7):
            observed.append(bool(modes.observers))
            step(model, optimizer, rg.randn(5, 3))
            optimizer.step()
    assert [record.step for record in w.records] == [0, 3, 6]
    assert observed == [True, False, False, True, False, False, True]
    assert all(record.activations and record.losses for record in w.records)


def test_the_loss_is_what_the_walk_began_at_and_several_walks_give_several():
    model, optimizer = network()
    with inspect.watch(model, optimizer, every=1) as w:
        optimizer.zero_grad()
        for k in (1.0, 2.0):
            loss = model(rg.ones(5, 3) * k).mean()
            accuracy = (loss * 7).sum()  # a metric with a graph of its own
            (loss / 2).backward()
        optimizer.step()
        assert accuracy.item() not in w.records[0].losses
        model(rg.ones(5, 3)).backward(rg.ones(5, 2))
        optimizer.step()
    assert len(w.records[0].losses) == 2 and w.records[0].losses[1] == pytest.approx(loss.item() / 2)
    assert w.records[1].losses == [] and w.records[1].loss is None


def test_a_scaled_loss_is_no_clipping():
    model, optimizer = network()
    with inspect.watch(model, optimizer, every=1) as w:
        optimizer.zero_grad()
        loss = model(rg.ones(5, 3)).square().sum()
        (loss * 65536.0).backward()
        for p in model.parameters():
            p.grad /= 65536.0
        optimizer.step()
    record = w.records[0]
    assert record.losses == [pytest.approx(loss.item())]
    assert record.total_norm_before_clipping == pytest.approx(record.total_norm, rel=1e-5)


def test_activations_of_functions_are_seen_and_validation_is_not():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

        def forward(self, x):
            return rg.sigmoid(self.second(F.relu(F.relu(self.first(x))) * 100))

    model = Net()
    optimizer = rg.optim.Adam(model.parameters())
    x = rg.randn(10, 4)
    with inspect.watch(model, optimizer, every=1) as w:
        with rg.no_grad():
            model(x * 1e6)
        out = model(x)
        out.sum().backward()
        optimizer.step()
    seen = w.records[0].activations
    assert set(seen) == {"first", "second", "relu", "relu 2", "sigmoid"}
    values = out.detach().numpy()
    assert seen["sigmoid"].mean == pytest.approx(values.mean(), rel=1e-5)
    assert seen["sigmoid"].std == pytest.approx(values.std(), rel=1e-5)
    assert seen["sigmoid"].saturated == pytest.approx((np.abs(2 * values - 1) > 0.97).mean())
    assert seen["first"].hidden and seen["relu"].hidden and not seen["sigmoid"].hidden and not seen["second"].hidden


def test_several_optimizers_share_a_record():
    model = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Linear(3, 1)})
    optimizers = [rg.optim.SGD(model["a"].parameters(), lr=0.1), rg.optim.Adam(model["b"].parameters(), lr=0.01)]
    with inspect.watch(model, optimizers, every=1) as w:
        for _ in range(3):
            for optimizer in optimizers:
                optimizer.zero_grad()
            model["b"](model["a"](rg.ones(2, 3))).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
    assert [record.step for record in w.records] == [0, 1, 2]
    assert set(w.records[-1].update_ratios) == {"a.weight", "a.bias", "b.weight", "b.bias"}
    assert w.records[-1].rates == [0.1, 0.01]


def test_other_observers_may_come_and_go_meanwhile():
    model, optimizer = network()
    other = Observer()
    with inspect.watch(model, optimizer, every=1) as w:
        for _ in range(2):  # a trace around the end of a step brings back what it had found
            with inspect.trace() as t:
                step(model, optimizer)
                optimizer.step()
            assert t.records
        with observing(other):
            step(model, optimizer)
            optimizer.step()
    assert len(w.records) == 3 and all(record.activations and record.losses for record in w.records)
    assert left_nothing(model)
    with inspect.watch(model, optimizer, every=5):
        with observing(other):
            step(model, optimizer)
            optimizer.step()
        assert len(modes.observers) == 1  # brought back, and gone at the next call
        step(model, optimizer)
        assert not modes.observers and not watchers
    assert left_nothing(model)


def test_observers_are_attached_and_detached_one_by_one():
    first, second = Observer(), Observer()
    attach(first)
    attach(first)
    with observing(second):
        detach(first)
        assert modes.observers == (second,) and watchers
        detach(first)
    assert modes.observers == (first,)
    detach(first)
    assert modes.observers == () and not watchers


def test_an_exception_leaves_nothing_behind():
    model, optimizer = network()
    with pytest.raises(ZeroDivisionError), inspect.watch(model, optimizer):
        model(rg.ones(2, 3))
        raise ZeroDivisionError
    assert left_nothing(model) and not optimizer._step_pre_hooks and not optimizer._step_post_hooks


def test_training_is_the_same_bit_for_bit():
    def weights(watched):
        rg.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1))
        optimizer = rg.optim.AdamW(model.parameters(), lr=0.01)
        with inspect.watch(model, optimizer, every=2) if watched else rg.enable_grad():
            for _ in range(5):
                step(model, optimizer, rg.randn(4, 3))
                optimizer.step()
        return [p.detach().numpy() for p in model.parameters()]

    for plain, watched in zip(weights(False), weights(True), strict=True):
        np.testing.assert_array_equal(plain, watched)


def test_bad_arguments_are_told():
    model, optimizer = network()
    for wrong, error, text in (
        ((1, optimizer), TypeError, "model must be a Module, got int"),
        ((model, 0.1), TypeError, "optimizer must be an Optimizer"),
        ((model, [optimizer, 1]), TypeError, "got int in it"),
        ((model, []), ValueError, "at least one optimizer"),
        ((nn.Linear(1, 1), optimizer), ValueError, "SGD has none of the model's parameters"),
        ((model, optimizer, 0), ValueError, "every must be an integer of at least 1, got 0"),
        ((model, optimizer, 1.5), ValueError, "got 1.5"),
    ):
        with pytest.raises(error, match=text):
            inspect.watch(*wrong)
    with pytest.raises(TypeError, match="a folder or a SummaryWriter, got int"):
        inspect.watch(model, optimizer, tensorboard=3)
    w = inspect.watch(model, optimizer)
    with pytest.raises(RuntimeError, match="no step was recorded"):
        w.save("x.html")
    with pytest.raises(ValueError, match="path must end in .html, .png or .json, got 'x.txt'"):
        w.save("x.txt")
    with w, pytest.raises(RuntimeError, match="already active"), w:
        pass


def test_the_line_in_the_terminal_is_written_over_and_alarms_stay(monkeypatch):
    model, optimizer = network()
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    with inspect.watch(model, optimizer, every=1, live=True):
        for _ in range(6):
            step(model, optimizer, rg.full((5, 3), math.nan))
            optimizer.step()
    shown = terminal.getvalue()
    assert "\nstep 0: loss is nan" in "\n" + shown.replace("\r", "") and "inspect.guard()" in shown
    assert "\rstep 0  loss nan  lr 0.1" in shown and shown.endswith("\n")
    assert not inspect.watch(model, optimizer)._live.on  # no terminal here


class Writer:
    def __init__(self):
        self.scalars, self.histograms = {}, []

    def add_scalar(self, name, value, step):
        self.scalars[name, step] = value

    def add_histogram_raw(self, name, **figures):
        self.histograms.append((name, figures))

    def add_text(self, name, text, step):
        pass


def test_a_writer_gets_curves_and_histograms():
    model, optimizer = network()
    writer = Writer()
    with inspect.watch(model, optimizer, every=2, tensorboard=writer) as w:
        for _ in range(3):
            step(model, optimizer, rg.randn(5, 3))
            optimizer.step()
    assert writer.scalars["watch/loss", 2] == w.records[1].loss
    assert writer.scalars["update_ratio/2.weight", 2] == w.records[1].update_ratios["2.weight"]
    names = [name for name, _ in writer.histograms]
    assert names.count("weights/0.weight") == 2
    for _, figures in writer.histograms:
        assert sum(figures["bucket_counts"]) == pytest.approx(figures["num"])


def test_tensorboard_files_are_written_where_the_package_is(tmp_path):
    pytest.importorskip("tensorboardX")
    model, optimizer = network()
    with inspect.watch(model, optimizer, tensorboard=tmp_path / "events"):
        step(model, optimizer)
        optimizer.step()
    assert list((tmp_path / "events").glob("*tfevents*"))


@pytest.mark.slow
def test_figures_are_written_as_json_and_as_a_picture(tmp_path):
    model, optimizer = network()
    with inspect.watch(model, optimizer, every=1) as w:
        for number in range(4):
            step(model, optimizer, rg.full((5, 3), math.nan if number == 2 else 1.0))
            optimizer.step()
    w.save(tmp_path / "x.json")
    found = json.loads((tmp_path / "x.json").read_text())
    assert found["steps"] == [0, 1, 2, 3] and found["loss"][2] == "nan"
    assert found["parameters"][0]["name"] == "0.weight"
    pytest.importorskip("matplotlib")
    w.save(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_has_logarithmic_axes_without_a_negative_range_and_one_record_as_points():
    pytest.importorskip("matplotlib")
    from retrograd.inspect.watching.figures import figure_of

    model, optimizer = network()
    with rg.no_grad():
        model[0].bias.fill_(-100.0)  # all units are dead: what comes before them has a gradient of zero
    with inspect.watch(model, optimizer) as w:
        step(model, optimizer, rg.randn(5, 3))
        optimizer.step()
    by_title = {axes.get_title(): axes for axes in figure_of(w).axes}
    for title in ("total gradient norm", "gradient of each parameter, rms", "step norm / weight norm"):
        axes = by_title[title]
        assert axes.get_yscale() == "log" and axes.get_ylim()[0] > 0
    for title, axes in by_title.items():
        if title:
            assert all(tick == int(tick) for tick in axes.get_xticks())
    assert by_title["total gradient norm"].lines[0].get_marker() == "o"
