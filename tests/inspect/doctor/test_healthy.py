"""Healthy trainings that look unusual: the doctor finds nothing."""

import warnings
from pathlib import Path

import pytest

import retrograd as rg
from tests.inspect.doctor.more_healthy import MORE
from tests.inspect.doctor.programs import CLASSIFIER, HEAD, UPDATE

HEALTHY = {
    "adversarial examples by a pass of the same helper": """
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
def propagate(x, y):
    loss = F.cross_entropy(model(x), y)
    loss.backward()
for step in range(40):
    x = torch.randn(64, 8)
    y, noise = x[:, :4].argmax(1), torch.zeros(64, 8, requires_grad=True)
    propagate(x + noise, y)
    optimizer.zero_grad()
    propagate(x + 0.05 * noise.grad.sign(), y)
    optimizer.step()
""",
    "gradients of half precision that are assigned to master weights": """
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)).bfloat16()
masters = [p.detach().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.Adam(masters, lr=1e-2)
for step in range(40):
    x = torch.randn(64, 8).bfloat16()
    loss = F.cross_entropy(model(x), x[:, :4].float().argmax(1))
    model.zero_grad()
    loss.backward()
    for master, p in zip(masters, model.parameters()):
        master.grad = p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for master, p in zip(masters, model.parameters()):
            p.copy_(master)
""",
    "a GAN": """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (G, D))
bce = nn.BCEWithLogitsLoss()
for step in range(40):
    real = torch.randn(32, 2) + 2
    fake = G(torch.randn(32, 4))
    od.zero_grad()
    d_loss = bce(D(real), torch.ones(32, 1)) + bce(D(fake.detach()), torch.zeros(32, 1))
    d_loss.backward()
    od.step()
    og.zero_grad()
    bce(D(fake), torch.ones(32, 1)).backward()
    og.step()
""",
    "a minimax GAN whose generator maximizes": """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (G, D))
bce = nn.BCEWithLogitsLoss()
for step in range(40):
    real, z = torch.randn(32, 2) + 2, torch.randn(32, 4)
    D.zero_grad()
    bce(D(real), torch.ones(32, 1)).backward()
    bce(D(G(z).detach()), torch.zeros(32, 1)).backward()
    od.step()
    G.zero_grad()
    (-bce(D(G(z)), torch.zeros(32, 1))).backward()
    og.step()
""",
    "a Wasserstein critic whose weights are clamped": """
G = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
og, od = (torch.optim.RMSprop(m.parameters(), lr=5e-4) for m in (G, D))
for step in range(30):
    for _ in range(3):
        od.zero_grad()
        loss = D(G(torch.randn(32, 4)).detach()).mean() - D(torch.randn(32, 2) + 2).mean()
        loss.backward()
        od.step()
        for p in D.parameters():
            p.data.clamp_(-0.1, 0.1)
    og.zero_grad()
    (-D(G(torch.randn(32, 4))).mean()).backward()
    og.step()
""",
    "a gradient penalty": """
D = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
od = torch.optim.Adam(D.parameters(), lr=1e-3)
for step in range(30):
    real, fake = torch.randn(32, 2) + 2, torch.randn(32, 2)
    t = torch.rand(32, 1)
    mixed = (t * real + (1 - t) * fake).requires_grad_(True)
    (g,) = torch.autograd.grad(D(mixed).sum(), mixed, create_graph=True)
    loss = D(fake).mean() - D(real).mean() + 10 * ((g.norm(2, dim=1) - 1) ** 2).mean()
    od.zero_grad()
    loss.backward()
    od.step()
""",
    "only the head is optimized": """
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model[2].parameters(), lr=1e-2)
centers = torch.randn(3, 6)
for step in range(40):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
    + UPDATE,
    "a frozen trunk in evaluation mode": """
trunk = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU())
trunk.load_state_dict(trunk.state_dict())
for p in trunk.parameters():
    p.requires_grad = False
