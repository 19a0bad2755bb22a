"""``onnx.export``: onnxruntime computes what the model computes, also for other lengths; what cannot be is named."""

import io

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.func.nests import flatten
from retrograd.models import BERT, CNN, GPT2, MLP, CharTransformer, Llama, NamesLSTM
from retrograd.nn import functional as F

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        self.down = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.down(x))


class ResNet(nn.Module):
    """ResNet in small: a stem, blocks with strides, pooling over all places."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        self.layers = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc(rg.flatten(self.pool(self.layers(self.stem(x))), 1))


def tokens(*shape):
    return rg.randint(0, 20, shape)


TEXT = {0: "batch", 1: "length"}
BATCH = {0: "batch"}
# A model, arguments, the axes that change, arguments with other lengths.
MODELS = {
    "MLP": (lambda: MLP([784, 16, 10], flatten=True), (rg.randn(3, 1, 28, 28),), {"input": BATCH},
            (rg.randn(7, 1, 28, 28),)),
    "CNN": (CNN, (rg.randn(2, 1, 28, 28),), {"images": BATCH}, (rg.randn(5, 1, 28, 28),)),
    "CharTransformer": (lambda: CharTransformer(20, 16, 2, 2, 16), (tokens(2, 5),), {"characters": TEXT},
                        (tokens(3, 7),)),
    "NamesLSTM": (lambda: NamesLSTM(20), (tokens(2, 5),), {"characters": TEXT}, (tokens(3, 7),)),
    "GPT2": (lambda: GPT2(20, 16, 2, 2, 16), (tokens(2, 5),), {"tokens": TEXT}, (tokens(3, 7),)),
    "Llama": (lambda: Llama(20, 16, 2, 4, 16, 2, 24), (tokens(2, 5),), {"tokens": TEXT}, (tokens(3, 7),)),
    "BERT": (lambda: BERT(20, 16, 2, 2, 16), (tokens(2, 5), rg.tensor([[1, 1, 1, 0, 0], [1] * 5])),
             {"tokens": TEXT, "attention_mask": TEXT}, (tokens(3, 7), rg.ones(3, 7, dtype=rg.int64))),
    "ResNet": (ResNet, (rg.randn(2, 3, 64, 64),), {"x": {0: "batch", 2: "height", 3: "width"}},
               (rg.randn(3, 3, 96, 80),)),
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), (rg.randn(2, 5, 3),), {"input": TEXT},
             (rg.randn(3, 6, 3),)),
    "GRU": (lambda: nn.GRU(3, 4, 2, bidirectional=True, batch_first=True), (rg.randn(2, 5, 3),), {"input": TEXT},
            (rg.randn(3, 6, 3),)),
    "RNN": (lambda: nn.RNN(3, 4, nonlinearity="relu"), (rg.randn(5, 2, 3), rg.randn(1, 2, 4)), None,
            (rg.randn(5, 2, 3), rg.randn(1, 2, 4))),
    "Transformer": (lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
                    (rg.randn(2, 5, 16), rg.randn(2, 4, 16)), {"src": {0: "b", 1: "s"}, "tgt": {0: "b", 1: "t"}},
                    (rg.randn(3, 6, 16), rg.randn(3, 8, 16))),
}  # fmt: skip


def exported(model, args, **options):
    stream = io.BytesIO()
    rg.onnx.export(model, args, stream, **options)
    return stream.getvalue()


def run(content, args):
    session = ort.InferenceSession(content, providers=["CPUExecutionProvider"])
    given = [x for x in flatten(args)[0] if isinstance(x, rg.Tensor)]
    return session.run(None, {value.name: x.numpy() for value, x in zip(session.get_inputs(), given)})


@pytest.mark.every(2)
@pytest.mark.parametrize("opset", [17, *[pytest.param(opset, marks=pytest.mark.slow) for opset in (14, 18, 20)]])
@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_computes_what_the_model_computes(name, opset):
    rg.manual_seed(0)
    make, args, axes, longer = MODELS[name]
    model = make()
    for part in model.modules():  # statistics that are not those of a new layer
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.copy_(rg.randn(part.num_features))
            part.running_var.copy_(rg.rand(part.num_features) + 0.5)
    content = exported(model, args, dynamic_axes=axes, opset_version=opset)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    assert model.training
    model.eval()
    for given in (args, longer):
        with rg.no_grad():
            wanted = [x for x in flatten(model(*given))[0] if x is not None]
        for found, expected in zip(run(content, given), wanted, strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_a_file_comes_back_as_the_same_module(tmp_path):
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2))
    path = tmp_path / "model.onnx"
    rg.onnx.export(model, rg.ones(1, 3), path, input_names=["x"], output_names=["y"], dynamic_axes={"x": [0]})
    again = rg.onnx.load(path)
    x = rg.randn(5, 3)
    assert rg.allclose(again(x), model(x), atol=1e-6)
    assert sorted(again.state_dict()) == sorted(model.state_dict())
    assert again.input_names == ["x"] and again.output_names == ["y"]


def test_names_of_nested_inputs_are_their_paths_and_axes_keep_their_names():
    lstm = nn.LSTM(3, 4)
    proto = onnx.load_from_string(exported(lstm, (rg.randn(5, 2, 3), (rg.randn(1, 2, 4), rg.randn(1, 2, 4)))))
    assert [value.name for value in proto.graph.input] == ["input", "hx[0]", "hx[1]"]
    proto = onnx.load_from_string(exported(nn.Linear(3, 2), rg.ones(4, 3), dynamic_axes={"input": {0: "batch"}}))
    assert [axis.dim_param for axis in proto.graph.output[0].type.tensor_type.shape.dim] == ["batch", ""]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, -1] + x[:, 1:3].sum(1, keepdim=True),
        lambda x: x[..., None, ::2].flip(0),
        lambda x: x[rg.tensor([1, 0])],
        lambda x: rg.where(x > 0.5, x, -x).clamp(-1, 0.7),
        lambda x: (F.glu(x), F.hinge_embedding_loss(x, rg.tensor([[1], [-1], [0]]))),
        lambda x: (x.max(1).values, x.argmin(0), x.std(), x.var(1, unbiased=False)),
        lambda x: F.interpolate(x[:, None, None], scale_factor=(1, 2.0), mode="bilinear", align_corners=False),
        lambda x: (
            F.pad(x, (1, 2), value=0.5).unfold(0, 1, 1) if False else F.pad(x, (1, 2), mode="constant", value=0.5)
        ),
        lambda x: rg.cat([x.T.reshape(-1), x.new_zeros(2), rg.arange(3)]),
        lambda x: rg.einsum("ij,kj->ik", x, x).softmax(-1).cumsum(1),
        lambda x: F.group_norm(x[:, :, None], 2) @ rg.ones(1, 3),
        lambda x: (x % 0.3, x // 0.3, x.round(), x.to(rg.int64) * 2, rg.log1p(x.abs())),
        lambda x: F.conv_transpose1d(x[None], rg.ones(3, 2, 3), stride=2, padding=1, output_padding=1),
        lambda x: F.avg_pool1d(x[None], 3, 2, 1, ceil_mode=False, count_include_pad=False),
        lambda x: rg.nn.functional.cross_entropy(x, rg.tensor([0, 1, 2])),
    ],
)
def test_expressions_are_written(function):
    x = rg.randn(3, 4)
    wanted = flatten(function(x))[0]
    for found, expected in zip(run(exported(function, x), x), wanted, strict=True):
        np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-5)


def test_writes_in_place_are_followed():
    def function(x):
        y = x * 1
        y += 3
        y.mul_(x)
        return F.relu_(y)

    x = rg.randn(2, 3)
    np.testing.assert_allclose(run(exported(function, x), x)[0], function(x).numpy(), atol=1e-6)


def test_shapes_changed_in_place_are_followed():
    def function(x):
        y = (x * 2).transpose_(0, 1)
        y.unsqueeze_(0)
        z = x.cumsum(0)
        return y * x.shape[1], z.t_() + y

    x = rg.randn(2, 3)
    for found, expected in zip(run(exported(function, x), x), function(x), strict=True):
        np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


def rows(x):
    return sum(x[i] for i in range(len(x)))


def through_a_view(x):
    y = x * 1
    y[0].mul_(2)
    return y


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (lambda x: rg.linalg.svd(x)[1], {}, RuntimeError, "export: linalg.svd cannot be written as ONNX"),
        (lambda x: x[x > 0], {}, RuntimeError, "__getitem__ cannot be written as ONNX: boolean masks"),
        (lambda x: x.sort().values, {}, RuntimeError, "export: sort cannot be written"),
        (lambda x: x + rg.randn(3), {}, RuntimeError, "export: randn draws random numbers"),
        (through_a_view, {}, RuntimeError, "something else than the model"),
        (
            rows,
            {"dynamic_axes": {"x": {0: "n"}}},
            RuntimeError,
            "makes other operator calls when the axis 'n' is longer",
        ),
        (lambda x: x.numpy(), {}, TypeError, "must return only Tensors, got ndarray"),
        (lambda x: x, {"opset_version": 9}, ValueError, "opset_version must be between 14"),
        (lambda x: x, {"input_names": ["a", "b"]}, ValueError, "1 distinct names"),
        (lambda x: x, {"output_names": ["x"]}, ValueError, "unlike the inputs'"),
        (lambda x: x, {"dynamic_axes": {"z": [0]}}, ValueError, "must be among x, output, got 'z'"),
        (
            lambda x: x,
            {"dynamic_axes": {"x": {5: "n"}}},
            ValueError,
            r"'x' in dynamic_axes must be in range\(2\), got 5",
        ),
        (lambda x: x, {"example": 1}, TypeError, "unexpected argument 'example'"),
        (3, {}, TypeError, "model must be a Module or a function"),
    ],
)
@pytest.mark.filterwarnings("ignore:onnx.export")
def test_what_cannot_be_written_is_named_and_leaves_no_file(tmp_path, function, options, error, message):
    path = tmp_path / "model.onnx"
    with pytest.raises(error, match=message):
        rg.onnx.export(function, rg.randn(2, 3), path, **options)
    assert list(tmp_path.iterdir()) == []


def test_reading_a_value_is_warned_of():
    with pytest.warns(UserWarning, match="reads values of a Tensor by item"):
        exported(lambda x: x * 2 if x.sum().item() > 0 else x, rg.ones(2))


def test_parts_of_a_model_stay_in_their_modes():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout())
    model[1].eval()
    exported(model, rg.ones(1, 3))
    assert model.training and model[0].training and not model[1].training
