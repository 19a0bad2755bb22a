"""More healthy trainings, as they are written elsewhere."""

# ruff: noqa: E501

MORE = {
    "a GAN with batch norm that draws samples": """
G = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16), nn.Tanh())
D = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(64, 1), nn.Sigmoid())
og = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.999)); od = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.999))
crit = nn.BCELoss()
fixed = torch.randn(8, 8)
for step in range(80):
    D.zero_grad()
    real = torch.tanh(torch.randn(32, 16) + 1)
    label = torch.full((32,), 1.0)
    e1 = crit(D(real).view(-1), label); e1.backward()
    fake = G(torch.randn(32, 8))
    label.fill_(0.0)
    e2 = crit(D(fake.detach()).view(-1), label); e2.backward()
    od.step()
    G.zero_grad()
    label.fill_(1.0)
    e3 = crit(D(fake).view(-1), label); e3.backward()
    og.step()
    if step % 20 == 0:
        with torch.no_grad():
            G(fixed).detach()
""",
    "a GAN whose discriminator needs no gradient in the generator's turn": """
torch.manual_seed(10)
G = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
D = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
og = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.9)); od = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.9))
bce = nn.BCEWithLogitsLoss()
goal = torch.tensor([2.0, -1.0])
for it in range(300):
    for p in D.parameters():
        p.requires_grad_(True)
    real = goal + 0.3 * torch.randn(64, 2)
    with torch.no_grad():
        fake = G(torch.randn(64, 4))
    d_loss = bce(D(real), torch.full((64, 1), 0.9)) + bce(D(fake), torch.zeros(64, 1))
    od.zero_grad(); d_loss.backward(); od.step()
    for p in D.parameters():
        p.requires_grad_(False)
    g_loss = bce(D(G(torch.randn(64, 4))), torch.ones(64, 1))
    og.zero_grad(); g_loss.backward(); og.step()
""",
    "a language model with truncated backpropagation": """
class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(20, 16); self.r = nn.LSTM(16, 32, 2, dropout=0.2, batch_first=True); self.o = nn.Linear(32, 20)
    def forward(self, x, h=None):
        y, h = self.r(self.e(x), h)
        return self.o(y), h
data = torch.arange(2000) % 17
model = LM(); opt = torch.optim.Adam(model.parameters(), lr=1e-2)
h = None
for step in range(60):
    i = step * 20 % 1500
    x = torch.stack([data[i + k:i + k + 20] for k in range(8)]); y = torch.stack([data[i + k + 1:i + k + 21] for k in range(8)])
    out, h = model(x, h)
    h = tuple(t.detach() for t in h)
    loss = F.cross_entropy(out.reshape(-1, 20), y.reshape(-1))
    opt.zero_grad(); loss.backward(); nn.utils.clip_grad_norm_(model.parameters(), 0.5); opt.step()
""",
    "a momentum teacher written by .data": """
import copy
enc, pred = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8)), nn.Linear(8, 8)
tgt = copy.deepcopy(enc)
for p in tgt.parameters(): p.requires_grad = False
opt = torch.optim.Adam([*enc.parameters(), *pred.parameters()], lr=1e-3)
for step in range(60):
    x = torch.randn(32, 10)
    a, b = x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)
    pa, pb = pred(enc(a)), pred(enc(b))
    with torch.no_grad():
        ta, tb = tgt(a), tgt(b)
    loss = -(F.cosine_similarity(pa, tb).mean() + F.cosine_similarity(pb, ta).mean())
    opt.zero_grad(); loss.backward(); opt.step()
    for p, q in zip(tgt.parameters(), enc.parameters()):
        p.data = 0.99 * p.data + 0.01 * q.data
""",
    "a stopped gradient on one branch": """
enc, pred = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8)), nn.Linear(8, 8)
opt = torch.optim.SGD([*enc.parameters(), *pred.parameters()], lr=0.05, momentum=0.9)
for step in range(60):
    x = torch.randn(32, 10)
    z1, z2 = enc(x + 0.1 * torch.randn_like(x)), enc(x + 0.1 * torch.randn_like(x))
    loss = -0.5 * (F.cosine_similarity(pred(z1), z2.detach()).mean() + F.cosine_similarity(pred(z2), z1.detach()).mean())
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "PPO": """
actor, critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)), nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=3e-3)
for it in range(15):
    s = torch.randn(64, 4)
    with torch.no_grad():
        d = torch.distributions.Categorical(logits=actor(s)); a = d.sample(); old = d.log_prob(a); v = critic(s).squeeze(-1)
    r = (a == (s[:, 0] > 0).long()).float()
    adv = r - v; adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for k in range(4):
        d = torch.distributions.Categorical(logits=actor(s))
        ratio = (d.log_prob(a) - old).exp()
        pl = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        vl = (critic(s).squeeze(-1) - r).pow(2).mean()
        loss = pl + 0.5 * vl - 0.01 * d.entropy().mean()
        opt.zero_grad(); loss.backward(); opt.step()
