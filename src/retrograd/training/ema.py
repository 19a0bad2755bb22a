"""EMA: an exponential moving average of a model's weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.tensor.tensor import Tensor, new_tensor
from ..nn.base.module import Module
from ..optim.array_updates import average_all
from ..optim.optimizer import writable


class EMA:
    """Averages of a model's weights: ``average += (1 - decay) * (weight - average)``.

    Floating-point buffers are averaged as well; integer buffers are copied.

    Call ``update`` after each step, and evaluate inside ``with ema.average_parameters():``.

    Args:
        model: the model to average; the averages start at its current weights.
        decay: the weight of the old average.

    Raises:
        ValueError: ``decay`` is outside ``[0, 1]``.

    Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.

    >>> from retrograd.training import EMA
    >>> model = rg.nn.Linear(1, 1, bias=False)
    >>> _ = rg.nn.init.ones_(model.weight)
    >>> ema = EMA(model, decay=0.75)
    >>> _ = rg.nn.init.zeros_(model.weight)
    >>> ema.update()
    >>> with ema.average_parameters():
    ...     model.weight.item()
    0.75
    >>> model.weight.item()
    0.0
    """

    def __init__(self, model: Module, decay: float = 0.999) -> None:
        if not 0 <= decay <= 1:
            raise ValueError(f"EMA: decay must be between 0 and 1, got {decay}")
        self.model = model
        self.decay = decay
        self.averages = {name: new_tensor(tensor.array.copy()) for name, tensor in self._tensors()}

    def _tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.model.named_parameters()
        yield from self.model.named_buffers()

    def update(self) -> None:
        """Update the averages with the current weights."""
        pairs = [(self.averages[name].array, tensor.array) for name, tensor in self._tensors()]
        average_all([average for average, _ in pairs], [value for _, value in pairs], 1 - self.decay)

    @contextmanager
    def average_parameters(self) -> Iterator[None]:
        """Replace the model's weights by the averages inside the block."""
        own = {name: tensor.array.copy() for name, tensor in self._tensors()}
        self.copy_to(self.model)
        try:
            yield
        finally:
            for name, tensor in self._tensors():
                writable(tensor)[...] = own[name]

    def copy_to(self, model: Module) -> None:
        """Copy the averages to the weights of a model of the same kind."""
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            writable(tensor)[...] = self.averages[name].array

    def state_dict(self) -> dict[str, Any]:
        """Return the averages and the decay."""
        return {"decay": self.decay, "averages": dict(self.averages)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from ``state_dict()``; raise ValueError if its names or shapes are not this model's."""
        given = state["averages"]
        shapes = {name: tensor.shape for name, tensor in self.averages.items()}
        if {name: tensor.shape for name, tensor in given.items()} != shapes:
            raise ValueError("EMA: the names or shapes in the state differ from those in the model")
        self.decay = state["decay"]
        for name, average in self.averages.items():
            average.array[...] = given[name].to(average.device).array
