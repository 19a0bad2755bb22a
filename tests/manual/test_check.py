"""check_layer must find what is wrong, and say where."""

import copy

import numpy as np
import pytest

from retrograd import manual
from tests.manual.test_layers import LAYERS, normal


class Spoiled:
    """A layer one of whose gradients is off by a factor; the name "x" stands for the input's."""

    training = True

    def __init__(self, layer, name, factor=1.001):
        self.layer, self.name, self.factor = layer, name, factor

    def __repr__(self):
        return f"Spoiled({self.layer!r}, {self.name})"

    @property
    def parameters(self):
        return self.layer.parameters

    @property
    def gradients(self):
        return self.layer.gradients

    def forward(self, *arguments):
        return self.layer.forward(*arguments)

    def backward(self, dout):
        dx = self.layer.backward(dout)
        if self.name != "x":
            self.gradients[self.name] *= self.factor
            return dx
        return dx * self.factor


SPOILED = [
    (case, name)
    for case, (make, x) in LAYERS.items()
    for name in [*make().parameters, "x"]
    if name != "x" or x.dtype.kind == "f"
]


@pytest.mark.every(2)
@pytest.mark.parametrize(("case", "name"), SPOILED)
@pytest.mark.parametrize("factor", [1.001, np.nan])
def test_a_wrong_gradient_fails_and_only_it(case, name, factor):
    make, x = LAYERS[case]
    report = manual.check_layer(Spoiled(make(), name, factor), x, quiet=True)
    assert not report.passed
    assert [check.name for check in report.checks if not check.passed] == [name]


@pytest.mark.parametrize(
    ("loss", "x", "target"),
    [
        (manual.CrossEntropyLoss(), normal(4, 3), np.array([0, 1, 2, 0])),
        (manual.MSELoss(), normal(4, 3), normal(3, 4).T),
    ],
)
def test_a_wrong_loss_gradient_fails(loss, x, target):
    assert not manual.check_layer(Spoiled(loss, "x"), x, target, quiet=True).passed


def test_report_is_printed_and_quiet_is_quiet(capsys):
    report = manual.check_layer(manual.Linear(2, 3, dtype=np.float64, rng=0), normal(4, 2))
    assert capsys.readouterr().out == f"{report}\n"
    assert [check.name for check in report.checks] == ["weight", "bias", "x"]
    manual.check_layer(manual.Tanh(), normal(4, 2), quiet=True)
    assert capsys.readouterr().out == ""
    spoiled = manual.check_layer(Spoiled(manual.Tanh(), "x"), normal(4, 2))
    assert "FAILED" in str(spoiled) and "FAILED" not in str(report)


def test_the_layer_is_left_as_it_was():
    layer = manual.Net(manual.BatchNorm1d(3, dtype=np.float64), manual.Dropout(0.5, rng=0))
    before = copy.deepcopy(layer)
    x = normal(4, 3)
    manual.check_layer(layer, x, quiet=True)
    np.testing.assert_array_equal(x, normal(4, 3))
    np.testing.assert_array_equal(layer.layers[0].running_mean, before.layers[0].running_mean)
    np.testing.assert_array_equal(layer.forward(x), before.forward(x))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(TypeError, match="float64.*weight.*float32"):
        manual.check_layer(manual.Linear(2, 3), normal(4, 2))
    with pytest.raises(TypeError, match="x has float32"):
        manual.check_layer(manual.Tanh(), normal(4, 2).astype(np.float32))
    with pytest.raises(ValueError, match="empty"):
        manual.check_layer(manual.Tanh(), np.empty((0, 2)))

    forgetful = manual.Linear(2, 3, dtype=np.float64, rng=0)
    del forgetful.gradients["bias"]
    with pytest.raises(ValueError, match="bias.*no gradient"):
        manual.check_layer(forgetful, normal(4, 2))

    class Flat(manual.Tanh):
        def backward(self, dout):
            return super().backward(dout).reshape(-1)

    with pytest.raises(ValueError, match=r"\(4, 2\).*\(8,\)"):
        manual.check_layer(Flat(), normal(4, 2))

    class Blind(manual.Tanh):
        def backward(self, dout):
            return None

    with pytest.raises(ValueError, match="neither"):
        manual.check_layer(Blind(), normal(4, 2))


def test_a_layer_without_a_text_of_its_own_is_named_by_its_class(capsys):
    class Doubling:
        parameters: dict[str, np.ndarray] = {}
        gradients: dict[str, np.ndarray] = {}

        def forward(self, x):
            return 2 * x

        def backward(self, dout):
            return 2 * dout

    assert manual.check_layer(Doubling(), np.ones(3)).passed
    assert capsys.readouterr().out.startswith("Doubling\n")