""",
    "a density whose loss is negative": """
mu, log_s = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))
opt = torch.optim.Adam([mu, log_s], lr=5e-2)
for step in range(120):
    x = 0.02 * torch.randn(64, 4) + 0.5
    z = (x - mu) * torch.exp(-log_s)
    loss = (0.5 * z ** 2 + log_s + 0.919).sum(1).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a predicted standard deviation": """
net = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(100):
    x = torch.randn(64, 3); y = x[:, :1] * 0.1 + 0.01 * torch.randn(64, 1)
    m, s = net(x).chunk(2, 1)
    loss = -torch.distributions.Normal(m, s.exp()).log_prob(y).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a triplet loss of one network": """
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
c = torch.randn(5, 6)
crit = nn.TripletMarginLoss(margin=1.0)
for step in range(60):
    i = torch.randint(0, 5, (32,)); j = (i + torch.randint(1, 5, (32,))) % 5
    a, p, n = (c[k] + 0.2 * torch.randn(32, 6) for k in (i, i, j))
    loss = crit(net(a), net(p), net(n))
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "teacher forcing with sequences of different lengths": """
import random
random.seed(0)
enc, dec, emb, out = nn.GRU(16, 32, batch_first=True), nn.GRUCell(16, 32), nn.Embedding(12, 16), nn.Linear(32, 12)
drop = nn.Dropout(0.1)
opt = torch.optim.Adam([p for m in (enc, dec, emb, out) for p in m.parameters()], lr=5e-3)
for step in range(50):
    T = random.randint(3, 6)
    x = torch.randint(1, 12, (16, T))
    _, h = enc(emb(x)); h = h[0]
    tok = torch.zeros(16, dtype=torch.long); loss = 0
    for t in range(T):
        h = dec(drop(emb(tok)), h)
        logits = out(h)
        loss = loss + F.cross_entropy(logits, x[:, t])
        tok = x[:, t] if random.random() < 0.5 else logits.argmax(1)
    loss = loss / T
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "loaders, validation and a one-cycle schedule": """
from retrograd.data import DataLoader, TensorDataset
c = 1.5 * torch.randn(4, 8)
y = torch.arange(400) % 4; x = c[y] + 0.5 * torch.randn(400, 8)
tr, va = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=32, shuffle=True), DataLoader(TensorDataset(x[320:], y[320:]), batch_size=40)
model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
sch = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, steps_per_epoch=len(tr), epochs=6)
best = 0
for ep in range(6):
    model.train(); tot = 0.0
    for a, b in tr:
        opt.zero_grad()
        loss = F.cross_entropy(model(a), b, label_smoothing=0.1)
        loss.backward(); opt.step(); sch.step(); tot += loss.item()
    model.eval(); ok = 0
    with torch.no_grad():
        for a, b in va:
            ok += (model(a).argmax(1) == b).sum().item()
    if ok >= best:
        best = ok; state = {k: v.clone() for k, v in model.state_dict().items()}
model.load_state_dict(state)
""",
    "a schedule that follows the loss": """
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(model.parameters(), lr=0.05)
sch = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=5)
x = torch.randn(200, 4); y = 30 + 10 * x[:, :1]
for ep in range(150):
    loss = F.mse_loss(model(x), y)
    opt.zero_grad(); loss.backward(); opt.step(); sch.step(loss.item())
""",
    "parametrized weights": """
sn = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 16)); wn = nn.utils.parametrizations.weight_norm(nn.Linear(16, 3))
model = nn.Sequential(sn, nn.ReLU(), wn)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
c = torch.randn(3, 6)
for step in range(50):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(c[y]), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "checkpointed segments": """
from retrograd.utils.checkpoint import checkpoint
a, b, c_ = nn.Linear(6, 32), nn.Linear(32, 32), nn.Linear(32, 3)
opt = torch.optim.Adam([p for m in (a, b, c_) for p in m.parameters()], lr=1e-2)
c = torch.randn(3, 6)
for step in range(40):
    y = torch.randint(0, 3, (32,))
    h = checkpoint(lambda t: torch.relu(b(torch.relu(a(t)))), c[y], use_reentrant=False)
    loss = F.cross_entropy(c_(h), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a transformer encoder": """
layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(10, 16); self.t = nn.TransformerEncoder(layer, 2); self.o = nn.Linear(16, 2)
    def forward(self, x):
        return self.o(self.t(self.e(x)).mean(1))
net = Net(); opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
for step in range(50):
    y = torch.randint(0, 2, (24,)); x = torch.randint(0, 5, (24, 7)) + 5 * y[:, None]
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a graph network on all nodes": """
N = 40
adj = (torch.rand(N, N) < 0.1).float(); adj = ((adj + adj.T) > 0).float() + torch.eye(N); adj = adj / adj.sum(1, keepdim=True)
x = torch.randn(N, 8); y = (adj @ x)[:, 0].gt(0).long()
class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 2)
    def forward(self, x, adj):
        return self.b(adj @ torch.relu(self.a(adj @ x)))
