"""The edits that the doctor writes name what is in the program, and its trials are those of the edit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import retrograd as rg
from retrograd.inspect.diagnosing.findings import Finding
from retrograd.inspect.diagnosing.probes import proof
from retrograd.inspect.diagnosing.probes.replay import Changes, Edit
from tests.inspect.doctor.programs import HEAD
from tests.inspect.doctor.test_kinds import examined


@pytest.fixture(autouse=True)
def generators() -> Iterator[None]:
    state = rg.get_rng_state()
    yield
    rg.set_rng_state(state)


def found(text: str, path: Path) -> Finding:
    """Return the first finding of a program."""
    number = len(list(path.iterdir()))  # a file of its own, since the lines of files are cached
    return examined(HEAD + text, path / f"train{number}.py").findings[0]


def curves(finding: Finding) -> tuple[list[float], list[float]]:
    """Return the losses with and without the edit."""
    both = finding.evidence["curves"]
    assert isinstance(both, dict)
    return both["with"], both["without"]  # type: ignore[return-value]


PAIR = """
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
    def forward(self, x):
        return self.lin(x)
first, second = Part(), Part()
optim = torch.optim.SGD(second.parameters(), lr=0.1)
def run(a, b):
    x = torch.randn(8, 4)
    optim.zero_grad(); F.mse_loss(b(a(x)), x).backward(); optim.step()
for i in range(12): run(first, second)
"""


def test_an_edit_names_models_and_optimizers_of_the_program(tmp_path: Path) -> None:
    one = found(PAIR, tmp_path)
    assert (one.kind, one.message.partition(" get ")[0]) == (
        "parameters-not-optimized",
        "first.lin.weight, first.lin.bias",
    )
    assert 'optim.add_param_group({"params": first.parameters()})' in one.fix


TUNED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)
    def forward(self, x):
        return self.head(torch.relu(self.norm(self.body(x))))
model = Net()
def train(optimizer, steps):
    for i in range(steps):
        x = torch.randn(16, 4); y = (x[:, 0] > 0).long()
        optimizer.zero_grad(); F.cross_entropy(model(x), y).backward(); optimizer.step()
train(torch.optim.SGD(model.parameters(), lr=0.1), 3)
model.head = nn.Linear(6, 2)
for name, p in model.named_parameters():
    if "norm" not in name:
        p.requires_grad = False
train(torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1), 25)
"""


def test_a_layer_that_was_replaced_has_its_name_and_one_that_was_trained_is_not_called_random(tmp_path: Path) -> None:
    one = found(TUNED, tmp_path)
    assert one.kind == "frozen-layer"
    assert one.message.startswith("model.head does not require a gradient: it stays at its random initialization.")
    assert "model.head.requires_grad_(True)" in one.fix
    with_edit, without = curves(one)
    assert with_edit[0] == without[0]  # from the same state: that after the first training


ADVERSARIES = """
G, D = nn.Linear(2, 2), nn.Linear(2, 1)
og, od = (torch.optim.SGD(m.parameters(), lr=0.5) for m in (G, D))
one, zero = torch.ones(16, 1), torch.zeros(16, 1)
bce = F.binary_cross_entropy_with_logits
for i in range(12):
    fake = G(torch.randn(16, 2))
    od.zero_grad(); (bce(D(torch.randn(16, 2) + 2), one) + bce(D(fake.detach()), zero)).backward(); od.step()
    og.zero_grad(); bce(D(fake.detach()), one).backward(); og.step()
"""


def test_the_edit_of_a_cut_is_tried_on_the_loss_that_it_concerns(tmp_path: Path) -> None:
    with_edit, without = curves(found(ADVERSARIES, tmp_path))
    assert without[0] == without[-1] == with_edit[0] > with_edit[-1]


