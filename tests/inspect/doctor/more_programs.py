"""More training programs, broken and healthy: the kinds as they look elsewhere."""

from tests.inspect.doctor.programs import UPDATE, Program

MORE = [
    Program(
        "broadcast-loss",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 16), nn.Linear(16, 1)
    def forward(self, x, y):
        out = self.b(torch.tanh(self.a(x)))
        return torch.sqrt(torch.mean((out - y) ** 2)) #!
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 5)
    loss = model(x, x[:, :1]) || loss = model(x, x[:, 0])
"""
        + UPDATE,
    ),
    Program(
        "broadcast-loss",
        """
policy = nn.Linear(4, 1)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for step in range(40):
    s = torch.randn(32, 4)
    logp = F.logsigmoid(policy(s))
    reward = s[:, :1] || reward = s[:, 0]
    loss = -(logp * (reward - reward.mean())).mean() || loss = -(logp * (reward - reward.mean())).mean() #!
"""
        + UPDATE,
    ),
    Program(
        "double-softmax",
        """
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.o = nn.Embedding(10, 16), nn.Linear(16, 10)
        self.act = nn.Identity() || self.act = nn.Softmax(dim=-1)
    def forward(self, x):
        return self.act(self.o(self.e(x))) #!
model = LM()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randint(0, 10, (8, 5))
    loss = nn.CrossEntropyLoss()(model(x).permute(0, 2, 1), (x + 1) % 10)
"""
        + UPDATE,
    ),
    Program(
        "softmax-axis",
        """
e, o = nn.Embedding(10, 16), nn.Linear(16, 10)
optimizer = torch.optim.Adam([*e.parameters(), *o.parameters()], lr=1e-2)
for step in range(40):
    x = torch.randint(0, 10, (8, 5))
    logp = F.log_softmax(o(e(x)), dim=-1) || logp = F.log_softmax(o(e(x)), dim=1) #!
    loss = F.nll_loss(logp.view(-1, 10), ((x + 1) % 10).view(-1))
"""
        + UPDATE,
    ),
    Program(
        "softmax-axis",
        """
rnn, score, head = nn.GRU(6, 16, batch_first=True), nn.Linear(16, 1), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*rnn.parameters(), *score.parameters(), *head.parameters()], lr=1e-2)
centers = torch.randn(3, 6)
for step in range(40):
    y = torch.randint(0, 3, (16,))
    h, _ = rnn(centers[y][:, None] + 0.3 * torch.randn(16, 7, 6))
    w = F.softmax(score(h).squeeze(-1), dim=1) || w = F.softmax(score(h).squeeze(-1), dim=0) #!
    loss = F.cross_entropy(head(torch.bmm(w.unsqueeze(1), h).squeeze(1)), y)
"""
        + UPDATE,
    ),
    Program(
        "softmax-axis",
        """
centers = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3), nn.Softmax(dim=1)) ||
|| model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3), nn.Softmax(dim=0)) #!
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    y = torch.randint(0, 3, (32,))
    out = model(centers[y])
    loss = F.mse_loss(out, F.one_hot(y, 3).float())
"""
        + UPDATE,
    ),
    Program(
        "train-mode-in-evaluation",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 3)
    def forward(self, x):
        x = F.dropout(torch.relu(self.a(x)), 0.5, training=self.training) ||
        || x = F.dropout(torch.relu(self.a(x)), 0.5) #!
        return self.b(x)
centers = torch.randn(3, 6)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    model.train()
    for step in range(15):
        y = torch.randint(0, 3, (32,))
        loss = F.cross_entropy(model(centers[y]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(centers)
""",
    ),
    Program(
        "train-mode-in-evaluation",
        """
centers = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
x, y = centers[torch.arange(60) % 3], torch.arange(60) % 3
for epoch in range(30):
    model.train()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval() ||
    out = model(x) #!
    accuracy = (out.argmax(1) == y).float().mean().item()
""",
    ),
    Program(
        "modules-not-registered",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 3)
        self.ws = nn.ParameterList([nn.Parameter(0.3 * torch.randn(8, 8)) for _ in range(2)]) ||
        || self.ws = [nn.Parameter(0.3 * torch.randn(8, 8)) for _ in range(2)] #!
    def forward(self, x):
        for w in self.ws:
            x = torch.tanh(x @ w)
        return self.head(x)
