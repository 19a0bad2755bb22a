"""Batch sizes and lengths that vary within one program: every number is the eager one."""

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn, optim
from retrograd.compiler import mark_dynamic, mark_static
from retrograd.compiler.trace.sizes import FREQUENT_CALLS
from retrograd.nn import functional as F

WORDS = 11
SIZES = [(4, 6), (3, 5), (4, 6), (2, 3), (8, 8), (7, 12), (1, 5), (2, 1), (1, 1), (9, 11), (3, 5)]


class Attention(nn.Module):
    """Embeddings, positions and causal attention, as programs write them out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(WORDS, 8), nn.Embedding(16, 8)
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, WORDS)
        self.norm, self.drop = nn.LayerNorm(8), nn.Dropout(0.2)
        self.register_buffer("seen", rg.tril(rg.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, index):
        batch, length = index.shape
        x = self.tokens(index) + self.positions(rg.arange(length))
        q, k, v = (part.view(batch, length, 2, 4).transpose(1, 2) for part in self.qkv(self.norm(x)).split(8, dim=2))
        scores = (q @ k.transpose(-2, -1)) / k.shape[-1] ** 0.5
        scores = scores.masked_fill(self.seen[:, :, :length, :length] == 0, float("-inf"))
        mixed = (self.drop(F.softmax(scores, -1)) @ v).transpose(1, 2).contiguous().view(batch, length, 8)
        return self.out(x + mixed)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.out = nn.Embedding(WORDS, 8), nn.Linear(8, WORDS)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, 0.1, batch_first=True, norm_first=True)

    def forward(self, index):
        mask = nn.Transformer.generate_square_subsequent_mask(index.shape[1], dtype=rg.float64)
        return self.out(self.block(self.tokens(index), src_mask=mask))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.lstm, self.out = nn.Embedding(WORDS, 8), nn.LSTM(8, 8, 2), nn.Linear(8, WORDS)

    def forward(self, index):
        return self.out(self.lstm(self.tokens(index).transpose(0, 1))[0].transpose(0, 1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, stride=2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )  # fmt: skip


def batch_for(make: Any, rng: np.random.Generator, batch: int, length: int) -> tuple[rg.Tensor, rg.Tensor]:
    if make in (mlp, cnn):
        shape = (batch + 1, 12) if make is mlp else (batch + 1, 1, 8 + length, 9)
        return rg.tensor(rng.standard_normal(shape)), rg.tensor(rng.integers(0, 3, batch + 1))
    return rg.tensor(rng.integers(0, WORDS, (batch, length))), rg.tensor(rng.integers(0, WORDS, (batch, length)))


def trained(make: Any, wrap: Any) -> tuple[list[float], list[np.ndarray], Any]:
    """The losses of steps at many sizes, all that they change, and the step."""
    rg.manual_seed(0)
    model = make().double()
    optimizer = optim.AdamW(model.parameters(), lr=0.01, eps=1e-4)  # which raises no rounding of gradients that are 0

    @wrap
    def step(x, y):
        optimizer.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output.view(-1, output.size(-1)), y.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    losses = [step(*batch_for(make, rng, *size)).item() for size in SIZES + SIZES[::-1]]
    state = [*model.state_dict().values(), *(p.grad for p in model.parameters())]
    state += [x for entry in optimizer.state.values() for x in entry.values() if isinstance(x, rg.Tensor)]
    return losses, [np.array(x.numpy()) for x in state], step


LARGE = [pytest.param(make, marks=pytest.mark.slow) for make in (cnn, Attention, Encoder)]


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("make", [mlp, Recurrent, *LARGE])
def test_steps_at_many_sizes_are_the_eager_ones_in_one_program(make):
    wanted, state, _ = trained(make, lambda f: f)
    losses, found, step = trained(make, rg.compile(dynamic=True))
    np.testing.assert_allclose(losses, wanted, rtol=1e-12, atol=1e-12)
    for a, b in zip(found, state, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    # Sizes 0 and 1, and few elements, for which operators go other ways, may be other programs.
    known = [len(entry.trace.sizes.known) for entry in step.entries]
    assert len(known) <= 5 and max(known) >= 3 and sum(known) == step.traces
    assert "constants that depend on them" in step.explain()


def test_a_size_that_was_seen_is_not_traced_again():
    f = rg.compile(lambda x: (x.reshape(-1) * x.shape[0]).sum() / x.numel(), dynamic=True)
    for _ in range(3):
        for size in (2, 3, 5):
            assert f(rg.ones(size, 4)).item() == size
    assert f.traces == 3 and len(f.entries) == 1


def test_choices_by_sizes_are_programs_of_their_own():
    @rg.compile(dynamic=True)
    def f(x):
        return x * 2 if len(x) > 4 else x.sum() + min(len(x), 3) ** 2

    for size in (2, 5, 3, 8, 1, 4, 7, 3, 2):
        wanted = [2.0] * size if size > 4 else size + min(size, 3) ** 2
        assert f(rg.ones(size)).tolist() == wanted
    assert len(f.entries) == 2 and "not shared with other sizes" in f.explain()


def test_results_that_are_sizes_follow_them():
    f = rg.compile(lambda x: (x * 2, x.shape, len(x), x.shape[0] / 2), dynamic=True)
    for size in (2, 3, 4, 3, 4):
        y, shape, length, half = f(rg.ones(size, 2))
        assert (tuple(y.shape), tuple(shape), length, half) == ((size, 2), (size, 2), size, size / 2)


def test_gradients_of_arguments_follow_sizes():
    f = rg.compile(lambda x, w: ((x @ w).relu() ** 2).mean(), dynamic=True)
    rng = np.random.default_rng(0)
    for size in (3, 4, 1, 7, 4, 3, 1):
        x, w = (rg.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((size, 4), (4, 4)))
        f(x, w).backward()
        a, b = (y.detach().clone().requires_grad_() for y in (x, w))
        ((a @ b).relu() ** 2).mean().backward()
        np.testing.assert_allclose(x.grad.numpy(), a.grad.numpy(), rtol=1e-12)
        np.testing.assert_allclose(w.grad.numpy(), b.grad.numpy(), rtol=1e-12)
    assert len(f.entries) == 1


def test_only_marked_dims_vary_where_dims_are_marked():
    f = rg.compile(lambda x: x.sum(1), dynamic=False)
    for size in (2, 3, 4):
        x = rg.ones(size, 2)
        mark_dynamic(x, 0)
        f(x)
    assert len(f.entries) == 1
    x = rg.ones(2, 5)
    mark_dynamic(x, 0)
    f(x)
    assert len(f.entries) == 2
    mark_static(x)
    f(x)
    with pytest.raises(IndexError, match="out of range"):
        mark_dynamic(x, 2)


def test_programs_by_shape_become_one_when_there_are_too_many():
    f = rg.compile(lambda x: x * len(x), limit=3)
    for _ in range(2):
        for size in range(1, 12):
            assert f(rg.ones(size)).tolist() == [size] * size
    assert len(f.entries) == 3 and f.traces <= 13


def test_marks_stand_where_programs_of_pytorch_look_for_them():
    f = rg.compile(lambda a, b: a.shape[0] * a * b)
    for size in (4, 8, 3):
        a, b = rg.ones(size, 3), rg.ones(size, 3)
        if size == 4:
            rg._dynamo.mark_dynamic(a, 0)
            rg._dynamo.mark_dynamic(b, 0)
        assert (f(a, b) == size).all()
    assert len(f.entries) == 1
    rg._dynamo.reset()
    assert not f.entries
    assert (f(rg.ones(2, 3), rg.ones(2, 3)) == 2).all()


def test_a_size_that_comes_often_gets_a_program_of_its_own():
    rng = np.random.default_rng(0)
    w = rg.tensor(rng.standard_normal((4, 4)), requires_grad=True)
    f = rg.compile(lambda x: ((x @ w).tanh() * len(x) + 1).mean(), dynamic=True, limit=2)
    for number in range(4 * FREQUENT_CALLS):
        for size in (3, 5, 2, 7)[: 4 if number < 2 * FREQUENT_CALLS else 1]:
            x = rg.tensor(rng.standard_normal((size, 4)))
            got, want = f(x), f.function(x)
            np.testing.assert_allclose(got.item(), want.item(), rtol=1e-12)
            for g, h in zip(rg.autograd.grad(got, w), rg.autograd.grad(want, w), strict=True):
                np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-12)
    assert len(f.entries) == 1 and len(f.own) == 2 and f.traces == 4 + 2
    assert f.own[0].calls + 1 + FREQUENT_CALLS <= 4 * FREQUENT_CALLS and "a program of its own" in f.explain()
    rg._dynamo.reset()
    assert not f.own
