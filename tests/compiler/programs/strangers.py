"""Programs as somebody writes them who knows PyTorch's documentation of compile and none of ours.

A program is a function of statements drawn at random that read and change a small world: modules, parameters, hooks,
an optimizer, objects, closures, containers, generators. Between its calls events change the world. Two worlds are made
from one seed, one with the function as it is and one with it compiled, and after each call all that can be seen in them
is compared: results, gradients, parameters, buffers, attributes, errors.

``python -m tests.compiler.programs.strangers --programs 1000 [--first 0]`` runs many; failures are printed with their source.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import gc
import itertools
import random
import threading
import time
import warnings
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import nn, optim
from retrograd.compiler import DataDependent
from tests.compiler.programs.ways import compiling

# What reads the world
READS = [
    "h = h * cfg['k']",
    "h = h + a.v",
    "h = h * 2 if a.flag else h - 1",
    "h = h * W",
    "h = h + (W * W).sum()",
    "h = net(h)",
    "h = helper(h)",
    "h = inner(h)",
    "h = h * shared[0]",
    "h = h * scale",
    "h = h * array.mean()",
    "h = h + rg.from_numpy(array).float()",
    "h = h * getattr(a, 'late', 1.0)",
    "h = h * (2.0 if hasattr(a, 'late') else 3.0)",
    "h = h * a.method(2.0)",
    "h = h * sum(k for k in cfg.values() if isinstance(k, float))",
    "h = h + buffer",
    "h = h * a.kind.factor",
    "h = h + sum(h * k for k in range(3))",
    "h = rg.stack([h * k for k in numbers()]).sum(0)",
    "h = h * len(names)",
    "h = h * (W.grad is None)",
    "h = h if W.grad is None else h + W.grad",
    "h = nn.functional.dropout(h, 0.5, net.training)",
    "h = h + rg.rand(4)",
    "h = h * (h > 0)",
    "h = h.clone().requires_grad_() if not h.requires_grad else h",
    "h = rg.where(h > h.mean(), h, 0.5 * h)",
    "h = h.view(2, 2).t().reshape(4)",
    "h = dict(a=h)['a']",
    "h = (lambda t, k=2.0: t * k)(h)",
    "h = h * (3.0 if rg.is_grad_enabled() else 2.0)",
    "h = h * default[0]",
    "match a.mode:\n        case 'fast': h = h * 2\n        case _: h = h * 3",
    "with rg.no_grad(): h = h + W.mean()",
    "h = h.detach() + h * 0.5",
    "h = h * opt.param_groups[0]['lr']",
    "h = h + net.state",
    "h = h * W.tag",
]
# What changes the world, or hides something in it
CHANGES = [
    "a.last = h",
    "a.last = h.detach()",
    "a.half = h[:2]",
    "W.note = h",
    "kept.append(h.detach())",
    "kept[:] = [h]",
    "cfg['h'] = h",
    "a.count += 1\n    h = h * a.count",
    "a.fresh = 2.0",
    "a.seen = True",
    "box.value = h",
    "with rg.no_grad(): buffer.mul_(0.5).add_(h.detach())",
    "with rg.no_grad(): W.mul_(0.99)",
    "x.add_(1.0)",
    "h = h.clone().mul_(2.0)",
    "total[0] = total[0] + h.detach().sum()",
    "net.state = net.state * 0.5 + h.detach().mean()",
    "h.register_hook(lambda g: g * 2.0)",
    "h.retain_grad()",
    "W.requires_grad_(True)",
    "cfg['k'] += 0.5",
    "h = h * next(counter)",
    "h = h * random.random()",
    "h = h * float(np.random.rand())",
    "shared.append(1.0)",
    "names.add(len(names))",
    "y = h.detach()\n    y.mul_(1.5)",
    "W.grad = None",
    "opt.zero_grad(set_to_none=False)",
    "W.register_hook(lambda g: g * 0.5)",
    "handle = W.register_hook(lambda g: g * 0.5)\n    handle.remove()",
    "a.grad = W.grad",
    "default.append(2.0)",
    "numbers_seen.update({len(numbers_seen): h.detach()})",
    "a.gen = (k for k in [1.0, 2.0])\n    h = h * sum(a.gen)",
    "del cfg['h']",
    "a.__dict__.pop('late', None)",
    "setattr(a, 'made', h.sum())",
    "h.mark = 1",
]
# What takes numbers out of Tensors
NUMBERS = [
    "h = h * h.mean().item()",
    "n = float(h.detach().mean())\n    h = h * n",
    "h = h * 2 if h.detach().mean() > 0 else h * 3",
    "h = h * len(f'{h.detach().sum().item():.1f}')",
    "h = h * len(str(h.detach()))",
    "h = h * round(h.detach().sum().item())",
    "assert h.detach().isfinite().all()",
    "a.loss = h.detach().mean().item()",
    "kept.append(h.detach().sum().item())",
    "h = h * float(h.detach().numpy()[0])",
    "h = h + sum(v for v in h.detach().tolist())",
    "while h.detach().abs().max() > 4: h = h * 0.5",
    "if h.detach().sum() > 50: raise ValueError('large')",
    "try:\n        if h.detach().sum() > 1: raise KeyError('k')\n    except KeyError: h = h + 1",
    "h = h[h.detach() > -100]",
    "h = h * np.sqrt(abs(h.detach().sum().item()))",
    "a.text = '%.2f' % h.detach().mean().item()",
    "h = h * {True: 2.0, False: 3.0}[bool(h.detach().sum() > 0)]",
    "h = h * sorted([h.detach().sum().item(), 0.3])[0]",
]
ENDS = [
    "return h",
    "return h, a.v",
    "return {'h': h, 'n': h.detach().sum()}",
    "return [h, h]",
    "return h.sum()",
    "return h.detach()",
    "return h, h.detach()",
    "return h.view(-1, 1), h",
    "return x, h",
    "return W, h",
    "return W.detach(), h",
    "return buffer, h",
    "return h.sum().item()",
    "return SimpleNamespace(h=h)",
    "opt.zero_grad()\n    loss = (h * h).mean()\n    loss.backward()\n    opt.step()\n    return loss.detach()",
    "loss = (h * h).mean()\n    loss.backward()\n    return loss",
    "loss = (h * h).mean() + (W * W).sum()\n    loss.backward(retain_graph=True)\n    opt.step()\n    return loss",
    "opt.zero_grad()\n    loss = (h * h).mean()\n    loss.backward()\n    nn.utils.clip_grad_norm_([W], 1.0)\n    opt.step()\n"
    "    return loss.item()",
    "(h * W).sum().backward()\n    return W.grad",
    "(h * W).sum().backward()\n    return W.grad.clone(), W.grad.norm()",
    "return rg.autograd.grad((h * W * W).sum(), W, create_graph=True)[0]",
    "g, = rg.autograd.grad((h * W * W).sum(), W, create_graph=True)\n    q = h + g\n    (q * q).sum().backward()\n    opt.step()\n"
    "    return q.detach()",
    "opt.zero_grad()\n    with rg.enable_grad(): loss = (h * W).sum()\n    loss.backward()\n    opt.step()\n    sched.step()\n    return loss",
    "return None",
    "return h, a",
]  # fmt: skip
EVENTS = [
    "cfg['k'] = r.choice([1.0, 2.0, 3.0])", "cfg['h'] = 1.0", "a.v = r.choice([0.0, 1.0, rg.ones(4)])",
    "a.flag = not a.flag", "a.late = r.choice([1.0, 5.0])", "a.mode = r.choice(['fast', 'slow'])",
    "W.register_hook(lambda g: g * 3.0)", "hooks.append(W.register_hook(lambda g: g + 1.0))",
    "hooks and hooks.pop().remove()", "hooks.append(W.register_post_accumulate_grad_hook(lambda p: setattr(p, 'grad', p.grad * 2.0)))",
    "hooks.append(net.register_forward_hook(lambda m, i, o: o * 2.0))",
    "hooks.append(net.register_forward_pre_hook(lambda m, i: (i[0] * 2.0,)))",
    "W.data = W.data * 0.5", "W.data.mul_(0.5)", "set_no_grad(W)", "W.requires_grad_(not W.requires_grad)", "W.grad = None",
    "W.grad = rg.ones(4)", "net.train(not net.training)", "net.weight = nn.Parameter(rg.full((4,), 0.5))",
    "net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})", "net.state = rg.ones(())",
    "net.forward = (lambda t: t * 7.0)", "net.__dict__.pop('forward', None)",
    "replace(helper=lambda t: t * 3.0)", "replace(scale=r.choice([1.0, 4.0]))", "replace(W=nn.Parameter(rg.full((4,), 2.0)))",
    "shared[0] = r.choice([1.0, 2.0])", "shared.append(3.0)", "array[0] = r.random()", "array[:] = r.random()",
    "names.add(r.random())", "a.kind.factor = r.choice([1.0, 2.0])", "a.kind = Kind2", "a.method = (lambda k: k * 2.0)",
    "buffer.fill_(0.5)", "opt.param_groups[0]['lr'] *= 0.5", "opt.state.clear()", "opt.zero_grad()", "opt.step()",
    "default[0] = r.choice([1.0, 2.0])", "kept.clear()", "total[0] = rg.zeros(())", "W.tag = r.choice([1.0, 2.0])",
    "random.seed(1)", "rg.manual_seed(5)", "a.last = None", "a.count = 0", "W.retain = W * 2", "x_kind[0] = 'grad'",
    "x_kind[0] = 'plain'", "x_kind[0] = 'strided'", "x_kind[0] = 'double'", "x_kind[0] = 'W'", "x_kind[0] = 'nodes'",
    "modes[0] = 'no_grad'", "modes[0] = 'usual'", "modes[0] = 'inference'", "numbers_seen.clear()", "gc.collect()",
    "a.graph = (W * W).sum()", "a.graph = None", "a.__class__ = type('Other', (type(a),), {})", "inner_k[0] = r.random()",
    "f.__defaults__ = ([r.choice([1.0, 2.0])],)", "counter.__next__()", "inplace_view(buffer)", "del a.flag\na.flag = False",
]  # fmt: skip


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(rg.linspace(0.5, 1.5, 4))
        self.register_buffer("state", rg.zeros(()))

    def forward(self, t: rg.Tensor) -> rg.Tensor:
        if self.training:
            return t * self.weight + self.state
        return t * self.weight


class Kind:
    factor = 1.0


class Kind2:
    factor = 3.0


class Thing:
    def __init__(self) -> None:
        self.v, self.flag, self.count, self.mode, self.kind = 1.0, False, 0, "fast", Kind()

    def method(self, k: float) -> float:
        return k * 1.5 if self.flag else k


class Slotted:
    __slots__ = ("value",)


def _inner(t: rg.Tensor, k: list[float]) -> rg.Tensor:
    return t * k[0]


class Stranger:
    """A drawn program, and the worlds that it is run in."""

    def __init__(self, seed: int) -> None:
        r = random.Random(seed)
        self.seed = seed
        body = [r.choice(READS) for _ in range(r.randint(1, 3))]
        body += [r.choice(CHANGES) for _ in range(r.choice([0, 0, 1, 1, 2]))]
        body += [r.choice(NUMBERS) for _ in range(r.choice([0, 0, 0, 1]))]
        r.shuffle(body)
        self.source = "\n    ".join(["def f(x, default=default):", "h = x * 1.0", *body, r.choice(ENDS)])
        self.events = [r.choice(EVENTS) if r.random() < 0.6 else "" for _ in range(6)]
        self.fallback = r.random() < 0.8
        self.backward = r.random() < 0.5
        self.keeps = r.random() < 0.5  # results alive
        self.optimizer = r.randrange(4)

    def __str__(self) -> str:
        return f"seed {self.seed}, fallback={self.fallback}, backward={self.backward}\n{self.source}\n{self.events}"

    def world(self, compiled: bool) -> dict[str, Any]:
        """All that the function and the events can name."""
        w: dict[str, Any] = {
            "__name__": "world", "rg": rg, "nn": nn, "np": np, "random": random, "SimpleNamespace": SimpleNamespace, "gc": gc, "Kind2": Kind2(),
            "cfg": {"k": 2.0}, "a": Thing(), "W": nn.Parameter(rg.linspace(0.2, 1.0, 4)), "net": Net(), "shared": [2.0],
            "scale": 1.5, "array": np.full(4, 0.5), "buffer": rg.zeros(4), "names": {1, 2}, "kept": [], "box": Slotted(),
            "total": [rg.zeros(())], "counter": itertools.count(1), "numbers_seen": {}, "hooks": [], "x_kind": ["plain"],
            "modes": ["usual"], "inner_k": [1.25], "helper": lambda t: t + 0.25, "default": [1.0],
        }  # fmt: skip
        w["W"].tag = 1.0
        w["replace"] = lambda **names: w.update(names)
        w["set_no_grad"] = lambda p: p.requires_grad_(False)
        w["inplace_view"] = lambda b: b[1:3].mul_(2.0)
        kinds = (optim.SGD, optim.AdamW, optim.RMSprop, lambda p, lr: optim.SGD(p, lr=lr, momentum=0.9))
        w["opt"] = kinds[self.optimizer]([w["W"], *w["net"].parameters()], lr=0.01)
        w["sched"] = optim.lr_scheduler.StepLR(w["opt"], 2)
        k = w["inner_k"]

        def inner(t: rg.Tensor) -> rg.Tensor:
            return _inner(t, k)

        w["inner"] = rg.compile(inner, fallback=True) if compiled else inner

        def numbers() -> Any:
            yield from (0.5, w["scale"])

        w["numbers"] = numbers
        exec(self.source, w)
        return w

    def run(self, compiled: bool) -> list[Any]:
        """What is seen after each call."""
        for generator in (rg.manual_seed, random.seed, np.random.seed):
            generator(self.seed)
        w, seen, alive = self.world(compiled), [], []
        function = rg.compile(w["f"], fallback=self.fallback) if compiled else w["f"]
        w["r"] = random.Random(self.seed)
        for number, event in enumerate(["", *self.events]):
            if event:
                try:
                    exec(event, w)
                except Exception as error:
                    seen.append(type(error))
            x = self._argument(w, number)
            mode = {"usual": rg.enable_grad, "no_grad": rg.no_grad, "inference": rg.inference_mode}[w["modes"][0]]
            try:
                with mode():
                    result = function(x)
                if self.keeps:
                    alive.append(result)
                found = [*_shown(result), *_shown(x)]
                if self.backward:
                    for t in _tensors(result):
                        if t.requires_grad:
                            t.sum().backward()
                            break
            except DataDependent:
                if self.fallback:
                    raise
                return seen
            except Exception as error:
                found = [type(error)]
            seen.append([found, _shown(x.grad), *[_shown(old) for old in alive], self._seen(w)])
            result = None
        return seen

    def _argument(self, w: dict[str, Any], number: int) -> rg.Tensor:
        kind = w["x_kind"][0]
        values = [0.1 * number, -0.3, 0.7, 0.2 + number]
        if kind == "W":
            return w["W"]
        if kind == "strided":
            return rg.tensor([v for v in values for _ in (0, 1)])[::2]
        x = rg.tensor(values, dtype=rg.float64 if kind == "double" else rg.float32)
        if kind in ("grad", "nodes"):
            x.requires_grad_()
        return x * 1.0 if kind == "nodes" else x

    def _seen(self, w: dict[str, Any]) -> list[Any]:
        a = w["a"]
        names = ("W", "buffer", "kept", "total", "shared", "names", "array", "cfg", "numbers_seen")
        found = [_shown(w[name]) for name in names]
        found += [_shown(getattr(a, name, None)) for name in ("last", "half", "loss", "text", "count", "made", "grad")]
        found += [_shown(getattr(w["box"], "value", None)), _shown(getattr(w["W"], "note", None))]
        found += [
            _shown(w["W"].grad),
            w["W"].requires_grad,
            _shown(w["net"].state_dict()),
            _shown(w["net"].weight.grad),
        ]
        found += [w["opt"].param_groups[0]["lr"], hasattr(a, "fresh"), hasattr(a, "late"), random.random()]
        return found


def _tensors(x: Any) -> list[rg.Tensor]:
    if isinstance(x, rg.Tensor):
        return [x]
    if isinstance(x, dict):
        return [t for item in x.values() for t in _tensors(item)]
    if isinstance(x, SimpleNamespace):
        return _tensors(vars(x))
    return [t for item in x for t in _tensors(item)] if isinstance(x, (tuple, list)) else []


def _shown(x: Any) -> Any:
    if isinstance(x, rg.Tensor):
        return [np.array(x.detach().numpy()), x.requires_grad, x.is_leaf, str(x.dtype), sorted(vars(x))]
    if isinstance(x, np.ndarray):
        return np.array(x)
    if isinstance(x, dict):
        return [[key, _shown(value)] for key, value in x.items()]
    if isinstance(x, SimpleNamespace):
        return _shown(vars(x))
    if isinstance(x, (tuple, list)):
        return [type(x).__name__, *map(_shown, x)]
    return (
        sorted(x, key=str) if isinstance(x, set) else x if isinstance(x, (int, float, str, bool)) else type(x).__name__
    )


def difference(x: Any, y: Any, path: str = "") -> str:
    """Where two records differ, in words; empty where they do not."""
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        if x.shape != y.shape or x.dtype != y.dtype or not np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"{path}: {x.tolist()} and {y.tolist()}"
        return ""
    if isinstance(x, float) and isinstance(y, float):
        return "" if np.isclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True) else f"{path}: {x} and {y}"
    if isinstance(x, list) and isinstance(y, list):
        if len(x) != len(y):
            return f"{path}: {len(x)} and {len(y)} items"
        return next(
            (d for k, (a, b) in enumerate(zip(x, y, strict=True)) if (d := difference(a, b, f"{path}[{k}]"))), ""
        )
    return "" if type(x) is type(y) and x == y else f"{path}: {x!r} and {y!r}"


def check_stranger(seed: int, way: str = "loops") -> None:
    """Compare a program's calls with the eager ones."""
    program = Stranger(seed)
    wanted = program.run(False)
    with compiling(way, seed):
        found = program.run(True)
    if not program.fallback:
        wanted = wanted[: len(found)]
    what = difference(found, wanted)
    assert not what, f"{program}\n{what}"


