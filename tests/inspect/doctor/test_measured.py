"""The doctor measures before it blames, points to the line to edit, and proposes what it has tried."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import retrograd as rg
from tests.inspect.doctor.programs import HEAD, UPDATE
from tests.inspect.doctor.test_kinds import examined

FEATURES = "nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())"
HEALTHY = {
    "a trained trunk, frozen and evaluated before the head is trained": f"""
trunk, first, second = {FEATURES}, nn.Linear(16, 3), nn.Linear(16, 2)
centers = 2 * torch.randn(3, 6)
def train(parameters, head, classes):
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    for step in range(12):
        y = torch.randint(0, 3, (32,))
        loss = F.cross_entropy(head(trunk(centers[y] + 0.3 * torch.randn(32, 6))), y % classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
train([*trunk.parameters(), *first.parameters()], first, 3)
trunk.requires_grad_(False).eval()
train(second.parameters(), second, 2)
""",
    "an adversary of domains, whose labels are one class in each loss": f"""
model, domain = nn.Sequential(nn.Linear(6, 8), nn.ReLU()), nn.Linear(8, 2)
head, centers = nn.Linear(8, 3), 2 * torch.randn(3, 6)
optimizer = torch.optim.Adam([*model.parameters(), *domain.parameters(), *head.parameters()], lr=0.01)
for step in range(12):
    y = torch.randint(0, 3, (32,))
    h = model(centers[y] + 0.3 * torch.randn(32, 6))
    loss = F.cross_entropy(head(h), y)
    loss = loss + F.cross_entropy(domain(h), torch.zeros(32, dtype=torch.long))
    loss = loss + F.cross_entropy(domain(model(torch.randn(32, 6))), torch.ones(32, dtype=torch.long))
{UPDATE}
""",
    "a block that all layers share, as the program says": f"""
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        self.layers, self.head = nn.ModuleList([block] * 3), nn.Linear(6, 1)  # all share one block
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(32, 6)
for step in range(12):
    loss = F.mse_loss(model(x), x[:, :1])
{UPDATE}
""",
    "a moving average that is assigned by .data": f"""
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.target = {FEATURES}, {FEATURES}
        self.target.requires_grad_(False)
    def forward(self, x):
        return F.mse_loss(self.online(x), self.target(x + 0.1))

model = Pair()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 6)
for step in range(12):
    loss = model(x)
{UPDATE}
    for q, p in zip(model.target.parameters(), model.online.parameters()):
        q.data = 0.9 * q.data + 0.1 * p.data
""",
    "a trunk whose first layers are frozen with weights that the program wrote": f"""
trunk = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
for p in [*trunk[0].parameters(), *trunk[2].parameters()]:
    with torch.no_grad():
        p.copy_(torch.randn(p.shape))
    p.requires_grad = False
model = nn.Sequential(trunk, nn.Linear(8, 1))
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01)
x = torch.randn(32, 6)
for step in range(20):
    loss = F.mse_loss(model(x), x[:, :1])
{UPDATE}
""",
    "a sum over a mask that is divided by the number of its elements": f"""
model = nn.Linear(6, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(30):
    x, mask = torch.randn(20, 6), torch.zeros(20)
    mask[: 10 + step % 5] += 1.0
    losses = F.cross_entropy(model(x), x[:, :5].argmax(1), reduction="none")
    loss = (losses * mask).sum() / mask.sum()
{UPDATE}
""",
    "attention over examples whose rows were written one by one": f"""
attention, head = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 2)
model = nn.Sequential(attention, head)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(8):
    y = torch.randint(0, 2, (8,))
    x = 0.3 * torch.randn(8, 5, 8)
    for row in range(8):
        x[row, row % 5] += 2.0 * y[row] - 1.0
    loss = F.cross_entropy(model(x)[:, 0], y)
{UPDATE}
""",
    "matrices of low rank that are trained beside frozen ones": f"""
class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a, self.b = nn.Parameter(0.1 * torch.randn(2, 6)), nn.Parameter(torch.zeros(6, 2))
    def forward(self, x):
        return self.base(x) + x @ self.a.t() @ self.b.t()
