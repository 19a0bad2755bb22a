"""Programs written for PyTorch, run on both libraries with only the imports changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

# Each program defines `model`, and `step(model, data)`, which returns a scalar loss; data are arrays by name.

TIED = """
class Model(nn.Module):
    def __init__(self, vocabulary=11, width=6):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.full((width,), 0.5))
        self.register_buffer("offset", torch.arange(width) / 10, persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens) * self.scale + self.offset
        return self.head(torch.tanh(self.mix(x)))

model = Model()

def step(model, tokens, targets):
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
"""

DICTIONARY = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 8), nn.LeakyReLU(0.1), nn.LayerNorm(8))
        self.heads = nn.ModuleDict({"age": nn.Linear(8, 1), "kind": nn.Linear(8, 3)})
        self.activations = nn.ModuleDict([["gelu", nn.GELU()], ["silu", nn.SiLU()]])
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.gains = nn.ParameterList([nn.Parameter(torch.ones(8)) for _ in range(3)])
        self.choices = nn.ParameterDict({"left": nn.Parameter(torch.zeros(8))})

    def forward(self, x):
        x = self.body(x)
        for block, gain in zip(self.blocks, self.gains):
            x = x + self.activations["silu"](block(x)) * gain
        x = self.activations["gelu"](x + self.choices["left"])
        return {name: head(x) for name, head in self.heads.items()}

model = Model()
decay, plain = [], []
for name, parameter in model.named_parameters():
    (plain if name.endswith("bias") or parameter.ndim < 2 else decay).append(parameter)
assert len(decay) == 6 and len(plain) == len(list(model.parameters())) - 6
assert isinstance(model.body[0], nn.Linear) and len(model.body[:2]) == 2

def init_weights(module):
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)

model.apply(init_weights)
assert all(float(layer.bias.detach().abs().sum()) == 0 for layer in model.blocks)

def step(model, features, kinds):
    out = model(features)
    return F.mse_loss(out["age"].squeeze(-1), features.sum(dim=1)) + F.cross_entropy(out["kind"], kinds)
"""

GPT = """
class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        fused = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert torch.allclose(y, fused)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))

class Block(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = CausalSelfAttention(width, heads, length)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.0))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))

class GPT(nn.Module):
    def __init__(self, vocabulary=11, width=8, heads=2, length=7, layers=2):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocabulary, width),
            wpe=nn.Embedding(length, width),
            h=nn.ModuleList([Block(width, heads, length) for _ in range(layers)]),
            ln_f=nn.LayerNorm(width),
        ))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * layers))

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

model = GPT()

def step(model, tokens, targets):
    return model(tokens, targets)[1]
"""

TAGGER = """
class Tagger(nn.Module):
    def __init__(self, vocabulary=11, width=6, hidden=5, tags=4):
        super().__init__()
        self.hidden = hidden
        self.word_embeddings = nn.Embedding(vocabulary, width, padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.cell = nn.GRUCell(2 * hidden, hidden)
        self.hidden2tag = nn.Linear(hidden, tags)

    def forward(self, sentences):
        embeds = self.word_embeddings(sentences)
        h0 = torch.zeros(4, sentences.size(0), self.hidden, dtype=embeds.dtype)
        out, (hn, cn) = self.lstm(embeds, (h0, h0.clone()))
        state, states = hn[-1], []
        for t in range(out.shape[1]):
            state = self.cell(out[:, t], state)
            states.append(state)
        return F.log_softmax(self.hidden2tag(torch.stack(states, dim=1)), dim=-1)

model = Tagger()

def step(model, tokens, tags):
    return nn.NLLLoss()(model(tokens).permute(0, 2, 1), tags)
"""

