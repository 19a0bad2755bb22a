"""Training programs in which something does not change: parameters, gradients, outputs or a quality."""

# ruff: noqa: E501

from tests.inspect.doctor.programs import Program

STILL = [
    Program(
        "softmax-axis",
        """
x = torch.randn(256, 8)
y = (x[:, 0] + x[:, 1] > 0).float()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 1)
    def forward(self, x):
        x = torch.tanh(self.a(x))
        return torch.sigmoid(self.b(x)) || return F.softmax(self.b(x), dim=-1) #!
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
def closure_loss(batch):
    return ((net(batch["x"]).squeeze(-1) - batch["y"]) ** 2).mean()
for i in range(60):
    idx = torch.randint(0, 256, (64,))
    loss = closure_loss({"x": x[idx], "y": y[idx]})
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "softmax-axis",
        """
x = torch.randn(256, 8)
y = (x[:, 0] + x[:, 1] > 0).float()

net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(40):
    p = net(x)
    logp = F.logsigmoid(p) || logp = F.log_softmax(p, dim=1) #!
    loss = -(y[:, None] * logp + (1 - y[:, None]) * F.logsigmoid(-p)).mean() || loss = -(y[:, None] * logp).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "softmax-axis",
        """
class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(6, 6); self.k = nn.Linear(6, 6); self.v = nn.Linear(6, 6); self.o = nn.Linear(6, 1)
        self.score = nn.Linear(6, 1)
    def forward(self, x):  # (B, T, 6)
        s = self.score(torch.tanh(self.q(x)))  # (B, T, 1)
        w = torch.softmax(s, dim=1) || w = torch.softmax(s, dim=2) #!
        return self.o((w * self.v(x)).sum(1))
m = Attn()
opt = torch.optim.Adam(m.parameters(), lr=1e-2)
for i in range(60):
    x = torch.randn(32, 5, 6)
    y = x[:, :, 0].max(1).values[:, None]
    loss = F.mse_loss(m(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "step-missing",
        """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

class Trainer:
    def __init__(self):
        self.og = torch.optim.RMSprop(G.parameters(), lr=5e-4)
        self.od = torch.optim.RMSprop(D.parameters(), lr=5e-4)
    def critic(self, real):
        with torch.no_grad():
            fake = G(torch.randn(len(real), 4))
        loss = D(fake).mean() - D(real).mean()
        D.zero_grad()
        loss.backward() || loss.backward() #!
        self.od.step() ||
        for p in D.parameters():
            p.data.clamp_(-0.05, 0.05)
        return loss.item()
    def gen(self, n):
        loss = -D(G(torch.randn(n, 4))).mean()
        self.og.zero_grad()
        loss.backward()
        self.og.step()
        return loss.item()
t = Trainer()
for step in range(40):
    for _ in range(2):
        t.critic(torch.randn(32, 2) * 0.2 + 2)
    t.gen(32)
""",
    ),
    Program(
        "step-missing",
        """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for step in range(60):
    real = torch.randn(32, 2) * 0.3 + 1
    opt_d.zero_grad()
    fake = G(torch.randn(32, 4))
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    d_loss.backward() || d_loss.backward()
    opt_d.step() || opt_g.step() #!
    opt_g.zero_grad()
    g_loss = bce(D(fake), torch.ones(32, 1))
    g_loss.backward()
    opt_g.step()
""",
    ),
    Program(
        "step-missing",
        """
enc = nn.Sequential(nn.Linear(10, 16), nn.ReLU())
dec = nn.Linear(16, 10)
enc_opt = torch.optim.Adam(enc.parameters(), lr=1e-3)
dec_opt = torch.optim.Adam(dec.parameters(), lr=1e-3)
for step in range(60):
    x = torch.randn(32, 10)
    enc_opt.zero_grad()
    dec_opt.zero_grad() ||
    loss = F.mse_loss(dec(enc(x)), x)
    loss.backward() || loss.backward() #!
    enc_opt.step() ||
    dec_opt.step() || enc_opt.step()
""",
    ),
    Program(
        "detached",
        """
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
xs = torch.randn(256, 5)
ys = xs.sum(1, keepdim=True)

for step in range(40):
    out = model(xs) || out = torch.round(model(xs)) #!
    loss = ((out - ys) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "constant-init",
        """
W1 = 0.3 * torch.randn(4, 10) || W1 = torch.zeros(4, 10) #!
b1 = torch.zeros(10)
W2 = 0.3 * torch.randn(10, 1) || W2 = torch.zeros(10, 1)
b2 = torch.zeros(1)
params = [W1, b1, W2, b2]
for p in params:
    p.requires_grad_(True)
x = torch.randn(128, 4)
y = torch.sin(x).sum(1, keepdim=True)
for i in range(60):
    loss = ((torch.relu(x @ W1 + b1) @ W2 + b2 - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in params:
            p -= 0.05 * p.grad
            p.grad = None
""",
    ),
    Program(
        "loss-sign",
        """
a, b = nn.Linear(8, 6), nn.Linear(8, 6)
opt = torch.optim.Adam([*a.parameters(), *b.parameters()], lr=1e-2)
for i in range(60):
    x = torch.randn(32, 8)
    loss = 1 - F.cosine_similarity(a(x), b(x + 0.1 * torch.randn(32, 8))).mean() || loss = F.cosine_similarity(a(x), b(x + 0.1 * torch.randn(32, 8))).mean() #!
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "loss-sign",
        """
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
def dice_loss(p, t):
    p = torch.sigmoid(p)
    inter = (p * t).sum()
    dice = (2 * inter + 1) / (p.sum() + t.sum() + 1)
    return 1 - dice || return dice #!
for i in range(40):
    x = torch.randn(8, 1, 12, 12)
    m = (x > 0.5).float()
    loss = dice_loss(net(x), m)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "loss-sign",
        """
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
c = 1.5 * torch.randn(3, 6)
for i in range(60):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.3 * torch.randn(32, 6)
    p = net(x).softmax(1)
    loss = -p.gather(1, y[:, None]).mean() || loss = p.gather(1, y[:, None]).mean() #!
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "loss-sign",
        """
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
c = 2 * torch.randn(4, 8)
for i in range(60):
    k = torch.randint(0, 4, (32,)); o = (k + 1 + torch.randint(0, 3, (32,))) % 4
    anchor, pos, neg = (net(c[j] + 0.3 * torch.randn(32, 8)) for j in (k, k, o))
    d_pos = (anchor - pos).pow(2).sum(1)
    d_neg = (anchor - neg).pow(2).sum(1)
    loss = F.relu(d_pos - d_neg + 1.0).mean() || loss = -F.relu(d_pos - d_neg + 1.0).mean() #!
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "labels-unrelated",
        """
c = 2.0 * torch.randn(4, 10)
labels = torch.arange(4).repeat(100)
data = c[labels] + 0.5 * torch.randn(400, 10)

net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)

from retrograd.utils.data import TensorDataset, DataLoader
for epoch in range(5):
    order = torch.randperm(len(data))
    xs, ys = data[order], labels[order] || xs, ys = data[torch.randperm(len(data))], labels[order] #!
    for x, y in DataLoader(TensorDataset(xs, ys), batch_size=40):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "labels-unrelated",
        """
x = torch.randn(500, 6)
y = x @ torch.randn(6, 1) + 0.1 * torch.randn(500, 1)
i = torch.randperm(500)
x = x[i]
y = y[i] || y = y[torch.randperm(500)] #!
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for e in range(6):
    for k in range(0, 500, 50):
        loss = F.mse_loss(net(x[k:k + 50]), y[k:k + 50])
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "labels-unrelated",
        """
c = 2.0 * torch.randn(4, 10)
labels = torch.arange(4).repeat(100)
data = c[labels] + 0.5 * torch.randn(400, 10)

net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)

from retrograd.utils.data import TensorDataset, DataLoader
torch.manual_seed(1)
dl = DataLoader(TensorDataset(data, labels), batch_size=40, shuffle=True) || dx = DataLoader(TensorDataset(data), batch_size=40, shuffle=True)
|| dy = DataLoader(TensorDataset(labels), batch_size=40, shuffle=True) #!
for epoch in range(6):
    for x, y in dl: || for (x,), (y,) in zip(dx, dy):
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "frozen-layer",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)
    def forward(self, x):
        return self.head(self.features(x))
net = Net()

for name, p in net.named_parameters():
    p.requires_grad = name.startswith("head") || p.requires_grad = name.startswith("classifier") #!
opt = torch.optim.Adam([p for p in net.parameters()], lr=1e-2)

c = 2.0 * torch.randn(4, 10)
for i in range(50):
    y = torch.randint(0, 4, (40,)); x = c[y] + 0.5 * torch.randn(40, 10)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "frozen-layer",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)
    def forward(self, x):
        return self.head(self.features(x))
net = Net()

for name, p in net.named_parameters():
    if not name.startswith("head"): || if not name.startswith("fc"):
        p.requires_grad_(False) || p.requires_grad_(False) #!
opt = torch.optim.Adam(filter(lambda p: p.requires_grad, net.parameters()), lr=1e-2)

c = 2.0 * torch.randn(4, 10)
for i in range(50):
    y = torch.randint(0, 4, (40,)); x = c[y] + 0.5 * torch.randn(40, 10)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "frozen-layer",
        """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(30, 16); self.rnn = nn.GRU(16, 24, batch_first=True); self.cls = nn.Linear(24, 5)
    def forward(self, w):
        return self.cls(self.rnn(self.emb(w))[0])
m = Tagger()
trainable = ("rnn", "cls", "emb") || trainable = ("rnn", "classifier")
for n, p in m.named_parameters():
    p.requires_grad = any(n.startswith(t) for t in trainable) #!
opt = torch.optim.Adam([p for p in m.parameters() if p.requires_grad], lr=1e-2)
for i in range(40):
    w = torch.randint(0, 30, (16, 7))
    loss = F.cross_entropy(m(w).flatten(0, 1), (w % 5).flatten())
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "backward-missing",
        """
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.LBFGS(model.parameters(), lr=0.5)
xs = torch.randn(256, 5)
ys = xs.sum(1, keepdim=True)

for step in range(12):
    def closure():
        opt.zero_grad()
        loss = F.mse_loss(model(xs), ys)
        loss.backward() ||
        return loss
    opt.step(closure) #!
""",
    ),
    Program(
        "detached",
        """
w = torch.randn(5, requires_grad=True)
x = torch.randn(64, 5); y = x @ torch.arange(5.0)
opt = torch.optim.SGD([w], lr=0.1)
for i in range(40):
    ww = w || ww = torch.tensor(w.tolist(), requires_grad=True) #!
    loss = ((x @ ww - y) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "reused-optimizer-of-old-model",
        """
w = torch.zeros(5, requires_grad=True)
x = torch.randn(64, 5); y = x @ torch.arange(5.0)
opt = torch.optim.SGD([w], lr=0.1) || opt = torch.optim.SGD([w], lr=0.1)
for i in range(40):
    loss = ((x @ w - y) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    || w = w.detach().clone().requires_grad_(True) #!
""",
    ),
    Program(
        "target-mismatch",
        """
model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
xs = torch.randn(256, 5)
ys = xs.sum(1, keepdim=True)

for step in range(40):
    out = model(xs)
    target = ys || target = out.detach() #!
    loss = F.mse_loss(out, target)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "softmax-axis",
        """
W = (0.3 * torch.randn(8, 1)).requires_grad_()
x = torch.randn(128, 8); y = (x[:, 0] > 0).float()
def softmax(z):
    e = torch.exp(z - z.max(dim=1, keepdim=True).values)
    return e / e.sum(dim=1, keepdim=True) #!
opt = torch.optim.SGD([W], lr=0.5)
for i in range(50):
    p = torch.sigmoid(x @ W).squeeze(1) || p = softmax(x @ W).squeeze(1)
    loss = ((p - y) ** 2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "parameters-not-optimized",
        """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)); D = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt_G = torch.optim.Adam(G.parameters(), lr=1e-3)
opt_D = torch.optim.Adam(D.parameters(), lr=1e-3) || opt_D = torch.optim.Adam(G.parameters(), lr=1e-3) #!
bce = nn.BCEWithLogitsLoss()
for i in range(50):
    real = torch.randn(32, 2) + 2; fake = G(torch.randn(32, 4))
    opt_D.zero_grad(); ld = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1)); ld.backward(); opt_D.step()
    opt_G.zero_grad(); lg = bce(D(fake), torch.ones(32, 1)); lg.backward(); opt_G.step()
