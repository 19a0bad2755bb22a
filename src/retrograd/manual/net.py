"""Net: a sequence of layers."""

from __future__ import annotations

from .base import Array, Layer, NamedArrays, describe, named_arrays


class Net:
    """``y = f_n(... f_2(f_1(x)))``: forward runs the layers in order, backward in reverse.

    Gradient: with ``h_i = f_i(h_{i-1})`` the chain rule gives ``dh_{i-1}`` from ``dh_i``; this is what ``backward`` of
    layer i computes. The backward pass therefore starts with ``dout`` at the last layer, and each layer's result is the
    ``dout`` of the previous layer. (Rumelhart, Hinton, Williams, "Learning representations by back-propagating errors",
    Nature 323, 1986.)

    A Net is itself a Layer. Its parameters and gradients are those of its layers, named "index.name". Setting
    ``training`` sets it in every layer.

    Raises ValueError without layers, TypeError for an object that is not a layer, RuntimeError if a layer other than
    the first returns no gradient.

    Args:
        layers: at least one layer.

    >>> from retrograd import manual
    >>> rng = np.random.default_rng(0)
    >>> net = manual.Net(manual.Linear(3, 4, rng=rng), manual.Tanh(), manual.Linear(4, 1, rng=rng))
    >>> list(net.parameters)
    ['0.weight', '0.bias', '2.weight', '2.bias']
    >>> y = net(np.ones((5, 3), np.float32))
    >>> net.backward(np.ones_like(y)).shape
    (5, 3)
    """

    def __init__(self, *layers: Layer) -> None:
        if not layers:
            raise ValueError("Net needs at least one layer")
        for place, layer in enumerate(layers):
            if isinstance(layer, type) or not (hasattr(layer, "forward") and hasattr(layer, "backward")):
                got = f"the class {layer.__name__}" if isinstance(layer, type) else describe(layer)
                raise TypeError(f"Net: layer {place} must have forward and backward, got {got}")
        self.layers = layers
        self.training = True

    def __repr__(self) -> str:
        return f"Net({', '.join(map(repr, self.layers))})"

    @property
    def parameters(self) -> NamedArrays:
        """The trained arrays by name."""
        return self._collect("parameters")

    @property
    def gradients(self) -> NamedArrays:
        """The gradient of each parameter, with the same names."""
        return self._collect("gradients")

    def _collect(self, kind: str) -> NamedArrays:
        places = enumerate(self.layers)
        return NamedArrays({f"{i}.{name}": a for i, layer in places for name, a in named_arrays(layer, kind).items()})

    @property
    def training(self) -> bool:
        """Whether the layers are in training mode."""
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        self._training = mode
        for layer in self.layers:
            layer.training = mode

    def __call__(self, x: Array) -> Array:
        return self.forward(x)

    def zero_grad(self) -> None:
        """Fill every gradient with 0; not needed before ``backward``, which overwrites them."""
        for gradient in self.gradients.values():
            gradient.fill(0)

    def forward(self, x: Array) -> Array:
        """Return the output for ``x``; save what ``backward`` needs."""
        for layer in self.layers:
            x = layer.forward(x)
        return x

    def backward(self, dout: Array) -> Array | None:
        """Return the gradient with respect to the input, given ``dout`` for the output; overwrite ``gradients``."""
        gradient: Array | None = dout
        for layer in reversed(self.layers):
            if gradient is None:
                raise RuntimeError(f"{self!r}.backward: the layer after {layer!r} returned no gradient for its input")
            gradient = layer.backward(gradient)
        return gradient