net = GCN(); opt = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
mask = torch.arange(N) < 30
for step in range(60):
    out = F.log_softmax(net(x, adj), dim=1)
    loss = F.nll_loss(out[mask], y[mask])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "ignored and masked targets": """
net = nn.Sequential(nn.Embedding(13, 16), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 13))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(60):
    x = torch.randint(1, 13, (16, 8)); m = torch.rand(16, 8) < 0.2
    tgt = x.masked_fill(~m, -100)
    mask = (x != 3).float()
    out = net(x)
    loss = F.cross_entropy(out.transpose(1, 2), tgt) + 0.1 * (F.cross_entropy(out.transpose(1, 2), x, reduction="none") * mask).sum() / mask.sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "negative sampling": """
u, v = nn.Embedding(30, 16, sparse=False), nn.Embedding(30, 16)
opt = torch.optim.Adagrad([*u.parameters(), *v.parameters()], lr=0.1)
for step in range(60):
    c = torch.randint(0, 30, (32,)); o = (c + 1) % 30; neg = torch.randint(0, 30, (32, 5))
    pos = F.logsigmoid((u(c) * v(o)).sum(1)).mean()
    ng = F.logsigmoid(-torch.bmm(v(neg), u(c).unsqueeze(2)).squeeze(2)).sum(1).mean()
    loss = -(pos + ng)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "quantile regression on pairs": """
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 8))
opt = torch.optim.Adam(q.parameters(), lr=1e-3)
tau = (torch.arange(8) + 0.5) / 8
for step in range(60):
    s = torch.randn(32, 4); target = (s[:, :1] + torch.randn(32, 8)).detach()
    d = target.unsqueeze(1) - q(s).unsqueeze(2)
    loss = (torch.where(d.abs() < 1, 0.5 * d ** 2, d.abs() - 0.5) * (tau[None, :, None] - (d.detach() < 0).float()).abs()).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "adversarial examples": """
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
c = 2 * torch.randn(3, 6)
for step in range(50):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.3 * torch.randn(32, 6)
    xa = x.clone().requires_grad_(True)
    g, = torch.autograd.grad(F.cross_entropy(model(xa), y), xa)
    loss = F.cross_entropy(model((x + 0.1 * g.sign()).detach()), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "sharpness-aware minimization": """
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
c = 2 * torch.randn(3, 6)
for step in range(50):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.3 * torch.randn(32, 6)
    F.cross_entropy(model(x), y).backward()
    eps = []
    with torch.no_grad():
        n = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
        for p in model.parameters():
            e = 0.05 * p.grad / (n + 1e-12); p.add_(e); eps.append(e)
    opt.zero_grad()
    F.cross_entropy(model(x), y).backward()
    with torch.no_grad():
        for p, e in zip(model.parameters(), eps): p.sub_(e)
    opt.step(); opt.zero_grad()
""",
    "meta-learning": """
w = torch.randn(1, 1, requires_grad=True); b = torch.zeros(1, requires_grad=True)
opt = torch.optim.Adam([w, b], lr=1e-2)
for it in range(40):
    loss = 0
    for task in range(4):
        k = torch.randn(1); x = torch.randn(10, 1); y = k * x
        l = ((x @ w + b - y) ** 2).mean()
        gw, gb = torch.autograd.grad(l, (w, b), create_graph=True)
        x2 = torch.randn(10, 1)
        loss = loss + ((x2 @ (w - 0.1 * gw) + (b - 0.1 * gb) - k * x2) ** 2).mean()
    opt.zero_grad(); (loss / 4).backward(); opt.step()
""",
    "mixup and an auxiliary head": """
trunk, head, aux = nn.Sequential(nn.Linear(6, 32), nn.ReLU()), nn.Linear(32, 3), nn.Linear(32, 3)
opt = torch.optim.AdamW([{"params": trunk.parameters(), "lr": 1e-3}, {"params": [*head.parameters(), *aux.parameters()]}], lr=1e-2, weight_decay=0.1)
sch = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 20)
c = 2 * torch.randn(3, 6)
for step in range(80):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.3 * torch.randn(32, 6)
    p = torch.randperm(32); lam = 0.7
    h = trunk(lam * x + (1 - lam) * x[p])
    loss = lam * F.cross_entropy(head(h), y) + (1 - lam) * F.cross_entropy(head(h), y[p]) + 0.3 * F.cross_entropy(aux(h), y)
    opt.zero_grad(set_to_none=False); loss.backward(); opt.step(); sch.step()
""",
    "segmentation with a dice loss": """
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 1, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(30):
    x = torch.randn(4, 1, 12, 12); y = (x > 0.3).float()
    out = net(x)
    p = out.sigmoid()
    dice = 1 - (2 * (p * y).sum((1, 2, 3)) + 1) / (p.sum((1, 2, 3)) + y.sum((1, 2, 3)) + 1)
    loss = F.binary_cross_entropy_with_logits(out, y) + dice.mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a trunk that is trained first and then frozen": """
enc, dec, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 8), nn.Linear(16, 2)
c = torch.randn(2, 8)
o1 = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
for s in range(30):
    x = c[torch.randint(0, 2, (32,))] + 0.3 * torch.randn(32, 8)
    l = F.mse_loss(dec(enc(x)), x); o1.zero_grad(); l.backward(); o1.step()
