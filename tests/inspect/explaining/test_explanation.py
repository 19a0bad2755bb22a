"""Where a gradient comes from: every set of parts is the gradient, and each part what finite differences find."""

from __future__ import annotations

import re

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.graph.modes import watchers
from retrograd.inspect import explain, trace
from retrograd.nn import functional as F
from tests.inspect.zoo import ZOO, leaf

KINDS = ("use", "line", "module", "term")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """A terminal so wide that no line of an explanation is wrapped."""
    monkeypatch.setenv("COLUMNS", "5000")


def double(*shape):
    return rg.randn(shape, dtype=rg.float64)


def perceptron():
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))
    logits = model(rg.randn(8, 5))
    penalty = sum((p * p).sum() for p in model.parameters())
    return F.cross_entropy(logits, rg.arange(8) % 3) + 0.01 * penalty - logits.mean(), model[0].weight, 8


def convolutions():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))
    loss = F.cross_entropy(model(rg.randn(6, 1, 6, 6)), rg.arange(6) % 4, reduction="none").mean()
    return loss + model[0].weight.abs().sum(), model[0].weight, 6


def recurrence():
    cell, head = nn.LSTMCell(3, 4), nn.Linear(4, 2)
    x = rg.randn(7, 5, 3)
    h, c = rg.zeros(7, 4), rg.zeros(7, 4)
    losses = []
    for t in range(5):
        h, c = cell(x[:, t], (h, c))
        losses.append(F.mse_loss(head(h), x[:, t, :2]))
    return rg.stack(losses).mean(), cell.weight_hh, 7


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        q, k, v = self.mix(self.norm(x)).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2)) / q.shape[-1] ** 0.5
        hidden = rg.ones(x.shape[1], x.shape[1]).triu(1).bool()
        x = x + scores.masked_fill(hidden, -float("inf")).softmax(-1) @ v
        return x + self.feed(x)


def language_model():
    table, blocks = nn.Embedding(11, 8), nn.Sequential(Block(8), Block(8))
    tokens = rg.randint(0, 11, (4, 6))
    logits = blocks(table(tokens)) @ table.weight.T
    return F.cross_entropy(logits[:, :-1].reshape(-1, 11), tokens[:, 1:].reshape(-1)), table.weight, 4


MODELS = [perceptron, convolutions, recurrence, language_model]


@pytest.mark.parametrize("make", MODELS)
def test_each_set_of_parts_adds_up_to_the_gradient_that_backward_finds(make):
    with trace() as t:
        loss, weight, count = make()
    assert t.records
    e = explain(loss, weight)
    assert weight.grad is None
    sets = {kind: e.by(kind) for kind in (*KINDS, "example")}
    loss.backward()
    np.testing.assert_array_equal(e.total, weight.grad.array)
    for kind, parts in sets.items():
        assert all(g.shape == weight.shape for g in parts.values()), kind
        np.testing.assert_allclose(sum(parts.values()), e.total, rtol=1e-4, atol=1e-6, err_msg=kind)
    assert [label for label in sets["example"] if label != "the rest"] == list(range(count))
    assert all(label.startswith("test_explanation.py:") for label in sets["line"])
    assert str(e).count(", the gradient") >= 3 and "differs from the gradient" not in str(e)


