"""Training programs with errors as people make them: in targets, in states that are loaded, in schedules, and in copies."""

# ruff: noqa: E501

from tests.inspect.doctor.computed_programs import CLUSTERS
from tests.inspect.doctor.programs import UPDATE, Program

NET = "model = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, {}))\noptimizer = torch.optim.Adam(model.parameters(), lr=0.01)\n"
CLASSES = "    x, y = batch()\n    loss = F.cross_entropy(model(x), y)\n"
BINARY = "    x, y = batch()\n    y = (y > 1).float()\n"

READER = """
jump = torch.randperm(9)
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.out = nn.Embedding(9, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 9)
    def forward(self, x):
        return self.out(self.gru(self.embed(x))[0])
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""

ERRORS = [
    Program(
        "target-mismatch",
        READER
        + """
for step in range(30):
    x = torch.stack([torch.arange(7) + i for i in torch.randint(0, 9, (8,)).tolist()]) % 9
    loss = F.cross_entropy(model(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten()) || loss = F.cross_entropy(model(x).flatten(0, 1), x.flatten()) #!
"""
        + UPDATE,
    ),
    Program(
        "masked-after-loss",
        """
colors = torch.randint(1, 4, (12,))
model = nn.Sequential(nn.Embedding(12, 8, padding_idx=0), nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
for step in range(60):
    used = torch.arange(30) < torch.randint(1, 4, (16, 1))
    x = torch.randint(1, 12, (16, 30)) * used
    y = colors[x] * used
    y = y - 100 * (~used).long() ||
    loss = F.cross_entropy(model(x).permute(0, 2, 1), y) #!
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
G, D = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6)), nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizers = [torch.optim.Adam(G.parameters(), lr=2e-3), torch.optim.Adam(D.parameters(), lr=2e-3)]
for step in range(60):
    real, fake = torch.randn(16, 6) + 1, G(torch.randn(16, 4))
    for number, optimizer in enumerate(optimizers):
        if number == 0:
            score = D(fake) || score = D(fake.detach()) #!
            loss = ((score - 1) ** 2).mean() + F.l1_loss(fake.mean(1), real.mean(1))
        else:
            loss = (D(fake.detach()) ** 2).mean() + ((D(real) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    Program(
        "data-write",
        CLUSTERS
        + NET.format(4)
        + """
averages = [p.detach().clone() for p in model.parameters()]
for step in range(60):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for a, p in zip(averages, model.parameters()):
            a.sub_(0.001 * (a - p))
    if step % 5 == 4:
        kept = [p.detach().clone() for p in model.parameters()]
        for a, p in zip(averages, model.parameters()):
            p.data.copy_(a) #!
        with torch.no_grad():
            model(x)
        for a, p in zip(kept, model.parameters()): ||
            p.data.copy_(a) ||
""",
    ),
    Program(
        "data-write",
        CLUSTERS
        + NET.format(4).replace("0.01", "0.0005")
        + """
start = {name: value.clone() for name, value in model.state_dict().items()}
for step in range(64):
    if step % 16 == 15:
        model.load_state_dict(model.state_dict()) || model.load_state_dict(start) #!
"""
        + CLASSES
        + UPDATE,
    ),
    Program(
        "data-write",
        CLUSTERS
        + NET.format(4)
        + "for step in range(40):\n"
        + CLASSES
        + UPDATE
        + "    for p in model.parameters():\n        p.data.clamp_(-9, 9) || p.data.clamp_(-0.01, 0.01) #!\n",
    ),
    Program(
        "double-sigmoid",
        CLUSTERS
        + NET.format(1)
        + "for step in range(40):\n"
        + BINARY
        + "    p = model(x)[:, 0] || p = torch.sigmoid(model(x)[:, 0]).clamp(1e-6, 1 - 1e-6) #!\n"
        + "    loss = F.binary_cross_entropy_with_logits(p, y)\n"
        + UPDATE,
    ),
    Program(
        "tied-copies",
        CLUSTERS
        + """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(8, 8) / 3) for _ in range(3)]) || self.weights = nn.ParameterList([nn.Parameter(torch.randn(8, 8) / 3)] * 3) #!
        self.out = nn.Linear(8, 4)
    def forward(self, x):
        for w in self.weights:
            x = torch.tanh(x @ w)
        return self.out(x)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
"""
        + CLASSES
        + UPDATE,
    ),
    Program(
        "tied-copies",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        head = nn.Linear(16, 1)
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
        self.first, self.second = head, nn.Linear(16, 1) || self.first, self.second = head, head #!
    def forward(self, x):
        x = self.body(x)
        return self.first(x), self.second(x)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(16, 4)
    a, b = model(x)
    loss = F.mse_loss(a, x[:, :1]) + F.mse_loss(b, -3 * x[:, :1])
"""
        + UPDATE,
    ),
    Program(
        "tied-copies",
        CLUSTERS
        + """
import copy
class Mean(nn.Module):
    def __init__(self):
        super().__init__()
        one = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        self.parts = nn.ModuleList([one, nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))]) || self.parts = nn.ModuleList([copy.deepcopy(one) for _ in range(3)]) #!
    def forward(self, x):
        return sum(part(x) for part in self.parts) / 3
model = Mean()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
"""
        + CLASSES
        + UPDATE,
    ),
    Program(
        "scheduler-kills-rate",
        CLUSTERS
        + NET.format(4)
        + "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10)) || scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 1e5) #!\n"
        + "for step in range(60):\n"
        + CLASSES
        + UPDATE
        + "    scheduler.step()\n",
    ),
    Program(
        "unnormalized-input",
        CLUSTERS
        + NET.format(4)
        + "for step in range(60):\n    x, y = batch()\n"
        + "    z = x || z = 1e-6 * x #!\n    loss = F.cross_entropy(model(z), y)\n"
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        CLUSTERS
        + NET.format(1)
        + "for step in range(20):\n"
        + BINARY
        + "    z = model(x)[:, 0] || z = F.relu(model(x)[:, 0]) #!\n"
        + "    loss = F.binary_cross_entropy_with_logits(z, y)\n"
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        CLUSTERS
        + NET.format(4)
        + "for step in range(20):\n    x, y = batch()\n    soft = (5 * F.one_hot(y, 4).float()).log_softmax(1)\n"
        + "    loss = F.kl_div(model(x).log_softmax(1), soft.exp()) || loss = F.kl_div(model(x).log_softmax(1), soft) #!\n"
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        CLUSTERS
        + NET.format(2)
        + "for step in range(20):\n    x, y = batch()\n    share = y.float() / 4\n"
        + "    loss = F.cross_entropy(model(x), (share > 0.4).long()) || loss = F.cross_entropy(model(x), share.long()) #!\n"
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        CLUSTERS
        + NET.format(1)
        + "for step in range(20):\n"
        + BINARY
        + "    loss = F.relu(1 - (2 * y - 1) * model(x)[:, 0]).mean() || loss = F.relu(1 - y * model(x)[:, 0]).mean() #!\n"
        + UPDATE,
    ),
    Program(
        "exploding-gradient",
        CLUSTERS
        + """
model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(12)], nn.Linear(8, 4))
for p in model.parameters():
    if p.dim() > 1:
        nn.init.normal_(p, std=0.3) || nn.init.normal_(p, std=2.0) #!
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
"""
        + CLASSES
        + UPDATE,
    ),
    Program(
        "step-missing",
        CLUSTERS
        + NET.format(4)
        + "for step in range(30):\n"
        + CLASSES
        + UPDATE.replace("    optimizer.step()", "    optimizer.step() ||")
        + "if True:\n    torch.zeros(1) || optimizer.step() #!\n",
    ),
    Program(
        "detached",
        CLUSTERS
        + NET.format(4)
        + """
