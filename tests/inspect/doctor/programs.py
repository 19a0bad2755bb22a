"""Training programs for the doctor: for each kind of finding a broken one, and its healthy twin.

A line ``healthy || broken`` has one side in each version; an empty side leaves the line out. The marker ``#!`` is at
the end of the line that the finding names.
"""

from dataclasses import dataclass

HEAD = """
import numpy as np
import retrograd as torch
from retrograd import nn
from retrograd.nn import functional as F

torch.manual_seed(0)
np.random.seed(0)
"""


@dataclass(frozen=True)
class Program:
    """A program in two versions."""

    kind: str
    text: str

    def version(self, broken: bool) -> tuple[str, int]:
        """Return the source and the number of the marked line."""
        lines = []
        for line in (HEAD + self.text).splitlines():
            if "||" in line:
                good, bad = line.split("||")
                line = (bad if broken else good).rstrip()
                indent = len(good) - len(good.lstrip())
                line = " " * indent + line.strip() if line.strip() else ""
            lines.append(line)
        marked = [number for number, line in enumerate(lines, start=1) if line.endswith("#!")]
        return "\n".join(lines) + "\n", marked[0] if marked else 0


CLASSIFIER = """
centers = 1.5 * torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    y = torch.randint(0, 3, (32,))
    x = centers[y] + 0.3 * torch.randn(32, 6)
"""

REGRESSION = """
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
w = torch.randn(5, 1)
for step in range(40):
    x = torch.randn(32, 5)
    y = x @ w
"""

UPDATE = """
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

PROGRAMS = [
    Program(
        "backward-missing",
        CLASSIFIER
        + """
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward() ||
    optimizer.step() #!
""",
    ),
    Program(
        "backward-missing",
        CLASSIFIER
        + """
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward() || loss.backward #!
    optimizer.step()
""",
    ),
    Program(
        "step-missing",
        CLASSIFIER
        + """
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward() || loss.backward() #!
    optimizer.step() ||
""",
    ),
    Program(
        "step-missing",
        CLASSIFIER
        + """
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step() || optimizer.step #!
""",
    ),
    Program(
        "zeroed-before-step",
        CLASSIFIER
        + """
    optimizer.zero_grad() ||
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    || optimizer.zero_grad() #!
    optimizer.step()
""",
    ),
    Program(
        "gradients-not-zeroed",
        CLASSIFIER
        + """
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad() ||
    loss.backward() #!
    optimizer.step()
""",
    ),
    Program(
        "detached",
        """
encoder, head = nn.Linear(6, 16), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
centers = torch.randn(3, 6)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    h = torch.relu(encoder(centers[y]))
    h = h * 1.0 || h = torch.tensor(h.detach().numpy()) #!
    loss = F.cross_entropy(head(h), y)
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
encoder, head = nn.Linear(6, 16), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
centers = torch.randn(3, 6)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    with torch.enable_grad(): || with torch.no_grad(): #!
        h = torch.relu(encoder(centers[y]))
    loss = F.cross_entropy(head(h), y)
"""
        + UPDATE,
    ),
    Program(
        "reused-optimizer-of-old-model",
        """
centers = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
model[2] = nn.Linear(16, 3) ||
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) #!
|| model[2] = nn.Linear(16, 3)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
        + UPDATE,
    ),
    Program(
        "modules-not-registered",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(6, 16), nn.Linear(16, 16)]) ||
        || self.parts = [nn.Linear(6, 16), nn.Linear(16, 16)] #!
        self.head = nn.Linear(16, 3)
    def forward(self, x):
        for part in self.parts:
            x = torch.relu(part(x))
        return self.head(x)