@pytest.mark.parametrize("make", MODELS)
def test_without_a_trace_the_same_without_lines(make):
    loss, weight, _ = make()
    e = explain(loss, weight)
    assert list(e.by("line")) == ["no line known"] and list(e.by("module")) == ["no module known"]
    np.testing.assert_allclose(sum(e.by("term").values()), e.total, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(sum(e.by("example").values()), e.total, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_uses_and_terms_add_up_in_every_kind_of_graph(name):
    loss, tensors = ZOO[name]()
    for x in tensors:
        e = explain(loss, x)
        if e.total is None:
            assert name in ("hooks", "custom_functions") and "gives no gradient for it" in str(e)
            continue
        for kind in KINDS:
            if "hooks" in name and kind == "term":
                continue  # a hook that clips is not linear
            scale = max(float(abs(g).max()) for g in e.by(kind).values())
            np.testing.assert_allclose(sum(e.by(kind).values()), e.total, rtol=1e-4, atol=1e-5 * max(scale, 1))
        assert x.grad is None and watchers == set()
    loss.backward()


def differences(f, x, step=1e-6):
    """The gradient of a function of a float64 array, by central differences."""
    g = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        g[place] = (f(up) - f(down)) / (2 * step)
    return g


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-8)


def test_a_use_is_what_differences_find_with_the_other_uses_cut():
    x = double(4, 3)

    def program(first, second, third):
        h = (x @ first).tanh()
        return (h @ second * h).sum() + (third**2).mean() - (second.abs() * third).sum()

    w = double(3, 3).requires_grad_()
    with trace():
        loss = program(w, w, w)
    uses = explain(loss, w).by("use")
    fixed = w.array.copy()
    slots = [
        differences(lambda v, k=k: program(*[rg.tensor(v if i == k else fixed) for i in range(3)]).item(), fixed)
        for k in range(3)
    ]
    assert [label.split(" at ")[0] for label in uses] == ["mm", "mm", "square", "abs", "mul"]
    parts = list(uses.values())
    close(parts[0], slots[0])
    close(parts[1] + parts[3], slots[1])
    close(parts[2] + parts[4], slots[2])


def test_a_term_is_the_gradient_of_that_term_with_its_sign():
    w = double(3).requires_grad_()

    def parts(v):
        return [(v**3).sum(), 0.5 * v.exp().sum(), (v.sin() * v).mean()]

    a, b, c = parts(w)
    terms = explain(a - b + c - a, w).by("term")
    expected = [differences(lambda v, k=k: parts(rg.tensor(v))[k].item(), w.array.copy()) for k in range(3)]
    assert list(terms) == ["sum", "-mul", "mean"]
    close(terms["sum"], np.zeros(3))
    close(terms["-mul"], -expected[1])
    close(terms["mean"], expected[2])


def test_terms_are_looked_for_below_means_and_stacks_and_not_below_products():
    x, y = leaf(4), leaf(4)
    losses = [(x * k).sum() for k in range(1, 4)]
    assert len(explain(rg.stack(losses).mean(), x).by("term")) == 3
    assert len(explain(sum(losses) / 3, x).by("term")) == 1
    assert list(explain((x * x + y * x).mean(), x).by("term")) == ["mul", "mul (2)"]
    assert list(explain((x * y).mean(), x).by("term")) == ["mean"]
    assert list(explain((x * y + 1).mean(), x).by("term")) == ["mean"]
    assert list(explain(1 - (x * y).mean(), x).by("term")) == ["-mean"]
    assert list(explain(sum([(x * y).sum(), x.mean()]), x).by("term")) == ["sum", "mean"]
    loss = (x * y).sum()
    loss -= x.mean()
    assert list(explain(loss, x).by("term")) == ["sum", "-mean"]


def test_an_example_under_batch_norm_is_the_gradient_of_its_own_loss():
    x, target = double(5, 3), double(5, 2)
    norm = nn.BatchNorm1d(2).double()

    def losses(w):
        return F.mse_loss(norm(x @ w), target, reduction="none").mean(1)

    w = double(3, 2).requires_grad_()
    by = explain(losses(w).mean(), w).by("example")
    for k in range(5):
        close(by[k], differences(lambda v, k=k: losses(rg.tensor(v))[k].item() / 5, w.array.copy()))
    close(sum(by.values()), explain(losses(w).mean(), w).total)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_examples_of_fused_and_of_unreduced_losses_are_alike(reduction):
    x, y = double(6, 4), rg.tensor([0, 2, 1, 1, 0, 2])
    w = double(4, 3).requires_grad_()
    loss = F.cross_entropy(x @ w, y, reduction=reduction)
    by = explain(loss.mean() if reduction == "none" else loss, w).by("example")
    share = 1 if reduction == "sum" else 6
    for k in range(6):
        one = differences(lambda v, k=k: F.cross_entropy(x[k : k + 1] @ rg.tensor(v), y[k : k + 1]).item(), w.array)
        close(by[k], one / share)


def test_what_goes_through_no_example_is_the_rest():
    x, w = double(6, 6), double(6, 6).requires_grad_()  # the weight has the batch's length, too
    by = explain(((x @ w) ** 2).mean() + 3 * (w**2).sum(), w).by("example")
    assert list(by) == [0, 1, 2, 3, 4, 5, "the rest"]
    close(by["the rest"], 6 * w.array)


def test_examples_are_sentences_not_words_and_can_be_marked():
    with trace():
        loss, weight, count = language_model()
    assert len(explain(loss, weight).by("example")) == count
    x = leaf(3, 4)
    w = double(4).float().requires_grad_()
    loss = (x * w).sum(1).pow(2).mean()
    with pytest.raises(ValueError, match="pass an input as batch="):
        explain(loss, w).by("example")
    by = explain(loss, w, batch=x).by("example")
    assert list(by) == [0, 1, 2]
    assert list(explain(loss, x, batch=x).by("example")[1].any(1)) == [False, True, False]


def test_paths_to_an_element_are_products_of_derivatives():
    x = rg.tensor([2.0, 5.0], requires_grad=True)
    a = x * 3
    b = a * a
    loss = (b + a - 7 * x).sum()
    e = explain(loss, x, (1,))
    assert [round(path.value) for path in e.paths] == [90, -7, 3]
    assert [round(path.share, 3) for path in e.paths] == [0.9, 0.07, 0.03]
    assert e.total[1] == 86 and "by sum <- sub <- add <- mul (2) <- mul" in str(e.paths[0])
    assert "90 (90.0%)" in str(e)


def test_all_paths_together_are_the_gradient():
    loss, weight, _ = perceptron()
    e = explain(loss, weight, (2, 3))
    assert sum(path.value for path in e.paths) == pytest.approx(e.total[2, 3], rel=1e-4)
    assert sum(path.share for path in e.paths) == pytest.approx(1)
    whole = explain(loss, weight)
    assert sum(path.value for path in whole.paths) == pytest.approx(np.linalg.norm(whole.total), rel=1e-4)


def test_paths_through_blocks_with_shortcuts_are_told_apart():
    x = double(3).requires_grad_()
    h = x
    for _ in range(3):
        h = h + (h * 2).sin()
    e = explain(h.sum(), x, (0,))
    assert len(e.paths) == 8
    assert sum(path.value for path in e.paths) == pytest.approx(e.total[0])


def test_cancellation_is_shown():
    x = rg.tensor(1.0, requires_grad=True)
    loss = x * 812.4 - x * 811.9
    text = str(explain(loss, x))
    assert "+812.4 from mul, -811.9 from -mul" in text or "+812.4 from mul, -811.9 from mul (2)" in text
    assert "99.97% of it cancels" in text and "the gradient" in text


def test_hooks_that_change_the_gradient_are_a_part_of_their_own():
    x = leaf(3)
    x.register_hook(lambda g: g * 10)
    e = explain((x * 2).sum(), x)
    np.testing.assert_allclose(e.total, 20)
    np.testing.assert_allclose(e.by("use")["hooks of the Tensor"], 18)


def test_it_still_answers_when_the_program_has_freed_the_graph():
    loss, weight, _ = perceptron()
    e = explain(loss, weight, (0, 0))
    loss.backward()
    with rg.no_grad():
        weight.add_(100)
    np.testing.assert_allclose(sum(e.by("example").values()), e.total, rtol=1e-4, atol=1e-6)
    assert sum(path.value for path in e.paths) == pytest.approx(e.total[0, 0], rel=1e-4)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_loss_of_several_elements_takes_a_cotangent_and_complex_numbers_are_users():
    x = leaf(3)
    e = explain(x * x, x, gradient=rg.tensor([1.0, 0.0, 2.0]))
    np.testing.assert_allclose(e.total, 2 * x.array * [1, 0, 2])
    z = rg.tensor([1 + 2j], requires_grad=True)
    (z * (3 + 1j)).abs().sum().backward()
    loss = (z * (3 + 1j)).abs().sum()
    np.testing.assert_array_equal(explain(loss, z).total, z.grad.array)
    np.testing.assert_allclose(explain(loss, z).by("use")["mul"], z.grad.array)


def test_a_trace_that_runs_is_left_alone():
    with trace() as t:
        loss, weight, _ = perceptron()
        count = len(t.records)
        e = explain(loss, weight)
        e.by("example"), str(e)
        assert len(t.records) == count and all(record.gradients is None for record in t.records)


def test_bad_input_is_one_clear_line():
    x = leaf(2, 3)
    loss = (x * x).sum()
    with pytest.raises(TypeError, match="tensor must be a Tensor, not ndarray"):
        explain(loss, x.array)
    with pytest.raises(IndexError, match=r"index \(2, 0\) is out of range for float32\(2, 3\)"):
        explain(loss, x, (2, 0))
    with pytest.raises(IndexError, match="does not select one element"):
        explain(loss, x, 1)
    with pytest.raises(TypeError, match="index must consist of integers, got \\('a', 0\\)"):
        explain(loss, x, ("a", 0))
    with pytest.raises(ValueError, match="expected 'use', 'line'"):
        explain(loss, x).by("word")
    with pytest.raises(RuntimeError, match="has no graph"):
        explain(rg.ones(()), x)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        explain(x * 2, x)
    with pytest.raises(ValueError, match="first axes must be equal"):
        explain(loss, x, batch=[rg.ones(2), rg.ones(3)]).by("example")
    loss.backward()
    with pytest.raises(RuntimeError, match="freed by an earlier backward, at mul"):
        explain(loss, x, gradient=rg.ones(()))


def test_after_backward_without_a_trace_it_tells_the_gradient_and_what_read_the_tensor():
    x = leaf(2, 3)
    loss = (x * x).sum() + x.exp().sum()
    loss.backward()
    e = explain(loss, x)
    np.testing.assert_array_equal(e.total, x.grad.array)
    assert str(e).startswith(".grad after backward() of add") and "only the graph and .grad are known" in str(e)
    assert re.search(r"by use: (mul|exp), (mul|exp)$", str(e))
    with pytest.raises(RuntimeError, match="parts of the gradient are not known"):
        e.by("use")


def test_after_backward_under_a_trace_it_tells_how_much_each_operator_sent():
    x = leaf(2, 3)
    with trace():
        loss = (x * 3).sum() + (x * 4).sin().sum()
        loss.backward()
    sent = re.findall(r"norm (\S+) from mul", str(explain(loss, x)))
    cosine = np.linalg.norm(4 * np.cos(4 * x.array))
    expected = sorted([3 * 6**0.5, cosine], reverse=True)
    assert [float(text) for text in sent] == pytest.approx(expected, rel=1e-3)


def test_lines_are_wrapped_at_the_terminals_width_and_projections_are_named(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    loss, weight, _ = perceptron()
    text = str(explain(loss, weight))
    assert max(map(len, text.splitlines())) <= 60 and text.count("\n      ") >= 1
    assert "projections onto the gradient's direction" in " ".join(text.split())
    assert "projections" not in str(explain(loss, weight, (0, 0)))


def test_a_graph_that_has_let_go_of_what_it_saved_is_explained_and_stepped_as_any_other():
    from retrograd.inspect import step

    def program():
        rg.manual_seed(2)
        x = leaf(100)
        y = x
        for _ in range(6):
            y = y.sin() * y
        return (y * y).mean(), x

    loss, x = program()
    loss.backward()
    with rg.func.memory_budget("2 kB") as budget:
        other, z = program()
    e = explain(other, z)
    np.testing.assert_array_equal(e.total, x.grad.array)
    np.testing.assert_allclose(sum(e.by("use").values()), e.total, rtol=1e-5)
    list(step(other))
    np.testing.assert_array_equal(z.grad.array, x.grad.array)
    assert budget.recomputations


def test_files_of_one_name_are_told_apart(tmp_path):
    import runpy

    x = leaf(3)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "loss.py").write_text("def loss(x):\n    return (x * x).sum()\n")
    first, second = (runpy.run_path(str(tmp_path / name / "loss.py"))["loss"] for name in ("first", "second"))
    with trace():
        loss = first(x) + second(x) + x.sum()
    lines = list(explain(loss, x).by("line"))
    assert lines[:2] == ["first/loss.py:2", "second/loss.py:2"] and lines[2].startswith("test_explanation.py:")


def test_it_works_on_arrays_that_refuse_what_cupy_refuses(tmp_path):
    from retrograd.inspect import step
    from tests.helpers.guarded import guarded_backend

    with guarded_backend():
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        x, weight = rg.randn(5, 3), model[0].weight
        loss = F.cross_entropy(model(x), rg.tensor([0, 1, 1, 0, 1])) + (weight**2).sum()
        stepper = step(loss)
        assert all(str(event) and event.nans == 0 and event.norm >= 0 for event in stepper)
        stepper.save(tmp_path / "walk.html")
        e = explain(loss, weight, (0, 1))
        assert "by example" in str(e) and e.paths
        assert bool((e.total == weight.grad.array).all())
        with rg.no_grad():
            model[0].bias.fill_(-100)
        told = str(explain(model(x).sum(), weight))
    assert "all 20 inputs of relu are 0 or negative" in told


@pytest.mark.parametrize("dtype", [rg.bfloat16, rg.float16])
def test_sums_are_checked_as_finely_as_autocast_computes(dtype):
    rg.manual_seed(0)
    model, x = nn.Linear(4, 4), rg.randn(3, 4)
    with rg.autocast("cpu", dtype=dtype):
        loss = model(x).relu().float().sum()
    text = str(rg.inspect.explain(loss, model.weight, batch=x))
    assert "by example" in text and "differs" not in text


def test_a_batch_that_is_no_tensor_is_refused():
    w = rg.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="explain: batch must be a Tensor or a sequence of Tensors, not int"):
        rg.inspect.explain((w * 2).sum(), w, batch=3)