model = nn.Sequential(Adapted(nn.Linear(6, 6)), nn.Tanh(), Adapted(nn.Linear(6, 6)))
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=2e-2)
for step in range(20):
    x = torch.randn(32, 6)
    loss = F.mse_loss(model(x), 0.5 * x)
{UPDATE}
""",
    "micro-batches of text, whose labels follow the tokens of the same one": """
jump = torch.randperm(30)
model = nn.Sequential(nn.Embedding(30, 16), nn.Linear(16, 30))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(24):
    optimizer.zero_grad()
    for part in range(2):
        x = torch.randint(0, 30, (10, 12))
        loss = F.cross_entropy(model(x).flatten(0, 1), jump[x].flatten()) / 2
        loss.backward()
    optimizer.step()
""",
    "distances from targets, of what a relu outside of the model gives": f"""
model = nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(30):
    x = torch.randn(32, 6)
    loss = ((torch.relu(model(x)).sum(1) - 20 - x[:, 0]) ** 2).mean()
{UPDATE}
""",
    "folds that begin with one state, each with an optimizer of its own": f"""
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
start = {{name: value.clone() for name, value in model.state_dict().items()}}
for fold in range(5):
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        x = torch.randn(32, 6)
        loss = F.mse_loss(model(x), x[:, :1])
{UPDATE.replace(chr(10) + "    ", chr(10) + "        ")}
""",
    "rates that are compared from one state, with an optimizer each": f"""
model = nn.Linear(6, 1)
start = {{name: value.clone() for name, value in model.state_dict().items()}}
for rate in (0.3, 0.03, 0.003, 1e-3, 3e-4):
    model.load_state_dict(start)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for step in range(4):
        x = torch.randn(32, 6)
        loss = F.mse_loss(model(x), x[:, :1])
{UPDATE.replace(chr(10) + "    ", chr(10) + "        ")}
""",
    "a loss that grows with the returns of a policy": f"""
model = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(150):
    state = torch.rand(5 + step, 3)
    returns = torch.arange(5 + step, 0, -1).float()[:, None] * (0.5 + state[:, :1])
    loss = (returns - model(state)).pow(2).mean()
{UPDATE}
""",
}


@pytest.fixture(autouse=True)
def generators() -> Iterator[None]:
    state = rg.get_rng_state()
    yield
    rg.set_rng_state(state)


def first(text: str, path: Path) -> tuple[str, str, str]:
    """Return kind and text of the first finding, and the line that it names."""
    found = examined(HEAD + text, path / "train.py").findings
    assert found, "nothing found"
    return found[0].kind, f"{found[0].message} Edit: {found[0].fix}", found[0].code


@pytest.mark.parametrize("text", HEALTHY.values(), ids=HEALTHY)
def test_what_a_program_does_on_purpose_is_no_finding(text: str, tmp_path: Path) -> None:
    assert [str(x) for x in examined(HEAD + text, tmp_path / "train.py").findings] == []


def test_a_warm_up_that_goes_on_after_the_steps_watched_is_no_finding() -> None:
    for steps, kinds in ((60, []), (None, ["scheduler-kills-rate"])):
        with rg.inspect.doctor(steps=steps) as d:
            x, model = rg.randn(32, 4), rg.nn.Linear(4, 1)
            optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
            schedule = rg.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 1e4)
            for _ in range(70):
                optimizer.zero_grad()
                ((model(x) - x[:, :1]) ** 2).mean().backward()
                optimizer.step()
                schedule.step()
        assert [x.kind for x in d.findings] == kinds


TRAINING = """
for step in range(30):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
"""


def test_a_step_is_run_again_with_the_data_that_were_written_by_views(tmp_path: Path) -> None:
    text = """
model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(10):
    y = torch.arange(12) % 3
    x = 0.1 * torch.randn(12, 4)
    x[torch.arange(12), y] += 1.0
    x[:4].mul_(2.0)
    x.numpy()[5] = 1.0
    loss = F.cross_entropy(model(x), y)
"""
    kind, said, _ = first(text + UPDATE, tmp_path)
    assert kind == "double-softmax"
    assert "Tried for 30 steps" in said


def test_a_step_is_run_again_with_values_of_before_another_optimizer_changed_them(tmp_path: Path) -> None:
    text = """
