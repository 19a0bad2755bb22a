"""What holds for batches that a copy was not trained with, and what numbers say of orders, ends and spreads."""

from pathlib import Path

import pytest

from tests.inspect.doctor.programs import HEAD, UPDATE
from tests.inspect.doctor.test_kinds import examined

# A program with "BROKEN" and "RIGHT" in place of a piece of one line; the line is the one that has "BROKEN".
PROGRAMS = {
    "a view that tears time steps apart": (
        "batch-mixing",
        "h.view(20, -1, 6).transpose(1, 2)",
        "h.permute(0, 2, 1, 3).reshape(20, 6, -1)",
        """
lift, head = nn.Conv2d(1, 4, 1), nn.Linear(20, 3)
optimizer = torch.optim.Adam([*lift.parameters(), *head.parameters()], lr=0.02)
voices = torch.randn(3, 5)
for step in range(60):
    who = torch.randint(0, 3, (20, 6))
    h = torch.relu(lift((voices[who] + 0.1 * torch.randn(20, 6, 5))[:, None]))
    h = PIECE
    loss = F.cross_entropy(head(h).reshape(-1, 3), who.reshape(-1))
""",
    ),
    "images whose data were reshaped and not permuted": (
        "batch-mixing",
        "images.reshape(-1, 3, 8, 8)",
        "images.transpose(0, 3, 1, 2).copy()",
        """
y = torch.randint(0, 3, (160,))
images = (0.3 * torch.randn(160, 8, 8, 3) + torch.eye(3)[y][:, None, None]).numpy()
x = torch.tensor(PIECE)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(120):
    rows = torch.randint(0, 160, (32,))
    loss = F.cross_entropy(model(x[rows]), y[rows])
""",
    ),
    "attention whose weights sum to one along heads": (
        "softmax-axis",
        "dim=1",
        "dim=2",
        """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(8, 5), nn.Linear(8, 3)
    def forward(self, x):
        weights = torch.softmax(self.score(torch.tanh(x)).transpose(1, 2), PIECE).mean(1)
        return self.out((weights[:, :, None] * x).sum(1))
model, centers = Attention(), 2 * torch.randn(3, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(100):
    y, place = torch.randint(0, 3, (32,)), torch.randint(0, 6, (32,))
    x = torch.randn(32, 6, 8)
    x[torch.arange(32), place] += centers[y]
    x[torch.arange(32), place, 0] += 6
    loss = F.cross_entropy(model(x), y)
""",
    ),
    "an overlap that is added to the loss beside another output's": (
        "loss-sign",
        "overlap + 0.1 * F.mse_loss(image, x)",
        "1 - overlap + 0.1 * F.mse_loss(image, x)",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mask, self.image = nn.Linear(12, 16), nn.Linear(16, 12), nn.Linear(16, 12)
    def forward(self, x):
        h = torch.relu(self.body(x))
        return torch.sigmoid(self.mask(h)), self.image(h)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(40):
    y = (torch.rand(16, 12) < 0.3).float()
    x = y + 0.3 * torch.randn(16, 12)
    mask, image = model(x)
    overlap = (2 * (mask * y).abs().sum(1) / ((mask * mask + y * y).sum(1) + 1e-6)).mean()
    loss = PIECE
""",
    ),
    "losses that a second optimizer's steps add up": (
        "accumulation-unscaled",
        "(F.cross_entropy(student(x), y)).backward()",
        "(F.cross_entropy(student(x), y) / 32).backward()",
        """
def mlp(width):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 6))
centers = torch.randn(6, 20)
def sample(n):
    y = torch.randint(0, 6, (n,))
    return 1.3 * centers[y] + torch.randn(n, 20), y
teacher, student = mlp(32), mlp(24)
optimizer = torch.optim.Adam(teacher.parameters(), lr=2e-3)
for _ in range(50):
    x, y = sample(64)
    optimizer.zero_grad(); F.cross_entropy(teacher(x), y).backward(); optimizer.step()
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
for update in range(40):
    optimizer.zero_grad()
    for micro in range(32):
        x, y = sample(4)
        PIECE
    optimizer.step()
for step in ():
    loss = F.mse_loss(x, x)
""",
    ),
    "images and masks that are moved by numbers of their own": (
        "labels-unrelated",
        "self.moved(self.x[i], k()), self.moved(self.y[i], k())",
        "tuple(self.moved(torch.stack([self.x[i], self.y[i]]), k()))",
        """
import random
random.seed(0)
def k():
    return random.randint(0, 7), random.randint(0, 7)
class Cells(torch.utils.data.Dataset):
    def __init__(self):
        self.y = torch.zeros(96, 8, 8)
        self.y[:, 2:5, 2:5] = 1.0
        self.x = self.y + 0.3 * torch.randn(96, 8, 8)
    def __len__(self):
        return 96
    def moved(self, x, by):
        return torch.roll(x, by, (-2, -1))
    def __getitem__(self, i):
        return PIECE
