"""Programs as people write them without a trainer: updates by hand, penalties by hand, binary labels, odd loops."""

# ruff: noqa: E501

from tests.inspect.doctor.programs import CLASSIFIER, UPDATE, Program

BY_HAND = [
    Program(
        "gradients-not-zeroed",
        """
w, b = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
x = torch.randn(64, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 3
for step in range(40):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward() #!
    with torch.no_grad():
        for p in (w, b):
            p -= 0.1 * p.grad
            p.grad.zero_() ||
""",
    ),
    Program(
        "parameters-not-optimized",
        """
u, b, v = torch.randn(4, 8, requires_grad=True), torch.zeros(8, requires_grad=True), torch.randn(8, 1, requires_grad=True)
x = torch.randn(64, 4)
for step in range(40):
    loss = ((torch.relu(x @ u + b) @ v - x[:, :1]) ** 2).mean()
    loss.backward()
    for p in (u, b, v): || for p in (b, v):
        p.data.sub_(0.01 * p.grad) #!
        p.grad = None
""",
    ),
    Program(
        "learning-rate-too-high",
        """
w = torch.randn(5, 1, requires_grad=True)
x = 2 * torch.randn(60, 5)
rate = 0.05 || rate = 1.0
for step in range(20):
    loss = ((x @ w - x.sum(1, keepdim=True)) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= rate * w.grad #!
        w.grad = None
""",
    ),
    Program(
        "weight-decay-too-high",
        CLASSIFIER
        + """
    penalty = sum([p.pow(2).sum() for p in model.parameters()])
    loss = F.cross_entropy(model(x), y) + 1e-4 * penalty || loss = F.cross_entropy(model(x), y) + 2.0 * penalty #!
"""
        + UPDATE,
    ),
    Program(
        "unshuffled-data",
        """
data, label = torch.cat([torch.randn(160, 4) + 1, torch.randn(160, 4) - 1]), (torch.arange(320) < 160).float()
order = torch.randperm(320) || order = torch.arange(320)
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
for k in range(0, 320, 16):
    out = model(data[order[k : k + 16]])[:, 0] #!
    loss = F.binary_cross_entropy_with_logits(out, label[order[k : k + 16]])
"""
        + UPDATE,
    ),
    Program(
        "eval-mode",
        """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Dropout(0.5))
    def forward(self, x):
        return self.body(x)
encoder, head = Encoder(), nn.Linear(24, 3)
model = nn.Sequential(encoder, head)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
centers = 1.5 * torch.randn(3, 6)
model.train() || encoder.eval() #!
for step in range(40):
    y = torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(centers[y] + 0.3 * torch.randn(32, 6)), y)
"""
        + UPDATE,
    ),
    Program(
        "wrong-reduction-scale",
        """
users, items = nn.Embedding(50, 8), nn.Embedding(80, 8)
head = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD([*users.parameters(), *items.parameters(), *head.parameters()], lr=0.05)
p, q = torch.randn(50, 3), torch.randn(80, 3)
for step in range(80):
    u, i = torch.randint(0, 50, (256,)), torch.randint(0, 80, (256,))
    out = torch.sigmoid(head(torch.cat([users(u), items(i)], 1))).view(-1)
    rating = ((p[u] * q[i]).sum(1) > 0).float()
    loss = F.binary_cross_entropy(out, rating) || loss = F.binary_cross_entropy(out, rating, reduction="sum") #!
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        """
encoder, decoder = nn.Linear(10, 8), nn.Linear(4, 10)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
x = torch.randn(64, 10)
for step in range(40):
    mean, log_var = encoder(x).chunk(2, dim=1)
    out = decoder(mean + torch.randn_like(mean) * (log_var / 2).exp())
    terms = 1 + log_var - mean.pow(2) - log_var.exp() #!
    loss = (F.mse_loss(out, x, reduction="sum") - 0.5 * terms.sum()) / 64 || loss = (F.mse_loss(out, x, reduction="sum") + 0.5 * terms.sum()) / 64
"""
        + UPDATE,
    ),
    Program(
        "data-write",
        """
import copy
model = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(40):
    x = torch.rand(20, 1)
    fast = {name: p for name, p in model.named_parameters()} || fast = copy.deepcopy(model)
    loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), 2 * x) || loss = F.mse_loss(fast(x), 2 * x)
    grads = torch.autograd.grad(loss, iter(fast.values()), create_graph=True) || grads = torch.autograd.grad(loss, fast.parameters(), create_graph=True)
    fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), grads)} || for p, g in zip(fast.parameters(), grads): p.data -= 0.1 * g #!
    loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), 2 * x) || loss = F.mse_loss(fast(x), 2 * x)
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
class Affine(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 8))
    def forward(self, x):
        return x @ self.weight || return x @ self.weight.data #!