for p in enc.parameters(): p.requires_grad = False
model = nn.Sequential(enc, head)
o2 = torch.optim.Adam(model.parameters(), lr=1e-2)
for s in range(60):
    y = torch.randint(0, 2, (32,)); x = c[y] + 0.3 * torch.randn(32, 8)
    l = F.cross_entropy(model(x), y); o2.zero_grad(); l.backward(); o2.step()
""",
    "labels with much noise": """
x = torch.randn(2000, 10); y = torch.randint(0, 2, (2000,))
y[:400] = (x[:400, 0] > 0).long()
model = nn.Linear(10, 2); opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(80):
    i = torch.randint(0, 2000, (64,))
    loss = F.cross_entropy(model(x[i]), y[i])
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "an ensemble in a loop": """
models = [nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)) for _ in range(3)]
opts = [torch.optim.Adam(m.parameters(), lr=1e-2) for m in models]
c = torch.randn(3, 6)
for step in range(30):
    y = torch.randint(0, 3, (32,))
    for m, o in zip(models, opts):
        loss = F.cross_entropy(m(c[y]), y)
        o.zero_grad(); loss.backward(); o.step()
""",
    "averaged weights with new statistics": """
from retrograd.optim.swa_utils import AveragedModel, update_bn
c = torch.randn(3, 6)
model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
avg = AveragedModel(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(60):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(c[y]), y)
    opt.zero_grad(); loss.backward(); opt.step()
    if step > 30: avg.update_parameters(model)
update_bn([c[torch.randint(0, 3, (32,))] for _ in range(5)], avg)
""",
    "an update by hand": """
W = torch.randn(4, 16) * .5; b = torch.zeros(16); V = torch.randn(16, 1) * .2
for p in (W, b, V): p.requires_grad_()
X = torch.randn(100, 4); Y = X[:, :1] * X[:, 1:2]
for i in range(80):
    loss = ((torch.tanh(X @ W + b) @ V - Y) ** 2).mean(); loss.backward()
    with torch.no_grad():
        for p in (W, b, V): p -= 0.1 * p.grad; p.grad.zero_()
""",
    "momentum by hand": """
m = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1)); vel = [torch.zeros_like(p) for p in m.parameters()]; X = torch.randn(80, 3); Y = X.sum(1, keepdim=True)
for i in range(60):
    m.zero_grad(); F.mse_loss(m(X), Y).backward()
    for p, v in zip(m.parameters(), vel): v.mul_(0.9).add_(p.grad); p.data.add_(v, alpha=-0.02)
""",
    "sigmoid of sigmoid inside a network": """
class G2(nn.Module):
    def __init__(s): super().__init__(); s.a, s.b, s.c = nn.Linear(5, 16), nn.Linear(16, 16), nn.Linear(16, 1)
    def forward(s, x): return s.c(torch.tanh(s.b(torch.sigmoid(torch.sigmoid(s.a(x))))))
m = G2(); o = torch.optim.Adam(m.parameters(), 1e-2); X = torch.randn(100, 5); Y = X[:, :1]
for i in range(60): o.zero_grad(); F.mse_loss(m(X), Y).backward(); o.step()
""",
    "accumulation with a last group that is smaller": """
m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)); o = torch.optim.AdamW(m.parameters(), 3e-3); X = torch.randn(250, 8); Y = X[:, :3].argmax(1); A = 4
for ep in range(6):
    idx = torch.randperm(250); chunks = idx.split(16)
    for i, k in enumerate(chunks):
        loss = F.cross_entropy(m(X[k]), Y[k]) / A; loss.backward()
        if (i + 1) % A == 0 or i + 1 == len(chunks): o.step(); o.zero_grad()
""",
    "dropout that samples predictions": """
m = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1)); o = torch.optim.Adam(m.parameters(), 1e-2); X = torch.randn(128, 4); Y = X[:, :1] * X[:, 1:2]
for ep in range(40): o.zero_grad(); F.mse_loss(m(X), Y).backward(); o.step()
m.eval()
for l in m:
    if isinstance(l, nn.Dropout): l.train()
with torch.no_grad(): samples = torch.stack([m(X) for _ in range(10)]); print(samples.std(0).mean())
""",
    "two phases with an optimizer each": """
X = torch.randn(200, 8); Y = (X[:, 0] > 0).long(); e, d = nn.Sequential(nn.Linear(8, 6), nn.Tanh()), nn.Linear(6, 8); o1 = torch.optim.Adam([*e.parameters(), *d.parameters()], 1e-2)
for i in range(40): o1.zero_grad(); F.mse_loss(d(e(X)), X).backward(); o1.step()
for p in e.parameters(): p.requires_grad = False
c = nn.Linear(6, 2); o2 = torch.optim.SGD(c.parameters(), 0.5)
for i in range(60): o2.zero_grad(); F.cross_entropy(c(e(X)), Y).backward(); o2.step()
""",
    "an image that is optimized by hand": """
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).eval(); img = torch.zeros(1, 1, 8, 8, requires_grad=True)
for i in range(40):
    score = -net(img)[0, 1] + 0.01 * img.pow(2).sum(); score.backward()
    with torch.no_grad(): img -= 0.1 * img.grad / (img.grad.norm() + 1e-8)
    img.grad.zero_()
""",
    "adversarial examples by hand": """
m = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2)); o = torch.optim.Adam(m.parameters(), 1e-2); X = torch.randn(200, 6); Y = (X[:, 0] > 0).long()
for i in range(50):
    x = X[torch.randint(0, 200, (32,))].clone().requires_grad_(); y = (x.detach()[:, 0] > 0).long(); l = F.cross_entropy(m(x), y); l.backward()
    adv = (x + 0.05 * x.grad.sign()).detach(); o.zero_grad(); F.cross_entropy(m(adv), y).backward(); o.step()
""",
    "a GAN with two backward passes on a line": """
G = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2)); D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1), nn.Sigmoid()); og, od = torch.optim.Adam(G.parameters(), 2e-4, betas=(.5, .999)), torch.optim.Adam(D.parameters(), 2e-4, betas=(.5, .999)); bce = nn.BCELoss()
for i in range(80):
    real = torch.randn(32, 2) * .5 + 1; one, zero = torch.ones(32, 1), torch.zeros(32, 1)
    od.zero_grad(); l1 = bce(D(real), one); l1.backward(); fake = G(torch.randn(32, 4)); l2 = bce(D(fake.detach()), zero); l2.backward(); od.step()
    og.zero_grad(); l3 = bce(D(fake), one); l3.backward(); og.step()
    if i % 20 == 0:
        with torch.no_grad(): G(torch.randn(8, 4))
""",
    "a small penalty by hand": """
m = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)); o = torch.optim.SGD(m.parameters(), 0.1); X = torch.randn(200, 8); Y = X[:, :3].argmax(1)
for i in range(80): loss = F.cross_entropy(m(X), Y) + 1e-3 * sum((p ** 2).sum() for p in m.parameters()); o.zero_grad(); loss.backward(); o.step()
""",
    "batches with positives first": """
m = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1)); o = torch.optim.Adam(m.parameters(), 1e-2); y = torch.cat([torch.ones(16), torch.zeros(16)])
for i in range(60): x = torch.randn(32, 5) + y[:, None]; o.zero_grad(); F.binary_cross_entropy_with_logits(m(x)[:, 0], y).backward(); o.step()
""",
    "critic on features that are cut off on purpose": """
body = nn.Sequential(nn.Linear(6, 32), nn.Tanh()); pi = nn.Linear(32, 3); v = nn.Linear(32, 1)
opt = torch.optim.Adam([*body.parameters(), *pi.parameters(), *v.parameters()], lr=3e-3)
for i in range(150):
    s = torch.randn(64, 6); f = body(s); d = torch.distributions.Categorical(logits=pi(f)); a = d.sample()
    r = (a == s[:, :3].argmax(1)).float() + 0.5 * s[:, 0]; val = v(f.detach()).squeeze(1)
    loss = -(d.log_prob(a) * (r - val).detach()).mean() + 0.5 * F.mse_loss(val, r) - 0.01 * d.entropy().mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "log-variances below 1 times a mask": """
net = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 2)); opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for i in range(150):
    x = torch.randn(64, 5); y = x[:, 0] + 0.3 * torch.randn(64) * (1 + x[:, 1].abs())
    o, m = net(x), (torch.rand(64) < 0.8).float(); var = F.softplus(o[:, 1]) + 1e-3
    loss = (m * (torch.log(var) + (y - o[:, 0]) ** 2 / var)).sum() / m.sum()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "attention over all rows as one sequence": """
e, att, out = nn.Linear(4, 16), nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 1)
opt = torch.optim.Adam([p for m in (e, att, out) for p in m.parameters()], lr=1e-2)
for i in range(80):
    x = torch.randn(30, 4); h = e(x).unsqueeze(0); h = h + att(h, h, h)[0]
    loss = F.mse_loss(out(h[0]), x[:, :1] - x[:, :1].mean()); opt.zero_grad(); loss.backward(); opt.step()
""",
    "time-first rnn, as many steps as examples": """
m = nn.GRU(3, 16); o = nn.Linear(16, 2); opt = torch.optim.Adam([*m.parameters(), *o.parameters()], lr=1e-2)
for i in range(60):
    y = torch.randint(0, 2, (16,)); x = torch.randn(16, 16, 3) + y[None, :, None].float()
    h, _ = m(x)
    loss = F.cross_entropy(o(h[-1]), y); opt.zero_grad(); loss.backward(); opt.step()
""",
    "wgan with clipping": """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)); D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = torch.optim.RMSprop(G.parameters(), lr=5e-4), torch.optim.RMSprop(D.parameters(), lr=5e-4)
for s in range(40):
    for _ in range(3):
        real = torch.randn(32, 2) * 0.2 + 2; fake = G(torch.randn(32, 4)).detach()
        score = D(fake).mean() - D(real).mean(); od.zero_grad(); score.backward(); od.step()
        for p in D.parameters(): p.data.clamp_(-0.05, 0.05)
    gl = -D(G(torch.randn(32, 4))).mean(); og.zero_grad(); gl.backward(); og.step()
""",
    "byol: detached targets and cosine": """
import copy
on = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 8)); pr = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)); ta = copy.deepcopy(on)
opt = torch.optim.Adam([*on.parameters(), *pr.parameters()], lr=1e-3)
for i in range(60):
    x = torch.randn(32, 10); a, b = x + 0.1 * torch.randn(32, 10), x + 0.1 * torch.randn(32, 10)
    p = F.normalize(pr(on(a)), dim=1); t = F.normalize(ta(b), dim=1).detach()
    loss = 2 - 2 * (p * t).sum(1).mean(); opt.zero_grad(); loss.backward(); opt.step()
    for u, v in zip(ta.parameters(), on.parameters()): u.data = 0.95 * u.data + 0.05 * v.data
""",
    "functional leaves with backward": """
params = {"w1": torch.randn(4, 16) * 0.4, "b1": torch.zeros(16), "w2": torch.randn(16, 1) * 0.2, "b2": torch.zeros(1)}
params = {k: v.requires_grad_() for k, v in params.items()}
x = torch.randn(128, 4); y = torch.sin(x).sum(1, keepdim=True)
for i in range(60):
    out = torch.tanh(x @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]
    loss = F.mse_loss(out, y); loss.backward()
    params = {k: (v - 0.1 * v.grad).detach().requires_grad_() for k, v in params.items()}
""",
    "phases with optimizers created first": """
enc, head = nn.Sequential(nn.Linear(6, 16), nn.ReLU()), nn.Linear(16, 3)
oh = torch.optim.Adam(head.parameters(), lr=1e-2); oe = torch.optim.Adam(enc.parameters(), lr=1e-3)
c = 2 * torch.randn(3, 6)
for i in range(80):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.5 * torch.randn(32, 6)
    loss = F.cross_entropy(head(enc(x)), y)
    oh.zero_grad(); oe.zero_grad(); loss.backward(); oh.step()
    if i >= 40: oe.step()
""",
    "vq-vae": """
enc, dec, book = nn.Linear(6, 4), nn.Linear(4, 6), nn.Embedding(16, 4); opt = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *book.parameters()], lr=1e-2)
for i in range(60):
    x = torch.randn(32, 6); z = enc(x); k = torch.cdist(z, book.weight).argmin(1); e = book(k)
    q = z + (e - z).detach()
    loss = F.mse_loss(dec(q), x) + F.mse_loss(e, z.detach()) + 0.25 * F.mse_loss(z, e.detach()); opt.zero_grad(); loss.backward(); opt.step()
""",
    "orthogonality penalty": """
a, b = nn.Linear(6, 8), nn.Linear(6, 8); h = nn.Linear(16, 3); opt = torch.optim.Adam([*a.parameters(), *b.parameters(), *h.parameters()], lr=1e-2)
c = 2 * torch.randn(3, 6)
for i in range(60):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.5 * torch.randn(32, 6); u, v = a(x), b(x)
    loss = F.cross_entropy(h(torch.cat([u, v], 1)), y) + 0.1 * F.cosine_similarity(u, v).abs().mean(); opt.zero_grad(); loss.backward(); opt.step()
""",
    "zero-init last layer, one output": """
net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1)); nn.init.zeros_(net[2].weight); nn.init.zeros_(net[2].bias)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for i in range(80):
    x = torch.randn(32, 6); y = torch.sin(x).sum(1, keepdim=True)
    loss = F.mse_loss(net(x), y); opt.zero_grad(); loss.backward(); opt.step()
""",
    "vq-vae whose commitment loss rises first": """
class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.book = nn.Embedding(32, 4)
        nn.init.uniform_(self.book.weight, -0.5, 0.5)
    def forward(self, z):
        q = self.book(torch.cdist(z, self.book.weight).argmin(1))
        return z + (q - z).detach(), F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
torch.manual_seed(17)
centers = torch.randn(10, 12)
enc = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 4))
vq = Quantizer()
dec = nn.Sequential(nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 12))
opt = torch.optim.Adam([*enc.parameters(), *vq.parameters(), *dec.parameters()], lr=3e-3)
for it in range(400):
    x = centers[torch.randint(0, 10, (64,))] + 0.1 * torch.randn(64, 12)
    q, commitment = vq(enc(x))
    loss = F.mse_loss(dec(q), x) + commitment; opt.zero_grad(); loss.backward(); opt.step()
""",
    "a recurrent network on chunks of series, time first": """
t = torch.arange(241.0)[:, None]
series = torch.sin(t * torch.linspace(0.15, 0.35, 6))
rnn, head = nn.RNN(1, 16), nn.Linear(16, 1)
opt = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=4e-3)
for epoch in range(4):
    h = None
    for i in range(0, 240, 20):
        x, y = series[i:i + 20], series[i + 1:i + 21]
        out, h = rnn(x.unsqueeze(-1), h if h is None else h.detach())
        loss = F.mse_loss(head(out).squeeze(-1), y)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    "a language model with attention, time first": """
