"""Training programs whose steps, decay, initial weights or freezing are of the wrong size, and learn in part."""

# ruff: noqa: E501

from tests.inspect.doctor.programs import UPDATE, Program

SERIES = """
t = torch.arange(0, 400).float()
series = torch.sin(t / 7) + 0.4 * torch.sin(t / 2.1) + 0.1 * torch.randn(400)
X = torch.stack([series[i : i + 12] for i in range(388)])
Y = series[12:, None]
def batch():
    i = torch.randint(0, 388, (24,))
    return X[i], Y[i]
"""

REVIEWS = """
vectors = torch.randn(40, 6)
class Reviews(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(vectors, freeze=False)
        self.embed_rnn, self.score = nn.GRU(6, 24, batch_first=True), nn.Linear(24, 1)
    def forward(self, x):
        return self.score(self.embed_rnn(self.embedding(x))[0].mean(1))
model = Reviews()
"""

SIZES = [
    Program(
        "learning-rate-too-high",
        """
centers = torch.randn(5, 12)
model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01) || optimizer = torch.optim.Adam(model.parameters(), lr=1.0) #!
for step in range(150):
    y = torch.randint(0, 5, (32,))
    loss = F.cross_entropy(model(centers[y] + 0.8 * torch.randn(32, 12)), y)
"""
        + UPDATE,
    ),
    Program(
        "weight-decay-too-high",
        SERIES
        + """
class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(1, 16, batch_first=True), nn.Linear(16, 1)
    def forward(self, x):
        return self.out(self.rnn(x[..., None])[1][-1])
model = Forecast()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=1e-3) || optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.25) #!
for step in range(110):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "weight-decay-too-high",
        SERIES
        + """
model = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3) || optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=0.2) #!
for step in range(110):
    x, y = batch()
    loss = F.smooth_l1_loss(model(x), y)
"""
        + UPDATE,
    ),
    Program(
        "exploding-gradient",
        """
class Melody(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(8, 8), nn.Linear(24, 8)
        self.rnn = nn.RNN(8, 24, nonlinearity="relu", batch_first=True)
        nn.init.orthogonal_(self.rnn.weight_hh_l0) || nn.init.normal_(self.rnn.weight_hh_l0, 0.0, 0.8) #!
    def forward(self, x):
        return self.out(self.rnn(self.embedding(x))[0])
model = Melody()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(40):
    start = torch.randint(0, 8, (12, 1))
    x = (start + 3 * torch.arange(25)) % 8
    loss = F.cross_entropy(model(x[:, :-1]).reshape(-1, 8), x[:, 1:].reshape(-1))
"""
        + UPDATE,
    ),
    Program(
        "frozen-layer",
        REVIEWS
        + """
for name, p in model.named_parameters():
    if name.startswith("embedding"): || if name.startswith("embed"):
        p.requires_grad = False #!
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(60):
    x = torch.randint(0, 40, (24, 6))
    v = vectors[x][..., 0]
    loss = F.mse_loss(model(x), (v[:, 1:] * v[:, :-1]).mean(1, keepdim=True))
"""
        + UPDATE,
    ),
    Program(
        "frozen-layer",
        """
model = nn.Sequential(nn.Linear(12, 16), nn.Sigmoid(), nn.Linear(16, 1))
model[0].load_state_dict(nn.Linear(12, 16).state_dict())
model[0].requires_grad_(False) || model[0].requires_grad = False #!
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(30):
    x = torch.randn(24, 12)
    loss = F.mse_loss(model(x), 0.3 * x[:, :1])
"""
        + UPDATE,
    ),
]
