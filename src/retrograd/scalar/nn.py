"""Neurons, layers and networks of Values, and the optimizers that train them."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..ops.table.documentation import like
from .value import Number, Value, as_value, dot

Activation = str | Callable[[Value], Value]
_ACTIVATIONS = {"tanh": "Tanh", "relu": "ReLU", "sigmoid": "Sigmoid", "linear": "Linear"}


class Module:
    """An object with parameters: by default, the parameters of its ``parts``."""

    parts: Sequence["Module"] = ()

    def parameters(self) -> list[Value]:
        """Return the trained Values."""
        return [parameter for part in self.parts for parameter in part.parameters()]

    def zero_grad(self) -> None:
        """Set the gradients to 0."""
        for parameter in self.parameters():
            parameter.grad = 0.0

    def __repr__(self) -> str:
        return f"{type(self).__name__} of [{', '.join(map(str, self.parts))}]"


class Neuron(Module):
    """``activation(<w, x> + b)`` for nin inputs x; initially w is uniform in ``(-1, 1)`` and ``b = 0``.

    Args:
        nonlin: micrograd's argument for the activation: True is "relu", False is "linear".
        activation: "tanh" (the default), "relu", "sigmoid", "linear" (none), or a function from a Value to a Value.

    Raises:
        ValueError: an unknown activation, or an x of another length than nin.
        TypeError: both nonlin and activation are given; an activation that does not return a Value, such as math.tanh.

    >>> neuron = Neuron(2, activation="relu")
    >>> neuron.w[0].data, neuron.w[1].data, neuron.b.data = 2.0, -3.0, 0.5
    >>> neuron([2.0, 1.0]).data
    1.5
    """

    def __init__(self, nin: int, nonlin: bool | None = None, *, activation: Activation | None = None) -> None:
        self.w, self.b = [Value(random.uniform(-1, 1), label=f"w{i}") for i in range(nin)], Value(0.0, label="b")
        self.activation = _choose_activation(nonlin, activation)

    @property
    def nonlin(self) -> bool:
        """Whether the neuron has a nonlinear activation function."""
        return self.activation != "linear"

    def __call__(self, x: Iterable[Number]) -> Value:
        out = dot(self.w, x, self.b)
        if isinstance(self.activation, str):
            return getattr(out, self.activation)() if self.nonlin else out
        y = self.activation(out)
        if not isinstance(y, Value):
            raise TypeError(f"{self}: the activation must return a Value, got {y!r}")
        return y

    def parameters(self) -> list[Value]:
        return [*self.w, self.b]

    def __repr__(self) -> str:
        activation = self.activation
        name = _ACTIVATIONS[activation] if isinstance(activation, str) else getattr(activation, "__name__", "Custom")
        return f"{name}Neuron({len(self.w)})"


class Layer(Module):
    """The outputs of nout neurons with the same nin inputs: a list, or the Value itself if nout is 1.

    Args:
        nin: the number of inputs.
        nout: the number of neurons.
        nonlin, activation: as for ``Neuron``, for all neurons.

    >>> [value.data for value in Layer(1, 2, activation="linear")(0.0)]
    [0.0, 0.0]
    """

    def __init__(
        self, nin: int, nout: int, nonlin: bool | None = None, *, activation: Activation | None = None
    ) -> None:
        self.parts = self.neurons = [Neuron(nin, nonlin, activation=activation) for _ in range(nout)]

    def __call__(self, x: Iterable[Number] | Number) -> Any:
        inputs = [as_value(number) for number in (x if isinstance(x, Iterable) else [x])]  # one node for all neurons
        out = [neuron(inputs) for neuron in self.neurons]
        return out[0] if len(out) == 1 else out


@like(Layer)
class MLP(Module):
    """Layers of nouts[0], nouts[1], ... neurons with the activation; the last layer is linear.

    Calling it with nin numbers or Values returns a list of nouts[-1] Values, or the Value itself if nouts[-1] is 1. Its
    parameters are labeled by position, such as "1.0.w2": layer 1, neuron 0, weight 2.

    Args:
        nouts: the number of neurons of each layer.
        activation: of all neurons except those of the last layer, as for ``Neuron``.

    Raises:
        ValueError: an unknown activation, or inputs of another length than nin.

    >>> model = MLP(3, [4, 4, 1], activation="relu")
    >>> len(model.parameters())
    41
    """

    def __init__(self, nin: int, nouts: Sequence[int], activation: Activation = "tanh") -> None:
        sizes, last = [nin, *nouts], len(nouts) - 1
        self.parts = self.layers = [
            Layer(sizes[i], sizes[i + 1], activation=activation if i != last else "linear") for i in range(len(nouts))
        ]
        for i, layer in enumerate(self.layers):
            for j, neuron in enumerate(layer.neurons):
                for parameter in neuron.parameters():
                    parameter.label = f"{i}.{j}.{parameter.label}"

    def __call__(self, x: Iterable[Number] | Number) -> Any:
        out: Any = x
        for layer in self.layers:
            out = layer(out)
        return out


class Optimizer:
    """The base class of optimizers, which update Values by their gradients.

    Raises ValueError unless lr > 0, and TypeError if a parameter is not a Value.

    Args:
        parameters: Values, as from ``model.parameters()``.
        lr: the learning rate.
    """

    def __init__(self, parameters: Iterable[Value], lr: float) -> None:
        name = type(self).__name__
        if not isinstance(parameters, Iterable):
            raise TypeError(f"{name}: the parameters must be Values, as from model.parameters(), got {parameters!r}")
        self.parameters, self.lr = list(parameters), lr
        for parameter in self.parameters:
            if not isinstance(parameter, Value):
                raise TypeError(f"{name}: the parameters must be Values, got {parameter!r}")
        if not self.parameters:
            raise ValueError(f"{name}: there are no parameters to train")
        if not lr > 0:
            raise ValueError(f"{name}: lr must be greater than 0, got {lr}")

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = 0.0


@like(Optimizer)
class SGD(Optimizer):
    """Gradient descent: ``step()`` subtracts ``lr * grad`` from every parameter.

    Args:
        lr: the learning rate, greater than 0.

    Raises:
        TypeError: a parameter is not a Value.
        ValueError: there are no parameters, or lr is not greater than 0.

    >>> x = Value(3.0)
    >>> optimizer = SGD([x], lr=0.1)
    >>> for _ in range(50):
    ...     optimizer.zero_grad()
    ...     ((x - 1) ** 2).backward()
    ...     optimizer.step()
    >>> round(x.data, 3)
    1.0
    """

    def __init__(self, parameters: Iterable[Value], lr: float = 0.01) -> None:
        super().__init__(parameters, lr)

    def step(self) -> None:
        """Update every parameter against its gradient."""
        for p in self.parameters:
            p.data -= self.lr * p.grad


@like(SGD, raises="TypeError, ValueError")
class Adam(Optimizer):
    """Steps of ``lr * m / (sqrt(v) + 1e-8)``, m and v running means of ``grad`` and ``grad^2`` (Kingma, Ba, 2015).

    Args:
        parameters, lr: as for ``SGD``.
        betas: the factors of the previous running means of ``grad`` and of ``grad^2``.

    >>> x = Value(3.0)
    >>> optimizer = Adam([x], lr=0.1)
    >>> ((x - 1) ** 2).backward()
    >>> optimizer.step()
    >>> round(x.data, 3)  # the first step is lr, whatever the gradient
    2.9
    """

    def __init__(self, parameters: Iterable[Value], lr: float = 0.001, betas: Sequence[float] = (0.9, 0.999)) -> None:
        super().__init__(parameters, lr)
        self.betas, self.steps, self.moments = betas, 0, dict.fromkeys(self.parameters, (0.0, 0.0))

    def step(self) -> None:
        """Update every parameter against its gradient."""
        self.steps += 1
        (b1, b2), t = self.betas, self.steps
        for p, (m, v) in self.moments.items():
            m, v = self.moments[p] = b1 * m + (1 - b1) * p.grad, b2 * v + (1 - b2) * p.grad**2
            p.data -= self.lr * m / (1 - b1**t) / ((v / (1 - b2**t)) ** 0.5 + 1e-8)


def _choose_activation(nonlin: bool | None, activation: Activation | None) -> Activation:
    if nonlin is not None and (activation is not None or not isinstance(nonlin, bool)):
        raise TypeError(f"Neuron: pass either nonlin (True or False) or activation=, got {nonlin=} and {activation=}")
    if nonlin is not None:
        return "relu" if nonlin else "linear"
    if activation is None:
        return "tanh"
    if not callable(activation) and activation not in _ACTIVATIONS:
        raise ValueError(f"Neuron: activation must be a function or one of {sorted(_ACTIVATIONS)}, got {activation!r}")
    return activation
