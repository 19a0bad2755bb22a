"""Neurons, layers and networks of Values, and the optimizers that train them."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from .value import Number, Value, dot


class Module:
    parts: Sequence["Module"] = ()

    def parameters(self) -> list[Value]:
        return [parameter for part in self.parts for parameter in part.parameters()]

    def zero_grad(self) -> None:
        for parameter in self.parameters():
            parameter.grad = 0.0

    def __repr__(self) -> str:
        return f"{type(self).__name__} of [{', '.join(map(str, self.parts))}]"


class Neuron(Module):
    """relu(w . x + b), or w . x + b unless `nonlin`; at first w is uniform in (-1, 1) and b = 0."""

    def __init__(self, nin: int, nonlin: bool = True) -> None:
        self.w, self.b, self.nonlin = [Value(random.uniform(-1, 1)) for _ in range(nin)], Value(0.0), nonlin

    def __call__(self, x: Iterable[Number]) -> Value:
        return dot(self.w, x, self.b).relu() if self.nonlin else dot(self.w, x, self.b)

    def parameters(self) -> list[Value]:
        return [*self.w, self.b]

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({len(self.w)})"


class Layer(Module):
    """The outputs of nout neurons for the same nin inputs: a list, or the Value itself if nout is 1."""

    def __init__(self, nin: int, nout: int, nonlin: bool = True) -> None:
        self.parts = self.neurons = [Neuron(nin, nonlin) for _ in range(nout)]

    def __call__(self, x: Iterable[Number]) -> Any:
        out = [neuron(x) for neuron in self.neurons]
        return out[0] if len(out) == 1 else out


class MLP(Module):
    """Layers of nouts[0], nouts[1], ... neurons, the last one linear: MLP(3, [4, 4, 1]) has 41 parameters."""

    def __init__(self, nin: int, nouts: Sequence[int]) -> None:
        sizes, last = [nin, *nouts], len(nouts) - 1
        self.parts = self.layers = [Layer(sizes[i], sizes[i + 1], nonlin=i != last) for i in range(len(nouts))]

    def __call__(self, x: Iterable[Number]) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class SGD:
    """Gradient descent: `step()` subtracts lr * grad from every parameter."""

    def __init__(self, parameters: Iterable[Value], lr: float = 0.01) -> None:
        self.parameters, self.lr = list(parameters), lr

    def step(self) -> None:
        for p in self.parameters:
            p.data -= self.lr * p.grad


class Adam:
    """Steps of lr * m / (sqrt(v) + 1e-8), m and v the running means of grad and grad**2 (Kingma and Ba, 2015)."""

    def __init__(self, parameters: Iterable[Value], lr: float = 0.001, betas: Sequence[float] = (0.9, 0.999)) -> None:
        self.lr, self.betas, self.steps = lr, betas, 0
        self.moments = dict.fromkeys(parameters, (0.0, 0.0))

    def step(self) -> None:
        self.steps += 1
        (b1, b2), t = self.betas, self.steps
        for p, (m, v) in self.moments.items():
            m, v = self.moments[p] = b1 * m + (1 - b1) * p.grad, b2 * v + (1 - b2) * p.grad**2
            p.data -= self.lr * m / (1 - b1**t) / ((v / (1 - b2**t)) ** 0.5 + 1e-8)