RESNET = """
def conv3x3(in_planes, out_planes, stride=1):
    return nn.Conv2d(in_planes, out_planes, kernel_size=3, stride=stride, padding=1, bias=False)

class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)

class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2))
        down = nn.Sequential(nn.Conv2d(4, 6, 1, stride=2, bias=False), nn.BatchNorm2d(6))
        self.layer1 = nn.Sequential(BasicBlock(4, 4), BasicBlock(4, 6, 2, down))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(6, 4)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.avgpool(self.layer1(self.stem(x)))
        return self.fc(torch.flatten(x, 1))

model = ResNet()

def step(model, images, labels):
    return F.cross_entropy(model(images), labels, label_smoothing=0.1)
"""

VAE = """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(5, 7)
        self.fc21 = nn.Linear(7, 2)
        self.fc22 = nn.Linear(7, 2)
        self.decode = nn.Sequential(nn.Linear(2, 7), nn.ReLU(), nn.Linear(7, 5), nn.Sigmoid())

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, 5))
        return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar

model = VAE()

def step(model, features, noise):
    x = torch.sigmoid(features)
    recon_x, mu, logvar = model(x, noise)
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 5), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD
"""

PARAMETRIZED = """
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import weight_norm

class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

model = nn.Sequential(
    weight_norm(nn.Linear(5, 5)), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), weight_norm(nn.Linear(5, 3), dim=None)
)
parametrize.register_parametrization(model[2], "weight", Symmetric())

def step(model, features, kinds):
    with parametrize.cached():
        return F.multi_margin_loss(model(features), kinds) + model[2].weight.square().mean()
"""

PROGRAMS = {
    "tied": (TIED, "tokens targets"),
    "dictionary": (DICTIONARY, "features kinds"),
    "gpt": (GPT, "tokens targets"),
    "tagger": (TAGGER, "tokens tags"),
    "resnet": (RESNET, "images labels"),
    "vae": (VAE, "features noise"),
    "parametrized": (PARAMETRIZED, "features kinds"),
}


def data() -> dict[str, np.ndarray]:
    random = np.random.default_rng(3)
    return {
        "tokens": random.integers(0, 11, (3, 7)),
        "targets": random.integers(0, 11, (3, 7)),
        "tags": random.integers(0, 4, (3, 7)),
        "features": random.standard_normal((6, 5)),
        "noise": random.standard_normal((6, 2)),
        "kinds": random.integers(0, 3, 6),
        "images": random.standard_normal((4, 3, 8, 8)),
        "labels": random.integers(0, 4, 4),
    }


def load(program: str, library: str) -> dict[str, Any]:
    head = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
    source = (head + program).replace("import torch\n", f"import {library} as torch\n")
    source = source.replace("from torch.", f"from {library}.").replace("import torch.", f"import {library}.")
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "<program>", "exec"), namespace)
    return namespace


def train(program: dict[str, Any], names: str, state: dict[str, np.ndarray] | None) -> dict[str, Any]:
    """Three steps of gradient descent; the losses and what the model then holds."""
    library, model, arrays = program["torch"], program["model"].double(), data()
    if state is not None:
        model.load_state_dict({name: library.tensor(value) for name, value in state.items()})
    start = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    losses = []
    for _ in range(3):
        model.zero_grad()
        loss = program["step"](model, *[library.tensor(arrays[name]) for name in names.split()])
        loss.backward()
        library.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with library.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        losses.append(loss.item())
    end = {name: value.numpy() for name, value in model.state_dict().items()}
    shapes = [(name, tuple(p.shape)) for name, p in model.named_parameters()]
    return {"losses": losses, "start": start, "end": end, "names": shapes}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    source, inputs = PROGRAMS[name]
    theirs = train(load(source, "torch"), inputs, None)
    ours = train(load(source, "retrograd"), inputs, theirs["start"])
    assert ours["names"] == theirs["names"]
    assert list(ours["end"]) == list(theirs["end"])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-10)
    for key, value in theirs["end"].items():
        np.testing.assert_allclose(ours["end"][key], value, rtol=1e-9, atol=1e-10, err_msg=key)