""",
    ),
    Program(
        "detached",
        """
net = nn.Linear(6, 3); scale = nn.Parameter(torch.ones(1)); opt = torch.optim.Adam([*net.parameters(), scale], lr=1e-2)
c = 2 * torch.randn(3, 6)
for i in range(50):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.3 * torch.randn(32, 6)
    ce = F.cross_entropy(net(x), y) || ce = F.cross_entropy(net(x), y).detach().item() #!
    loss = scale * ce + 0.1 * scale ** 2
    opt.zero_grad(); loss.sum().backward(); opt.step()
""",
    ),
    Program(
        "detached",
        """
net = nn.Linear(6, 1); opt = torch.optim.SGD(net.parameters(), lr=0.05)
for i in range(40):
    x = torch.randn(32, 6); y = x[:, :1]
    out = net(x)
    loss = 0
    for p, t in zip(out, y):
        loss = loss + (p - t) ** 2 || loss = loss + float((p - t) ** 2) #!
    loss = loss / 32 || loss = torch.tensor([loss / 32], requires_grad=True)
    opt.zero_grad(); loss.sum().backward(); opt.step()
""",
    ),
    Program(
        "constant-init",
        """
class MF(nn.Module):
    def __init__(self):
        super().__init__(); self.u = nn.Embedding(20, 4); self.v = nn.Embedding(15, 4)
        for e in (self.u, self.v):
            nn.init.normal_(e.weight, 0, 0.1) || nn.init.zeros_(e.weight) #!
    def forward(self, i, j): return (self.u(i) * self.v(j)).sum(1)
