"""Healthy trainings with one natural mistake each: writes over parameters, other rows, and the line of the mistake."""

from pathlib import Path

import pytest

from tests.inspect.doctor.programs import HEAD
from tests.inspect.doctor.test_kinds import examined

TARGET = """
import copy
live = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
old = copy.deepcopy(live)
opt = torch.optim.Adam(live.parameters(), lr=1e-2)
for i in range(22):
    x = torch.randn(16, 3)
    with torch.no_grad():
        goal = x[:, :1] + 0.1 * old(x)
    loss = ((live(x) - goal) ** 2).mean(); opt.zero_grad(); loss.backward(); opt.step()
    with torch.no_grad():
        for a, b in zip(old.parameters(), live.parameters()):
            {write}
"""
ROWS = """
x = torch.randn(64, 4)
y = {y}
net = nn.Linear(4, {out})
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for i in range(4):
    a, b = torch.randperm(64)[:32], torch.randperm(64)[:32]
    inputs = x[a] * 2
    loss = {loss}
    opt.zero_grad(); loss.backward(); opt.step()
"""
STEP = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.b = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
    def forward(self, x):
        return self.b(torch.relu(self.n(self.a(x))))
net = Net()
opt = {optimizer}
for i in range({steps}):
    x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
    {before}
    loss = F.cross_entropy(net(x), y)
    {after}
net.train(False)
"""


def first(text: str, path: Path) -> tuple[str, str]:
    """Return the kind of the first finding and the text of its line."""
    found = examined(HEAD + text, path / "train.py").findings
    return (found[0].kind, found[0].code) if found else ("", "")


@pytest.mark.parametrize(
    "write",
    [
        "b.mul_(0.9).add_(a, alpha=0.1)",
        "b.data = 0.9 * b.data + 0.1 * a.data",
        "live.load_state_dict(old.state_dict())",
        "nn.init.normal_(live[0].weight)",
    ],
)
def test_values_that_never_change_written_over_parameters_are_found(write: str, tmp_path: Path) -> None:
    assert first(TARGET.format(write=write), tmp_path) == ("data-write", write)


@pytest.mark.parametrize("write", ["a.lerp_(b, 0.1)", "b.clamp_(-1, 1)", "a.data = 0.9 * a.data + 0.1 * b.data"])
def test_a_moving_average_and_a_bound_on_parameters_are_no_finding(write: str, tmp_path: Path) -> None:
    assert first(TARGET.format(write=write), tmp_path) == ("", "")


def test_inputs_and_targets_of_other_rows_are_found(tmp_path: Path) -> None:
    numbers = {"y": "x.sum(1, keepdim=True)", "out": 1}
    apart = ROWS.format(loss="F.mse_loss(net(inputs), y[b])", **numbers)
    assert first(apart, tmp_path) == ("labels-unrelated", "loss = F.mse_loss(net(inputs), y[b])")
    classes = {"y": "(x[:, 0] > 0).long()", "out": 2}
    assert first(ROWS.format(loss="F.cross_entropy(net(inputs), y[b])", **classes), tmp_path)[0] == "labels-unrelated"
    mixed = "F.cross_entropy(net(0.5 * x[a] + 0.5 * x[b]), y[a]) + F.cross_entropy(net(inputs), y[a])"
    assert first(ROWS.format(loss=mixed, **classes), tmp_path) == ("", "")
    later = ROWS.format(loss="F.mse_loss(net(inputs), y[a + 1])", **numbers)
    assert first(later.replace("torch.randperm(64)[:32]", "torch.arange(32)"), tmp_path)[0] == ""


@pytest.mark.parametrize(
    "expected",
    [
        ("eval-mode", "net.eval()", "SGD", "opt.zero_grad()\n    net.eval()", "loss.backward(); opt.step()"),
        ("zeroed-before-step", "opt.step()", "SGD", "opt.zero_grad()", "loss.backward(); clear()\n    opt.step()"),
        ("detached", "with torch.no_grad(): z = net(x)", "SGD", "with torch.no_grad(): z = net(x)",
         "z.sum().backward()"),
        ("gradients-not-zeroed", "loss.backward()", "BIG", "pass", "loss.backward()\n    opt.step()"),
    ],
)  # fmt: skip
def test_the_line_of_the_mistake_is_named(expected: tuple[str, ...], tmp_path: Path) -> None:
    kind, code, rate, before, after = expected
    rates = {"SGD": "lr=0.1", "BIG": "lr=1e3, momentum=0.9"}
    text = STEP.format(
        optimizer=f"torch.optim.SGD(net.parameters(), {rates[rate]})",
        steps=40 if rate == "BIG" else 12,
        before=before,
        after=after,
    )
    clear = "def clear():\n    for p in net.parameters(): p.grad = None\n"
    assert first(text.replace("for i in", f"{clear}for i in", 1), tmp_path) == (kind, code)
