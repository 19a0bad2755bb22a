"""Every module beside PyTorch's: constructor, attributes, printing, state, outputs and gradients."""

from __future__ import annotations

import copy
import inspect
import zlib
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.together import in_one_test

torch = pytest.importorskip("torch")


class Case(NamedTuple):
    module: str  # an expression in nn
    inputs: str  # an expression that gives a tuple of arrays, in the functions of `draws`


CASES = [
    # linear
    Case("Identity()", "normal(2, 3)"),
    Case("Identity(54, unused=True)", "normal(2, 3)"),
    Case("Linear(3, 4)", "normal(5, 3)"),
    Case("Linear(3, 4, bias=False)", "normal(2, 5, 3)"),
    Case("Linear(3, 4)", "normal(3)"),
    Case("Bilinear(3, 4, 2)", "normal(5, 3), normal(5, 4)"),
    Case("Bilinear(3, 4, 2, bias=False)", "normal(2, 5, 3), normal(2, 5, 4)"),
    Case("Flatten()", "normal(2, 3, 4)"),
    Case("Flatten(0, 1)", "normal(2, 3, 4)"),
    Case("Unflatten(1, (2, 3))", "normal(4, 6)"),
    # convolution
    Case("Conv1d(4, 6, 3)", "normal(2, 4, 9)"),
    Case("Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2, bias=False)", "normal(2, 4, 9)"),
    Case("Conv1d(4, 6, 4, padding='same', padding_mode='circular')", "normal(2, 4, 9)"),
    Case("Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0))", "normal(2, 4, 7, 6)"),
    Case("Conv2d(4, 6, 3, padding='same', groups=2)", "normal(2, 4, 7, 6)"),
    Case("Conv2d(4, 6, 3, padding='valid')", "normal(4, 7, 6)"),
    Case("Conv2d(3, 2, 3, padding=(2, 1), padding_mode='reflect')", "normal(2, 3, 7, 6)"),
    Case("Conv2d(3, 2, 3, padding=1, padding_mode='replicate')", "normal(2, 3, 7, 6)"),
    Case("Conv3d(2, 4, 2, groups=2)", "normal(2, 2, 4, 5, 3)"),
    Case("ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1)", "normal(2, 4, 5)"),
    Case("ConvTranspose2d(4, 6, 3, stride=(2, 1), groups=2, dilation=2)", "normal(2, 4, 5, 4)"),
    Case("ConvTranspose3d(2, 3, 2, bias=False)", "normal(1, 2, 3, 3, 3)"),
    Case("Unfold((2, 3), dilation=1, padding=1, stride=2)", "normal(2, 3, 6, 7)"),
    Case("Fold((4, 5), (2, 2))", "normal(2, 12, 12)"),
    # pooling
    Case("MaxPool1d(3, stride=2, padding=1)", "normal(2, 3, 9)"),
    Case("MaxPool1d(2, ceil_mode=True)", "normal(2, 3, 9)"),
    Case("MaxPool2d((3, 2), dilation=2)", "normal(2, 3, 9, 8)"),
    Case("MaxPool2d(2, return_indices=True)", "normal(2, 3, 9, 8)"),
    Case("MaxPool3d(2)", "normal(1, 2, 4, 4, 6)"),
    Case("MaxUnpool1d(2)", "normal(1, 2, 3), np.array([[[0, 3, 5], [1, 2, 4]]])"),
    Case("MaxUnpool2d(2, stride=2, padding=0)", "normal(1, 1, 1, 2), np.array([[[[0, 7]]]])"),
    Case("MaxUnpool3d((1, 1, 2))", "normal(1, 1, 1, 1, 2), np.array([[[[[0, 3]]]]])"),
    Case("AvgPool1d(3, stride=2, padding=1, count_include_pad=False)", "normal(2, 3, 9)"),
    Case("AvgPool2d((3, 2), ceil_mode=True)", "normal(2, 3, 9, 8)"),
    Case("AvgPool2d(2, divisor_override=3)", "normal(2, 3, 9, 8)"),
    Case("AvgPool3d(2)", "normal(1, 2, 4, 4, 6)"),
    Case("LPPool1d(2, 3, stride=2)", "uniform(2, 3, 9)"),
    Case("LPPool2d(1.5, (2, 3), ceil_mode=True)", "uniform(2, 3, 9, 8)"),
    Case("FractionalMaxPool2d(2, 3, _random_samples=tensor([[[0.2, 0.7], [0.5, 0.1]]]))", "normal(1, 2, 6, 5)"),
    Case("FractionalMaxPool3d(2, 2, _random_samples=tensor([[[0.2, 0.7, 0.4]]]))", "normal(1, 1, 4, 6, 5)"),
    Case("LPPool3d(3, 2)", "uniform(1, 2, 4, 4, 6)"),
    Case("AdaptiveAvgPool1d(4)", "normal(2, 3, 9)"),
    Case("AdaptiveAvgPool2d((None, 3))", "normal(2, 3, 5, 8)"),
    Case("AdaptiveAvgPool3d(2)", "normal(1, 2, 5, 4, 6)"),
    Case("AdaptiveMaxPool1d(4)", "normal(2, 3, 9)"),
    Case("AdaptiveMaxPool2d((None, 3), return_indices=True)", "normal(2, 3, 5, 8)"),
    Case("AdaptiveMaxPool3d(2)", "normal(1, 2, 5, 4, 6)"),
    # padding
    Case("ConstantPad1d(2, 3.5)", "normal(2, 3, 5)"),
    Case("ConstantPad2d((1, 2, 0, 1), -1)", "normal(2, 3, 5, 4)"),
    Case("ConstantPad3d(1, 0.5)", "normal(2, 3, 3, 4)"),
    Case("ZeroPad1d((1, 2))", "normal(2, 3, 5)"),
    Case("ZeroPad2d(1)", "normal(2, 3, 5, 4)"),
    Case("ZeroPad3d((1, 2, 0, 1, 1, 0))", "normal(2, 3, 3, 4)"),
    Case("ReflectionPad1d(2)", "normal(2, 3, 5)"),
    Case("ReflectionPad2d((1, 2, 0, 1))", "normal(2, 3, 5, 4)"),
    Case("ReflectionPad3d(1)", "normal(2, 2, 3, 3, 4)"),
    Case("ReplicationPad1d(2)", "normal(2, 3, 5)"),
    Case("ReplicationPad2d((1, 2, 0, 1))", "normal(2, 3, 5, 4)"),
    Case("ReplicationPad3d(1)", "normal(2, 2, 3, 3, 4)"),
    Case("CircularPad1d((2, 1))", "normal(2, 3, 5)"),
    Case("CircularPad2d((1, 2, 0, 1))", "normal(2, 3, 5, 4)"),
    Case("CircularPad3d(1)", "normal(2, 2, 3, 3, 4)"),
    # activation
    *(
        Case(module, "normal(3, 4)")
        for module in (
            "CELU(0.5)",
            "ELU(2.0)",
            "ELU()",
            "GELU()",
            "GELU('tanh')",
            "GLU()",
            "GLU(-1)",
            "Hardshrink(0.3)",
            "Hardsigmoid()",
            "Hardswish()",
            "Hardtanh(-0.5, 0.7)",
            "LeakyReLU(0.2)",
            "LogSigmoid()",
            "LogSoftmax(1)",
            "Mish()",
            "PReLU()",
            "PReLU(4, init=0.1)",
            "ReLU()",
            "ReLU6()",
            "SELU()",
            "SiLU()",
            "Sigmoid()",
            "Softmax(dim=0)",
            "Softmin(1)",
            "Softplus(2.0, 1.5)",
            "Softshrink(0.3)",
            "Softsign()",
            "Tanh()",
            "Tanhshrink()",
            "Threshold(0.1, 20.0)",
        )
    ),
    Case("Softmax2d()", "normal(2, 3, 4, 2)"),
    *(
        Case(f"Sequential(nn.Linear(4, 4), nn.{module})", "normal(3, 4)")
        for module in (
            "CELU(inplace=True)",
            "ELU(inplace=True)",
            "Hardsigmoid(inplace=True)",
            "Hardswish(inplace=True)",
            "Hardtanh(inplace=True)",
            "LeakyReLU(inplace=True)",
            "Mish(inplace=True)",
            "ReLU(inplace=True)",
            "ReLU6(inplace=True)",
            "SELU(inplace=True)",
            "SiLU(inplace=True)",
            "Threshold(0.1, 2.0, inplace=True)",
            "Dropout(0.0, inplace=True)",
        )
    ),
    # normalization
    Case("BatchNorm1d(4)", "normal(5, 4)"),
    Case("BatchNorm1d(4, momentum=None)", "normal(5, 4, 3)"),
    Case("BatchNorm1d(4, affine=False, track_running_stats=False)", "normal(5, 4)"),
    Case("BatchNorm2d(4, eps=1e-3, momentum=0.3)", "normal(2, 4, 3, 3)"),
    Case("BatchNorm2d(4, bias=False)", "normal(2, 4, 3, 3)"),
    Case("BatchNorm3d(2)", "normal(2, 2, 3, 2, 2)"),
    Case("InstanceNorm1d(4)", "normal(2, 4, 5)"),
    Case("InstanceNorm1d(4)", "normal(4, 5)"),
    Case("InstanceNorm2d(4, affine=True, track_running_stats=True)", "normal(2, 4, 3, 3)"),
    Case("InstanceNorm3d(2, affine=True)", "normal(2, 2, 3, 2, 2)"),
    Case("LayerNorm(4)", "normal(2, 3, 4)"),
    Case("LayerNorm((3, 4), eps=1e-3, bias=False)", "normal(2, 3, 4)"),
    Case("LayerNorm([4], elementwise_affine=False)", "normal(2, 3, 4)"),
    Case("RMSNorm(4)", "normal(2, 3, 4)"),
    Case("RMSNorm((3, 4), eps=1e-3, elementwise_affine=False)", "normal(2, 3, 4)"),
    Case("GroupNorm(2, 4)", "normal(2, 4, 5)"),
    Case("GroupNorm(4, 4, affine=False)", "normal(2, 4, 3, 2)"),
    Case("LocalResponseNorm(3, alpha=0.1, k=2.0)", "normal(2, 5, 4, 3)"),
    # dropout
    Case("Dropout(0.0)", "normal(2, 3)"),
    Case("Dropout1d(0.0)", "normal(2, 3, 4)"),
    Case("Dropout2d(0.0)", "normal(2, 3, 4, 2)"),
    Case("Dropout3d(0.0)", "normal(2, 3, 2, 2, 2)"),
    # embedding
    Case("Embedding(7, 3)", "integers(7, 2, 5)"),
    Case("Embedding(7, 3, padding_idx=-1, scale_grad_by_freq=True)", "integers(7, 2, 5)"),
    Case("Embedding(7, 3, max_norm=0.5, norm_type=1.0)", "integers(7, 5)"),
    Case("EmbeddingBag(7, 3)", "integers(7, 2, 5)"),
    Case("EmbeddingBag(7, 3, mode='sum', padding_idx=2)", "integers(7, 2, 5)"),
    Case("EmbeddingBag(7, 3, mode='max')", "integers(7, 6), np.array([0, 2, 3])"),
    Case("EmbeddingBag(7, 3, mode='sum', include_last_offset=True)", "integers(7, 6), np.array([0, 2, 6]), normal(6)"),
    # recurrent
    Case("RNN(3, 4)", "normal(5, 2, 3)"),
    Case("RNN(3, 4, 2, 'relu', False, True)", "normal(2, 5, 3)"),
    Case("RNN(3, 4, num_layers=2, nonlinearity='relu', bidirectional=True)", "normal(5, 2, 3), normal(4, 2, 4)"),
    Case("GRU(3, 4, num_layers=2, bidirectional=True)", "normal(5, 2, 3)"),
    Case("GRU(3, 4, bias=False, batch_first=True)", "normal(2, 5, 3), normal(1, 2, 4)"),
    Case("GRU(3, 4)", "normal(5, 3)"),
    Case("LSTM(3, 4, num_layers=2, batch_first=True)", "normal(2, 5, 3)"),
    Case("LSTM(3, 4, bidirectional=True, bias=False)", "normal(5, 2, 3), (normal(2, 2, 4), normal(2, 2, 4))"),
    Case("LSTM(3, 4, num_layers=2, proj_size=2, bidirectional=True)", "normal(5, 2, 3)"),
    Case("LSTM(3, 4)", "normal(5, 3), (normal(1, 4), normal(1, 4))"),
    Case("RNNCell(3, 4)", "normal(2, 3)"),
    Case("RNNCell(3, 4, bias=False, nonlinearity='relu')", "normal(2, 3), normal(2, 4)"),
    Case("LSTMCell(3, 4)", "normal(2, 3)"),
    Case("LSTMCell(3, 4, bias=False)", "normal(3), (normal(4), normal(4))"),
    Case("GRUCell(3, 4)", "normal(2, 3), normal(2, 4)"),
    # attention
    Case("MultiheadAttention(8, 2)", "one(normal(5, 2, 8))"),
    Case("MultiheadAttention(8, 2, batch_first=True, bias=False)", "normal(2, 4, 8), normal(2, 5, 8), normal(2, 5, 8)"),
    Case(
        "MultiheadAttention(8, 4, kdim=6, vdim=5, add_bias_kv=True)",
        "normal(4, 2, 8), normal(5, 2, 6), normal(5, 2, 5)",
    ),
    Case("MultiheadAttention(8, 2, add_zero_attn=True)", "one(normal(5, 8))"),
    Case("TransformerEncoderLayer(8, 2, 16, dropout=0.0)", "normal(5, 2, 8)"),
    Case(
        "TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', 1e-4, batch_first=True, norm_first=True, bias=False)",
        "normal(2, 5, 8), causal(5)",
    ),
    Case("TransformerDecoderLayer(8, 2, 16, dropout=0.0)", "normal(5, 2, 8), normal(3, 2, 8)"),
    Case(
        "TransformerDecoderLayer(8, 2, 16, 0.0, 'gelu', norm_first=True)", "normal(5, 2, 8), normal(3, 2, 8), causal(5)"
    ),
    Case(
        "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2, nn.LayerNorm(8), enable_nested_tensor=False)",
        "normal(5, 2, 8), causal(5)",
    ),
    Case(
        "TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0), 2)",
        "normal(5, 2, 8), normal(3, 2, 8), causal(5)",
    ),
    Case("Transformer(8, 2, 1, 2, 16, dropout=0.0)", "normal(3, 2, 8), normal(5, 2, 8)"),
    # distance and upsampling
    Case("CosineSimilarity(dim=1, eps=1e-6)", "normal(4, 3), normal(4, 3)"),
    Case("PairwiseDistance(p=1.5, keepdim=True)", "normal(4, 3), normal(4, 3)"),
    Case("Upsample(scale_factor=2)", "normal(1, 2, 3, 4)"),
    Case("Upsample(size=(5, 7), mode='bilinear', align_corners=True)", "normal(1, 2, 3, 4)"),
    Case("Upsample(scale_factor=(1.5, 2.5), mode='bicubic')", "normal(1, 2, 3, 4)"),
    Case("UpsamplingNearest2d(scale_factor=2)", "normal(1, 2, 3, 4)"),
    Case("UpsamplingBilinear2d(size=(5, 6))", "normal(1, 2, 3, 4)"),
    Case("PixelShuffle(2)", "normal(1, 8, 3, 2)"),
    Case("PixelUnshuffle(2)", "normal(1, 2, 4, 6)"),
    Case("ChannelShuffle(2)", "normal(1, 4, 3, 2)"),
    # losses
    Case("L1Loss()", "normal(3, 4), normal(3, 4)"),
    Case("L1Loss(reduction='sum')", "normal(3, 4), normal(3, 4)"),
    Case("MSELoss()", "normal(3, 4), normal(3, 4)"),
    Case("MSELoss(reduction='none')", "normal(3, 4), normal(3, 4)"),
    Case("SmoothL1Loss(beta=0.5)", "normal(3, 4), normal(3, 4)"),
    Case("HuberLoss(delta=0.5)", "normal(3, 4), normal(3, 4)"),
    Case("CrossEntropyLoss()", "normal(5, 4), integers(4, 5)"),
    Case(
        "CrossEntropyLoss(tensor([1.0, 2.0, 0.5, 1.0]), ignore_index=2, label_smoothing=0.1)",
        "normal(5, 4), integers(4, 5)",
    ),
    Case("CrossEntropyLoss(reduction='sum')", "normal(5, 4, 3), uniform(5, 4, 3)"),
    Case("NLLLoss(ignore_index=1)", "normal(5, 4), integers(4, 5)"),
    Case("NLLLoss(weight=tensor([1.0, 2.0, 0.5, 1.0]), reduction='none')", "normal(5, 4, 3), integers(4, 5, 3)"),
    Case("BCELoss()", "uniform(3, 4), uniform(3, 4)"),
    Case("BCELoss(weight=tensor([1.0, 2.0, 0.5, 1.0]))", "uniform(3, 4), uniform(3, 4)"),
    Case("BCEWithLogitsLoss()", "normal(3, 4), uniform(3, 4)"),
    Case("BCEWithLogitsLoss(pos_weight=tensor([1.0, 2.0, 0.5, 1.0]))", "normal(3, 4), uniform(3, 4)"),
    Case("KLDivLoss(reduction='batchmean')", "normal(3, 4), uniform(3, 4)"),
    Case("KLDivLoss(reduction='sum', log_target=True)", "normal(3, 4), normal(3, 4)"),
    Case("PoissonNLLLoss()", "normal(3, 4), uniform(3, 4)"),
    Case("PoissonNLLLoss(log_input=False, full=True, eps=1e-6)", "uniform(3, 4), 3 * uniform(3, 4)"),
    Case("GaussianNLLLoss(full=True)", "normal(3, 4), normal(3, 4), uniform(3, 4)"),
    Case("SoftMarginLoss()", "normal(3, 4), signs(3, 4)"),
    Case("HingeEmbeddingLoss(margin=0.7)", "normal(3, 4), signs(3, 4)"),
    Case("CosineEmbeddingLoss(margin=0.2)", "normal(3, 4), normal(3, 4), signs(3)"),
    Case("MarginRankingLoss(margin=0.3)", "normal(3), normal(3), signs(3)"),
    Case("MultiMarginLoss(p=2, margin=0.5)", "normal(5, 4), integers(4, 5)"),
    Case("MultiMarginLoss(weight=tensor([1.0, 2.0, 0.5, 1.0]))", "normal(5, 4), integers(4, 5)"),
    Case("MultiLabelMarginLoss()", "normal(2, 4), np.array([[3, 0, -1, 1], [2, -1, 0, 0]])"),
    Case("MultiLabelSoftMarginLoss()", "normal(3, 4), (signs(3, 4) + 1) / 2"),
    Case("TripletMarginLoss(margin=0.5, p=1.5, swap=True)", "normal(3, 4), normal(3, 4), normal(3, 4)"),
    Case("TripletMarginWithDistanceLoss(swap=True)", "normal(3, 4), normal(3, 4), normal(3, 4)"),
    Case(
        "CTCLoss()",
        "np.log(uniform(7, 2, 5)), 1 + integers(4, 2, 3), np.array([7, 6]), np.array([3, 2])",
    ),
    # containers
    Case("Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2), nn.Tanh()))", "normal(5, 3)"),
    Case("Sequential()", "normal(5, 3)"),
]