model = nn.Sequential(trunk, nn.Linear(32, 3))
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
model.train()
trunk.eval()
centers = torch.randn(3, 6)
for step in range(40):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
    + UPDATE,
    "tied weights and an average of the weights": """
import copy
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.body = nn.Linear(16, 16)
        self.out = nn.Linear(16, 12, bias=False)
        self.out.weight = self.embed.weight
    def forward(self, x):
        return self.out(torch.tanh(self.body(self.embed(x))))

model = Tied()
average = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(60):
    x = torch.randint(0, 12, (32,))
    loss = F.cross_entropy(model(x), (x + 1) % 12)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for p, q in zip(average.parameters(), model.parameters()):
            p.mul_(0.99).add_(q, alpha=0.01)
    if step % 20 == 0:
        with torch.no_grad():
            F.cross_entropy(average(x), (x + 1) % 12).item()
""",
    "a contrastive loss": """
a, b = nn.Linear(6, 8), nn.Linear(5, 8)
optimizer = torch.optim.Adam([*a.parameters(), *b.parameters()], lr=1e-2)
mix = torch.randn(6, 5)
for step in range(40):
    x = torch.randn(16, 6)
    u, v = F.normalize(a(x), dim=1), F.normalize(b(x @ mix), dim=1)
    logits = u @ v.T / 0.1
    labels = torch.arange(16)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
"""
    + UPDATE,
    "LBFGS": """
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=5)
x = torch.randn(64, 3)
y = (x[:, :1] * x[:, 1:2]).sin()
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss
for step in range(12):
    optimizer.step(closure)
""",
    "REINFORCE on a bandit": """
policy = nn.Linear(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
baseline = 0.0
for step in range(60):
    state = torch.randn(16, 4)
    dist = torch.distributions.Categorical(logits=policy(state))
    action = dist.sample()
    reward = (action == state[:, :3].argmax(1)).float()
    baseline = 0.9 * baseline + 0.1 * reward.mean().item()
    loss = -(dist.log_prob(action) * (reward - baseline)).mean() - 0.01 * dist.entropy().mean()
"""
    + UPDATE,
    "evaluation in between": """
model = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)
centers = torch.randn(3, 6)
for step in range(60):
    model.train()
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y] + 0.1 * torch.randn(32, 6)), y)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if step % 10 == 9:
        model.eval()
        with torch.no_grad():
            y = torch.randint(0, 3, (64,))
            (model(centers[y]).argmax(1) == y).float().mean().item()
""",
    "a converged run that goes on": """
x = torch.randn(256, 4)
w = torch.randn(4, 1)
y = x @ w + 0.1 * torch.randn(256, 1)
model = nn.Linear(4, 1)
with torch.no_grad():
    model.weight.copy_(torch.linalg.lstsq(x, y).solution.T)
    model.bias.zero_()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(80):
    i = torch.randint(0, 256, (32,))
    loss = F.mse_loss(model(x[i]), y[i])
"""
    + UPDATE,
    "scaled accumulation with clipping": """
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
w = torch.randn(5, 1)
for step in range(80):
    x = torch.randn(16, 5)
    loss = F.mse_loss(model(x), x @ w) / 4
    loss.backward()
    if (step + 1) % 4 == 0:
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        optimizer.zero_grad()
""",
    "a hand-written update without an optimizer": """
w1 = torch.randn(5, 16, requires_grad=True)
w2 = torch.randn(16, 1, requires_grad=True)
x = torch.randn(64, 5)
y = x[:, :1] * 2
for step in range(60):
    loss = ((x @ w1).clamp(min=0) @ w2 - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        w1 -= 1e-2 * w1.grad
        w2 -= 1e-2 * w2.grad
        w1.grad.zero_()
        w2.grad = None
""",
    "a variational autoencoder": """
enc, dec = nn.Linear(8, 8), nn.Linear(4, 8)
optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-2)
base = torch.randn(3, 8)
for step in range(60):
    x = base[torch.randint(0, 3, (32,))] + 0.1 * torch.randn(32, 8)
    mu, logvar = enc(x).chunk(2, dim=1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    loss = F.mse_loss(dec(z), x, reduction="sum") / 32 - 0.5 * (1 + logvar - mu**2 - logvar.exp()).sum(1).mean()
"""
    + UPDATE,
    "a causal transformer": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.norm = nn.LayerNorm(16)
    def forward(self, x):
        h = self.norm(x)
        s = self.q(h) @ self.k(h).transpose(1, 2) / 4
        s = s.masked_fill(torch.triu(torch.ones(8, 8), 1).bool(), float("-inf"))
        return x + self.o(s.softmax(-1) @ self.v(h))

model = nn.Sequential(nn.Embedding(10, 16), Block(), Block(), nn.Linear(16, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    x = (torch.randint(0, 10, (16, 1)) + torch.arange(9)) % 10
    loss = F.cross_entropy(model(x[:, :-1]).reshape(-1, 10), x[:, 1:].reshape(-1))
"""
    + UPDATE,
    "a seq-first LSTM": """
rnn, head = nn.LSTM(4, 16), nn.Linear(16, 2)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-2)
for step in range(40):
    y = torch.randint(0, 2, (12,))
    x = torch.randn(7, 12, 4) + 2 * y[None, :, None]
    out, _ = rnn(x)
    loss = F.cross_entropy(head(out[-1]), y)
"""
    + UPDATE,
    "a Q-network with a target network": """
import copy
q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
target = copy.deepcopy(q)
optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
for step in range(60):
    s, s2, a = torch.randn(32, 4), torch.randn(32, 4), torch.randint(0, 2, (32,))
    r = s.sum(1) * (2 * a - 1)
    with torch.no_grad():
        goal = r + 0.9 * target(s2).max(1).values
    loss = F.smooth_l1_loss(q(s).gather(1, a[:, None]).squeeze(1), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        target.load_state_dict(q.state_dict())
""",
    "fine-tuning at a small rate": CLASSIFIER.replace("lr=0.1", "lr=0.1")
    .replace(
        "optimizer =",
        """warm = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(80):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y] + 0.3 * torch.randn(32, 6)), y)
    warm.zero_grad()
    loss.backward()
    warm.step()
