"""Drawn programs that read their surroundings, which change between calls: compiled, they answer as eagerly."""

import linecache
import random
import warnings

import numpy as np
import pytest

import retrograd as rg

SETUP = """
import functools, types
import numpy as np
import retrograd as rg
from retrograd import nn
k, flag, name = 2.0, True, "sin"
t = rg.tensor([1.0, -2.0, 0.5], dtype=rg.float64)
w = rg.tensor([0.5, 1.0, -1.0], dtype=rg.float64, requires_grad=True)
items, table = [t, 1.5, 2], {"a": 3.0, "t": w}
few, many = np.arange(3.0), np.arange(9000.0)
shared = rg.from_numpy(few)
held = types.SimpleNamespace(n=1.0, t=t * 2)
module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).double()
optimizer = rg.optim.SGD(module.parameters(), lr=0.1)
def scaled(v, by=2.0, *, plus=1.0): return v * by + plus
part = functools.partial(scaled, by=3.0)
def parts(v):
    for i in range(2):
        yield v * k + i
"""
READS = """
v = v * k
v = v * held.n + held.t
v = getattr(v, name)()
v = v + (t if flag else w)
v = v * items[1] + items[0]
v = v + table["a"] * table["t"]
v = v + sum(e for e in items if type(e) is float)
v = v + few.sum() + rg.from_numpy(few)
v = v + many.mean() + rg.tensor(many[:3])
v = v + shared
v = module(v)
v = scaled(v) + part(v)
v = sum(parts(v))
v = v * w.sin(); h = v.register_hook(lambda g: g * k) if v.requires_grad else None
v = v + rg.rand(3, dtype=rg.float64)
v = v * (2.0 if t.sum() > 0 else 3.0)
v = v + round(t.sum().item(), 2)
t.mul_(0.5); v = v + t
with rg.no_grad(): w.mul_(0.9)
held.n = held.n + 1.0; v = v + held.n
few[0] += 1.0; v = v + few[0]
many *= 0.5; v = v + many[1]
optimizer.zero_grad(); module(v.detach()).sum().backward(); optimizer.step()
if flag is False: raise KeyError(k)
""".strip().splitlines()
CHANGES = """
k = 3.0
k = 4
k = rg.tensor(1.5)
flag = not flag
name = "cos"
t.add_(1.0)
w.data = w.data + 1
w.requires_grad_(not w.requires_grad)
w.register_hook(lambda g: g * 2) if w.requires_grad else None
items[1] = 2.5
items[0] = w.detach()
few[1] = 8.0
many[7000] = -50.0
many = many[::-1]
shared.mul_(2.0)
held.n = 0.5
held.t = w.detach()
module.eval()
module.train()
module[0].weight = nn.Parameter(module[0].weight.detach() * 2)
module[0].register_forward_hook(lambda m, a, y: y + k)
scaled.__defaults__ = (4.0,)
scaled.__kwdefaults__ = {"plus": 0.5}
part.keywords["by"] = 0.25
optimizer.param_groups[0]["lr"] = 0.5
""".strip().splitlines()


class World:
    """One copy of all that a program reads, and the program, eager or compiled."""

    def __init__(self, source: str, compiled: bool) -> None:
        file = f"<{'compiled' if compiled else 'eager'} {hash(source)}>"
        linecache.cache[file] = len(source), None, source.splitlines(True), file
        rg.manual_seed(0)
        self.names: dict = {}
        exec(compile(source, file, "exec"), self.names)
        if compiled:
            self.names["f"] = rg.compile(self.names["f"], fallback=True)

    def call(self, seed: int):
        """What comes of a call and its backward: results, gradients, what is outside, random numbers."""
        rg.manual_seed(seed)
        x = rg.tensor(np.random.default_rng(seed).normal(size=3), requires_grad=bool(seed % 3))
        try:
            y = self.names["f"](x, x.flip(0) if seed % 2 else x * 0.5)
            if y.requires_grad:
                (y * y).sum().backward()
        except Exception as error:
            y = type(error).__name__
        n = self.names
        model, numbers = list(n["module"].parameters()), [n["held"].n, n["optimizer"].param_groups[0]["lr"]]
        tensors = [
            y,
            x,
            x.grad,
            n["t"],
            n["w"],
            n["w"].grad,
            n["shared"],
            n["held"].t,
            *model,
            *[p.grad for p in model],
        ]
        arrays = [z.detach().numpy().copy() if isinstance(z, rg.Tensor) else z for z in [*tensors, rg.rand(1)]]
        return [*arrays, n["few"].copy(), n["many"][:3].copy(), *numbers]


@pytest.mark.slow
@pytest.mark.every(2)
@pytest.mark.parametrize("seed", range(40))
def test_drawn_programs_answer_as_eagerly_whatever_changes_around_them(seed):
    draw = random.Random(seed)
    body = ["v = x * y", *draw.choices(READS, k=draw.randrange(1, 5)), "return v + y"]
    source = SETUP + "def f(x, y):\n    global many\n" + "".join(f"    {line}\n" for line in body)
    eager, compiled = World(source, False), World(source, True)
    done = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(7):
            number = draw.randrange(99)
            for expected, found in zip(eager.call(number), compiled.call(number), strict=True):
                message = "\n".join([*body, *done])
                assert type(expected) is type(found), message
                if isinstance(expected, np.ndarray):
                    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9, err_msg=message)
                else:
                    assert found == expected, message
            for change in draw.sample(CHANGES, draw.randrange(3)):
                done.append(change)
                exec(change, eager.names)
                exec(change, compiled.names)