model = nn.Conv2d(1, 1, 3, padding=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for epoch in range(6):
  for x, y in torch.utils.data.DataLoader(Cells(), batch_size=16):
    loss = F.binary_cross_entropy_with_logits(model(x[:, None])[:, 0], y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
for step in ():
    pass
""",
    ),
    "states of sequences that are reshaped to layers": (
        "batch-mixing",
        "states[rows].reshape(2, 40, 6)",
        "states[rows].swapaxes(0, 1).copy()",
        """
import numpy as np
np.random.seed(0)
states = np.random.randn(160, 2, 6).astype(np.float32)
returns = torch.tensor(states[:, 1, 0])
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.value = nn.GRU(3, 6, num_layers=2), nn.Linear(6, 1)
    def forward(self, x, state):
        return self.value(self.gru(x, state)[0][-1])[:, 0]
model = Critic()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(24):
    rows = np.random.permutation(160)[:40]
    state = PIECE
    loss = F.mse_loss(model(0.1 * torch.randn(2, 40, 3), torch.tensor(state)), returns[rows])
""",
    ),
    "scores that a relu cuts off": (
        "dead-units",
        "torch.relu(model(x))",
        "model(x)",
        """
centers = torch.rand(8, 16)
model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.5)
for step in range(160):
    y = torch.randint(0, 8, (64,))
    x = centers[y] + 0.1 * torch.randn(64, 16)
    scores = PIECE
    loss = F.cross_entropy(scores, y)
""",
    ),
    "ends of episodes that no target reads": (
        "target-mismatch",
        "reward[rows] + 0.9 * after",
        "reward[rows] + 0.9 * after * (1 - ended)",
        """
state, reward = torch.randn(99, 4), torch.randn(99)
done = (torch.arange(99) % 9 == 8).float()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    rows = torch.randint(0, 98, (32,))
    ended, x, y = done[rows], state[rows], state[rows + 1]
    with torch.no_grad():
        after = model(y)[:, 0]
    target = PIECE
    loss = F.mse_loss(model(x)[:, 0], target)
""",
    ),
    "an entropy that is minimized": (
        "loss-sign",
        "policy + 0.1 * spread",
        "policy - 0.1 * spread",
        """
model = nn.Linear(5, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    logs = F.log_softmax(model(torch.eye(5)[torch.randint(0, 5, (24,))]), dim=1)
    action = torch.randint(0, 4, (24, 1))
    policy = -(logs.gather(1, action)[:, 0] * ((action[:, 0] == 2).float() - 0.2)).mean()
    spread = -(logs.exp() * logs).sum(1).mean()
    loss = PIECE
""",
    ),
    "a shuffling loader that is read for inputs and again for labels": (
        "labels-unrelated",
        "shuffle=True",
        "shuffle=False",
        """
y = torch.randint(0, 4, (200,))
data = torch.utils.data.TensorDataset(torch.randn(4, 6)[y] * 2 + torch.randn(200, 6), y)
loader = torch.utils.data.DataLoader(data, batch_size=50, PIECE)
features, labels = torch.cat([x for x, _ in loader]), torch.cat([y for _, y in loader])
model = nn.Linear(6, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    rows = torch.randint(0, 200, (50,))
    loss = F.cross_entropy(model(features[rows]), labels[rows])
""",
    ),
}


SLOW = {  # with many steps
    "attention whose weights sum to one along heads", "images whose data were reshaped and not permuted",
    "images and masks that are moved by numbers of their own", "losses that a second optimizer's steps add up",
    "scores that a relu cuts off",
}  # fmt: skip


@pytest.mark.parametrize("name", [pytest.param(x, marks=pytest.mark.slow if x in SLOW else ()) for x in PROGRAMS])
def test_a_measurement_finds_the_line_and_the_edit_ends_the_finding(name: str, tmp_path: Path) -> None:
    kind, broken, right, text = PROGRAMS[name]
    path = tmp_path / "script.py"
    program = HEAD + text + UPDATE
    found = examined(program.replace("PIECE", broken), path).findings
    assert [x.kind for x in found[:1]] == [kind]
    assert broken in found[0].code
    assert examined(program.replace("PIECE", right), tmp_path / "right.py").findings == []


def test_a_sum_that_the_update_of_the_program_divides_is_no_wrong_scale(tmp_path: Path) -> None:
    text = """
w = torch.zeros(3, 1, requires_grad=True)
x = 12 * torch.rand(200, 3)
for step in range(30):
    rows = torch.randint(0, 200, (10,))
    ((x[rows] @ w - x[rows].sum(1, keepdim=True)) ** 2).sum().backward()
    with torch.no_grad():
        w -= 0.03 * w.grad / 10
        w.grad.zero_()
"""
    found = examined(HEAD + text, tmp_path / "script.py").findings
    assert found
    assert "wrong-reduction-scale" not in [x.kind for x in found]


def test_a_teacher_in_training_mode_and_the_name_of_a_loss_are_no_findings(tmp_path: Path) -> None:
    text = (
        """
model, teacher = [nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]
teacher.load_state_dict(model.state_dict())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
centers = 2 * torch.randn(3, 6)
def elbo(scores, y, other):
    return F.cross_entropy(scores, y) + F.mse_loss(scores.softmax(1), other.softmax(1))
for step in range(40):
    teacher.train()
    y = torch.randint(0, 3, (32,))
    x = centers[y] + torch.randn(32, 6)
    with torch.no_grad():
        other = teacher(x)
    loss = elbo(model(x), y, other)
"""
        + UPDATE
        + """
    with torch.no_grad():
        for p, q in zip(teacher.parameters(), model.parameters()):
            p.mul_(0.9).add_(q, alpha=0.1)
    if step % 4 == 3 and step < 12 or step > 12:
        teacher.eval()
        with torch.no_grad():
            teacher(x)
"""
    )
    assert examined(HEAD + text, tmp_path / "script.py").findings == []