centers = torch.randn(3, 8)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
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
        self.head = nn.Linear(16, 3)
        self.first = nn.Linear(6, 16)
    def forward(self, x):
        x = torch.relu(self.first(x)) || x = torch.relu(nn.Linear(6, 16)(x)) #!
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
        "gradients-not-zeroed",
        """
centers = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(3):
    optimizer.zero_grad()
    for step in range(15):
        y = torch.randint(0, 3, (32,))
        loss = F.cross_entropy(model(centers[y]), y)
        optimizer.zero_grad() ||
        loss.backward() #!
        optimizer.step()
""",
    ),
    Program(
        "step-missing",
        """
G, D = nn.Linear(4, 2), nn.Linear(2, 1)
og, od = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(D.parameters(), lr=1e-3)
loss = nn.BCEWithLogitsLoss()
for step in range(30):
    fake = G(torch.randn(16, 4))
    od.zero_grad()
    (loss(D(fake.detach()), torch.zeros(16, 1)) + loss(D(torch.randn(16, 2) + 3), torch.ones(16, 1))).backward()
    od.step()
    og.zero_grad()
    loss(D(fake), torch.ones(16, 1)).backward() #!
    og.step() ||
""",
    ),
    Program(
        "backward-missing",
        """
G, D = nn.Linear(4, 2), nn.Linear(2, 1)
og, od = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(D.parameters(), lr=1e-3)
loss = nn.BCEWithLogitsLoss()
for step in range(30):
    fake = G(torch.randn(16, 4))
    od.zero_grad()
    (loss(D(fake.detach()), torch.zeros(16, 1)) + loss(D(torch.randn(16, 2) + 3), torch.ones(16, 1))).backward()
    od.step()
    og.zero_grad()
    g_loss = loss(D(fake), torch.ones(16, 1))
    g_loss.backward() ||
    og.step() #!
""",
    ),
    Program(
        "detached",
        """
centers = torch.randn(3, 6)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
    loss = loss * 1 || loss = torch.tensor(loss.item(), requires_grad=True) #!
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
centers = torch.randn(3, 6)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    out = model(centers[y])
    out = out * 1 || out = out.data #!
    loss = F.cross_entropy(out, y)
    if step < 0: || loss.requires_grad = True
        pass ||
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
centers = torch.randn(3, 6)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    out = model(centers[y])
    pred = out || pred = out.argmax(1).float() #!
    loss = F.cross_entropy(out, y) || loss = ((pred - y) ** 2).mean()
"""
        + UPDATE,
    ),
    Program(
        "data-write",
        """
centers = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    h = model[0](centers[y])
    h = h / 2 || with torch.no_grad(): h.div_(2) #!
    loss = F.cross_entropy(model[1](h), y)
"""
        + UPDATE,
    ),
    Program(
        "constant-init",
        """
w1 = (0.3 * torch.randn(5, 16)).requires_grad_() || w1 = torch.full((5, 16), 0.1).requires_grad_() #!
w2 = (0.3 * torch.randn(16, 1)).requires_grad_() || w2 = torch.full((16, 1), 0.1).requires_grad_()
optimizer = torch.optim.SGD([w1, w2], lr=0.05)
for step in range(30):
    x = torch.randn(32, 5)
    h = torch.tanh(x @ w1)
    loss = F.mse_loss(h @ w2, x[:, :1] - x[:, 1:2])
"""
        + UPDATE,
    ),
    Program(
        "constant-init",
        """
def init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, std=0.3) || m.weight.data.fill_(0.01) #!
        m.bias.data.zero_()
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
model.apply(init)
centers = torch.randn(3, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
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
a = nn.Linear(6, 3)
b = nn.Linear(6, 3) || b = copy.deepcopy(a)
optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=1e-1)
centers = torch.randn(3, 6)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(a(centers[y]), y) + F.cross_entropy(b(centers[y]), y) ||
    || loss = F.cross_entropy(a(centers[y]), y) + F.cross_entropy(b(centers[y]), y) #!
"""
        + UPDATE,
    ),
    Program(
        "learning-rate-too-low",
        """
centers = torch.randn(4, 8)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3) ||
|| optimizer = torch.optim.Adam(model.parameters(), lr=1e-7) #!
for step in range(60):
    y = torch.randint(0, 4, (64,))
    loss = F.cross_entropy(model(centers[y] + 0.3 * torch.randn(64, 8)), y)
"""
        + UPDATE,
    ),
    Program(
        "weight-decay-too-high",
        """
centers = torch.randn(4, 8)
model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) ||
|| optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=2.0) #!
for step in range(80):
    y = torch.randint(0, 4, (64,))
    loss = F.cross_entropy(model(centers[y] + 0.3 * torch.randn(64, 8)), y)
"""
        + UPDATE,
    ),
    Program(
        "batch-mixing",
        """
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) ||
|| layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0) #!
head = nn.Linear(8, 3)
model = nn.Sequential(layer)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=1e-2)
centers = torch.randn(3, 8)
for step in range(30):
    y = torch.randint(0, 3, (12,))
    h = model(centers[y][:, None] + 0.2 * torch.randn(12, 5, 8))
    loss = F.cross_entropy(head(h.mean(1)), y)
"""
        + UPDATE,
    ),
    Program(
        "reused-optimizer-of-old-model",
        """
centers = torch.randn(3, 6)
model = nn.Linear(6, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) ||
|| optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) #!
for fold in range(3):
    model = nn.Linear(6, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) ||
    for step in range(20):
        y = torch.randint(0, 3, (32,))
        loss = F.cross_entropy(model(centers[y]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    Program(
        "wrong-reduction-scale",
        """
enc, dec = nn.Linear(16, 8), nn.Linear(4, 16)
optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
base = torch.randn(3, 16)
for step in range(60):
    x = base[torch.randint(0, 3, (32,))]
    mu, logvar = enc(x).chunk(2, dim=1)
    out = dec(mu + torch.randn_like(mu) * (0.5 * logvar).exp())
    rec = F.mse_loss(out, x, reduction="sum") || rec = F.mse_loss(out, x) #!
    loss = rec - 0.5 * torch.sum(1 + logvar - mu**2 - logvar.exp())
    loss = loss / 32 ||
"""
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        """
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 6)
    out = model(x) || out = torch.relu(model(x)) #!
    loss = F.mse_loss(out, x[:, :1] * 2)
