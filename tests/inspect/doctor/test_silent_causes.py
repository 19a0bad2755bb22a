"""Causes of a training that learns nothing, or little, without an error: each on a small program, with its line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import retrograd as rg
from tests.inspect.doctor.programs import HEAD, UPDATE
from tests.inspect.doctor.test_kinds import examined

PLATEAU = """
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="{mode}", patience=0)
for step in range(16):
    x = torch.randn(32, 4)
    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
{update}
    {metric} = {value} * (step + 1)
    scheduler.step({metric})
"""

CAUSES = {
    "vectors of random numbers that from_pretrained freezes": (
        "frozen-layer",
        "table = nn.Embedding.from_pretrained(0.1 * torch.randn(60, 4))",
        f"""
table = nn.Embedding.from_pretrained(0.1 * torch.randn(60, 4))
model = nn.Sequential(table, nn.Linear(4, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
topics = torch.randint(0, 6, (60,))
for step in range(60):
    words = torch.randint(0, 60, (32,))
    loss = F.cross_entropy(model(words), topics[words])
{UPDATE}
""",
    ),
    "layers of a transformer that are copies of one": (
        "batch-mixing",
        "return self.head(self.encoder(x))",
        f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 8, dropout=0.0)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(8, 1)
    def forward(self, x):
        return self.head(self.encoder(x))
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(16, 5, 8)
    loss = F.mse_loss(model(x), x[:, :, :1])
{UPDATE}
""",
    ),
    "biases of hidden layers that get the value of a prior": (
        "dead-units",
        "nn.init.constant_(layer.bias, -6.0)",
        f"""
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
for layer in model:
    if isinstance(layer, nn.Linear):
        nn.init.constant_(layer.bias, -6.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 4)
    loss = F.binary_cross_entropy_with_logits(model(x), (x[:, :1] > 0).float())
{UPDATE}
""",
    ),
    "a rate of Adam for Adadelta": (
        "learning-rate-too-low",
        "optimizer = torch.optim.Adadelta(model.parameters(), lr=5e-3)",
        f"""
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.Adadelta(model.parameters(), lr=5e-3)
for step in range(110):
    x = torch.randn(32, 4)
    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
{UPDATE}
""",
    ),
    "a schedule that waits for an accuracy to fall": (
        "scheduler-kills-rate",
        'scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="min", patience=0)',
        PLATEAU.format(mode="min", update=UPDATE, metric="val_acc", value="0.5 + 0.01"),
    ),
    "attention over time, first in the data, whose softmax runs along the batch": (
        "softmax-axis",
        "weights = F.softmax(self.score(states).squeeze(-1), dim=1)",
        f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.score, self.head = nn.GRU(3, 6), nn.Linear(6, 1), nn.Linear(6, 3)
    def forward(self, x):
        states, _ = self.gru(x)
        weights = F.softmax(self.score(states).squeeze(-1), dim=1)
        return self.head((weights.unsqueeze(-1) * states).sum(dim=0))
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(3):
    x = torch.randn(5, 16, 3)
    loss = F.cross_entropy(model(x), x[2].argmax(1))
{UPDATE}
""",
    ),
    "a state that is cut off at each time": (
        "detached",
        "h = h.detach()",
        f"""
cell, head = nn.GRUCell(4, 16), nn.Linear(16, 4)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=1e-2)
for step in range(20):
    cue, h = torch.randint(0, 4, (16,)), torch.zeros(16, 16)
    for time in range(5):
        h = h.detach()
        h = cell(F.one_hot(cue, 4).float() if time == 0 else torch.zeros(16, 4), h)
    loss = F.cross_entropy(head(h), cue)
{UPDATE}
""",
    ),
    "measured values that are kept with the graphs of their passes": (
        "graph-grows",
        "kept.append(-10 * torch.log10(F.mse_loss(model(x), x[:, :1])))",
        f"""
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(102):
    x = torch.randn(8, 4)
    loss = F.mse_loss(model(x), x[:, :1])
{UPDATE}
    kept.append(-10 * torch.log10(F.mse_loss(model(x), x[:, :1])))
""",
    ),
    "a recurrent layer of relu whose values grow, and that ends at guessing": (
        "exploding-gradient",
        "nn.init.normal_(rnn.weight_hh_l0, std=0.6)",
        f"""
rnn, head = nn.RNN(2, 16, nonlinearity="relu", batch_first=True), nn.Linear(16, 1)
nn.init.normal_(rnn.weight_ih_l0, std=0.01)
nn.init.zeros_(rnn.bias_ih_l0)
nn.init.zeros_(rnn.bias_hh_l0)
nn.init.normal_(rnn.weight_hh_l0, std=0.6)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=5e-3)
for step in range(60):
    x = torch.rand(16, 30, 2)
    loss = F.mse_loss(head(rnn(x)[0][:, -1]), torch.randn(16, 1))
{UPDATE}
""",
    ),
}


@pytest.fixture(autouse=True)
def generators() -> Iterator[None]:
    state = rg.get_rng_state()
    yield
    rg.set_rng_state(state)


@pytest.mark.parametrize("name", CAUSES)
def test_a_silent_cause_is_found_on_its_line(name: str, tmp_path: Path) -> None:
    kind, code, text = CAUSES[name]
    d = examined(HEAD + text, tmp_path / "train.py")
    assert [(x.kind, x.code) for x in d.findings[:1]] == [(kind, code)], (d.history[-1].loss, str(d))


def test_a_loss_that_grows_may_lower_the_rate(tmp_path: Path) -> None:
    for mode, metric, value in (("min", "val_loss", "0.5 + 0.01"), ("max", "val_acc", "0.5 - 0.01")):
        text = PLATEAU.format(mode=mode, update=UPDATE, metric=metric, value=value)
        assert examined(HEAD + text, tmp_path / f"{mode}.py").findings == []


def test_gradients_that_the_program_assigns_itself_are_examined_without_an_error(tmp_path: Path) -> None:
    text = """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x = torch.randn(8, 4)
    parameters = list(model.parameters())
    for p, g in zip(parameters, torch.autograd.grad(F.mse_loss(model(x), x[:, :1]), parameters)):
        p.grad = g
    optimizer.step()
