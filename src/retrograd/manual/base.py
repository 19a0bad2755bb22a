"""The interface of manual layers: forward, backward, and parameters and gradients by name."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[Any]
Seed: TypeAlias = np.random.Generator | int | None


class NamedArrays(dict[str, Array]):
    """Arrays by name; calling it returns the list of arrays.

    >>> from retrograd import manual
    >>> layer = manual.Linear(2, 3)
    >>> layer.parameters["weight"].shape
    (3, 2)
    >>> [array.shape for array in layer.parameters()]
    [(3, 2), (3,)]
    """

    def __call__(self) -> list[Array]:
        return list(self.values())


class Layer(Protocol):
    """A function with parameters and a hand-written derivative.

    ``forward(x)`` computes the output and saves what ``backward`` needs. Arrays are saved without a copy: do not change
    them before ``backward``. ``backward(dout)`` takes the gradient of the loss with respect to the output, which has
    the output's shape. It overwrites every array in ``gradients`` and returns the gradient with respect to ``x`` (None
    if ``x`` has no gradient). Repeated calls give the same numbers.

    ``parameters`` and ``gradients`` have the same names and shapes, and each array keeps its memory for the life of the
    layer. In a user-defined layer they may be methods that return the dictionaries.

    The layers of this package are callable, ``layer(x)`` being ``layer.forward(x)``, and have ``zero_grad()``.
    """

    training: bool

    @property
    def parameters(self) -> dict[str, Array]:
        """The trained arrays by name."""

    @property
    def gradients(self) -> dict[str, Array]:
        """The gradient of each parameter, with the same names."""

    def forward(self, x: Array) -> Array:
        """Return the output for ``x``; save what ``backward`` needs."""

    def backward(self, dout: Array) -> Array | None:
        """Return the gradient with respect to the input, given ``dout`` for the output; overwrite ``gradients``."""


class Loss(Protocol):
    """A scalar measure of the error of a prediction; ``backward()`` starts the backward pass.

    The interface is that of a Layer, except that ``forward`` also takes the target and returns a float.
    """

    @property
    def parameters(self) -> dict[str, Array]:
        """The trained arrays by name."""

    @property
    def gradients(self) -> dict[str, Array]:
        """The gradient of each parameter, with the same names."""

    def forward(self, x: Array, target: Array) -> float:
        """Return the loss, a number; save what ``backward`` needs."""

    def backward(self, dout: float = 1.0) -> Array:
        """Return the gradient with respect to the prediction, times ``dout``."""


class BaseLayer:
    """The base class of all layers: parameters and gradients, saved values, and checks whose errors name the layer.

    Calling a layer runs its ``forward``.

    >>> from retrograd import manual
    >>> manual.ReLU()(np.array([-1.0, 2.0]))
    array([0., 2.])
    """

    def __init__(self, *arguments: object) -> None:
        self.parameters = NamedArrays()
        self.gradients = NamedArrays()
        self.training = True
        self._arguments = arguments
        self._saved: Any = None
        self._output: tuple[tuple[int, ...], np.dtype] = ((), np.dtype(np.float32))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._arguments))})"

    def __call__(self, *arguments: object) -> Any:
        return self.forward(*arguments)

    def forward(self, *arguments: Any) -> Any:
        """Return the output, or the loss; save what ``backward`` needs."""
        raise NotImplementedError(f"{self!r}: forward is not implemented")

    def backward(self, *arguments: Any) -> Any:
        """Return the gradient with respect to the input, given ``dout`` for the output; overwrite ``gradients``."""
        raise NotImplementedError(f"{self!r}: backward is not implemented")

    def zero_grad(self) -> None:
        """Fill every gradient with 0; not needed before ``backward``, which overwrites them."""
        for gradient in self.gradients.values():
            gradient.fill(0)

    def _add_parameter(self, name: str, value: Array) -> None:
        self.parameters[name] = value
        self.gradients[name] = np.zeros_like(value)

    def _save(self, output: Array, saved: object) -> Array:
        self._output = output.shape, output.dtype
        self._saved = saved
        return output

    def _recall(self, dout: Array) -> Any:
        """Return what ``forward`` saved, after checking that ``dout`` fits its output."""
        self._require_forward()
        shape, dtype = self._output
        if not isinstance(dout, np.ndarray | np.generic) or dout.dtype != dtype:
            raise TypeError(f"{self!r}.backward: dout must be an array of dtype {dtype}, got {describe(dout)}")
        if dout.shape != shape:
            raise ValueError(f"{self!r}.backward: dout must have the output's shape {shape}, got {dout.shape}")
        return self._saved

    def _require_forward(self) -> None:
        if self._saved is None:
            raise RuntimeError(f"{self!r}.backward: call forward first")

    def _require_float(self, x: Array) -> None:
        """Raise an error unless x is a floating-point array of the parameters' dtype."""
        if not isinstance(x, np.ndarray | np.generic) or x.dtype.kind != "f":
            raise TypeError(f"{self!r}.forward: x must be a floating-point array, got {describe(x)}")
        for name, value in self.parameters.items():
            if value.dtype != x.dtype:
                raise TypeError(f"{self!r}.forward: x has dtype {x.dtype}, but parameter {name!r} has {value.dtype}")

    def _require_shape(self, x: Array, fits: bool, wanted: str) -> None:
        if not fits:
            raise ValueError(f"{self!r}.forward: x must have shape {wanted}, got {x.shape}")

    def _require_dim(self, x: Array, dim: int) -> None:
        if not -x.ndim <= dim < x.ndim:
            raise IndexError(f"{self!r}.forward: dim {dim} is out of range for x of shape {x.shape}")