def draws(seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "np": np,
        "normal": lambda *shape: random.standard_normal(shape),
        "uniform": lambda *shape: random.uniform(0.1, 0.9, shape),
        "integers": lambda high, *shape: random.integers(0, high, shape),
        "signs": lambda *shape: random.choice([-1.0, 1.0], shape),
        "causal": lambda size: np.triu(np.full((size, size), -np.inf), 1),
        "one": lambda x: (x, x, x),
    }


def build(library: Any, expression: str) -> Any:
    names = {"nn": library.nn, "tensor": lambda values: library.tensor(values, dtype=library.float64)}
    return eval(f"nn.{expression}", names).double()


def arrays(case: Case) -> tuple[Any, ...]:
    value = eval(case.inputs, draws(zlib.crc32(case.module.encode())))
    return value if isinstance(value, tuple) else (value,)


def given(library: Any, value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, tuple):
        return tuple(given(library, item, leaves) for item in value)
    known = [leaf for array, leaf in leaves if array is value]
    if known:
        return known[0]
    # A mask of infinities is no input to differentiate with respect to.
    wants = value.dtype.kind == "f" and bool(np.isfinite(value).all())
    tensor = library.tensor(value.copy(), requires_grad=wants)
    leaves.append((value, tensor))
    return tensor