encoder, judge = nn.Linear(6, 4), nn.Linear(4, 1)
first, second = (torch.optim.SGD(m.parameters(), lr=0.5) for m in (encoder, judge))
for step in range(10):
    x = torch.randn(16, 6)
    F.softplus(judge(encoder(x).detach())).mean().backward()
    second.step()
    first.zero_grad()
    code = encoder(x)
    (F.mse_loss(code, x[:, :4]) - judge(code).mean()).backward()
    first.step()
"""
    kind, said, _ = first(text, tmp_path)
    assert kind == "gradients-not-zeroed"
    assert "Tried for" in said


def test_a_mask_after_nan_in_the_data_is_to_come_before(tmp_path: Path) -> None:
    text = """
model, x = nn.Linear(4, 4), torch.randn(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
y = torch.where(x > 1, float("nan"), x)
for step in range(4):
    loss = ((model(x) - y) ** 2 * (x <= 1)).mean()
"""
    kind, said, _ = first(text + UPDATE, tmp_path)
    assert kind == "nan-birth"
    assert "replace such values before, by torch.where" in said


def test_a_loss_that_no_backward_pass_starts_from_is_named(tmp_path: Path) -> None:
    text = """
a, b = nn.Linear(4, 2), nn.Linear(4, 1)
first, second = (torch.optim.Adam(m.parameters()) for m in (a, b))
for step in range(8):
    x = torch.randn(16, 4)
    loss = F.cross_entropy(a(x), (x[:, 0] > 0).long())
    loss.backward()
    first.step()
    other = F.binary_cross_entropy_with_logits(b(x), torch.ones_like(b(x)))
    second.step()
    first.zero_grad()
"""
    d = examined(HEAD + text, tmp_path / "train.py")
    assert [x.kind for x in d.findings] == ["backward-missing"]
    assert "8 of 8 steps of Adam of line 11 found no gradient" in d.findings[0].message
    assert "no backward pass starts from the loss of line 17" in d.findings[0].message


def test_weights_that_are_computed_and_assigned_by_data_get_no_gradient(tmp_path: Path) -> None:
    text = """
a, b, model = nn.Linear(3, 1), nn.Linear(3, 1), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*a.parameters(), *b.parameters()])
for step in range(8):
    for p, q, r in zip(a.parameters(), b.parameters(), model.parameters()):
        r.data = 0.3 * p + 0.7 * q
    x = torch.randn(16, 3)
    loss = F.mse_loss(model(x), x[:, :1])
"""
    kind, said, code = first(text + UPDATE, tmp_path)
    assert (kind, code) == ("data-write", "r.data = 0.3 * p + 0.7 * q")
    assert "no gradient reaches p and q" in said
    assert [x.kind for x in examined(HEAD + text + UPDATE, tmp_path / "again.py").findings] == ["data-write"]


def test_the_optimizer_of_the_same_model_is_the_one_that_lacks_parameters(tmp_path: Path) -> None:
    text = """
inputs = [nn.Linear(4, 6), nn.Linear(4, 6)]
model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 4))
several = [torch.optim.SGD(one.parameters(), lr=0.1) for one in inputs]
shared = torch.optim.SGD(model[0].parameters(), lr=0.1)
for step in range(40):
    x, number = torch.randn(16, 4), step % 2
    for one in (several[number], shared):
        one.zero_grad()
    F.mse_loss(model(inputs[number](x)), x).backward()
    for one in (several[number], shared):
        one.step()
"""
    kind, said, code = first(text, tmp_path)
    assert kind == "parameters-not-optimized"
    assert code.startswith("shared = ")
    assert "model.1.weight, model.1.bias get a gradient" in said


def test_the_edit_of_a_dropout_function_is_its_argument(tmp_path: Path) -> None:
    text = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)
    def forward(self, x):
        return self.out(F.dropout(x, 0.5))

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 4)
for epoch in range(4):
    model.train()
    for step in range(4):
        optimizer.zero_grad()
        F.mse_loss(model(x), x[:, :1]).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(x)
"""
    kind, said, _ = first(text, tmp_path)
    assert kind == "train-mode-in-evaluation"
    assert "ran once" in said
    assert "training=self.training" in said


def test_rates_far_too_low_are_raised_by_the_factor_that_parameters_need(tmp_path: Path) -> None:
    text = """
model, x = nn.Linear(4, 1), torch.randn(32, 4)
y = x.sum(1, keepdim=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-8)
"""
    kind, said, _ = first(text + TRAINING, tmp_path)
    assert kind == "learning-rate-too-low"
    assert "with lr=" in said