def check_threads(seed: int, way: str = "loops") -> None:
    """Compare results of one program that several threads call at once, each with numbers of its own."""
    r = random.Random(seed)
    body = [r.choice(["h = h * W", "h = net(h)", "h = h.tanh()", "h = h + h.mean()", "h = h * h.sum().item()",
                      "h = h * 2 if h.detach().sum() > 0 else h", "h = helper(h)"]) for _ in range(3)]  # fmt: skip
    w: dict[str, Any] = {"W": nn.Parameter(rg.linspace(0.2, 1.0, 4)), "net": Net(), "helper": lambda t: t.exp().log()}
    exec("\n    ".join(["def f(x):", "h = x * 1.0", *body, "return h"]), w)
    inputs = [[rg.full((r.choice([4, 4, 4, 1]),), 0.1 * k + n) for n in range(4)] for k in range(4)]
    wanted = [[_shown(w["f"](x)) for x in row] for row in inputs]
    found: list[Any] = [None] * 4
    with compiling(way, seed):
        function = rg.compile(w["f"], fallback=True)

        def call(k: int) -> None:
            try:
                found[k] = [_shown(function(x)) for x in inputs[k]]
            except Exception as error:
                found[k] = repr(error)

        threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    what = difference(found, wanted)
    assert not what, f"threads, seed {seed}: {body}\n{what}"


def main() -> None:
    """Run the programs and say how they went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--way", default="loops")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    counts: Counter[str] = Counter()
    started = time.process_time()
    for seed in range(options.first, options.first + options.programs):
        if time.process_time() - started > options.seconds:
            break
        for check in (check_stranger, check_threads) if seed % 10 == 0 else (check_stranger,):
            try:
                check(seed, options.way)
                counts["right"] += 1
            except Exception as error:
                counts["wrong"] += 1
                print(f"{type(error).__name__}: {error}\n", flush=True)
    print(dict(counts), f"{time.process_time() - started:.0f} s")


if __name__ == "__main__":
    main()