centers = torch.randn(3, 6)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
        + UPDATE,
    ),
    Program(
        "parameters-not-optimized",
        """
centers = torch.randn(3, 6)
encoder, decoder = nn.Linear(6, 4), nn.Linear(4, 6)
parameters = [*encoder.parameters(), *decoder.parameters()] || parameters = encoder.parameters()
optimizer = torch.optim.Adam(parameters, lr=1e-2) #!
for step in range(30):
    x = centers[torch.randint(0, 3, (32,))]
    loss = F.mse_loss(decoder(torch.tanh(encoder(x))), x)
"""
        + UPDATE,
    ),
    Program(
        "parameters-not-optimized",
        """
model = nn.Linear(6, 3)
scale = nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([*model.parameters(), scale], lr=1e-1) ||
|| optimizer = torch.optim.SGD(model.parameters(), lr=1e-1) #!
for step in range(30):
    x = torch.randn(16, 6)
    loss = ((model(x) * scale - x[:, :3]) ** 2).mean()
"""
        + UPDATE,
    ),
    Program(
        "broadcast-loss",
        REGRESSION
        + """
    loss = ((model(x) - y) ** 2).mean() || loss = ((model(x) - y.squeeze(1)) ** 2).mean() #!
"""
        + UPDATE,
    ),
    Program(
        "broadcast-loss",
        REGRESSION
        + """
    loss = F.l1_loss(model(x), y) || loss = F.l1_loss(model(x).squeeze(1), y) #!
"""
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        REGRESSION
        + """
    loss = F.binary_cross_entropy_with_logits(model(x), (y > 0).float()) ||
    || loss = F.binary_cross_entropy_with_logits(model(x), y.sign()) #!
"""
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        CLASSIFIER
        + """
    loss = F.nll_loss(F.log_softmax(model(x), 1), y) || loss = F.nll_loss(model(x), y) #!
"""
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        REGRESSION
        + """
    out = model(x) || out = torch.sigmoid(model(x)) #!
    loss = F.mse_loss(out, 3 * y)
"""
        + UPDATE,
    ),
    Program(
        "double-softmax",
        CLASSIFIER
        + """
    out = model(x) || out = F.softmax(model(x), dim=1) #!
    loss = nn.CrossEntropyLoss()(out, y)
"""
        + UPDATE,
    ),
    Program(
        "double-sigmoid",
        REGRESSION
        + """
    out = model(x) || out = model(x).sigmoid() #!
    loss = F.binary_cross_entropy_with_logits(out, (y > 0).float())
"""
        + UPDATE,
    ),
    Program(
        "softmax-axis",
        CLASSIFIER
        + """
    out = F.log_softmax(model(x), dim=1) || out = F.log_softmax(model(x), dim=0) #!
    loss = F.nll_loss(out, y)
"""
        + UPDATE,
    ),
    Program(
        "softmax-axis",
        """
q, k, v, head = (nn.Linear(8, 8) for _ in range(4))
optimizer = torch.optim.Adam([p for layer in (q, k, v, head) for p in layer.parameters()], lr=1e-2)
for step in range(40):
    x = torch.randn(16, 5, 8)
    scores = q(x) @ k(x).transpose(1, 2) / 8**0.5
    weights = scores.softmax(-1) || weights = scores.softmax(1) #!
    loss = F.mse_loss(head(weights @ v(x)), x.mean(1, keepdim=True).expand(16, 5, 8))
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        CLASSIFIER
        + """
    loss = F.cross_entropy(model(x), y) || loss = -F.cross_entropy(model(x), y) #!
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        CLASSIFIER
        + """
    logp = F.log_softmax(model(x), 1)
    loss = -logp[torch.arange(32), y].mean() || loss = logp[torch.arange(32), y].mean() #!
"""
        + UPDATE,
    ),
    Program(
        "masked-after-loss",
        REGRESSION
        + """
    mask = (torch.rand(32, 1) > 0.3).float()
    loss = (F.mse_loss(model(x), y, reduction="none") * mask).sum() / mask.sum() ||
    || loss = (F.mse_loss(model(x), y) * mask).sum() / mask.sum() #!
"""
        + UPDATE,
    ),
    Program(
        "data-write",
        CLASSIFIER
        + """
    h = model[0](x)
    h = h.clamp(min=0) || h.data[h.data < 0] = 0 #!
    loss = F.cross_entropy(model[2](h), y)
"""
        + UPDATE,
    ),
    Program(
        "batch-norm-of-one",
        """
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 1)) #!
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
n = 8 || n = 1
for step in range(30):
    x = torch.randn(n, 1, 8, 8)
    loss = (model(x) - x[:, 0, :1, :1].flatten(1)).pow(2).mean()
"""
        + UPDATE,
    ),
    Program(
        "batch-mixing",
        """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 16, batch_first=True) || self.rnn = nn.GRU(6, 16)
        self.head = nn.Linear(16, 3)
    def forward(self, x):
        out, _ = self.rnn(x) || out, _ = self.rnn(x) #!
        return self.head(out[:, -1])

centers = torch.randn(3, 6)
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    y = torch.randint(0, 3, (16,))
    x = centers[y][:, None] + 0.3 * torch.randn(16, 7, 6)
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "eval-mode",
        """
centers = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model.train() || model.eval() #!
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
        + UPDATE,
    ),
    Program(
        "train-mode-in-evaluation",
        """
centers = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()
    for step in range(15):
        y = torch.randint(0, 3, (32,))
        loss = F.cross_entropy(model(centers[y]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval() ||
    with torch.no_grad():
        y = torch.randint(0, 3, (64,))
        accuracy = (model(centers[y]).argmax(1) == y).float().mean() ||
        || accuracy = (model(centers[y]).argmax(1) == y).float().mean() #!
""",
    ),
    Program(
        "nan-birth",
        REGRESSION
        + """
    out = model(x)
    loss = ((out - y) ** 2 + 1e-6).sqrt().mean() ||
    || loss = ((out - out.detach()) ** 2).sqrt().mean() + F.mse_loss(out, y) #!
"""
        + UPDATE,
    ),
    Program(
        "constant-init",
        """
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))
for layer in (model[0], model[2]):
    nn.init.zeros_(layer.bias)
    nn.init.kaiming_normal_(layer.weight) || nn.init.constant_(layer.weight, 0.1) #!
centers = torch.randn(3, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
        + UPDATE,
    ),
    Program(
        "tied-copies",
        """
import copy
layer = nn.Linear(16, 16)
parts = [nn.Linear(16, 16) for _ in range(3)] || parts = [layer] * 3
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), *parts, nn.Linear(16, 3)) #!
centers = torch.randn(3, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
        + UPDATE,
    ),
    Program(
        "frozen-layer",
        """
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
for p in model[2].parameters():
    p.requires_grad = True || p.requires_grad = False #!
centers = torch.randn(3, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
        + UPDATE,
    ),
    Program(
        "scheduler-kills-rate",
        """
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
w = torch.randn(5, 1)
for epoch in range(3):
    for step in range(20):
        x = torch.randn(32, 5)
        loss = F.mse_loss(model(x), x @ w)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        || scheduler.step() #!
    scheduler.step() ||
""",
    ),
    Program(
        "unshuffled-data",
        """
from retrograd.data import DataLoader, TensorDataset
centers = torch.randn(6, 5)
y = torch.arange(600) // 100
data = TensorDataset(centers[y] + 0.5 * torch.randn(600, 5), y)
loader = DataLoader(data, batch_size=20, shuffle=True) || loader = DataLoader(data, batch_size=20) #!
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    Program(
        "wrong-reduction-scale",
        REGRESSION
        + """
    loss = ((model(x) - y) ** 2).mean() || loss = ((model(x) - y) ** 2).sum() #!
"""
        + UPDATE,
    ),
    Program(
        "unnormalized-input",
        """
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
w = torch.randn(5, 1)
for step in range(60):
    z = torch.randn(32, 5)
    y = z @ w
    x = z || x = 200 + 60 * z #!
    out = model(x)
    loss = F.mse_loss(out, y)
"""
        + UPDATE,
    ),
    Program(
        "exploding-gradient",
        """
layers = [nn.Linear(16, 16) for _ in range(10)]
for layer in layers:
    nn.init.normal_(layer.weight, std=0.25) || nn.init.normal_(layer.weight, std=3.0) #!
model = nn.Sequential(nn.Linear(6, 16), *layers, nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(32, 6)
    loss = F.mse_loss(model(x), x[:, :1])
"""
        + UPDATE,
    ),
    Program(
        "weight-decay-too-high",
        """
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
decay = 1e-4 || decay = 5.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=decay) #!
w = torch.randn(5, 1)
for step in range(60):
    x = torch.randn(32, 5)
    loss = F.mse_loss(model(x), x @ w)
"""
        + UPDATE,
    ),
    Program(
        "learning-rate-too-high",
        """
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
lr = 0.05 || lr = 5.0
optimizer = torch.optim.SGD(model.parameters(), lr=lr) #!
w = torch.randn(5, 1)
for step in range(60):
    x = torch.randn(32, 5)
    loss = F.mse_loss(model(x), x @ w)
"""
        + UPDATE,
    ),
    Program(
        "learning-rate-too-low",
        """
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
lr = 0.05 || lr = 1e-7
optimizer = torch.optim.SGD(model.parameters(), lr=lr) #!
w = torch.randn(5, 1)
for step in range(60):
    x = torch.randn(32, 5)
    loss = F.mse_loss(model(x), x @ w)
"""
        + UPDATE,
    ),
    Program(
        "dead-units",
        """
model = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))
nn.init.constant_(model[0].bias, 0.0) || nn.init.constant_(model[0].bias, -30.0) #!
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
w = torch.randn(5, 1)
for step in range(40):
    x = torch.randn(32, 5)
    out = model(x)
    loss = F.mse_loss(out, x @ w)
"""
        + UPDATE,
    ),
    Program(
        "vanishing-gradient",
        """
activation = nn.ReLU || activation = nn.Sigmoid
layers = [part for _ in range(12) for part in (nn.Linear(16, 16), activation())]
for layer in layers[::2]:
    nn.init.kaiming_normal_(layer.weight) || nn.init.normal_(layer.weight, std=0.2)
model = nn.Sequential(nn.Linear(6, 16), activation(), *layers, nn.Linear(16, 1)) #!
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    x = torch.randn(64, 6)
    out = model(x)
    loss = F.mse_loss(out, 2 * x[:, :1])
"""
        + UPDATE,
    ),
    Program(
        "labels-unrelated",
        """
y = torch.arange(300) % 3
x = 2 * torch.randn(3, 10)[y] + 0.5 * torch.randn(300, 10)
|| x = x[torch.randperm(300)] #!
model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(60):
    i = torch.randint(0, 300, (64,))
    loss = F.cross_entropy(model(x[i]), y[i]) || loss = F.cross_entropy(model(x[i]), y[i])
"""
        + UPDATE,
    ),
    Program(
        "accumulation-unscaled",
        """
model = nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
w = torch.randn(5, 1)
for step in range(20):
    optimizer.zero_grad()
    for part in range(4):
        x = torch.randn(16, 5)
        loss = F.mse_loss(model(x), x @ w)
        (loss / 4).backward() || loss.backward() #!
    optimizer.step()
""",
    ),
    Program(
        "graph-grows",
        """
cell, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.01)
h = torch.zeros(16, 8)
for step in range(40):
    x = torch.randn(16, 4)
    h = cell(x, h)
    loss = F.mse_loss(head(h), x[:, :1])
    optimizer.zero_grad()
    loss.backward(retain_graph=True) || loss.backward(retain_graph=True) #!
    optimizer.step()
    h = h.detach() ||
""",
    ),
    Program(
        "graph-grows",
        REGRESSION
        + """
    loss = F.mse_loss(model(x), y)
"""
        + UPDATE
        + """
    total = (total if step else 0.0)
    total += loss.item() || total += loss #!
""",
    ),
]