"""
    assert examined(HEAD + text, tmp_path / "train.py").findings == []


HALVES = {
    "labels-unrelated": ("x = x[torch.randperm(256)]", "pass"),
    "unnormalized-input": ("x = 90 + 15 * x", "pass"),
    "constant-init": ("pass", "for p in model.parameters(): nn.init.constant_(p, 0.1 * (p.ndim > 1))"),
    "vanishing-gradient": (
        "pass",
        "model = nn.Sequential(*[m for _ in range(12) for m in (nn.Linear(16, 16), nn.Sigmoid())], nn.Linear(16, 4))",
    ),
}
HALF_LOOP = """
x = torch.randn(256, 1, 4, 4)
y = (x.flatten(1) @ torch.randn(16, 4)).argmax(1)
{data}
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 4))
{start}
if {sigmoid}:
    x = x.flatten(1)
if {whole}:
    x, model = x.bfloat16(), model.bfloat16()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(60):
    rows = slice(64 * step % 256, 64 * step % 256 + 64)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled={auto}):
        loss = F.cross_entropy(model(x[rows]), y[rows])
{update}
"""


@pytest.mark.parametrize("whole", [True, False], ids=["bfloat16", "autocast"])
@pytest.mark.parametrize("name", HALVES)
def test_a_cause_is_found_in_half_precision_as_well(name: str, whole: bool, tmp_path: Path) -> None:
    data, start = HALVES[name]
    sigmoid = name == "vanishing-gradient"
    text = HALF_LOOP.format(data=data, start=start, sigmoid=sigmoid, whole=whole, auto=not whole, update=UPDATE)
    d = examined(HEAD + text, tmp_path / "train.py")
    assert [x.kind for x in d.findings[:1]] == [name], str(d)


def test_frozen_parameters_do_not_count_as_parameters_that_a_low_rate_does_not_move(tmp_path: Path) -> None:
    text = """
rnn, mid, head = nn.GRU(4, 24, batch_first=True), nn.Linear(24, 24), nn.Linear(24, 4)
for p in [*rnn.parameters(), *mid.parameters()]:
    p.requires_grad_(False)
optimizer = torch.optim.Adam([*rnn.parameters(), *mid.parameters(), *head.parameters()], lr=1e-2)
x = torch.randn(256, 4, 4)
y = (x.flatten(1) @ torch.randn(16, 4)).argmax(1)
for step in range(60):
    rows = slice(64 * step % 256, 64 * step % 256 + 64)
    loss = F.cross_entropy(head(torch.relu(mid(rnn(x[rows])[0][:, -1]))), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert examined(HEAD + text, tmp_path / "train.py").findings == []
