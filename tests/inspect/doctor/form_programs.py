"""Training programs with known mistakes in forms that no rule reads: what they do to values and gradients shows them."""

# ruff: noqa: E501

from tests.inspect.doctor.programs import UPDATE, Program

CLASSES = """
x = torch.randn(128, 6)
y = (x @ torch.randn(6, 3)).argmax(1)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
"""
PAIRS = """
a = torch.randn(64, 6)
same = torch.randint(0, 2, (64,))
b = torch.where(same[:, None] > 0, a + 0.1 * torch.randn(64, 6), torch.randn(64, 6))
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
"""
STEP = UPDATE.replace("optimizer", "opt")

FORMS = [
    Program(
        "data-write",
        CLASSES
        + f"""
masks = [(p.abs() > 0.05).float() for p in net.parameters()] || masks = [(p.abs() > 9).float() for p in net.parameters()]
for step in range(25):
    loss = F.cross_entropy(net(x), y)
{STEP}
    with torch.no_grad():
        for p, mask in zip(net.parameters(), masks):
            p.mul_(mask) || p.mul_(mask) #!
""",
    ),
    Program(
        "target-mismatch",
        CLASSES
        + f"""
hot = F.one_hot(y, 3)
for step in range(25):
    labels = hot.argmax(1) || labels = hot.max(1)[0]
    loss = F.cross_entropy(net(x), labels) #!
{STEP}
""",
    ),
    Program(
        "target-mismatch",
        CLASSES
        + f"""
t = (x[:, :3] > 0).float() || t = 255 * (x[:, :3] > 0).float()
for step in range(25):
    p = torch.sigmoid(net(x))
    loss = -(t * (p + 1e-7).log() + (1 - t) * (1 - p + 1e-7).log()).mean() #!
{STEP}
""",
    ),
    Program(
        "target-mismatch",
        CLASSES
        + f"""
for step in range(25):
    out = net(x) || out = torch.tanh(net(x)) #!
    loss = (out - 9 * x[:, :3]).abs().mean()
{STEP}
""",
    ),
    Program(
        "frozen-layer",
        """
gen, critic = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
g, c = (torch.optim.Adam(m.parameters(), lr=0.001) for m in (gen, critic))
for step in range(25):
    critic.requires_grad_(True) ||
    c.zero_grad()
    loss = F.softplus(critic(gen(torch.randn(16, 2)))).mean() + F.softplus(-critic(torch.randn(16, 2) + 2)).mean()
    loss.backward()
    c.step()
    critic.requires_grad_(False) #!
    g.zero_grad()
    F.softplus(-critic(gen(torch.randn(16, 2)))).mean().backward()
    g.step()
""",
    ),
    Program(
        "labels-unrelated",
        f"""
x = torch.randn(128, 4)
y = (x.sum(1) > 0).long()
y = y + 0 || y = y.roll(1)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.001)
for step in range(25):
    loss = F.cross_entropy(net(x), y) #!
{STEP}
""",
    ),
    Program(
        "loss-sign",
        PAIRS
        + f"""
for step in range(25):
    d = F.pairwise_distance(net(a), net(b))
    loss = d[same == 1].pow(2).mean() + F.relu(2 - d[same == 0]).mean() || loss = d[same == 0].pow(2).mean() + F.relu(2 - d[same == 1]).mean() #!
{STEP}
""",
    ),
    Program(
        "loss-sign",
        PAIRS
        + f"""
b = a + 0.2 * torch.randn(64, 6)
for step in range(25):
    scores = -torch.cdist(net(a), net(b)) || scores = torch.cdist(net(a), net(b))
    loss = F.cross_entropy(scores, torch.arange(64)) #!
{STEP}
""",
    ),
    Program(
        "loss-sign",
        """
x = torch.randn(64, 3)
w = torch.zeros(3, 1, requires_grad=True)
for step in range(25):
    loss = ((x @ w - x[:, :1]) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.01 * w.grad || w += 0.01 * w.grad #!
        w.grad = None
""",
    ),
    Program(
        "loss-sign",
        CLASSES
        + """
for step in range(25):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.grad = 0.5 * p.grad || p.grad = -p.grad #!
    opt.step()
""",
    ),
    Program(
        "broadcast-loss",
        CLASSES
        + f"""
t = x[:, :1] || t = x[:, 0].reshape(1, -1)
for step in range(25):
    e = net(x)[:, :1] - t #!
    loss = (e * e).mean()
{STEP}
""",
    ),
    Program(
        "batch-mixing",
        CLASSES
        + f"""
class Sum(nn.Module):
    def forward(self, x):
        return x.cumsum(1) / 4 || return x.cumsum(0) / 4 #!
net = nn.Sequential(nn.Linear(6, 16), Sum(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(25):
    loss = F.cross_entropy(net(x), y)
{STEP}
""",
    ),
    Program(
        "batch-mixing",
        f"""
x = torch.randn(8, 1, 6, 6)
y = (x[:, 0] > 0).long()
net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(25):
    scores = net(x).movedim(1, -1).reshape(-1, 2) || scores = net(x).reshape(-1, 2) #!
    loss = F.cross_entropy(scores, y.reshape(-1))
{STEP}
""",
    ),
    Program(
        "softmax-axis",
        CLASSES
        + f"""
for step in range(25):
    e = net(x).exp()
    total = e.sum(1, keepdim=True) || total = e.sum(0) #!
    p = e / total
    loss = -((p + 1e-9).log() * F.one_hot(y, 3)).sum(1).mean()
{STEP}
""",
    ),
    Program(
        "double-softmax",
        CLASSES
        + f"""
for step in range(25):
    e = net(x).exp()
    p = net(x) || p = e / e.sum(1, keepdim=True) #!
    loss = -F.log_softmax(p, 1)[range(128), y].mean()
{STEP}
""",
    ),
    Program(
        "masked-after-loss",
        CLASSES
        + f"""
mask = torch.rand(128, 3) > 0.5
for step in range(25):
    each = (net(x) - x[:, :3]) ** 2 || each = ((net(x) - x[:, :3]) ** 2).mean().expand(128, 3)
    loss = each.masked_select(mask).mean() #!
{STEP}
""",
    ),
    Program(
        "learning-rate-too-low",
        CLASSES
        + """
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for step in range(60):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0) || nn.utils.clip_grad_norm_(net.parameters(), 1e-5) #!
    opt.step()
""",
    ),
    Program(
        "weight-decay-too-high",
        CLASSES
        + """
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for step in range(60):
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.grad += 1e-4 * p.detach() || p.grad += 3 * p.detach() #!
    opt.step()
""",
    ),
    Program(
        "target-mismatch",
        f"""
net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
for step in range(101):
    s = torch.randn(32, 2)
    r, going = 1 + s[:, :1], (torch.rand(32, 1) > 0.1).float()
    with torch.no_grad():
        value = net(s.roll(1, 0))
    target = r + 0.5 * going * value || target = r + (0.5 * going + value) #!
    loss = F.mse_loss(net(s), target)
{STEP}
""",
    ),
    Program(
        "dead-units",
        CLASSES
        + f"""
net = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
nn.init.zeros_(net[1].bias) || nn.init.zeros_(net[1].weight) #!
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(25):
    loss = F.cross_entropy(net(x), y)
{STEP}
""",
    ),
    Program(
        "learning-rate-too-low",
        CLASSES
        + f"""
opt = torch.optim.Adam(net.parameters(), lr=0.01) || opt = torch.optim.Adam(net.parameters(), lr=0) #!
for step in range(25):
    loss = F.cross_entropy(net(x), y)
{STEP}
""",
    ),
    Program(
        "parameters-not-optimized",
        CLASSES
        + f"""
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.ones(6)), nn.Linear(6, 3)
    def forward(self, x):
        return self.head(self.scale * x)
net = Scaled()
opt = torch.optim.Adam(net.parameters(), lr=0.05) || opt = torch.optim.Adam(net.head.parameters(), lr=0.05) #!
for step in range(60):
    loss = F.cross_entropy(net(x), y)
{STEP}
""",
    ),
]