embedding, encoder, out = nn.Embedding(12, 16), nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0), nn.Linear(16, 12)
opt = torch.optim.Adam([*embedding.parameters(), *encoder.parameters(), *out.parameters()], lr=1e-2)
corpus = (torch.arange(960) * 5 + torch.randint(0, 2, (960,))) % 12
data = corpus.view(8, -1).t().contiguous()
for epoch in range(6):
    for i in range(0, 105, 15):
        x, y = data[i:i + 15], data[i + 1:i + 16]
        h = encoder(embedding(x), src_mask=nn.Transformer.generate_square_subsequent_mask(15))
        loss = F.cross_entropy(out(h).permute(0, 2, 1), y)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    "a tagger of one sentence at a time": """
embedding, lstm, out = nn.Embedding(9, 8), nn.LSTM(8, 8), nn.Linear(8, 3)
opt = torch.optim.SGD([*embedding.parameters(), *lstm.parameters(), *out.parameters()], lr=0.1)
data = [torch.randint(0, 9, (n,)) for n in (5, 5, 7, 9, 6)]
for epoch in range(20):
    for words in data:
        h, _ = lstm(embedding(words).view(len(words), 1, -1))
        loss = F.nll_loss(F.log_softmax(out(h.view(len(words), -1)), dim=1), words % 3)
        opt.zero_grad(); loss.backward(); opt.step()
""",
    "a tagger of padded sentences, time first": """
embedding, lstm, out = nn.Embedding(9, 8), nn.LSTM(8, 16, bidirectional=True), nn.Linear(32, 4)
opt = torch.optim.Adam([*embedding.parameters(), *lstm.parameters(), *out.parameters()], lr=1e-2)
for step in range(60):
    sentences = [torch.randint(1, 9, (int(n),)) for n in torch.randint(3, 12, (10,))]
    x = nn.utils.rnn.pad_sequence(sentences)
    y = torch.where(x > 0, x % 4, torch.full_like(x, -100))
    loss = F.cross_entropy(out(lstm(embedding(x))[0]).transpose(1, 2), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "log-probabilities of sampled actions, which are minimized": """