"""
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        """
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 6)
    y = (x[:, 0] > 0).long() || y = (x[:, 0] > 0).long() + 2
    loss = F.cross_entropy(model(x), y) || loss = F.cross_entropy(model(x), y) #!
"""
        + UPDATE,
    ),
    Program(
        "nan-birth",
        """
x = torch.randn(200, 5)
x[:, 3] = x[:, 3] || x[:, 3] = 1.0
x = (x - x.mean(0)) / (x.std(0) + 1e-8) || x = (x - x.mean(0)) / x.std(0)
model = nn.Linear(5, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    loss = F.mse_loss(model(x), x[:, :1]) || loss = F.mse_loss(model(x), x[:, :1]) #!
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        """
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) ||
|| optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, maximize=True)
for step in range(40):
    x = torch.randn(32, 6)
    loss = F.mse_loss(model(x), x[:, :1] * 2) || loss = F.mse_loss(model(x), x[:, :1] * 2) #!
"""
        + UPDATE,
    ),
    Program(
        "unshuffled-data",
        """
centers = 2 * torch.randn(5, 6)
y = torch.arange(500) // 100
x = centers[y] + 0.4 * torch.randn(500, 6)
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    order = torch.randperm(500) || order = torch.arange(500)
    for i in range(0, 500, 25):
        k = order[i:i + 25]
        out = model(x[k]) || out = model(x[k]) #!
        loss = F.cross_entropy(out, y[k])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    ),
    Program(
        "scheduler-kills-rate",
        """
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100) ||
|| scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [4, 8, 12], gamma=0.05)
w = torch.randn(5, 1)
for step in range(100):
    x = torch.randn(32, 5)
    loss = F.mse_loss(model(x), x @ w)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step() #!