def test_a_loss_that_is_nan_from_the_start_is_that_of_the_inputs_if_their_scale_ends_it(tmp_path: Path) -> None:
    text = """
model, x = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1)), torch.randn(64, 2)
y = x.sum(1, keepdim=True).exp()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(10):
    rates = model(1e5 * x)
    loss = (rates.exp() - y * rates).mean() - rates.exp().mean() + (rates.exp() / y).mean()
"""
    kind, said, _ = first(text + UPDATE, tmp_path)
    assert kind == "unnormalized-input"
    assert re.search(r"as written nan( -> nan)?( after 1 step)?\.", said)


def test_clipping_is_proposed_where_it_helps(tmp_path: Path) -> None:
    text = """
cell, out = nn.Linear(12, 8), nn.Linear(8, 2)
nn.init.normal_(cell.weight, std=0.5)
optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.02)
for step in range(12):
    y = torch.randint(0, 2, (16,))
    x, h = torch.randn(40, 16, 4) + y[:, None], torch.zeros(16, 8)
    for part in x:
        h = cell(torch.cat((part, h), 1))
    loss = F.cross_entropy(out(h), y)
"""
    kind, said, code = first(text + UPDATE, tmp_path)
    assert (kind, code) == ("exploding-gradient", "loss.backward()")
    assert "with clipped gradients" in said


LINES = {
    "modules-not-registered": (
        "self.parts = parts",
        """
class Join(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = parts
    def forward(self, x):
        return torch.cat([part(x) for part in self.parts], dim=1)

model = nn.Sequential(Join([nn.Linear(4, 4), nn.Linear(4, 4)]), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(32, 4)
y = x[:, :1]
"""
        + TRAINING,
    ),
    "step-missing": (
        "helper(F.mse_loss(model(x), x[:, :1]))",
        """
def helper(loss):
    loss.backward()

model, x = nn.Linear(4, 1), torch.randn(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    helper(F.mse_loss(model(x), x[:, :1]))
    optimizer.zero_grad()
""",
    ),
    "vanishing-gradient": (
        "parts += [nn.Linear(16, 16), nn.Sigmoid()]",
        """
def network():
    parts = [nn.Linear(6, 16)]
    for _ in range(9):
        parts += [nn.Linear(16, 16), nn.Sigmoid()]
    return nn.Sequential(*parts, nn.Linear(16, 1))

model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64, 6)
y = 2 * x[:, :1]
"""
        + TRAINING,
    ),
    "batch-norm-of-one": (
        "return nn.Sequential(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2))",
        """
def layer():
    return nn.Sequential(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2))

model = layer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10):
    loss = model(torch.randn(1, 1, 5)).pow(2).mean()
"""
        + UPDATE,
    ),
    "frozen-layer": (
        "p.requires_grad_(False)",
        """
class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two, self.three = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 8)
    def forward(self, x):
        return self.three(torch.relu(self.two(torch.relu(self.one(x)))))

trunk = Trunk()
for name, p in trunk.named_parameters():
    if "three" not in name:
        p.requires_grad_(False)
model = nn.Sequential(trunk, nn.Linear(8, 1))
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
x = torch.randn(32, 4)
y = x[:, :1]
"""
        + TRAINING,
    ),
    "graph-grows": (
        "results.append(result)",
        """
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
results = []
for step in range(40):
    x = torch.randn(8, 4)
    result = {"loss": F.mse_loss(model(x), x[:, :1])}
    optimizer.zero_grad()
    result["loss"].backward()
    optimizer.step()
    results.append(result)
""",
    ),
}


@pytest.mark.parametrize("kind", LINES)
def test_the_line_is_one_that_a_person_edits(kind: str, tmp_path: Path) -> None:
    code, text = LINES[kind]
    found, said, line = first(text, tmp_path)
    assert (found, line) == (kind, code), said


def test_a_loss_that_explodes_is_never_without_finding(tmp_path: Path) -> None:
    text = f"""
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(40):
    loss = (model(torch.randn(16, 5)) - 1.5**step).pow(2).mean()
{UPDATE}
"""
    kind, said, code = first(text, tmp_path)
    assert (kind, code) == ("exploding-gradient", "loss.backward()")
    assert "the loss goes from" in said
