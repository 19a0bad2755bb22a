"""What the doctor says of a program is true: figures of trials, edits, counts, and no finding without evidence."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import retrograd as rg
from retrograd.inspect.diagnosing.probes.proof import better, sentence
from retrograd.inspect.diagnosing.probes.replay import Curves, Edit
from retrograd.kernels import by_reference
from tests.inspect.doctor.programs import HEAD
from tests.inspect.doctor.test_kinds import examined

DATA = HEAD + "x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))\n"
NORMALIZED = "nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3), nn.LogSoftmax(dim={}))"


@pytest.fixture(autouse=True)
def generators() -> Iterator[None]:
    state = rg.get_rng_state()
    yield
    rg.set_rng_state(state)


def trained(path: Path, model: str, loss: str, rate: float = 0.1, steps: int = 12) -> "rg.inspect.doctor":
    """Return the doctor of a training of a model, given as text."""
    loop = f"""
model = {model}
optimizer = torch.optim.SGD(model.parameters(), lr={rate})
for _ in range({steps}):
    optimizer.zero_grad()
    loss = {loss}
    loss.backward()
    optimizer.step()
"""
    return examined(DATA + loop, path / "train.py")


def test_batch_normalization_before_a_softmax_does_not_mix_examples(tmp_path: Path) -> None:
    healthy = (tmp_path, NORMALIZED.format(1), "F.nll_loss(model(x), y)")
    assert by_reference(trained, healthy, {}).findings == []  # without compiled loops
    found = trained(tmp_path, NORMALIZED.format(0), "F.nll_loss(model(x), y)").findings
    assert (found[0].kind, found[0].fix) == ("softmax-axis", "pass dim=-1")


def test_probabilities_that_are_nan_do_not_show_a_wrong_dimension(tmp_path: Path) -> None:
    d = trained(tmp_path, NORMALIZED.format(1), "F.nll_loss(model(x), y) + (model[0].weight ** 4).sum()", 1e6)
    assert d.findings
    assert "softmax-axis" not in [x.kind for x in d.findings]


def test_the_loss_as_written_is_the_loss_that_the_program_computes(tmp_path: Path) -> None:
    d = trained(tmp_path, "nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())", BINARY, 0.5)
    said = re.search(r"as written (\S+) -> (\S+)\.", d.findings[0].message)
    assert d.findings[0].kind == "double-sigmoid"
    assert said is not None
    assert float(said[1]) == pytest.approx(d.history[0].loss, rel=1e-3)  # each step has the same batch
    assert float(said[2]) > 0.313  # the least that this loss can be
    curves = d.findings[0].evidence["curves"]
    assert isinstance(curves, dict)
    assert curves["without"][:12] == pytest.approx([x.loss for x in d.history], rel=1e-3)  # type: ignore[index]


BINARY = "F.binary_cross_entropy_with_logits(model(x)[:, 0], (x[:, 0] > 0).float())"


@pytest.mark.parametrize(
    ("prediction", "target", "edit"),
    [
        ("model(x)[:, 0]", "x[:, :1]", "target.squeeze(-1)"),
        ("model(x)", "x[:, 0]", "target.unsqueeze(-1)"),
    ],
)
def test_the_edit_of_a_broadcast_loss_changes_the_shape_that_is_wrong(
    prediction: str, target: str, edit: str, tmp_path: Path
) -> None:
    d = trained(tmp_path, "nn.Linear(4, 1)", f"(({prediction} - {target}) ** 2).mean()", steps=4)
    assert d.findings[0].fix == f"give both one shape: {edit}"


def test_nan_in_the_data_is_named_as_the_cause(tmp_path: Path) -> None:
    spoilt = "F.mse_loss(model(x), x[:, :1].masked_fill(x[:, 1:2] > 1, float('{}')))"
    for what in ("nan", "inf"):
        found = trained(tmp_path, "nn.Linear(4, 1)", spoilt.format(what)).findings[0]
        assert found.kind == "nan-birth"
        assert re.search(r"\d+ of 32 elements of the target of mse_loss are NaN or infinite", found.message)


def test_without_a_training_step_the_report_is_no_clean_bill(tmp_path: Path) -> None:
    assert str(rg.inspect.doctor()) == "doctor: no training step was seen"
    d = rg.inspect.doctor()
    with pytest.raises(ValueError, match="mine"), d:
        raise ValueError("mine")
    assert d.report() == "doctor: no training step was seen; the program ended with ValueError: mine"


def test_one_step_is_watched_to_its_end() -> None:
    x, model = rg.randn(8, 3), rg.nn.Linear(3, 1)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    with rg.inspect.doctor(steps=1) as d:
        for _ in range(3):
            for part in x.split(2):  # several backward passes per step
                ((model(part) - part[:, 0]) ** 2).mean().backward()
            optimizer.step()
    assert (d.steps, d.findings[0].kind) == (1, "broadcast-loss")
    w = rg.randn(3, requires_grad=True)
    with rg.inspect.doctor(steps=4) as d:
        for _ in range(9):
            (gradient,) = rg.autograd.grad(((x @ w - 1) ** 2).mean(), [w])
            with rg.no_grad():
                w -= 0.1 * gradient
    assert (d.steps, [x.loss for x in d.history][0] > d.history[-1].loss) == (4, True)


def test_evaluation_mode_is_counted_in_all_steps(tmp_path: Path) -> None:
    net = "nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))"
    d = trained(tmp_path, net, "F.cross_entropy((model.eval() if _ > 2 else model)(x), y)", steps=10)
    assert "in evaluation mode in 7 of 10 steps" in d.findings[0].message


def test_gradients_that_no_step_uses_are_not_called_accumulated(tmp_path: Path) -> None:
    text = DATA + "model = nn.Linear(4, 3)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text += "for _ in range(24):\n    optimizer.zero_grad()\n    F.cross_entropy(model(x), y).backward()\n"
    d = examined(text, tmp_path / "train.py")
    assert [x.kind for x in d.findings] == ["step-missing"]
    assert "24 backward passes and no step of an optimizer watched" in d.report()


def test_a_pass_of_another_optimizer_is_not_counted_as_one_without_a_step(tmp_path: Path) -> None:
    text = DATA + "model, other = nn.Linear(4, 3), nn.Linear(4, 3)\n"
    text += "a, b = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))\nfor step in range(30):\n"
    text += "    train, opt = (model, a) if step < 10 else (other, b)\n    opt.zero_grad()\n"
    text += "    F.cross_entropy(train(x), y).backward()\n    if step < 10: a.step()\n"
    found = examined(text, tmp_path / "train.py").findings[0]
    assert found.kind == "step-missing"
    assert found.message.startswith("20 backward passes computed gradients for the parameters of SGD")


def test_the_first_loss_in_a_text_is_the_one_that_the_program_prints(tmp_path: Path) -> None:
    d = trained(tmp_path, "nn.Linear(4, 3)", "F.mse_loss(model(x), x[:, :3])", 9.0, 20)
    assert d.findings[0].kind == "learning-rate-too-high"
    assert f"the loss goes from {d.history[0].loss:.4g} to " in d.findings[0].message


def test_the_loss_of_an_actor_is_not_that_of_its_critic(tmp_path: Path) -> None:
    text = (
        DATA
        + """
