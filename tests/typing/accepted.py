"""Programs that mypy and pyright accept, with the types they are to find; ``test_typing.py`` checks and runs them."""

from __future__ import annotations

from typing import Any, assert_type, cast

import numpy as np

import retrograd as rg
from retrograd import Tensor, nn
from retrograd.nn import functional as F
from retrograd.optim import SGD, Adam


def arithmetic() -> None:
    x = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert_type(x, Tensor)
    assert_type(x * 2 + 1, Tensor)
    assert_type((x * 2 + 1).exp(), Tensor)
    assert_type(1 - x / 2.0, Tensor)
    assert_type(2**x, Tensor)
    assert_type(x**0.5 // 2 % 3, Tensor)
    assert_type(-x + abs(x) - +x, Tensor)
    assert_type(x + np.float32(2.0), Tensor)
    assert_type(x * np.ones(3, np.float32), Tensor)
    assert_type(x + True, Tensor)
    assert_type(1j * x, Tensor)
    assert_type(rg.add(x, x, alpha=2), Tensor)
    assert_type(rg.pow(2, x).log().sqrt(), Tensor)
    assert_type(rg.div(x, 2, rounding_mode="floor"), Tensor)
    assert_type(rg.sigmoid(x).mul(3).sub(x, alpha=0.5), Tensor)
    assert_type(rg.addcmul(x, x, 2.0, value=3).lerp(x, 0.5), Tensor)
    assert_type(rg.special.xlogy(x, 2.0), Tensor)
    assert_type(round(x.detach()), Tensor)


def numpys_names_of_arguments() -> None:
    x = rg.ones(2, 3)
    assert_type(rg.sum(x, axis=0), Tensor)
    assert_type(rg.mean(x, axis=(0, 1), keepdims=True), Tensor)
    assert_type(rg.max(x, axis=0).values, Tensor)
    assert_type(rg.std(x, axis=0, correction=0), Tensor)
    assert_type(rg.unsqueeze(x, axis=0), Tensor)
    assert_type(rg.stack([x, x], axis=1), Tensor)
    assert_type(rg.linalg.norm(x, axis=0, keepdims=True), Tensor)
    assert_type(rg.fft.fft(x, axis=0), Tensor)
    assert_type(F.softmax(x, axis=0), Tensor)
    assert_type(x.squeeze(axis=0), Tensor)


def comparisons() -> None:
    x = rg.arange(4)
    assert_type(x == 2, Tensor)
    assert_type(x != x, Tensor)
    assert_type((x < 3) & (x >= 1) | ~(x > 2), Tensor)
    assert_type(3 > x, Tensor)  # noqa: SIM300
    assert_type(x << 1 ^ 3, Tensor)
    assert_type(rg.isclose(x, x), Tensor)
    assert_type(rg.allclose(x, x), bool)
    assert_type(rg.equal(x, x), bool)
    if (x > 5).any():
        raise AssertionError
    assert_type(rg.is_tensor(x), bool)


def in_place() -> None:
    x = rg.ones(3)
    x += 1
    x *= x
    x /= 2.0
    x -= np.float64(1.0)
    x **= 2
    assert_type(x, Tensor)
    assert_type(x.add_(1, alpha=2).mul_(3).exp_(), Tensor)
    assert_type(x.clamp_(min=0.0).sqrt_(), Tensor)
    assert_type(x.zero_().uniform_(-1, 1), Tensor)
    assert_type(rg.ones(2, 1).squeeze_(1).unsqueeze_(dim=0).transpose_(0, 1), Tensor)


def creation() -> None:
    assert_type(rg.zeros(2, 3), Tensor)
    assert_type(rg.ones((2, 3), dtype=rg.float64), Tensor)
    assert_type(rg.full((2,), 7.0, dtype="float32", device="cpu"), Tensor)
    assert_type(rg.randn(2, 3, requires_grad=True), Tensor)
    assert_type(rg.rand(2, generator=rg.Generator().manual_seed(0)), Tensor)
    assert_type(rg.randint(0, 5, (2,)), Tensor)
    assert_type(rg.arange(0, 1, 0.25), Tensor)
    assert_type(rg.linspace(0, 1, 5), Tensor)
    assert_type(rg.eye(2), Tensor)
    assert_type(rg.zeros(size=(2,), dtype=rg.bool), Tensor)
    assert_type(rg.zeros_like(rg.ones(2)), Tensor)
    assert_type(rg.from_numpy(np.zeros(2)), Tensor)
    assert_type(rg.as_tensor([[1, 2], [3, 4]]), Tensor)
    assert_type(rg.ones(2).new_full((3,), 1.5), Tensor)


def indexing() -> None:
    x = rg.zeros(4, 5)
    assert_type(x[0], Tensor)
    assert_type(x[1:, None, ...], Tensor)
    assert_type(x[x > 0], Tensor)
    assert_type(x[rg.tensor([0, 2])], Tensor)
    x[0] = 1.0
    x[:, 1] = rg.ones(4)
    x[x < 0] = 0
    assert len(list(x)) == 4


def shapes_and_reductions() -> None:
    x = rg.randn(2, 3, 4)
    assert_type(x.shape, rg.Size)
    assert_type(x.sum(), Tensor)
    assert_type(x.sum(dim=1), Tensor)
    assert_type(x.mean(dim=(0, 2), keepdim=True), Tensor)
    assert_type(x.sum(axis=0), Tensor)
    assert_type(x.mean(axis=-1, keepdims=True), Tensor)
    assert_type(x.std(dim=0), Tensor)
    assert_type(x.cumsum(dim=0), Tensor)
    assert_type(x.cumsum(axis=0), Tensor)
    assert_type(x.reshape(6, 4).transpose(0, 1), Tensor)
    assert_type(x.softmax(dim=-1), Tensor)
    assert_type(rg.stack([x, x]), Tensor)
    assert_type(rg.cat([x, x], dim=0), Tensor)
    assert_type(x.reshape(6, 4) @ rg.ones(4, 2), Tensor)
    assert_type(x.T, Tensor)
    assert_type(x.detach().numpy(), np.ndarray)


class Network(nn.Module):
    """Two layers and a residual connection."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.last = nn.Linear(width, 1)
        self.scale = nn.Parameter(rg.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.first(x)) * self.scale + x
        output: Tensor = self.last(hidden)
        return output


def training() -> None:
    model = Network(3)
    x, y = rg.randn(8, 3), rg.randn(8, 1)
    for optimizer in (SGD(model.parameters(), lr=0.1, momentum=0.9), Adam(model.parameters(), lr=1e-3)):
        for _ in range(2):
            optimizer.zero_grad()
            loss = F.mse_loss(model.forward(x), y)
            assert_type(loss, Tensor)
            loss.backward()
            optimizer.step()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert_type(parameter.grad.abs().max().item(), Any)
    with rg.no_grad():
        assert_type(model.forward(x).argmax(dim=1), Tensor)


def derivatives() -> None:
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = (x**3).sum()
    (g,) = rg.autograd.grad(y, x, create_graph=True)
    (h,) = rg.autograd.grad((g * g).sum(), [x])
    assert_type(h + 0, Tensor)
    (unused,) = rg.autograd.grad((x * x).sum(), [rg.ones(1, requires_grad=True)], allow_unused=True)
    assert_type(unused, Tensor | None)
    y = x.square().sum()
    y.backward()
    assert x.grad is not None
    assert_type(x.grad * 2, Tensor)


def functional_calls() -> None:
    x = rg.randn(4, 5)
    target = rg.tensor([0, 1, 2, 3])
    assert_type(F.relu(x), Tensor)
    assert_type(F.softmax(x, dim=1), Tensor)
    assert_type(F.cross_entropy(x, target), Tensor)
    assert_type(F.linear(x, rg.ones(2, 5)), Tensor)
    assert_type(F.dropout(x, 0.5, training=False), Tensor)
    assert_type(F.gelu(x), Tensor)
    assert_type(F.mse_loss(x, x, reduction="sum"), Tensor)


def numpy_functions() -> None:
    x = rg.ones(2, 3, requires_grad=True)
    y = cast(Tensor, np.exp(x) + np.add(x, 1.0))  # NumPy's own stubs promise an array for whatever becomes one
    z: Tensor = np.sum(x, axis=0)
    (y.sum() + z.sum()).backward()
    assert_type(x.grad, Tensor | None)
    array = np.asarray(x.detach())
    assert_type(rg.tensor(array.mean()), Tensor)


def run() -> None:
    """Run every program."""
    for program in (
        arithmetic,
        numpys_names_of_arguments,
        comparisons,
        in_place,
        creation,
        indexing,
        shapes_and_reductions,
        training,
        derivatives,
        functional_calls,
        numpy_functions,
    ):
        program()