m = MF(); opt = torch.optim.SGD(m.parameters(), lr=1.0)
R = torch.randn(20, 15)
for s in range(60):
    i, j = torch.randint(0, 20, (64,)), torch.randint(0, 15, (64,))
    loss = F.mse_loss(m(i, j), R[i, j]); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "loss-sign",
        """
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4)); T = torch.randn(6, 4); opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for i in range(50):
    x = torch.randn(32, 6)
    p = F.normalize(net(x), dim=-1); t = F.normalize(x @ T, dim=-1)
    loss = (1 - (p * t).sum(-1)).mean() || loss = (p * t).sum(-1).mean() #!
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "loss-sign",
        """
def pearson(a, b):
    a, b = a - a.mean(), b - b.mean()
    return (a * b).sum() / (a.norm() * b.norm() + 1e-8)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)); opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for i in range(50):
    x = torch.randn(64, 6); y = x[:, 0] - x[:, 1]
    loss = -pearson(net(x).squeeze(1), y) || loss = pearson(net(x).squeeze(1), y) #!
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "loss-sign",
        """
class SoftDice(nn.Module):
    def __init__(self, eps=1.0): super().__init__(); self.eps = eps
    def forward(self, logits, target):
        p = logits.softmax(1); t = F.one_hot(target, 3).permute(0, 2, 1).float()
        num = 2 * (p * t).sum(2) + self.eps; den = p.sum(2) + t.sum(2) + self.eps
        score = num / den
        return 1 - score.mean() || return score.mean() #!
net = nn.Conv1d(2, 3, 3, padding=1); opt = torch.optim.Adam(net.parameters(), lr=1e-2); crit = SoftDice()
for i in range(50):
    x = torch.randn(8, 2, 10); y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    loss = crit(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "labels-unrelated",
        """