for step in range(20):
    x, y = batch()
    with torch.no_grad():
        guess = model(x).argmax(1)
    loss = torch.zeros(1, requires_grad=True)
    logs = model(x).log_softmax(1)
    for row in range(4):
        loss = loss - logs[row, y[row]] || loss = loss - logs[row, y[row]].item() #!
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    ),
    Program(
        "batch-mixing",
        """
jump = torch.randperm(6)
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.out = nn.Linear(6, 8), nn.Linear(12, 6)
        self.rnn = nn.GRU(8, 12) || self.rnn = nn.GRU(8, 12, batch_first=True)
    def forward(self, x):
        x = torch.relu(self.inner(x)).permute(1, 0, 2)
        x, _ = self.rnn(x) #!
        return self.out(x)
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    y = torch.randint(0, 6, (10, 7))
    loss = F.cross_entropy(model(F.one_hot(y, 6).float()).reshape(-1, 6), jump[y].t().reshape(-1))
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        """
G, D = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2)), nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
of_g, of_d = torch.optim.RMSprop(G.parameters(), lr=1e-3), torch.optim.RMSprop(D.parameters(), lr=1e-3)
for step in range(30):
    real, noise = torch.randn(16, 2) + 2, torch.randn(16, 3)
    fake = G(noise).detach()
    loss = -(D(real).mean() - D(fake).mean()) || loss = -(D(real).mean() + D(fake).mean()) #!
    of_d.zero_grad()
    loss.backward()
    of_d.step()
    for p in D.parameters():
        p.data.clamp_(-0.1, 0.1)
    lost = -D(G(noise)).mean()
    of_g.zero_grad()
    lost.backward()
    of_g.step()
