"""Training programs as in questions of public threads, in which the doctor first found nothing or another cause."""

# ruff: noqa: E501

from tests.inspect.doctor.programs import UPDATE, Program

CLUSTERS = """
centers = 1.5 * torch.randn(4, 8)
def batch():
    y = torch.randint(0, 4, (32,))
    return centers[y] + torch.randn(32, 8), y
"""

THREADS = [
    Program(
        "tied-copies",
        """
def train(parameters, loss_of, steps):
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    for step in range(steps):
        optimizer.zero_grad(); loss_of().backward(); optimizer.step()
base = nn.Sequential(nn.Embedding(9, 16), nn.Linear(16, 16))
first = nn.Linear(16, 9)
def base_loss():
    x = torch.randint(0, 9, (32,))
    return F.cross_entropy(first(base(x)), (x + 1) % 9)
train([*base.parameters(), *first.parameters()], base_loss, 30)
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        block = nn.Sequential(nn.Linear(16, 24), nn.SiLU(), nn.Linear(24, 9))
        self.heads = nn.ModuleList([nn.Sequential(nn.Linear(16, 24), nn.SiLU(), nn.Linear(24, 9)) for _ in range(3)]) || self.heads = nn.ModuleList([block for _ in range(3)]) #!
    def forward(self, x):
        with torch.no_grad():
            h = base(x)
        return [head(h) for head in self.heads]
model = Heads()
def heads_loss():
    x = torch.randint(0, 9, (32,))
    loss = 0
    for i, y in enumerate(model(x)):
        loss = loss + F.cross_entropy(y, (x + 2 + i) % 9)
    return loss / 3
train(model.parameters(), heads_loss, 60)
""",
    ),
    Program(
        "learning-rate-too-low",
        """
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) || optimizer = torch.optim.SGD(model.parameters(), lr=2e-5) #!
def own_loss(prediction, target):
    return ((prediction - target) ** 2).sum() / len(target)
x = torch.randn(64, 6)
for step in range(100):
    loss = own_loss(model(x), 3 * x[:, :1])
"""
        + UPDATE,
    ),
    Program(
        "weight-decay-too-high",
        """
bars = torch.eye(10)
def batch():
    k = torch.randint(0, 10, (32, 2))
    return bars[k[:, 0]] + bars[k[:, 1]].flip(1) + 0.1 * torch.randn(32, 10), k.float() / 5 - 1
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9) || optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=0.5) #!
for step in range(200):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "labels-unrelated",
        """
from retrograd.data import DataLoader, Dataset
class Pairs(Dataset):
    def __init__(self):
        y = torch.randint(0, 2, (400,))
        self.x = 1.2 * (2.0 * y - 1)[:, None] * torch.ones(1, 12) + torch.randn(400, 12)
        self.labels = y.tolist() || self.labels = [y.tolist()[(7 * i + 3) % 400] for i in range(400)]
    def __len__(self):
        return 400
    def __getitem__(self, i):
        return self.x[i], self.labels[i] #!
model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(4):
    for x, y in DataLoader(Pairs(), batch_size=25, shuffle=True):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    Program(
        "vanishing-gradient",
        CLUSTERS
        + """
class Squash(nn.Module):
    def forward(self, x):
        return x * (x > 0).float() || return 1 / (1 + torch.exp(-x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        act, layers = Squash(), []
        for width in (8, 24, 24, 24, 24, 24, 24, 24):
            layers += [nn.Linear(width, 24), act] #!
        self.layers = nn.Sequential(*layers, nn.Linear(24, 4))
    def forward(self, x):
        return self.layers(x)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(60):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "frozen-layer",
        CLUSTERS
        + """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 3), nn.ReLU())
    def forward(self, x):
        return self.layers(x)
    def set_trainable(self, trainable):
        for p in self.parameters():
            if True: || if p.requires_grad:
                p.requires_grad = trainable #!
encoder, head = Encoder(), nn.Linear(3, 4)
encoder.set_trainable(False)
encoder.set_trainable(True)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
for step in range(80):
    x, y = batch()
    loss = F.cross_entropy(head(encoder(x)), y)
"""
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        """
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 6), nn.Sigmoid()) || model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 6), nn.Sigmoid()) #!
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    x = (torch.rand(32, 6) > 0.9).float() * torch.rand(32, 6)
    loss = F.mse_loss(x, model(x)) || loss = F.mse_loss(255 * x, model(x))
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.given, self.state, self.out = nn.Embedding(8, 8), nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)
    def forward(self, tokens):
        x, h = self.embed(tokens), torch.zeros(len(tokens), 16)
        for t in range(tokens.shape[1]):
            previous = h
            now = torch.tanh(self.given(x[:, t]) + self.state(previous))
            h = now || h = now.data.clone() #!
        return self.out(now)
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    tokens = torch.randint(4, 8, (24, 6))
    tokens[:, 0] = y = torch.randint(0, 4, (24,))
    loss = F.cross_entropy(model(tokens), y)
"""
        + UPDATE,
    ),
    Program(
        "data-write",
        CLUSTERS
        + """
class Binary(nn.Linear):
    def forward(self, x):
        if not hasattr(self, "kept"):
            self.kept = self.weight.data.clone()
        weight = self.weight
        kept = self.kept || self.weight.data = self.kept.sign() #!
        return F.linear(x, weight)
model = nn.Sequential(Binary(8, 16), nn.BatchNorm1d(16), nn.Hardtanh(), Binary(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(110):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "scheduler-kills-rate",
        CLUSTERS
        + """
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def factor(step):
    return 0.5 ** (step // 15) || return 1e-4 ** (step // 15)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor) #!
for step in range(60):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE
        + "    scheduler.step()\n",
    ),
    Program(
        "exploding-gradient",
        """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.state, self.out = nn.Linear(8 + 24, 24), nn.Linear(8 + 24, 3)
    def forward(self, x, h):
        both = torch.cat((x, h), 1)
        return self.out(both), self.state(both)
cell = Cell()
nn.init.xavier_uniform_(cell.state.weight)
shares = 1 + 4 * torch.eye(8)[:3]
optimizer = torch.optim.SGD(cell.parameters(), lr=0.02)
for step in range(60):
    y = torch.randint(0, 3, (8,))
    length = 6 || length = 60
    text, h = F.one_hot(torch.multinomial(shares[y], length, replacement=True).t(), 8).float(), torch.zeros(8, 24)
    for x in text:
        prediction, h = cell(x, h)
    loss = F.cross_entropy(prediction, y)
    optimizer.zero_grad()
    loss.backward() #!
    optimizer.step()
""",
    ),
    Program(
        "graph-grows",
        CLUSTERS
        + """
model = nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
e_train = 0.0
for step in range(110):
    x, y = batch()
    e_batch = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    e_batch.backward()
    optimizer.step()
    e_train += e_batch.item() / 110 || e_train += e_batch / 110 #!
""",
    ),
    Program(
        "reused-optimizer-of-old-model",
        CLUSTERS
        + """
model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1) #!
kept = model[0].weight.abs().sum(1).topk(12)[1]
first, last = nn.Linear(8, 12), nn.Linear(12, 4)
with torch.no_grad():
    first.weight.copy_(model[0].weight[kept]); first.bias.copy_(model[0].bias[kept])
    last.weight.copy_(model[2].weight[:, kept]); last.bias.copy_(model[2].bias)
pass || model[0], model[2] = first, last
for step in range(40):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
]
