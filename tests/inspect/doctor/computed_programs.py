"""Training programs with computed weights, own losses, several passes of one network, and parts without training."""

# ruff: noqa: E501

from tests.inspect.doctor.programs import UPDATE, Program

CLUSTERS = """
centers = 1.5 * torch.randn(4, 8)
def batch():
    y = torch.randint(0, 4, (32,))
    return centers[y] + torch.randn(32, 8), y
"""

ROUNDED = """
class Rounded(nn.Linear):
    def forward(self, x):
        rounded = torch.round(8 * self.weight) / 8
        return F.linear(x, self.weight + (rounded - self.weight).detach(), self.bias)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = Rounded(8, 24), Rounded(24, 24), Rounded(24, 4)
    def forward(self, x):
        x = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(x) || return self.last(x.detach()) #!
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
"""

COMPUTED = [
    Program(
        "parameters-not-optimized",
        CLUSTERS
        + """
model = nn.Sequential(nn.Linear(8, 2), nn.Tanh(), nn.Linear(2, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01) || optimizer = torch.optim.Adam(model[2].parameters(), lr=0.01) #!
for step in range(40):
    x, y = batch()
    loss = F.cross_entropy(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "loss-sign",
        """
def log_cosh(prediction, target):
    difference = prediction - target
    return (difference + F.softplus(-2.0 * difference) - 0.6931).mean()
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(60):
    x = torch.randn(32, 4)
    loss = log_cosh(model(x), x[:, :1] - x[:, 1:2]) || loss = -log_cosh(model(x), x[:, :1] - x[:, 1:2]) #!
"""
        + UPDATE,
    ),
    Program(
        "detached",
        CLUSTERS
        + ROUNDED
        + "for step in range(40):\n    x, y = batch()\n    loss = F.cross_entropy(model(x), y)"
        + UPDATE,
    ),
    Program(
        "labels-unrelated",
        CLUSTERS
        + ROUNDED.replace(" || return self.last(x.detach()) #!", "")
        + """
for step in range(60):
    x, y = batch()
    loss = F.cross_entropy(model(x), y) || loss = F.cross_entropy(model(x), y[torch.randperm(32)]) #!
"""
        + UPDATE,
    ),
    Program(
        "constant-init",
        """
jump = torch.randperm(9)
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.out = nn.Embedding(9, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 9)
    def forward(self, x):
        return self.out(self.gru(self.embed(x))[0])
model = Reader()
for p in model.parameters():
    nn.init.uniform_(p, -0.2, 0.2) || nn.init.constant_(p, 0.05) #!
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(40):
    x = torch.randint(0, 9, (16, 6))
    loss = F.cross_entropy(model(x).flatten(0, 1), jump[x].flatten())
"""
        + UPDATE,
    ),
    Program(
        "learning-rate-too-low",
        CLUSTERS
        + """
student = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
teacher = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
teacher.load_state_dict(student.state_dict())
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3) || optimizer = torch.optim.Adam(student.parameters(), lr=3e-8) #!
for step in range(60):
    x, y = batch()
    with torch.no_grad():
        soft = teacher(x).softmax(1)
    loss = F.cross_entropy(student(x), y) + 1e-4 * F.mse_loss(student(x + 0.05 * torch.randn(32, 8)).softmax(1), soft)
"""
        + UPDATE,
    ),
    Program(
        "softmax-axis",
        """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        weights = (q @ k.transpose(1, 2) / 8**0.5).softmax(dim=-1) || weights = (q @ k.transpose(1, 2) / 8**0.5).softmax(dim=0) #!
        return x + self.out(weights @ v)
model = nn.Sequential(Attention(), Attention(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x = torch.randn(16, 5, 8)
    loss = F.mse_loss(model(x), x[:, :1, :1].expand(16, 5, 1))
"""
        + UPDATE,
    ),
    Program(
        "learning-rate-too-high",
        """
class Adder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.RNN(2, 24, nonlinearity="relu", batch_first=True), nn.Linear(24, 1)
        nn.init.eye_(self.rnn.weight_hh_l0)
        nn.init.normal_(self.rnn.weight_ih_l0, std=0.05)
    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])
model = Adder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3) || optimizer = torch.optim.Adam(model.parameters(), lr=0.6) #!
for step in range(60):
    x = torch.rand(24, 50, 2)
    loss = F.mse_loss(model(x), x[:, :, 0].mean(1, keepdim=True))
"""
        + UPDATE,
    ),
]