@pytest.mark.parametrize(("count", "end"), [(7, "from example 6;"), (9, "from 3 others;")])
def test_what_is_left_over_is_counted_and_one_alone_is_named(count, end):
    w = rg.ones(3, requires_grad=True)
    x = rg.arange(count, 0, -1)[:, None] * rg.ones(3)
    assert end in str(rg.inspect.explain(((x * w) ** 2).sum(1).mean(), w, batch=x))


def test_the_rounding_of_what_cancels_within_each_part_is_rounding():
    rg.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
    for x in rg.rand(20, 4, 2) * 5:
        loss = model(x).mean() * 1e4 - model(x + 0.001).mean() * 1e4
        assert "differs from the gradient" not in str(rg.inspect.explain(loss, model[0].weight, batch=x))


@pytest.mark.parametrize("steps", [3, 12])
def test_paths_are_told_apart_by_the_number_of_the_call(steps):
    w = rg.tensor([0.9, 2.0], requires_grad=True)
    with trace() as t:
        h = rg.tensor([1.0, 3.0])
        for _ in range(steps):
            h = (w * h).sin()
        loss = h.sum()
    shown = str(explain(loss, w, index=0)).partition("  paths:\n")[2].splitlines()
    ways = [line.partition(" by ")[2] for line in shown]
    assert len(ways) == len(set(ways)) == min(steps, 6)
    assert f"mul at {t.filter(operator='mul')[0].site} (" in ways[0]


def test_parts_that_are_zero_are_counted_and_not_listed():
    table = rg.ones(4, 2, requires_grad=True)
    x = rg.tensor([0, 1, 2, 3, 3, 2])
    with trace():
        loss = (F.embedding(x, table) * rg.tensor([1.0, 3.0])).sum()
    told = str(explain(loss, table, index=(3, 1), batch=x))
    assert "by example: +3 from example 3, +3 from example 4, +0 from 4 others; sum +6" in told