optimizer =""",
    )
    .replace("SGD(model.parameters(), lr=0.1)", "Adam(model.parameters(), lr=1e-5)")
    + "    loss = F.cross_entropy(model(x), y)\n"
    + UPDATE,
    "three folds with a new model each": """
centers = torch.randn(3, 6)
for fold in range(3):
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(15):
        y = torch.randint(0, 3, (32,))
        loss = F.cross_entropy(model(centers[y]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "a physics-informed network": """
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
t = torch.linspace(0, 1, 32)[:, None].requires_grad_(True)
for step in range(60):
    u = model(t)
    (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    loss = ((du + u) ** 2).mean() + (model(torch.zeros(1, 1)) - 1).pow(2).mean()
"""
    + UPDATE,
    "a hypernetwork for style images": """
image = torch.rand(1, 3, 8, 8, requires_grad=True)
goal = torch.rand(1, 3, 8, 8)
net = nn.Conv2d(3, 4, 3)
for p in net.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam([image], lr=0.05)
for step in range(40):
    loss = F.mse_loss(net(image), net(goal))
"""
    + UPDATE,
    "binary labels in a soft mixture": """
experts = nn.ModuleList([nn.Linear(6, 1) for _ in range(4)])
gate = nn.Linear(6, 4)
optimizer = torch.optim.Adam([*experts.parameters(), *gate.parameters()], lr=1e-2)
for step in range(60):
    x = torch.randn(32, 6)
    weights = gate(x).softmax(dim=1)
    out = (torch.cat([e(x) for e in experts], 1) * weights).sum(1)
    loss = F.binary_cross_entropy_with_logits(out, (x[:, 0] > 0).float())
"""
    + UPDATE,
    "a residual block that starts at zero, and low-rank updates": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 16), nn.Linear(16, 16)
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)
    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))

model = nn.Sequential(nn.Linear(6, 16), Block(), Block(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
centers = torch.randn(3, 6)
for step in range(40):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y]), y)
"""
    + UPDATE,
    "multiple instance learning": """
embed, score, head = nn.Linear(5, 8), nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *score.parameters(), *head.parameters()], lr=1e-2)
for step in range(40):
    label = step % 2
    bag = torch.randn(10, 5)
    bag[0] += 3 * label
    h = torch.tanh(embed(bag))
    weights = torch.softmax(score(h), dim=0)
    out = head((weights * h).sum(0))
    loss = F.binary_cross_entropy_with_logits(out, torch.tensor([float(label)]))
"""
    + UPDATE,
    "two optimizers on one model, and a warm-up": """
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
first = torch.optim.SGD(model[0].parameters(), lr=0.1)
second = torch.optim.Adam(model[2].parameters(), lr=1e-2)
warm = torch.optim.lr_scheduler.LambdaLR(first, lambda step: min(1.0, (step + 1) / 20))
centers = torch.randn(3, 6)
for step in range(60):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y] + 0.2 * torch.randn(32, 6)), y)
    first.zero_grad()
    second.zero_grad()
    loss.backward()
    first.step()
    second.step()
    warm.step()
""",
    "VQ with a straight-through estimator": """
enc, dec, book = nn.Linear(6, 4), nn.Linear(4, 6), nn.Embedding(8, 4)
optimizer = torch.optim.Adam([*enc.parameters(), *dec.parameters(), *book.parameters()], lr=1e-2)
base = torch.randn(4, 6)
for step in range(60):
    x = base[torch.randint(0, 4, (32,))]
    z = enc(x)
    code = torch.cdist(z, book.weight).argmin(1)
    q = book(code)
    out = dec(z + (q - z).detach())
    loss = F.mse_loss(out, x) + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
"""
    + UPDATE,
    "a recommender by factors": """
users, items = nn.Embedding(40, 8), nn.Embedding(30, 8)
optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=5e-2)
truth = torch.randn(40, 3) @ torch.randn(3, 30)
for step in range(100):
    u, i = torch.randint(0, 40, (64,)), torch.randint(0, 30, (64,))
    loss = F.mse_loss((users(u) * items(i)).sum(1), truth[u, i])
"""
    + UPDATE,
}


ALL = {**HEALTHY, **MORE}


@pytest.mark.every(4)
@pytest.mark.slow
@pytest.mark.parametrize("text", ALL.values(), ids=[name.replace(" ", "-") for name in ALL])
def test_a_healthy_training_has_no_finding(text: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(HEAD + text)
    state = rg.get_rng_state()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with rg.inspect.doctor() as d:
                exec(compile(HEAD + text, str(path), "exec"), {"__name__": "__main__"})
    finally:
        rg.set_rng_state(state)
    assert d.steps >= 10
    assert [(x.kind, x.line, x.message) for x in d.findings] == []
