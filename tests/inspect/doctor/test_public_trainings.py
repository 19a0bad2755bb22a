"""The doctor on trainings that people asked about in public, each written anew, and on healthy ones.

Each function returns a training step, and the optimizers where the doctor has to be given them. In the broken ones the
comment `# here` marks the lines that the first finding may name. The thread that asked about the mistake is in the
docstring.
"""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest

import retrograd as rg
from retrograd import inspect, nn, optim
from retrograd.nn import functional as F

pytestmark = pytest.mark.slow
LINES = Path(__file__).read_text(encoding="utf-8").splitlines()


@pytest.fixture(autouse=True)
def seeded():
    state = rg.get_rng_state()
    rg.manual_seed(0)
    yield
    rg.set_rng_state(state)


def clusters(number, classes, size, spread=0.7):
    """A batch of a classification problem that a small network learns."""
    centers = rg.randn(classes, size, generator=rg.Generator().manual_seed(1))
    labels = rg.randint(0, classes, (number,))
    return centers[labels] + spread * rg.randn(number, size), labels


def training(optimizer, compute_loss):
    """The usual step."""

    def step():
        optimizer.zero_grad()
        compute_loss().backward()
        optimizer.step()

    return step


def broadcast_loss():
    """Bug: fail to throw error when computing loss between tensors with shapes [n, 1] and [n].

    https://github.com/pytorch/pytorch/issues/16045
    """
    x = rg.randn(256, 8)
    y = x[:, 0] - 2 * x[:, 1]
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

    def loss():
        return ((model(x) - y) ** 2).mean()  # here

    return training(optim.Adam(model.parameters(), lr=0.01), loss)


def double_softmax():
    """Bug in code, https://github.com/jindongwang/Deep-learning-activity-recognition/issues/10."""
    net = nn.Sequential(nn.Conv1d(1, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(96, 6))

    def loss():
        x, y = clusters(64, 6, 16)
        probabilities = F.softmax(net(x[:, None]), dim=1)  # here
        return F.cross_entropy(probabilities, y)  # here

    return training(optim.SGD(net.parameters(), lr=0.1), loss)


def double_sigmoid():
    """Do not need sigmoid because there is sigmoid in BCEWithLogitsLoss, https://github.com/yudi-mars/daisyRec/pull/15."""
    user, item = nn.Embedding(50, 8), nn.Embedding(40, 8)
    taste, style = rg.randn(50, 8), rg.randn(40, 8)

    def loss():
        i, j = rg.randint(0, 50, (256,)), rg.randint(0, 40, (256,))
        score = (user(i) * item(j)).sum(dim=1).sigmoid()  # here
        return F.binary_cross_entropy_with_logits(score, ((taste[i] * style[j]).sum(dim=1) > 0).float())  # here

    return training(optim.Adam([*user.parameters(), *item.parameters()], lr=0.02), loss)


def softmax_axis():
    """Softmax dimension is wrong, https://github.com/batra-mlp-lab/visdial-challenge-starter-pytorch/issues/1."""
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 6))

    def loss():
        x, y = clusters(64, 6, 12)
        return F.nll_loss(F.log_softmax(net(x), dim=0), y)  # here

    return training(optim.Adam(net.parameters(), lr=0.01), loss)


def eval_mode():
    """model.eval(): validation in the middle of an epoch, https://github.com/joeynmt/joeynmt/issues/184."""
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 6))
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    steps = iter(range(1000))

    def step():
        x, y = clusters(64, 6, 12)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # here
        optimizer.step()
        if next(steps) % 10 == 0:
            model.eval()  # here
            with rg.no_grad():
                model(x)

    return step


def parameters_not_optimized():
    """Not putting parameters into optimizer but still trainable, https://github.com/zjunlp/HVPNeT/issues/5."""
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    groups = []
    groups.append({"params": [p for name, p in model.named_parameters() if name.startswith("0.")], "lr": 0.01})
    group = {"params": [p for name, p in model.named_parameters() if name.startswith("2.")], "lr": 0.05}
    assert group["params"]  # made, and never appended
    optimizer = optim.AdamW(groups)  # here

    def step():
        x, y = clusters(64, 6, 12)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # here

    return step


def modules_not_registered():
    """Module: parameters are not included if the module is initialized in a list.

    https://github.com/pytorch/pytorch/issues/715
    """

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = []
            for size in (16, 32):
                self.hidden.append([nn.Linear(size, 32), nn.ReLU()])  # here
            self.classifier = nn.Linear(32, 3)

        def forward(self, x):
            for linear, activation in self.hidden:
                x = activation(linear(x))  # here
            return self.classifier(x)

    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=0.01)  # here
    return training(optimizer, lambda: F.cross_entropy(*(lambda x, y: (net(x), y))(*clusters(64, 3, 16))))