VARIATIONAL = """
enc, mean, scale, dec = nn.Linear(6, 8), nn.Linear(8, 2), nn.Linear(8, 2), nn.Linear(2, 6)
opt = torch.optim.Adam([p for m in (enc, mean, scale, dec) for p in m.parameters()], lr=1e-2)
x = torch.randn(32, 6)
for i in range(12):
    h = torch.relu(enc(x)); m, s = mean(h), scale(h)
    z = {sample}
    loss = F.mse_loss(dec(z), x) - 0.05 * (1 + s - m ** 2 - s.exp()).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""
NORMAL = "torch.distributions.Normal(m, torch.exp(0.5 * s))"


def test_a_sample_that_cuts_an_encoder_off_from_the_data_is_found(tmp_path: Path) -> None:
    cut = found(VARIATIONAL.format(sample=f"{NORMAL}.sample()"), tmp_path)
    assert (cut.kind, cut.fix) == ("detached", "use rsample() in place of sample()")
    with_edit, without = curves(cut)
    assert with_edit[0] == without[0]
    assert with_edit[-1] < without[-1]
    detached = found(VARIATIONAL.format(sample="(m + torch.exp(0.5 * s) * torch.randn_like(s)).detach()"), tmp_path)
    assert (detached.kind, detached.code[:3]) == ("detached", "z =")
    drawn = found(VARIATIONAL.format(sample="torch.normal(m.detach(), torch.exp(0.5 * s).detach())"), tmp_path)
    assert drawn.kind == "detached"
    assert drawn.fix.startswith("use mean + std * torch.randn_like(std) without detach")
    healthy = HEAD + VARIATIONAL.format(sample=f"{NORMAL}.rsample()")
    assert examined(healthy, tmp_path / "train.py").findings == []


GROUPS = """
rates = {"body": 1e-7,
         "head": 1e-6}
body, head = nn.Linear(4, 8), nn.Linear(8, 2)
groups = [{"params": body.parameters(), "lr": rates["body"]}, {"params": head.parameters(), "lr": rates["head"]}]
opt = torch.optim.SGD(groups, lr=0.01, momentum=0.9)
x = torch.randn(64, 4)
for i in range(20):
    opt.zero_grad(); F.cross_entropy(head(torch.relu(body(x))), (x[:, 0] > 0).long()).backward(); opt.step()
"""


def test_a_rate_is_named_where_the_program_has_it(tmp_path: Path) -> None:
    one = found(GROUPS, tmp_path)
    lines = (HEAD + GROUPS).splitlines()
    low, high = (1 + next(n for n, x in enumerate(lines) if text in x) for text in ("1e-7", "1e-6"))
    assert (one.kind, one.line) == ("learning-rate-too-low", high)
    assert f"which replace lr=0.01: 1e-07 (line {low}) to " in one.fix


LOSS = """
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(16, 4); total = 0
for i in range(20):
    h = net(x)
    {loss}
    opt.zero_grad(); {backward}; opt.step()
"""


def test_one_term_of_the_loss_with_the_wrong_sign_is_found(tmp_path: Path) -> None:
    label = "F.cross_entropy(h, (x[:, 0] > 0).long())"
    for term in ("F.mse_loss(h, x)", "0.1 * sum((p ** 2).sum() for p in net.parameters())"):
        text = LOSS.format(loss=f"loss = {label} - {term}", backward="loss.backward()")
        one = found(text, tmp_path)
        assert (one.kind, one.code[:7]) == ("loss-sign", "loss = ")
        assert "is a term of the loss with a minus sign" in one.message
        healthy = HEAD + text.replace(" - ", " + ")
        assert examined(healthy, tmp_path / "healthy.py").findings == []


def test_a_backward_pass_from_the_sum_over_steps_is_told_from_a_hidden_state(tmp_path: Path) -> None:
    text = LOSS.format(loss="total = total + F.mse_loss(h, x)", backward="total.backward(retain_graph=True)")
    one = found(text, tmp_path)
    assert one.kind == "graph-grows"
    assert one.fix.startswith("call backward() on the loss of the step alone")


TIMES = """
pre, net, out = nn.Linear(3, 4), nn.LSTM(4, 4), nn.Linear(4, 2)
opt = torch.optim.Adam([*pre.parameters(), *net.parameters(), *out.parameters()], lr=1e-2)
for i in range(12):
    x = torch.randn(10, 6, 3)
    h, _ = net(pre(x).view(6, 10, 4))
    opt.zero_grad(); F.cross_entropy(out(h[-1]), (x[:, 0, 0] > 0).long()).backward(); opt.step()
