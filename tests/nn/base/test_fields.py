"""Modules declared by their fields: signatures, attributes, printing, copies, and classes derived from them."""

import copy
import dataclasses
import inspect
import pickle
import traceback

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn import functional as F
from tests.helpers.together import in_one_test

DECLARED = sorted(name for name, cls in vars(nn).items() if inspect.isclass(cls) and getattr(cls, "_settings", ()))
REQUIRED = {
    "threshold": 0.5,
    "value": 2.0,
    "padding": 1,
    "kernel_size": 2,
    "norm_type": 2.0,
    "output_size": 3,
    "upscale_factor": 2,
    "downscale_factor": 2,
    "groups": 2,
    "size": 2,
    "dim": 1,
    "unflattened_size": (2, 3),
}
OTHER = {bool: True, int: 2, float: 0.75, str: "sum"}


def arguments(cls):
    given = inspect.signature(cls).parameters.values()
    return {parameter.name: REQUIRED[parameter.name] for parameter in given if parameter.default is parameter.empty}


def test_declared_modules_are_found():
    assert len(DECLARED) > 60
    assert {"ReLU", "HuberLoss", "MaxPool2d", "ReflectionPad3d", "Dropout", "Fold"} <= set(DECLARED)


@in_one_test("name", DECLARED)
def test_repr_and_attributes_follow_every_argument(name):
    torch = pytest.importorskip("torch")
    ours, theirs = getattr(nn, name), getattr(torch.nn, name)
    required = arguments(ours)
    for parameter in inspect.signature(theirs).parameters.values():
        if parameter.name in ("kwargs", "args", "min_value", "max_value", "size_average", "reduce"):
            continue
        value = True if parameter.name == "inplace" else OTHER.get(type(parameter.default), 2)
        if parameter.name in ("weight", "pos_weight", "distance_function"):
            value = None
        if parameter.name in required:
            value = required[parameter.name]
        one, two = ours(**{**required, parameter.name: value}), theirs(**{**required, parameter.name: value})
        assert repr(one) == repr(two)
        if hasattr(two, parameter.name):
            assert getattr(one, parameter.name) == getattr(two, parameter.name) or parameter.name == "distance_function"


@in_one_test("name", DECLARED)
def test_copies_and_pickles(name):
    cls = getattr(nn, name)
    module = cls(**arguments(cls))
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert type(other) is cls
        assert repr(other) == repr(module)
        assert {key: value for key, value in vars(other).items() if key in cls._settings} == {
            key: value for key, value in vars(module).items() if key in cls._settings
        }


def test_an_attribute_that_is_changed_counts():
    x = rg.tensor([-1.0, 2.0])
    module = nn.LeakyReLU(0.5)
    assert module(x).tolist() == [-0.5, 2.0]
    module.negative_slope = 0.25
    assert module(x).tolist() == [-0.25, 2.0]
    assert repr(module) == "LeakyReLU(negative_slope=0.25)"
    loss = nn.HuberLoss()
    loss.reduction = "none"
    assert loss(x, x).shape == (2,)


def test_a_wrong_argument_is_named_with_its_class():
    with pytest.raises(TypeError, match=r"Softplus.__init__\(\) got an unexpected keyword argument 'gamma'"):
        nn.Softplus(gamma=1.0)
    with pytest.raises(TypeError, match=r"Threshold.__init__\(\) missing 1 required positional argument: 'value'"):
        nn.Threshold(1.0)
    with pytest.raises(TypeError, match="positional argument"):
        nn.GaussianNLLLoss(True)


def test_a_module_is_no_dataclass():
    @dataclasses.dataclass
    class Settings:
        activation: nn.Module = dataclasses.field(default_factory=nn.ReLU)

    assert not dataclasses.is_dataclass(nn.ReLU)
    assert isinstance(dataclasses.asdict(Settings())["activation"], nn.ReLU)


def test_signatures_are_real():
    assert str(inspect.signature(nn.Softplus)) == "(beta: 'float' = 1.0, threshold: 'float' = 20.0) -> None"
    assert list(inspect.signature(nn.CosineEmbeddingLoss.forward).parameters) == ["self", "input1", "input2", "target"]
    assert nn.MSELoss.forward.__qualname__ == "MSELoss.forward"
    assert nn.MSELoss.forward.__module__ == nn.MSELoss.__module__


def test_a_class_derived_by_a_user():
    class Focal(nn.CrossEntropyLoss):
        gamma: float  # a mere annotation is no field

        def __init__(self, weight=None, gamma=2.0):
            super().__init__(weight, reduction="none")
            self.gamma = gamma

        def forward(self, input, target):
            loss = super().forward(input, target)
            return ((1 - rg.exp(-loss)) ** self.gamma * loss).mean()

    class Quiet(nn.ReLU):
        level: int = 3

    x, y = rg.tensor([[2.0, 1.0], [0.0, 1.0]]), rg.tensor([0, 1])
    plain = F.cross_entropy(x, y, reduction="none")
    assert Focal()(x, y).item() == pytest.approx(((1 - rg.exp(-plain)) ** 2 * plain).mean().item())
    assert list(Focal(rg.ones(2)).state_dict()) == ["weight"]
    assert list(inspect.signature(Quiet).parameters) == ["inplace"]
    assert repr(Quiet(inplace=True)) == "Quiet(inplace=True)"
    assert nn.MaxUnpool1d in type("Mine", (nn.MaxUnpool1d,), {})(2).__class__.__mro__


def test_a_field_of_a_tensor_is_a_buffer():
    weight = nn.Parameter(rg.ones(2))
    loss = nn.CrossEntropyLoss(weight)
    assert [name for name, _ in loss.named_buffers()] == ["weight"]
    assert not list(loss.parameters())
    assert loss.double().weight.dtype == rg.float64
    assert not hasattr(nn.CrossEntropyLoss, "weight")
    with pytest.raises(TypeError, match="cannot assign list to buffer 'weight'"):
        nn.NLLLoss([1.0, 2.0])


def test_deprecated_bounds_of_hardtanh():
    with pytest.warns(FutureWarning, match="min_value is deprecated") as record:
        module = nn.Hardtanh(min_value=-2.0)
    assert record[0].filename == __file__
    assert module.min_val == -2.0
    with pytest.raises(ValueError, match="ReLU6|Hardtanh"):
        nn.Hardtanh(1.0, 1.0)


def test_a_generated_forward_stands_in_the_package():
    try:
        nn.ReLU()("text")
    except TypeError as error:
        files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert any(file.endswith("fields.py") for file in files)
    assert "<string>" not in files
