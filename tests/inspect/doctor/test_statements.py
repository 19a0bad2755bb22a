"""What the doctor says of a program is true: figures of trials, edits, counts, and no finding without evidence."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import retrograd as rg
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