actor, critic = nn.Linear(4, 2), nn.Linear(6, 1)
c, a = (torch.optim.Adam(m.parameters(), lr=0.01) for m in (critic, actor))
for step in range(20):
    s = torch.randn(32, 4)
    u = actor(s)
    reward = -50 + (u * s[:, :2]).sum(1, keepdim=True).detach()
    c.zero_grad()
    F.mse_loss(critic(torch.cat([s, u.detach()], 1)), reward).backward()
    c.step()
    a.zero_grad()
    value = critic(torch.cat([s, actor(s)], 1)).mean()
    value.backward()
    a.step()
"""
    )
    found = examined(text, tmp_path / "train.py").findings[0]
    said = re.search(r"the loss went from (\S+) to", found.message)
    assert found.kind == "loss-sign" and said is not None
    assert abs(float(said[1])) < 5  # that of the critic is about 2500


def test_labels_that_are_places_in_the_batch_are_not_called_unrelated(tmp_path: Path) -> None:
    text = DATA + "a, b = nn.Linear(4, 3), nn.Linear(4, 3)\n"
    text += "optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=1e-3)\nfor step in range(30):\n"
    text += "    x, z = torch.randn(64, 4), torch.randn(64, 4)\n    optimizer.zero_grad()\n"
    text += "    F.cross_entropy(a(x) @ b(z).t(), torch.arange({}64)).backward()\n    optimizer.step()\n"
    assert "labels-unrelated" not in [x.kind for x in examined(text.format(""), tmp_path / "a.py").findings]
    text = text.replace("torch.arange({}64)", "torch.randint(0, 3, (64,))").replace("a(x) @ b(z).t()", "a(x)")
    (found,) = examined(text, tmp_path / "b.py").findings
    assert found.kind == "labels-unrelated"
    assert "memorized" not in found.message  # the loss of a copy that trains on one batch hardly falls


def test_words_that_repeat_inside_of_an_example_are_no_sorted_batch(tmp_path: Path) -> None:
    text = DATA + "model = nn.Embedding(20, 20)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text += "for step in range(20):\n    {}\n    words = first[:, None].expand(8, 6)\n    optimizer.zero_grad()\n"
    text += "    F.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()\n    optimizer.step()\n"
    mixed = examined(text.format("first = torch.randint(0, 20, (8,))"), tmp_path / "mixed.py")
    assert mixed.findings == []
    runs = examined(text.format("first = torch.full((8,), step)"), tmp_path / "sorted.py")
    assert [x.kind for x in runs.findings][:1] == ["unshuffled-data"]


def test_parameters_that_become_nan_are_not_called_a_loss_that_is_nan(tmp_path: Path) -> None:
    text = DATA + "model = nn.Linear(4, 3)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text += "for step in range(2):\n    optimizer.zero_grad()\n    out = model(x)\n    loss = F.cross_entropy(out, y)\n"
    text += "    if step: loss = loss + (out - out).sum().sqrt()\n    loss.backward()\n    optimizer.step()\n"
    found = examined(text, tmp_path / "train.py").findings[0]
    assert found.kind == "nan-birth"
    assert found.message.startswith("parameters become NaN: ")
    assert "of line 16 is the first recorded call that passes on a gradient with a NaN" in found.message


def test_an_edit_that_only_starts_higher_is_not_better() -> None:
    assert better(Curves([10.0, 2.0], [10.0, 8.0]))
    assert not better(Curves([1000.0, 200.0], [100.0, 4.0]))


def test_layers_in_a_list_are_named_by_their_class(tmp_path: Path) -> None:
    text = (
        DATA
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = [nn.Linear(4, 4)], nn.Linear(4, 3)
    def forward(self, x):
        return self.head(self.layers[0](x))
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
    )
    found = examined(text, tmp_path / "train.py").findings
    assert [x.kind for x in found] == ["modules-not-registered", "parameters-not-optimized"]
    assert found[1].message.startswith("Net.Linear.weight, Net.Linear.bias get a gradient in each step")


def test_an_optimizer_of_other_parameters_changes_nothing_in_the_curve_as_written(tmp_path: Path) -> None:
    text = DATA + "model = nn.Linear(4, 3)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
    text += (
        "optimizer.zero_grad()\nF.cross_entropy(model(x), y).backward()\noptimizer.step()\nmodel = nn.Linear(4, 3)\n"
    )
    text += "for step in range(9):\n    optimizer.zero_grad()\n    F.cross_entropy(model(x), y).backward()\n"
    text += "    optimizer.step()\n"
    found = examined(text, tmp_path / "train.py").findings[0]
    assert found.kind == "reused-optimizer-of-old-model"
    curves = found.evidence["curves"]
    assert isinstance(curves, dict)
    assert len(set(curves["without"])) == 1 and curves["with"][-1] < curves["with"][0]  # type: ignore[arg-type, index]


def test_a_dead_relu_at_the_output_is_to_be_removed(tmp_path: Path) -> None:
    net = "nn.Sequential(nn.Linear(4, 1), nn.ReLU())"
    d = trained(tmp_path, net, "F.mse_loss(model(x - 90), -1 - x[:, :1] ** 2)", 1e-3, 20)
    (found,) = [x for x in d.findings if x.kind == "dead-units"]
    assert found.fix.startswith("remove this relu")


def test_one_softmax_is_one_finding(tmp_path: Path) -> None:
    d = trained(tmp_path, "nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.LogSoftmax(dim=0))", NLL)
    assert [x.kind for x in d.findings] == ["softmax-axis"]


NLL = "F.nll_loss(model(x), y)"


def test_arguments_of_a_wrong_type_are_errors() -> None:
    model = rg.nn.Linear(3, 1)
    for wrong in ((3,), (model, model), (None, [3])):
        with pytest.raises(TypeError, match=r"doctor: (model|optimizer) must be"):
            rg.inspect.doctor(*wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="diagnose: step must be a function"):
        rg.inspect.diagnose(3)  # type: ignore[arg-type]
    for settings in ({"steps": 0}, {"seconds": -1.0}):
        with pytest.raises(ValueError, match="must be positive"):
            rg.inspect.diagnose(lambda: None, **settings)  # type: ignore[arg-type]


def test_an_edit_for_a_value_that_goes_through_numpy_does_not_ask_to_remove_detach(tmp_path: Path) -> None:
    text = """