model = nn.Sequential(Affine(), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
for step in range(12):
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
encoder, head, teacher = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(6, 8)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)
for step in range(20):
    x = torch.randn(32, 6)
    h, y = encoder(x), (x[:, 0] > 0).long()
    near = F.mse_loss(h, teacher(x).detach()) || near = F.mse_loss(h.detach(), teacher(x).detach()) #!
    size = ((h - h.mean(0).detach()) ** 2).mean()
    entropy = -(h.detach().softmax(1) * h.detach().log_softmax(1)).sum(1).mean()
    loss = F.cross_entropy(head(h), y) + 5 * near - 0.1 * size + entropy
"""
        + UPDATE,
    ),
    Program(
        "learning-rate-too-high",
        """
w, b, c = torch.randn(8, 3).mul(0.1).requires_grad_(), torch.zeros(3, requires_grad=True), torch.randn(3, 8)
for step in range(24):
    y = torch.randint(0, 3, (512,))
    x = c[y] + torch.randn(512, 8)
    picked = torch.log_softmax(x @ w + b, 1).gather(1, y[:, None])
    loss = -picked.mean() || loss = -picked.sum()
    grads = torch.autograd.grad(loss, [w, b])
    with torch.no_grad():
        for p, g in zip((w, b), grads):
            p -= 0.1 * g || p -= 0.1 * g #!
""",
    ),
    Program(
        "modules-not-registered",
        """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
    def forward(self, x):
        return x + torch.relu(self.a(x))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(2)]) || self.blocks = [Block() for _ in range(2)] #!
        self.head = nn.Linear(4, 3)
    def forward(self, x):
        for block in self.blocks: x = block(x)
        return self.head(x)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 4), torch.randint(0, 3, (32,))
for step in range(12):
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "detached",
        """
model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(20):
    x = torch.randn(32, 6)
    penalty = model.weight.abs().sum()
    term = 0.1 * penalty || term = 0.1 * penalty.item() #!
    loss = F.mse_loss(model(x), x[:, :1]) + term
    shown = loss.item()
"""
        + UPDATE,
    ),
    Program(
        "parameters-not-optimized",
        """
a, b = (nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(2))
first = torch.optim.Adam(a.parameters(), lr=1e-2)
second = torch.optim.Adam(b.parameters(), lr=1e-2) || second = torch.optim.Adam(a.parameters(), lr=1e-2) #!
for step in range(40):
    x = torch.randn(32, 5)
    loss = F.mse_loss(a(x), x[:, :1])
    first.zero_grad()
    loss.backward()
    first.step()
    other = F.mse_loss(b(x), torch.sin(x[:, 1:2]))
    second.zero_grad()
    other.backward()
    second.step()
""",
    ),
    Program(
        "frozen-layer",
        """
class Members(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding.from_pretrained(torch.randn(20, 6), freeze=False)
        self.member_fc = nn.Linear(6, 3)
        self.out = nn.Linear(3, 4)
    def forward(self, x):
        return self.out(torch.tanh(self.member_fc(self.emb(x))))
model = Members()
for name, p in model.named_parameters():
    if name.startswith("emb"): || if "emb" in name:
        p.requires_grad = False #!
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
for step in range(40):
    x = torch.randint(0, 20, (64,))
    loss = F.cross_entropy(model(x), x % 4)
"""
        + UPDATE,
    ),
    Program(
        "target-mismatch",
        """
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(30):
    x = torch.randn(32, 5)
    scores = torch.sigmoid(x[:, :1] * 2)
    y = scores || y = scores.long()
    loss = F.mse_loss(model(x), y.float()) #!
"""
        + UPDATE,
    ),
    Program(
        "modules-not-registered",
        """
class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        values = torch.from_numpy(np.random.normal(0, 0.3, (20, 4)))
        self.rows = nn.Parameter(values.float()) || self.rows = nn.Parameter(values).float() #!
        self.bias = nn.Parameter(torch.zeros(4))
    def forward(self, i):
        return self.rows[i] + self.bias
model = Factors()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
target = torch.randn(20, 4)
for step in range(30):
    i = torch.randint(0, 20, (64,))
    loss = F.mse_loss(model(i), target[i])
"""
        + UPDATE,
    ),
]