"""


def test_a_view_in_place_of_a_transpose_between_two_layers_is_said_to_mix_examples(tmp_path: Path) -> None:
    one = found(TIMES, tmp_path)
    assert (one.kind, one.code) == ("batch-mixing", "h, _ = net(pre(x).view(6, 10, 4))")
    assert one.message.startswith("view on this line mixes examples: the output for example 4 of 10 changes")
    assert one.fix == "permute or transpose the dimensions before view()"


def test_a_parameter_replaced_under_no_grad_is_said_to_be_replaced(tmp_path: Path) -> None:
    text = """
x = torch.randn(8, 3); w = torch.zeros(3, 1, requires_grad=True)
for i in range(3):
    ((x @ w - 1) ** 2).mean().backward()
    with torch.no_grad():
        w = w - 0.1 * w.grad
"""
    one = found(text, tmp_path)
    assert (one.kind, one.code) == ("detached", "w = w - 0.1 * w.grad")
    assert one.fix.startswith("change the parameter in place")


def test_a_transpose_in_place_is_part_of_the_recorded_step(tmp_path: Path) -> None:
    text = """
lstm, out = nn.LSTM(4, 8), nn.Linear(8, 2)
opt = torch.optim.Adam([*lstm.parameters(), *out.parameters()], lr=1e-2)
for i in range(12):
    x = torch.randn(10, 6, 4)
    features = torch.stack([torch.tanh(x[:, t]) for t in range(6)]).transpose_(0, 1)
    h, _ = lstm(features)
    opt.zero_grad(); F.cross_entropy(out(h[:, -1]), (x[:, 0, 0] > 0).long()).backward(); opt.step()
"""
    one = found(text, tmp_path)
    assert (one.kind, one.code) == ("batch-mixing", "h, _ = lstm(features)")
    assert one.fix == "pass batch_first=True, or permute the input to (time, batch, features)"


def test_where_is_no_mask_of_parameters_that_are_nan_already(tmp_path: Path) -> None:
    text = """
model = nn.Linear(4, 3, bias=False)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for i in range(200):
    x = torch.randn(8, 4) * (i != 49)
    y = torch.sqrt(model(x) ** 2)
    z = torch.where(y > 1, y, 0.5 * y)
    opt.zero_grad(); F.cross_entropy(z, torch.arange(8) % 3).backward(); opt.step()
"""
    assert found(text, tmp_path).kind == "nan-birth"


def test_a_relu_whose_units_died_in_the_training_is_found_at_the_learning_rate(tmp_path: Path) -> None:
    text = """
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(256, 6), torch.randint(0, 3, (256,))
y = torch.where(x[:, 0] > 0, 0, torch.where(x[:, 1] > 0, 1, 2))
for i in range(150):
    j = torch.randint(0, 256, (32,))
    loss = F.cross_entropy(net(x[j] + 4), y[j])
    if i == 60:
        loss = loss + 40 * net[0](x[j] + 4).mean()
    opt.zero_grad(); loss.backward(); opt.step()
"""
    one = found(text, tmp_path)
    assert (one.kind, one.code) == ("dead-units", "opt = torch.optim.SGD(net.parameters(), lr=0.1)")
    assert one.message.startswith("all 8 units of the relu of line ")


def test_a_loss_that_swings_and_ends_low_by_chance_is_not_called_as_good_as_the_edited_one() -> None:
    fixed = [1.5 * 0.8**step for step in range(30)]
    for high, end in ((5.0, "As written, it rises up to 5 in the last 10 steps."), (0.002, "does not rest on them.")):
        swings = [1.5, *(high if step % 2 else 0.01 * high for step in range(29))]
        said = proof.sentence(Edit("with it", Changes()), proof.Curves(fixed, swings, ()))
        assert said.endswith(end), said