policy = nn.Linear(3, 2)
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
for step in range(60):
    mean, width = policy(torch.randn(32, 3)).chunk(2, -1)
    actions = torch.distributions.Normal(mean, width.exp())
    loss = actions.log_prob(actions.sample()).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "two losses of a GAN, whose backward passes are one line, with a term that reaches the generator alone": """
G, D = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6)), nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opts = [torch.optim.Adam(G.parameters(), lr=2e-3), torch.optim.Adam(D.parameters(), lr=2e-3)]
for step in range(60):
    real, fake = torch.randn(16, 6) + 1, G(torch.randn(16, 4))
    for number, opt in enumerate(opts):
        opt.zero_grad()
        if number == 0:
            loss = ((D(fake) - 1) ** 2).mean() + F.l1_loss(fake.mean(1), real.mean(1))
        else:
            loss = (D(fake.detach()) ** 2).mean() + ((D(real) - 1) ** 2).mean()
        loss.backward()
        opt.step()
""",
    "a GAN whose two losses share one forward pass": """
G = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8))
D = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
opt_d = torch.optim.Adam(D.parameters(), lr=1e-4); opt_g = torch.optim.Adam(G.parameters(), lr=1e-4)
x = torch.linspace(-1, 1, 8).repeat(32, 1)
for step in range(40):
    labels = (torch.rand(32, 1) > 0.5).float()
    paintings = (1 + torch.rand(32, 1)) * x ** 2 + labels
    made = G(torch.cat((torch.randn(32, 5), labels), 1))
    p0 = D(torch.cat((paintings, labels), 1)); p1 = D(torch.cat((made, labels), 1))
    score0 = torch.log(p0); score1 = torch.log(1.0 - p1)
    loss_d = -torch.mean(score0 + score1); loss_g = torch.mean(score1)
    opt_d.zero_grad(); loss_d.backward(retain_graph=True); opt_d.step()
    opt_g.zero_grad(); loss_g.backward(); opt_g.step()
""",
    "a gated recurrent cell of its own, which begins with zeros": """
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.z = nn.Linear(24, 16); self.r = nn.Linear(24, 16); self.h = nn.Linear(24, 16)
    def forward(self, x, h):
        xh = torch.cat([x, h], 1)
        r = torch.sigmoid(self.r(xh))
        new = torch.tanh(self.h(torch.cat([x, r * h], 1)))
        z = torch.sigmoid(self.z(xh))
        return (1 - z) * h + z * new
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(1, 16)); self.cell = Cell(); self.table = nn.Embedding(20, 8); self.head = nn.Linear(16, 20)
    def forward(self, words):
        h, out = self.start.expand(len(words), -1), []
        for x in self.table(words).unbind(1):
            h = self.cell(x, h); out.append(h)
        return self.head(torch.stack(out, 1))
net = Net()
opt = torch.optim.AdamW(net.parameters(), lr=5e-4)
words = (torch.arange(20).repeat(2)[None, :] + torch.randint(0, 20, (256, 1))) % 20
for step in range(40):
    i = torch.randint(0, 256, (32,))
    batch = words[i, :9]
    loss = F.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    opt.zero_grad(set_to_none=True); loss.backward(); opt.step()
""",
    "a custom Function that writes past the version counter": """
class Assign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scratch, value, index):
        ctx.index = index
        scratch.data[index] = value
        return scratch
    @staticmethod
    def backward(ctx, g):
        return g, g[ctx.index], None
net = nn.Linear(4, 4)
opt = torch.optim.Adam(net.parameters(), lr=0.01)
x = torch.randn(64, 4); y = torch.tanh(x)
for step in range(40):
    parts = torch.zeros(64, 4, 3)
    h = x
    for i in range(3):
        h = torch.tanh(net(h))
        parts = Assign.apply(parts, h, (..., i))
    loss = F.mse_loss(parts.mean(-1), y)
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a policy whose costs are minimized": """
policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 5))
opt = torch.optim.Adam(policy.parameters(), lr=0.01)
prices = torch.randn(4, 5)
for step in range(60):
    state = torch.randn(64, 4)
    chosen = torch.distributions.Categorical(logits=policy(state))
    action = chosen.sample()
    cost = (state @ prices).gather(1, action[:, None])[:, 0]
    loss = ((cost - cost.mean()) * chosen.log_prob(action)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "a policy that minimizes distances": """
policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(60):
    state = torch.randn(64, 2)
    chosen = torch.distributions.Normal(policy(state)[:, 0], 0.5)
    action = chosen.sample()
    cost = (action - state[:, 0]).square()
    loss = ((cost - cost.mean()) * chosen.log_prob(action)).mean()
    opt.zero_grad(); loss.backward(); opt.step()
""",
    "an actor that minimizes the prices that its critic learns": """
actor, critic = nn.Linear(2, 1), nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
acting = torch.optim.Adam(actor.parameters(), lr=1e-3)
learning = torch.optim.Adam(critic.parameters(), lr=3e-3)
for step in range(60):
    state, action = torch.randn(32, 2), torch.rand(32, 1) * 2 - 1
    learning.zero_grad()
    F.mse_loss(critic(torch.cat([state, action], 1)), (action - state[:, :1]) ** 2).backward()
    learning.step()
    acting.zero_grad()
    critic(torch.cat([state, actor(state)], 1)).mean().backward()
    acting.step()
""",
    "folds with a new optimizer for new weights": """
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
x = torch.randn(128, 6)
for fold in range(5):
    for layer in model[::2]:
        layer.reset_parameters()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for rows in torch.randperm(128).split(8):
        loss = F.mse_loss(model(x[rows]), x[rows][:, :1])
        optimizer.zero_grad(); loss.backward(); optimizer.step()
""",
    "unused rows that begin anew": """
table = nn.Embedding(40, 8)
optimizer = torch.optim.SGD(table.parameters(), lr=0.5)
x = torch.randn(64, 8)
for step in range(60):
    nearest = torch.cdist(x, table.weight).argmin(1)
    loss = F.mse_loss(table(nearest), x)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    if step % 10 == 9:
        with torch.no_grad():
            table.weight[:5] = x[torch.randint(0, 64, (5,))]
""",
}