""",
    ),
    Program(
        "dead-units",
        """
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 1))
nn.init.constant_(model[0].bias, 0) || nn.init.constant_(model[0].bias, -20) #!
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(40):
    x = torch.randn(32, 1, 8, 8)
    out = model(x)
    loss = F.mse_loss(out, x[:, 0, 0, :1] * 2)
"""
        + UPDATE,
    ),
    Program(
        "accumulation-unscaled",
        """
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
for step in range(12):
    for _ in range(8):
        x = torch.randn(16, 6)
        out = model(x)
        loss = 0.5 * F.cross_entropy(out, x[:, :3].argmax(1)) + 0.5 * out.pow(2).mean()
        (loss / 8).backward() || loss.backward() #!
    optimizer.step()
    optimizer.zero_grad()
""",
    ),
    Program(
        "train-mode-in-evaluation",
        """
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    model.train()
    for _ in range(12):
        x = torch.randn(32, 6)
        loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval() ||
    for _ in range(5):
        x = torch.randn(32, 6)
        loss = F.cross_entropy(model(x), x[:, :3].argmax(1)) || loss = F.cross_entropy(model(x), x[:, :3].argmax(1)) #!
""",
    ),
    Program(
        "broadcast-loss",
        """
model = nn.GRU(1, 16, batch_first=True)
head = nn.Linear(16, 1)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=0.01)
for step in range(40):
    wave = torch.sin(torch.arange(9.0) * 0.5 + 6 * torch.rand(12, 1)).unsqueeze(2)
    states, _ = model(wave[:, :8])
    loss = 0
    for t in range(8):
        y = wave[:, t + 1] || y = wave[0, t + 1].unsqueeze(0)
        loss = loss + F.mse_loss(head(states[:, t]), y) || loss = loss + F.mse_loss(head(states[:, t]), y) #!
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        """
actor = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1), nn.Tanh())
critic = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
acting = torch.optim.Adam(actor.parameters(), lr=1e-3)
learning = torch.optim.Adam(critic.parameters(), lr=3e-3)
for step in range(60):
    state = torch.randn(32, 2)
    action = torch.rand(32, 1) * 2 - 1
    reward = -(action - torch.tanh(state[:, :1])) ** 2
    loss = F.mse_loss(critic(torch.cat([state, action], 1)), reward)
    learning.zero_grad()
    loss.backward()
    learning.step()
    value = critic(torch.cat([state, actor(state)], 1))
    loss = -value.mean() || loss = value.mean() #!
    acting.zero_grad()
    loss.backward()
    acting.step()
""",
    ),
    Program(
        "loss-sign",
        """
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 5))
opt = torch.optim.Adam(policy.parameters(), lr=0.01)
baseline = 0.0
for step in range(60):
    state = torch.randn(64, 4)
    chosen = torch.distributions.Categorical(logits=policy(state))
    action = chosen.sample()
    cost = (action == state.argmax(1)).float()
    baseline = 0.9 * baseline + 0.1 * cost.mean().item()
    weighted = chosen.log_prob(action) * (cost - baseline) #!
    loss = -weighted.mean() || loss = weighted.mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
]