def tensors(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors(item)]
    return [] if result is None else [result]


def run(library: Any, module: Any, inputs: tuple[Any, ...]) -> dict[str, np.ndarray]:
    """Outputs, buffers, and the gradients of a fixed sum of the outputs, by name."""
    leaves: list[Any] = []
    arguments = [given(library, value, leaves) for value in inputs]
    if "Loss" in type(module).__name__:
        for _, tensor in leaves[1:]:
            # Targets: most losses have no gradient for them in PyTorch.
            tensor.requires_grad_(False)
    outputs = tensors(module(*arguments))
    random = np.random.default_rng(0)
    total = 0
    for output in outputs:
        weight = random.standard_normal(tuple(output.shape))
        if output.requires_grad:
            total = total + (output * library.tensor(weight)).sum()
    found = {f"output {place}": output.detach().numpy() for place, output in enumerate(outputs)}
    if not isinstance(total, int):
        module.zero_grad()
        total.backward()
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            found[f"gradient of {name}"] = parameter.grad.numpy()
    for place, (_, leaf) in enumerate(leaves):
        if leaf.grad is not None:
            found[f"gradient of input {place}"] = leaf.grad.numpy()
    return found | {name: buffer.numpy() for name, buffer in module.named_buffers()}


def assert_same(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], tolerance: float) -> None:
    assert list(ours) == list(theirs)
    for name, value in theirs.items():
        assert ours[name].shape == value.shape, name
        assert ours[name].dtype == value.dtype, name
        np.testing.assert_allclose(ours[name], value, rtol=tolerance, atol=tolerance, err_msg=name)