def named_arrays(layer: Layer | Loss, kind: str) -> dict[str, Array]:
    """Return ``layer.parameters`` or ``layer.gradients``, which may be a dictionary or a method that returns one."""
    arrays: Any = getattr(layer, kind)
    return arrays if isinstance(arrays, dict) else arrays()


def require_parameters(function: str, layer: Layer) -> None:
    """Raise TypeError or ValueError unless ``layer`` has floating-point parameters and gradients of their shapes."""
    if isinstance(layer, type) or not (hasattr(layer, "parameters") and hasattr(layer, "gradients")):
        got = f"the class {layer.__name__}" if isinstance(layer, type) else describe(layer)
        raise TypeError(f"{function}: expected a layer or a net with parameters and gradients, got {got}")
    parameters, gradients = named_arrays(layer, "parameters"), named_arrays(layer, "gradients")
    if not parameters:
        raise ValueError(f"{function}: {layer!r} has no parameters")
    for name, value in parameters.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            got = describe(value)
            raise TypeError(f"{function}: parameter {name!r} must be an array of floating-point numbers, got {got}")
        gradient = gradients.get(name)
        if not isinstance(gradient, np.ndarray) or gradient.shape != value.shape:
            wanted, got = f"an array of shape {value.shape}", describe(gradient)
            raise ValueError(f"{function}: the gradient of parameter {name!r} must be {wanted}, got {got}")


def uniform_by_fan_in(shape: tuple[int, ...], fan_in: int, dtype: DTypeLike, rng: np.random.Generator) -> Array:
    """Sample from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's initialization of linear and convolutional layers.

    This is He's uniform initialization (He et al., "Delving deep into rectifiers", 2015) with a = sqrt(5).
    """
    bound = 1.0 / np.sqrt(fan_in)
    return rng.uniform(-bound, bound, shape).astype(floating(dtype))


def floating(dtype: DTypeLike) -> np.dtype:
    """Return ``dtype`` as a NumPy dtype; raise TypeError unless it is a floating dtype."""
    result = np.dtype(dtype)
    if result.kind != "f":
        raise TypeError(f"dtype must be a floating-point dtype, got {result}")
    return result


def require_positive(layer: str, **sizes: int) -> None:
    """Raise ValueError with the layer and the argument unless every size is at least 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{layer}: {name} must be at least 1, got {size}")


def describe(value: object) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {type(value[0]).__name__}"
    return type(value).__name__