enc, dec = nn.Linear(4, 8), nn.Linear(8, 3)
optimizer = torch.optim.SGD([*enc.parameters(), *dec.parameters()], lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    code = enc(x).detach().numpy()
    loss = F.cross_entropy(dec(torch.from_numpy(np.sign(code) * np.log1p(abs(code)))), y)
    loss.backward()
    optimizer.step()
"""
    found = examined(DATA + text, tmp_path / "train.py").findings[0]
    assert found.kind == "detached"
    assert "numpy() cuts the graph with and without detach()" in found.fix
    assert "curves" not in found.evidence


def test_a_mask_over_nan_targets_is_told_from_one_over_infinite_values(tmp_path: Path) -> None:
    text = """
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
target = torch.randn(32, 2)
target[::3, 0] = float("nan")
for _ in range(12):
    error = (model(x) - target) ** 2
    loss = torch.where(torch.isnan(target), torch.zeros_like(error), error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    found = examined(DATA + text, tmp_path / "train.py").findings[0]
    assert found.kind == "masked-after-loss"
    assert "0 times NaN is NaN" in found.message
    assert "infinit" not in found.message + found.fix


def test_a_trial_clips_gradients_as_the_program_does(tmp_path: Path) -> None:
    text = """
model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model.eval()
for _ in range(30):
    inputs = torch.randn(32, 4) * torch.tensor([30.0, 0.02, 80.0, 1.0]) + 50.0
    loss = F.mse_loss(model(inputs), inputs[:, :1] / 30 - 1.7)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
    for clips in (True, False):
        lines = [one for one in text.splitlines() if clips or "clip" not in one]
        d = examined(DATA + "\n".join(lines), tmp_path / f"train_{clips}.py")
        found = next(one for one in d.findings if one.kind == "eval-mode")
        assert ("nan" in found.message) is not clips, found.message


def test_a_finding_names_the_line_of_one_of_two_optimizers(tmp_path: Path) -> None:
    text = """
a, b = nn.Linear(4, 3), nn.Linear(4, 3)
first = torch.optim.SGD(a.parameters(), lr=0.1)
second = torch.optim.SGD(b.parameters(), lr=0.1)
for _ in range(12):
    first.zero_grad(); F.cross_entropy(a(x), y).backward(); first.step()
    F.cross_entropy(b(x), y).backward(); second.step()
"""
    found = examined(DATA + text, tmp_path / "train.py").findings[0]
    assert found.kind == "gradients-not-zeroed"
    assert re.search(r"SGD of line \d+", found.message)


def test_an_evaluation_that_switches_back_to_training_mode_is_counted_by_layer(tmp_path: Path) -> None:
    text = """
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Dropout(0.1), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(12):
    model.train()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 4 == 3:
        model.eval()
        with torch.no_grad():
            for part in x.split(8):
                model.train()
                model(part)
"""
    found = examined(DATA + text, tmp_path / "train.py").findings[0]
    assert found.kind == "train-mode-in-evaluation"
    assert "BatchNorm1d ran 12 times" in found.message
    assert (found.code, found.fix[:22]) == ("model.train()", "remove model.train(): ")


def test_an_activation_before_a_loss_written_by_hand_is_seen(tmp_path: Path) -> None:
    policy, loss = "nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1))", "-torch.distributions.Categorical({}=model(x))"
    found = trained(tmp_path, policy, loss.format("logits") + ".log_prob(y).mean()").findings
    assert trained(tmp_path, policy, loss.format("probs") + ".log_prob(y).mean()").findings == []
    assert found[0].kind == "double-softmax"
    assert "Categorical(logits=...) applies softmax again" in found[0].message
    model = "nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())"
    focal = "\nt = (x[:, :1] > 0).float()\ndef focal(p): return -(p * t + (1 - p) * (1 - t)).log().mean()"
    assert trained(tmp_path, model + focal, "focal(model(x))").findings == []
    assert trained(tmp_path, model + focal, "focal(model(x).sigmoid())").findings[0].kind == "double-sigmoid"


def test_a_score_that_is_minimized_is_told_from_one_that_is_maximized(tmp_path: Path) -> None:
    score = """
def concordance(p, t):
    covariance = ((p - p.mean()) * (t - t.mean())).mean()
    return 2 * covariance / (p.var() + t.var() + (p.mean() - t.mean()) ** 2)
"""
    data = (tmp_path, "nn.Linear(4, 1)" + score)
    assert trained(*data, "1 - concordance(model(x), x[:, :1])", 0.5, 30).findings == []
    found = trained(*data, "concordance(model(x), x[:, :1])", 0.5, 30).findings[0]
    assert found.kind == "loss-sign"
    assert "(0.9688 with the targets as predictions" in found.message


@pytest.mark.parametrize(
    "loss",
    [
        "F.cosine_embedding_loss(model(x), model(x + 1), {}[:, 0])",
        "F.hinge_embedding_loss(model(x), {})",
        "F.margin_ranking_loss(model(x), model(x + 1), {}, margin=0.5)",
        "F.soft_margin_loss(model(x), {})",
    ],
)
def test_targets_of_0_and_1_do_not_fit_a_loss_of_signs(loss: str, tmp_path: Path) -> None:
    signs = "x.sign()"
    assert "target-mismatch" not in [x.kind for x in trained(tmp_path, "nn.Linear(4, 4)", loss.format(signs)).findings]
    found = trained(tmp_path, "nn.Linear(4, 4)", loss.format("(x > 0).float()"), steps=4).findings[0]
    assert (found.kind, found.fix) == ("target-mismatch", "pass 2 * target - 1")
    assert re.search(r"gets 0 for \d\d% of the examples", found.message)


def test_the_line_of_data_is_not_that_of_memory_used_before(tmp_path: Path) -> None:
    program = """
def load():
    noise = [torch.rand(64) + n for n in range(200)]  # as large as a batch
    high = 5e3 * torch.rand(320) + noise[0][0]
    parts = [torch.randn(320) for _ in range(3)]
    return torch.stack([high, *parts], dim=1), parts[0] + parts[1]  # here
x, y = load()
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(x, y)
for a, b in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
    optimizer.zero_grad()
    F.mse_loss(model(a)[:, 0], b).backward()
    optimizer.step()
"""
    text = HEAD + program
    found = examined(text, tmp_path / "train.py").findings[0]
    line = next(n for n, x in enumerate(text.splitlines(), start=1) if x.endswith("# here"))
    assert (found.kind, found.line) == ("unnormalized-input", line)


def test_inputs_that_come_again_with_other_labels_are_seen(tmp_path: Path) -> None:
    program = (
        HEAD
        + """
kinds = torch.randint(0, 3, (96,))
rows = [torch.randint(4 * int(k), 4 * int(k) + 4, (4 + i % 7,)) for i, k in enumerate(kinds)]
def collate(batch):
    labels = torch.stack([y for _, y in batch])
    batch = sorted(batch, key=lambda one: len(one[0]))  # here
    # labels = torch.stack([y for _, y in batch])
    return nn.utils.rnn.pad_sequence([x for x, _ in batch], batch_first=True), labels
loader = torch.utils.data.DataLoader(list(zip(rows, kinds)), batch_size=24, shuffle=True, collate_fn=collate)
table, head = nn.Embedding(12, 8), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*table.parameters(), *head.parameters()], lr=0.01)
for _ in range(6):
    for a, b in loader:
        optimizer.zero_grad()
        F.cross_entropy(head(table(a).mean(1)), b).backward()
        optimizer.step()
"""
    )
    found = examined(program, tmp_path / "train.py").findings[0]
    line = next(n for n, x in enumerate(program.splitlines(), start=1) if x.endswith("# here"))
    assert (found.kind, found.line) == ("labels-unrelated", line)
    assert examined(program.replace("# labels", "labels"), tmp_path / "train.py").findings == []


def test_losses_are_compared_after_equally_many_steps():
    curves = Curves([4.0, 1.0, 0.5], [4.0, 8.0, 64.0, 1e9]).compared()  # the steps for trials ended with the edit
    assert sentence(Edit("with lr=0.1"), curves).endswith("with lr=0.1 4 -> 0.5, as written 4 -> 64.")
    exploded = Curves([4.0, 1.0, 0.5], [4.0, math.inf]).compared()
    assert sentence(Edit("with lr=0.1"), exploded).endswith("as written 4 -> inf after 1 step.")