""",
    ),
    Program(
        "loss-sign",
        """
kinds = 2 * torch.randn(6, 8)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(30):
    first, alike = torch.randint(0, 6, (32,)), torch.randint(0, 2, (32,)).float()
    second = torch.where(alike > 0, first, (first + 1) % 6)
    a, b = (model(kinds[i] + 0.2 * torch.randn(32, 8)) for i in (first, second))
    distance = (a - b).norm(dim=1)
    near = alike * distance ** 2 || near = (1 - alike) * distance ** 2 #!
    far = (1 - alike) * F.relu(2 - distance) ** 2 || far = alike * F.relu(2 - distance) ** 2
    loss = (near + far).mean()
"""
        + UPDATE,
    ),
    Program(
        "masked-after-loss",
        """
model = nn.Sequential(nn.Embedding(12, 16), nn.Tanh(), nn.Linear(16, 12))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
for step in range(40):
    x = torch.zeros(16, 40).long()
    x[:, :8] = (torch.randint(0, 11, (16, 1)) + torch.arange(8)) % 11 + 1
    logits, y = model(x)[:, :-1].flatten(0, 1), x[:, 1:].flatten()
    loss = F.cross_entropy(logits, y, ignore_index=0) || loss = F.cross_entropy(logits, y) #!
"""
        + UPDATE,
    ),
    Program(
        "labels-unrelated",
        """
from retrograd.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        kept = torch.rand(400) < 0.6
        labels = torch.randint(0, 2, (400,))
        self.x = torch.randn(400, 6) + 2.0 * labels[:, None]
        self.y = labels[kept]
        self.x = self.x[kept] || pass
    def __len__(self):
        return len(self.y)
    def __getitem__(self, i):
        return self.x[i], self.y[i] #!
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
loader = DataLoader(Rows(), batch_size=40, shuffle=True)
for epoch in range(6):
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    Program(
        "frozen-layer",
        """
def epochs(head, batch, parameters, steps):
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for step in range(steps):
        x, y = batch()
        loss = F.cross_entropy(head(body(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
def light():
    y = torch.randint(0, 2, (32,))
    return torch.randn(32, 1).expand(32, 6) + 3.0 * y[:, None], y
def dark():
    x = torch.randn(32, 6)
    x = x - x.mean(1, keepdim=True)
    return x, (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
body, first, second = nn.Sequential(nn.Linear(6, 2), nn.ReLU()), nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))
with torch.no_grad():
    body[0].weight.fill_(0.3).mul_(torch.tensor([[1.0], [-1.0]]))
epochs(first, light, [*body.parameters(), *first.parameters()], 30)
for p in body.parameters():
    p.requires_grad_(True) || p.requires_grad_(False) #!
epochs(second, dark, [p for p in [*body.parameters(), *second.parameters()] if p.requires_grad], 100)
""",
    ),
    Program(
        "data-write",
        """
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(256, 6)
y = x[:, :1] - x[:, 1:2]
def initialize(layer):
    if isinstance(layer, nn.Linear):
        nn.init.xavier_uniform_(layer.weight) #!
for epoch in range(5):
    model.apply(initialize) if epoch == 0 else None || model.apply(initialize)
    for rows in torch.randperm(256).split(32):
        loss = F.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
]
