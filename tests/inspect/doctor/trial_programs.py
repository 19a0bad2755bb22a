"""Programs whose mistake is measured: by a trial on other batches, by a result that is constant, or by what is NaN."""

from tests.inspect.doctor.programs import UPDATE, Program

TRIALS = [
    Program(
        "detached",
        """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.mean, self.scale = nn.Linear(12, 32), nn.Linear(32, 2), nn.Linear(32, 2)
        self.dec = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 12))
    def forward(self, x):
        h = torch.relu(self.enc(x))
        q = torch.distributions.Normal(self.mean(h), self.scale(h).clamp(-5, 2).exp())
        z = q.rsample() || z = q.sample() #!
        return self.dec(z), q
model, mixing = VAE(), torch.randn(2, 12)
data = torch.tanh(torch.randn(400, 2) @ mixing)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(160):
    x = data[torch.randint(0, 400, (40,))]
    out, q = model(x)
    prior = torch.distributions.Normal(torch.zeros(40, 2), torch.ones(40, 2))
    loss = 5 * ((out - x) ** 2).sum(1).mean() + torch.distributions.kl_divergence(q, prior).sum(1).mean()
"""
        + UPDATE,
    ),
    Program(
        "backward-missing",
        """
model = nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
scaler = torch.amp.GradScaler("cpu", enabled=False)
for step in range(40):
    x = torch.randn(32, 4)
    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    scaler.scale(loss).backward() || scaler.scale(loss).backward #!
    scaler.step(optimizer)
    scaler.update()
""",
    ),
    Program(
        "constant-init",
        """
class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base, n, m = base.requires_grad_(False), base.in_features, base.out_features
        self.a = nn.Parameter(torch.randn(n, 4)) || self.a = nn.Parameter(torch.zeros(n, 4)) #!
        self.b = nn.Parameter(torch.zeros(4, m))
    def forward(self, x):
        return self.base(x) + x @ self.a @ self.b
def fit(model, rule, steps):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for step in range(steps):
        x = torch.randn(64, 8)
        loss = F.cross_entropy(model(x), (x @ rule).argmax(1))
        optimizer.zero_grad(); loss.backward(); optimizer.step()
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
fit(model, torch.randn(8, 3), 15)
model[0], model[2] = Adapted(model[0]), Adapted(model[2])
fit(model, torch.randn(8, 3), 60)
""",
    ),
    Program(
        "masked-after-loss",
        """
class Masked(nn.Module):
    def forward(self, out, y):
        known = ~torch.isnan(y)
        return torch.square(out[known] - y[known]).mean() || return torch.square(out - y)[known].mean() #!
model, criterion = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 2)), Masked()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 6)
    y = torch.where(torch.rand(32, 2) < 0.3, torch.nan, x[:, :2] - x[:, 2:4])
    loss = criterion(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "exploding-gradient",
        """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.given, self.state, self.out = nn.Linear(3, 24), nn.Linear(24, 24), nn.Linear(24, 1)
        nn.init.normal_(self.given.weight, std=0.3)
        nn.init.normal_(self.state.weight, std=0.2) || nn.init.normal_(self.state.weight, std=1.0) #!
    def forward(self, x):
        h = x.new_zeros(len(x), 24)
        for t in range(x.shape[1]):
            h = torch.relu(self.given(x[:, t]) + self.state(h))
        return self.out(h)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(30):
    x = torch.randn(16, 20, 3)
    loss = F.mse_loss(model(x), x[:, -1, :1])
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
"""
        + UPDATE,
    ),
    Program(
        "batch-norm-of-one",
        """
def norm(channels):
    return nn.GroupNorm(2, channels) || return nn.GroupNorm(channels, channels) #!
model = nn.Sequential(nn.Conv2d(1, 8, 4, stride=2), norm(8), nn.ReLU(), nn.Conv2d(8, 16, 3), norm(16), nn.Flatten())
model.append(nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(60):
    y = torch.randint(0, 2, (32,))
    x = torch.randn(32, 1, 8, 8)
    x[:, :, :, ::2] += y[:, None, None, None]
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "frozen-layer",
        """
class Tuned(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.neck, self.head = encoder, nn.Linear(24, 3), nn.Linear(3, 6)
    def forward(self, x):
        return self.head(torch.tanh(self.neck(self.encoder(x))))
def fit(model, classes, steps):
    centers = torch.randn(classes, 10)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for step in range(steps):
        y = torch.randint(0, classes, (64,))
        loss = F.cross_entropy(model(centers[y] + 0.5 * torch.randn(64, 10)), y)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
encoder = nn.Sequential(nn.Linear(10, 24), nn.ReLU())
fit(nn.Sequential(encoder, nn.Linear(24, 4)), 4, 20)
model = Tuned(encoder)
for name, p in model.named_parameters():
    if "encoder" in name: || if "head" not in name:
        p.requires_grad = False || p.requires_grad = False #!
fit(model, 6, 120)
""",
    ),
    Program(
        "dead-units",
        """
class Times(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(6, 16), nn.Linear(16, 1)
    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.out(h) || return F.relu(self.out(h)) #!
model = Times()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-2)
for step in range(60):
    x = torch.randn(32, 6)
    loss = F.mse_loss(model(x), x[:, :1].sigmoid().log() - 1)
"""
        + UPDATE,
    ),
]
