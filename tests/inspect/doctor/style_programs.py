"""Training programs in other styles: models that take and return dictionaries, several optimizers, losses by hand."""

# ruff: noqa: E501

from tests.inspect.doctor.programs import CLASSIFIER, UPDATE, Program

STYLES = [
    Program(
        "batch-mixing",
        """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.rnn = nn.GRU(8, 8, batch_first=True) || self.rnn = nn.GRU(8, 8)

    def forward(self, batch):
        h, _ = self.rnn(self.embedding(batch["words"])) #!
        return {"scores": self.out(h)}

model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(24):
    words = torch.randint(0, 9, (16, 5))
    loss = F.cross_entropy(model({"words": words})["scores"].transpose(1, 2), words % 3)
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        """
w = torch.zeros(4, 1, requires_grad=True)
x = torch.randn(64, 4)
y = x @ torch.ones(4, 1)
for step in range(40):
    loss = (x @ w - y).square().mean() || loss = -(x @ w - y).square().mean() #!
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad || w -= 2.0 * w.grad
        w.grad = None
""",
    ),
    Program(
        "double-softmax",
        CLASSIFIER
        + """
    out = F.log_softmax(model(x), dim=1)
    loss = F.cross_entropy(out, y) || loss = F.cross_entropy(out.exp(), y) #!
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
made, judge = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
second, first = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (made, judge))
real, fake = torch.ones(32, 1), torch.zeros(32, 1)
for step in range(24):
    drawn = made(torch.randn(32, 3))
    first.zero_grad()
    F.binary_cross_entropy_with_logits(judge(torch.randn(32, 2)), real).backward()
    F.binary_cross_entropy_with_logits(judge(drawn.detach()), fake).backward()
    first.step()
    second.zero_grad()
    out = judge(drawn) || out = judge(drawn.detach()) #!
    F.binary_cross_entropy_with_logits(out, real).backward()
    second.step()
""",
    ),
    Program(
        "labels-unrelated",
        """
model = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 6))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
for step in range(24):
    words = torch.randint(0, 6, (16, 8))
    y = (words + 1) % 6 || y = torch.randint(0, 6, (16, 8))
    loss = F.cross_entropy(model(words).flatten(0, 1), y.flatten()) #!
"""
        + UPDATE,
    ),
    Program(
        "scheduler-kills-rate",
        CLASSIFIER
        + """
    optimizer.param_groups[0]["lr"] = 0.1 * 0.99**step || optimizer.param_groups[0]["lr"] = 0.1 * 0.5**step #!
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
class Temp(nn.Module):
    def __init__(self): super().__init__(); self.t = nn.Parameter(torch.ones(1)); self.f = nn.Linear(6, 3)
    def forward(self, x):
        return self.f(x) / self.t || return self.f(x) / self.t.item() #!
m = Temp(); opt = torch.optim.Adam(m.parameters(), lr=1e-2); c = 2 * torch.randn(3, 6)
for i in range(60):
    y = torch.randint(0, 3, (32,)); x = c[y] + 0.5 * torch.randn(32, 6)
    loss = F.cross_entropy(m(x), y); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "constant-init",
        """
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
for layer in net:
    if isinstance(layer, nn.Linear):
        layer.weight.data = torch.randn_like(layer.weight) * 0.3 || layer.weight.data = torch.zeros_like(layer.weight) #!
        layer.bias.data = torch.zeros_like(layer.bias)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for i in range(50):
    x = torch.randn(32, 6); loss = F.mse_loss(net(x), x[:, :1]); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "labels-unrelated",
        """
Y = (torch.arange(256) % 2).float(); X = torch.randn(256, 1, 6, 6) + 1.5 * Y[:, None, None, None]
idx = torch.randperm(256)
X, Y = X[idx], Y[idx] || X = X[idx] #!
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 1)); opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for e in range(10):
    for b in range(0, 256, 32):
        loss = F.binary_cross_entropy_with_logits(net(X[b:b + 32]).squeeze(1), Y[b:b + 32]); opt.zero_grad(); loss.backward(); opt.step()
""",
    ),
    Program(
        "loss-sign",
        """
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 3)
    y = x[:, 0] - x[:, 1] + 0.3 * torch.randn(32)
    mu, width = model(x).unbind(-1)
    density = torch.distributions.Normal(mu, width.clamp(-4, 2).exp())
    loss = -density.log_prob(y).mean() || loss = density.log_prob(y).mean() #!
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        """
model = nn.Linear(3, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.randn(32, 3)
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    actions = torch.distributions.Categorical(logits=model(x))
    entropy = 0.01 * actions.log_prob(actions.sample()).mean()
    loss = entropy - actions.log_prob(y).mean() || loss = actions.log_prob(y).mean() #!
"""
        + UPDATE,
    ),
    Program(
        "accumulation-unscaled",
        """
model = nn.Sequential(nn.Linear(11, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(800):
    x = torch.randn(8, 11)
    loss = F.mse_loss(model(x), torch.tanh(x[:, :6]).sum(1, keepdim=True))
    (loss / 32).backward() || loss.backward() #!
    if step % 32 == 31:
        optimizer.step()
        optimizer.zero_grad()
""",
    ),
    Program(
        "learning-rate-too-low",
        """
y = torch.arange(90) % 3
x = torch.rand(90, 60) / 60 + 0.05 * F.one_hot(y, 3).float().repeat(1, 20)
model = nn.Sequential(nn.Linear(60, 16, bias=False), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9) || optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9) #!
for step in range(100):
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
]
