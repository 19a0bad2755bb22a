"""Convert parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.shape.joining import cat


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the elements of all parameters; differentiable.

    Args:
        parameters: Tensors of any shape on one device.

    Raises:
        ValueError: ``parameters`` is empty.

    >>> rg.nn.utils.parameters_to_vector([rg.ones(2, 2), rg.zeros(1)])
    tensor([1., 1., 1., 1., 0.])
    """
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Assign consecutive parts of a vector to the parameters, which become views of it.

    Args:
        vec: the vector, ``(n,)``.
        parameters: Tensors with ``n`` elements in total.

    Raises:
        TypeError: ``vec`` is not a Tensor.
        RuntimeError: ``vec`` has fewer elements than the parameters.

    >>> layer = rg.nn.Linear(2, 1)
    >>> rg.nn.utils.vector_to_parameters(rg.tensor([1.0, 2.0, 3.0]), layer.parameters())
    >>> layer.weight.tolist(), layer.bias.tolist()
    ([[1.0, 2.0]], [3.0])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"vector_to_parameters: expected a Tensor, got {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        if stop > vec.numel():
            raise RuntimeError(
                f"vector_to_parameters: the vector {describe(vec)} has fewer elements than the parameters"
            )
        parameter.data = vec[start:stop].reshape(parameter.shape).data
        start = stop