def gradients_not_zeroed():
    """No optimizer.zero_grad() in the tutorial.

    https://github.com/Project-MONAI/research-contributions/issues/392
    """
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        x, y = clusters(64, 6, 12)
        F.cross_entropy(model(x), y).backward()  # here
        optimizer.step()  # here

    return step


def zeroed_before_step():
    """zero_grad is called per microbatch, https://github.com/bytetriper/RAE/issues/67."""
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = optim.AdamW(model.parameters(), lr=0.01)

    def step():
        for _ in range(4):
            x, y = clusters(16, 6, 12)
            optimizer.zero_grad(set_to_none=True)  # here
            (F.cross_entropy(model(x), y) / 4).backward()
        optimizer.step()

    return step


def step_missing():
    """Fix PyTorchImageClassificationTrainer's training, https://github.com/microsoft/nni/pull/3339."""
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # here

    def step():
        x, y = clusters(64, 6, 12)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()  # here

    return step


def detached():
    """.detach() causes loss_memory.grad to be none, https://github.com/haowang1992/DSN/issues/1."""
    backbone, head = nn.Linear(20, 16), nn.Linear(16, 6)
    optimizer = optim.SGD([*backbone.parameters(), *head.parameters()], lr=0.1)

    def loss():
        x, y = clusters(64, 6, 20)
        return F.cross_entropy(head(backbone(x).tanh().detach()), y)  # here

    return training(optimizer, loss)


def tied_copies():
    """Intentional weight sharing in ResidualStack, https://github.com/zalandoresearch/pytorch-vq-vae/issues/2."""

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(12, 12)] * 3)  # here
            self.out = nn.Linear(12, 6)

        def forward(self, x):
            for layer in self.layers:
                x = x + layer(x.relu())
            return self.out(x)

    model = Stack()
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    return training(optimizer, lambda: F.cross_entropy(*(lambda x, y: (model(x), y))(*clusters(64, 6, 12))))


def scheduler_kills_rate():
    """Fix scheduler updating: stepped in the batch loop, https://github.com/ivadomed/ivadomed/pull/55."""
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)

    def step():
        x, y = clusters(64, 6, 12, spread=2.0)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        scheduler.step()  # here

    return step


def target_mismatch():
    """Why is the value of BCEWithLogitsLoss negative.

    https://github.com/MontaEllis/Pytorch-Medical-Segmentation/issues/8
    """
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))

    def loss():
        png = (rg.rand(4, 1, 8, 8) > 0.7).float() * 255
        return F.binary_cross_entropy_with_logits(net(png / 255 + 0.3 * rg.randn(4, 1, 8, 8)), png)  # here

    return training(optim.Adam(net.parameters(), lr=1e-3), loss)


def batch_mixing():
    """Confusion about the batch in model.py, https://github.com/timbmg/Sentence-VAE/issues/15."""
    embedding, rnn = nn.Embedding(12, 16), nn.GRU(16, 16, bidirectional=True, batch_first=True)
    out = nn.Linear(32, 12)

    def loss():
        ids = rg.randint(0, 12, (32, 5))
        hidden = rnn(embedding(ids))[1]
        logits = out(hidden.view(32, 32))  # here
        return F.cross_entropy(logits, ids[:, -1])

    optimizer = optim.Adam([*embedding.parameters(), *rnn.parameters(), *out.parameters()], lr=0.01)
    return training(optimizer, loss)


def loss_sign():
    """Corrected logistic regression loss function formula, https://github.com/cs231n/cs231n.github.io/pull/216."""
    model = nn.Linear(5, 1)

    def loss():
        x = rg.randn(128, 5)
        y = (x[:, 0] - x[:, 1] > 0).float()
        p = model(x)[:, 0].sigmoid().clamp(1e-6, 1 - 1e-6)
        return (y * p.log() + (1 - y) * (1 - p).log()).mean()  # here

    return training(optim.SGD(model.parameters(), lr=0.3), loss)


def reused_optimizer_of_old_model():
    """The parameters are not updated when the pruned model is finetuned.

    https://github.com/microsoft/nni/issues/4521
    """
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)  # here
    steps = iter(range(1000))

    def step():
        if next(steps) == 10:
            model[0], model[2] = nn.Linear(12, 8), nn.Linear(8, 6)
        x, y = clusters(64, 6, 12)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


BROKEN = [
    broadcast_loss,
    double_softmax,
    double_sigmoid,
    softmax_axis,
    eval_mode,
    parameters_not_optimized,
    modules_not_registered,
    gradients_not_zeroed,
    zeroed_before_step,
    step_missing,
    detached,
    tied_copies,
    scheduler_kills_rate,
    target_mismatch,
    batch_mixing,
    loss_sign,
    reused_optimizer_of_old_model,
]


