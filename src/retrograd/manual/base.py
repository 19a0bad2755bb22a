"""What every manual layer is: a forward, a backward, and two dictionaries of arrays."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[Any]
Seed: TypeAlias = np.random.Generator | int | None


class Layer(Protocol):
    """A function with parameters and its derivative written out by hand.

    ``forward(x)`` computes the output and keeps what ``backward`` needs (arrays are kept, not copied: leave them
    unchanged in between). ``backward(dout)`` takes the gradient of the loss with respect to the output, of the output's
    shape, overwrites every array in ``gradients`` and returns the gradient with respect to ``x`` (None where there is
    none to return). It may be called again and gives the same numbers.

    ``parameters`` and ``gradients`` have the same names and shapes, and each array keeps its place in memory for the
    life of the layer.
    """

    training: bool

    @property
    def parameters(self) -> dict[str, Array]: ...
    @property
    def gradients(self) -> dict[str, Array]: ...
    def forward(self, x: Array) -> Array: ...
    def backward(self, dout: Array) -> Array | None: ...


class Loss(Protocol):
    """A number that says how far a prediction is from its target; ``backward()`` starts the backward pass.

    It is shaped like a Layer, but takes the target beside its input and gives a float.
    """

    @property
    def parameters(self) -> dict[str, Array]: ...
    @property
    def gradients(self) -> dict[str, Array]: ...
    def forward(self, x: Array, target: Array) -> float: ...
    def backward(self, dout: float = 1.0) -> Array: ...


class BaseLayer:
    """The part all layers share: their dictionaries, what ``forward`` kept, and the checks that name the layer."""

    def __init__(self, *arguments: object) -> None:
        self.parameters: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}
        self.training = True
        self._arguments = arguments
        self._saved: Any = None
        self._output: tuple[tuple[int, ...], np.dtype[Any]] = ((), np.dtype(np.float32))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._arguments))})"

    def _add_parameter(self, name: str, value: Array) -> None:
        self.parameters[name] = value
        self.gradients[name] = np.zeros_like(value)

    def _save(self, output: Array, saved: Any) -> Array:
        self._output = output.shape, output.dtype
        self._saved = saved
        return output

    def _recall(self, dout: Array) -> Any:
        """What ``forward`` kept, once ``dout`` is known to fit its output."""
        self._require_forward()
        shape, dtype = self._output
        if not isinstance(dout, np.ndarray | np.generic) or dout.dtype != dtype:
            raise TypeError(f"{self!r}.backward: dout must be an array of dtype {dtype}, got {_describe(dout)}")
        if dout.shape != shape:
            raise ValueError(f"{self!r}.backward: dout must have the output's shape {shape}, got {dout.shape}")
        return self._saved

    def _require_forward(self) -> None:
        if self._saved is None:
            raise RuntimeError(f"{self!r}.backward was called before forward: there is nothing to differentiate")

    def _require_float(self, x: Array) -> None:
        """Refuses what is no floating array, or one of another dtype than the parameters."""
        if not isinstance(x, np.ndarray | np.generic) or x.dtype.kind != "f":
            raise TypeError(f"{self!r}.forward: x must be a floating-point array, got {_describe(x)}")
        for name, value in self.parameters.items():
            if value.dtype != x.dtype:
                raise TypeError(f"{self!r}.forward: x has dtype {x.dtype}, but parameter {name!r} has {value.dtype}")

    def _require_shape(self, x: Array, fits: bool, wanted: str) -> None:
        if not fits:
            raise ValueError(f"{self!r}.forward: x must have shape {wanted}, got {x.shape}")

    def _require_dim(self, x: Array, dim: int) -> None:
        if not -x.ndim <= dim < x.ndim:
            raise IndexError(f"{self!r}.forward: dim {dim} is out of range for x of shape {x.shape}")


def uniform_by_fan_in(shape: tuple[int, ...], fan_in: int, dtype: DTypeLike, rng: np.random.Generator) -> Array:
    """U(-1/sqrt(fan_in), 1/sqrt(fan_in)), what PyTorch's linear and convolutional layers start from.

    It is He's uniform initialisation (He et al., "Delving deep into rectifiers", 2015) with a = sqrt(5).
    """
    bound = 1.0 / np.sqrt(fan_in)
    return rng.uniform(-bound, bound, shape).astype(floating(dtype))


def floating(dtype: DTypeLike) -> np.dtype[Any]:
    """``dtype`` as a NumPy dtype; TypeError unless it is a floating one."""
    result = np.dtype(dtype)
    if result.kind != "f":
        raise TypeError(f"parameters need a floating-point dtype, got {result}")
    return result


def require_positive(layer: str, **sizes: int) -> None:
    """ValueError naming the layer and the argument unless every size is at least 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{layer}: {name} must be at least 1, got {size}")


def _describe(value: object) -> str:
    if isinstance(value, np.ndarray | np.generic):
        return f"an array of dtype {value.dtype} and shape {value.shape}"
    return type(value).__name__