# Attributes that PyTorch keeps for itself.
INTERNAL = ("activation_relu_or_gelu", "use_nested_tensor", "name")


def simple(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(simple, value))
    return value is None or isinstance(value, (bool, int, float, str))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("case", CASES, ids=[case.module for case in CASES])
def test_as_pytorch(case: Case) -> None:
    theirs = build(torch, case.module)
    ours = build(rg, case.module)
    assert repr(ours) == repr(theirs).replace("NonDynamicallyQuantizableLinear", "Linear")
    assert list(ours.state_dict()) == list(theirs.state_dict())
    shapes = [(name, tuple(p.shape), p.requires_grad) for name, p in theirs.named_parameters()]
    assert [(name, tuple(p.shape), p.requires_grad) for name, p in ours.named_parameters()] == shapes
    for name, value in vars(theirs).items():
        if not name.startswith("_") and simple(value) and name not in INTERNAL:
            assert getattr(ours, name) == value, name
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    # PyTorch computes the slope 1 / 6 in single precision, in double precision too.
    tolerance = 1e-7 if "Hardsigmoid" in case.module else 1e-10
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        assert_same(run(rg, ours, arrays(case)), run(torch, theirs, arrays(case)), tolerance)


TESTED_IN_TEST_LAZY = {
    "AdaptiveLogSoftmaxWithLoss", "AlphaDropout", "FeatureAlphaDropout", "LinearCrossEntropyLoss", "RReLU",
    "SyncBatchNorm",
}  # fmt: skip
NAMES = sorted({case.module.split("(")[0] for case in CASES})
# PyTorch declares the constructors of these as (*args, **kwargs).
OPEN_SIGNATURES = ("RNN", "LSTM", "GRU", "Sequential", "Identity")