@pytest.mark.every(3)
@pytest.mark.filterwarnings("ignore:.*are broadcast:UserWarning")
@pytest.mark.parametrize("example", BROKEN, ids=lambda example: example.__name__)
def test_the_first_finding_has_the_kind_and_the_line_of_the_mistake(example):
    with inspect.doctor(steps=60) as d:
        step = example()
        for _ in range(60):
            step()
    assert d.findings, d
    first = d.findings[0]
    assert first.kind == example.__name__.replace("_", "-"), d
    assert Path(first.file).name == Path(__file__).name and "# here" in LINES[first.line - 1], (first.line, d)


def gan():
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    optimizer_g = optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optimizer_d = optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))

    def step():
        angle = 6.28 * rg.rand(64, 1)
        real, fake = rg.cat([angle.cos(), angle.sin()], 1), generator(rg.randn(64, 4))
        optimizer_d.zero_grad()
        (F.softplus(-critic(real)).mean() + F.softplus(critic(fake.detach())).mean()).backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        F.softplus(-critic(fake)).mean().backward()
        optimizer_g.step()

    return step


def frozen_trunk():
    trunk, head = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU()).eval(), nn.Linear(64, 6)
    trunk.requires_grad_(False)

    def loss():
        x, y = clusters(64, 6, 20)
        return F.cross_entropy(head(trunk(x)), y)

    return training(optim.Adam(head.parameters(), lr=0.01), loss)


def weight_tying():
    weight, bias = nn.Parameter(rg.randn(6, 30) / 30**0.5), nn.Parameter(rg.zeros(30))
    basis = rg.randn(3, 30) / 3**0.5

    def loss():
        x = rg.randn(64, 3) @ basis
        return F.mse_loss(F.linear(F.linear(x, weight).tanh(), weight.t(), bias), x)

    return training(optim.Adam([weight, bias], lr=5e-3), loss)


def moving_average_of_weights():
    student = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = optim.Adam(student.parameters(), lr=2e-3)

    def step():
        x, y = clusters(64, 6, 12)
        with rg.no_grad():
            soft = F.softmax(teacher(x), dim=1)
        optimizer.zero_grad()
        logits = student(x)
        (F.cross_entropy(logits, y) + F.mse_loss(F.softmax(logits, dim=1), soft)).backward()
        optimizer.step()
        with rg.no_grad():
            for p, q in zip(teacher.parameters(), student.parameters(), strict=True):
                p.lerp_(q, 0.02)

    return step


def contrastive_loss():
    encoder = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 8))

    def loss():
        x = rg.randn(32, 16)
        z = F.normalize(encoder(rg.cat([x + 0.2 * rg.randn(32, 16), x + 0.2 * rg.randn(32, 16)])), dim=1)
        similarity = (z @ z.t() / 0.5).masked_fill(rg.eye(64, dtype=rg.bool), -float("inf"))
        return F.cross_entropy(similarity, rg.cat([rg.arange(32, 64), rg.arange(32)]))

    return training(optim.Adam(encoder.parameters(), lr=1e-3), loss)


def scaled_accumulation():
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = optim.Adam(model.parameters(), lr=2e-3)

    def step():
        for _ in range(4):
            x, y = clusters(16, 6, 12)
            (F.cross_entropy(model(x), y) / 4).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def policy_gradient():
    policy = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3), nn.Softmax(dim=-1))

    def loss():
        state = rg.randn(64, 4)
        probabilities = policy(state)
        action = rg.multinomial(probabilities.detach(), 1)
        reward = (action[:, 0] == state[:, :3].argmax(dim=1)).float()
        return -(probabilities.gather(1, action)[:, 0].log() * (reward - 0.5)).mean()

    return training(optim.Adam(policy.parameters(), lr=5e-3), loss)


def second_order_optimizer():
    x = rg.linspace(-3, 3, 60)[:, None]
    model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x.sin())
        loss.backward()
        return loss

    return lambda: optimizer.step(closure)


HEALTHY = [
    gan,
    frozen_trunk,
    weight_tying,
    moving_average_of_weights,
    contrastive_loss,
    scaled_accumulation,
    policy_gradient,
    second_order_optimizer,
]


@pytest.mark.every(3)
@pytest.mark.parametrize("example", HEALTHY, ids=lambda example: example.__name__)
def test_a_healthy_training_has_no_finding(example):
    with inspect.doctor(steps=60) as d:
        step = example()
        for _ in range(60):
            step()
    assert d.findings == [], d


SCRIPT = """
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(256, 8)
y = x[:, 0] - x[:, 1]
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), TARGET)
    loss.backward()
    optimizer.step()
print("finished")
"""


@pytest.mark.parametrize(("target", "says"), [("y", "train.py:12: broadcast-loss"), ("y[:, None]", "nothing found")])
def test_the_command_says_the_same_of_an_unchanged_script(tmp_path, target, says):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("TARGET", target))
    command = [sys.executable, "-m", "retrograd", "doctor", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "finished" in done.stdout and says in done.stdout