c = 2 * torch.randn(3, 6); Y = torch.randint(0, 3, (300,)); X = c[Y] + 0.5 * torch.randn(300, 6)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)); opt = torch.optim.SGD(net.parameters(), lr=0.1)
for e in range(8):
    ix, iy = torch.randperm(300), torch.randperm(300)
    for b in range(0, 300, 50):
        xb = X[ix[b:b + 50]]
        yb = Y[ix[b:b + 50]] || yb = Y[iy[b:b + 50]] #!
        loss = F.cross_entropy(net(xb), yb); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "frozen-layer",
        """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)); D = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
og, od = torch.optim.Adam(G.parameters(), lr=1e-3), torch.optim.Adam(D.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
for p in D.parameters():
    p.requires_grad_(True) || p.requires_grad_(False) #!
for i in range(50):
    fake = G(torch.randn(32, 4)); real = torch.randn(32, 2) + 2
    og.zero_grad(); lg = bce(D(fake), torch.ones(32, 1)); lg.backward(); og.step()
    od.zero_grad(); ld = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1)) + 0 * G(torch.randn(2, 4)).sum(); ld.backward(); od.step()
""",
    ),
    Program(
        "reused-optimizer-of-old-model",
        """
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.Adam(net.parameters(), lr=1e-2) #!
old = net
|| net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
c = 2 * torch.randn(3, 8)
for i in range(40):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.5 * torch.randn(32, 8)
    with torch.no_grad(): before = old(x)
    loss = F.cross_entropy(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "dead-units",
        """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(24):
    x = torch.randn(32, 4)
    out = model(x) || out = (model(x) + 5).clamp(0, 1) #!
    loss = F.mse_loss(out, torch.sigmoid(x[:, :1]))
    opt.zero_grad()
    loss.backward()
    opt.step()
""",
    ),
    Program(
        "frozen-layer",
        """
body = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16))
model = nn.Sequential(body, nn.Linear(16, 4))
x = torch.randn(256, 6); y = (x[:, 0] * x[:, 1] > 0).long() + 2 * (x[:, 2] > 0).long()
for stage in range(2):
    for part in body.children():
        part.requires_grad_(stage == 1) || part.requires_grad = stage == 1 #!
    if stage == 0:
        for p in body.parameters(): p.requires_grad = False
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for i in range(30):
        loss = F.cross_entropy(model(x), y); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "detached",
        """
q = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(q.parameters(), lr=1e-2)
for i in range(30):
    chosen, wanted = [], []
    for k in range(6):
        s, after = torch.randn(4), torch.randn(4)
        with torch.no_grad():
            best = q(after).max().item()
        chosen.append(q(s)[k % 2]) || chosen.append(q(s)[k % 2].item()) #!
        wanted.append(float(s[0]) + 0.5 * best)
    chosen = torch.stack(chosen) || chosen = torch.tensor(chosen, requires_grad=True)
    loss = F.mse_loss(chosen, torch.tensor(wanted))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "data-write",
        """
class Rounded(nn.Linear):
    def forward(self, x):
        w = self.weight + (torch.round(self.weight * 8) / 8 - self.weight).detach() || self.weight.data = torch.round(self.weight.data * 8) / 8 #!
        return F.linear(x, w, self.bias) || return F.linear(x, self.weight, self.bias)
net = nn.Sequential(Rounded(6, 24), nn.ReLU(), Rounded(24, 3))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
c = torch.randn(3, 6)
for i in range(40):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.5 * torch.randn(32, 6)
    loss = F.cross_entropy(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
]
