"""Results that are written over arguments which no later instruction reads."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels, nn
from retrograd.nn import functional as F

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs the library of loops")


def normal(seed, *shape):
    return rg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


TOKENS = rg.from_numpy(np.arange(256) % 7)


class Tied(nn.Module):
    """A language model whose embedding is the weight of its last layer."""

    def __init__(self, keep=False):
        super().__init__()
        self.token, self.head = nn.Embedding(2048, 192), nn.Linear(192, 2048, bias=False)
        self.head.weight = self.token.weight
        self.keep, self.kept = keep, None

    def forward(self, tokens):
        x = self.token(tokens)
        logits = self.head(x + x.tanh())
        return (F.cross_entropy(logits, tokens), logits) if self.keep else F.cross_entropy(logits, tokens)


def tied(keep=False):
    rg.manual_seed(0)
    model = Tied(keep)

    def step(tokens):
        found = model(tokens)
        model.zero_grad()
        (found[0] if keep else found).backward()
        return found

    return model, step


def program_of(compiled):
    (entry,) = (*compiled.own, *compiled.entries)
    return entry.replay


def test_the_gradient_of_logits_lies_over_them_and_rows_are_added_to_the_gradient_of_a_tied_weight():
    (model, step), (other, eager) = tied(), tied()
    compiled = rg.compile(step)
    for _ in range(3):
        assert compiled(TOKENS).item() == eager(TOKENS).item()
        np.testing.assert_array_equal(model.token.weight.grad.numpy(), other.token.weight.grad.numpy())
    replay = program_of(compiled)
    over = {step.name: step for step in replay.instructions if step.writes and not step.outs}
    assert {"cross_entropy_backward", "_add_rows"} <= over.keys()
    assert not any(step.name == "getitem_backward" for step in replay.instructions)
    assert replay.plan.size < 2 * 4 * 256 * 2048  # the logits and their gradient would take as much by themselves


def test_logits_that_leave_the_program_keep_their_values():
    (_, step), (_, eager) = tied(True), tied(True)
    compiled = rg.compile(step)
    for _ in range(2):
        (_, logits), (_, wanted) = compiled(TOKENS), eager(TOKENS)
        np.testing.assert_array_equal(logits.detach().numpy(), wanted.detach().numpy())
    assert not any(step.name == "cross_entropy_backward" for step in program_of(compiled).instructions if step.writes)


def test_arguments_that_are_read_later_or_viewed_or_from_outside_are_not_overwritten():
    x = normal(1, 300, 1024)

    def f(x):
        y = x.sort(dim=1).values
        z = y + 1  # y is read below
        turned = (z + z.flip(0)).T  # z and another layout of z
        return turned + y.T, x + 1

    compiled, before = rg.compile(f), x.numpy().copy()
    for _ in range(2):
        for found, wanted in zip(compiled(x), f(x), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    np.testing.assert_array_equal(x.numpy(), before)


@pytest.mark.parametrize("retain", [False, True])
def test_sums_of_products_of_one_weight_are_those_of_the_eager_step(retain):
    def made():
        w = normal(2, 512, 512).div(32).requires_grad_()

        def step(x):
            w.grad = None
            y = x
            for _ in range(3):
                y = (y @ w).tanh()
            loss = y.square().mean()
            loss.backward(retain_graph=retain)
            return loss.detach()

        return w, step

    (w, step), (other, eager) = made(), made()
    compiled, x = rg.compile(step), normal(3, 64, 512)
    for _ in range(3):
        assert compiled(x).item() == pytest.approx(eager(x).item(), rel=1e-6)
        np.testing.assert_allclose(w.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-7)
    adding = [step for step in program_of(compiled).instructions if step.name == "add_product"]
    assert len(adding) == 2


def test_a_product_that_is_added_later_reads_its_factors_before_they_are_overwritten():
    def f(a, b, w):
        x, y = a.sort(dim=1).values, b.sort(dim=1).values
        product = x @ w  # the last instruction that reads x, but for the sum
        z = x.exp() + 1
        total = y * z
        return total + product + z.sum()

    given = [normal(seed, 512, 512) for seed in (4, 5, 6)]
    compiled = rg.compile(f)
    for _ in range(2):
        np.testing.assert_allclose(compiled(*given).numpy(), f(*given).numpy(), rtol=1e-4)


def test_numbers_are_not_memory():
    compiled = rg.compile(lambda x, n: (x * -n).sum() + (n > 1.5) * 2.0)
    for n in (1.0, 2.0, 3.0):
        assert compiled(rg.ones(2), n).item() == -2 * n + 2 * (n > 1.5)