@in_one_test("name", [name for name in NAMES if name not in OPEN_SIGNATURES])
def test_signatures(name: str) -> None:
    def parameters(function: Any) -> list[tuple[str, Any]]:
        taken = inspect.signature(function).parameters.values()
        return [(p.name, p.default) for p in taken if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]

    ours, theirs = getattr(rg.nn, name), getattr(torch.nn, name)
    assert [p for p in parameters(ours) if p[0] != "activation"] == [
        p for p in parameters(theirs) if p[0] != "activation"
    ]
    assert [p[0] for p in parameters(ours.forward)] == [p[0] for p in parameters(theirs.forward)]


def test_every_module_is_tested() -> None:
    elsewhere = {name for name in vars(rg.nn) if name.startswith("Lazy")} | TESTED_IN_TEST_LAZY
    bases = ("Module", "RNNBase", "RNNCellBase", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")
    classes = [n for n, value in vars(rg.nn).items() if inspect.isclass(value) and issubclass(value, rg.nn.Module)]
    assert sorted({*classes} - {*bases} - elsewhere) == NAMES


def test_bases_take_pytorchs_arguments() -> None:
    assert list(inspect.signature(rg.nn.RNNBase).parameters) == list(inspect.signature(torch.nn.RNNBase).parameters)
    from retrograd.nn.layers.convolution import _ConvNd

    theirs = torch.nn.modules.conv._ConvNd
    assert list(inspect.signature(_ConvNd).parameters) == list(inspect.signature(theirs).parameters)
    arguments = (2, 4, (3,), (1,), (1,), (1,), False, (0,), 1, True, "zeros")
    assert [tuple(p.shape) for p in _ConvNd(*arguments).parameters()] == [
        tuple(p.shape) for p in theirs(*arguments).parameters()
    ]
    with pytest.raises(ValueError, match="RNNBase: mode must be one of"):
        rg.nn.RNNBase("MGU", 2, 3)


def test_the_weights_of_a_recurrent_layer_are_found_by_pytorchs_names():
    ours, theirs = rg.nn.GRU(3, 4, 2, bidirectional=True), torch.nn.GRU(3, 4, 2, bidirectional=True)
    assert ours._flat_weights_names == theirs._flat_weights_names and ours._all_weights == theirs._all_weights
    assert [w.shape for w in ours._flat_weights] == [tuple(w.shape) for w in theirs._flat_weights]


def test_a_sparse_tensor_is_a_buffer():
    module = rg.nn.Module()
    module.register_buffer("graph", rg.eye(3).to_sparse())
    assert module.original_name == "Module" and [name for name, _ in module.named_buffers()] == ["graph"]
    assert module.double().graph.dtype is rg.float64 and module.graph.is_sparse
    state = module.state_dict()
    module.graph = (2 * rg.eye(3)).to_sparse()
    assert (module.graph @ rg.ones(3, 1)).tolist() == [[2.0]] * 3
    module.load_state_dict(state)
    assert module.graph.to_dense().tolist() == np.eye(3).tolist() and module.graph.dtype is rg.float32
    with pytest.raises(RuntimeError, match="layout mismatch for graph"):
        module.load_state_dict({"graph": rg.eye(3)})
    assert copy.deepcopy(module).graph.to_dense().tolist() == np.eye(3).tolist()
