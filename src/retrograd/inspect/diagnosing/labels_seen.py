"""Notes the labels of losses and the inputs that belong to them, for the questions on their order and relation."""

from __future__ import annotations

import numpy as np

from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor
from .creations import Patches, Plain
from .run import Run
from .step_recorder import Array

_MOST = 1 << 20  # class indices kept
_PAIRS = 1 << 22  # bytes of inputs kept with them
_ROWS = 32  # rows of a batch kept
_LOOKS = 8  # calls of modules after a loss, one of which gets the data


class Labels:
    """Fills ``labels``, ``binary_labels`` and ``pairs`` of a run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.looks = _LOOKS  # calls of modules whose arguments are still looked at
        self._index: Array = None  # the first integers of two dimensions that a module got since then
        self._given: Array = None  # the first floating data that a module got since the last loss
        self._count = 0  # of the labels kept
        self._bytes = 0  # of the inputs kept

    def watch(self, patches: Patches) -> None:
        """Patch the losses of classes and of probabilities."""
        from ...ops.nn.losses import classes, entropy

        patches.patch(classes, "_batched", self._classes)
        patches.patch(entropy, "apply", self._binary)

    def look(self, args: tuple[object, ...]) -> None:
        """Record the first argument of a module, if it may be the input of the next loss."""
        if not self.looks:
            return
        self.looks -= 1
        x = args[0] if args else None
        data = [one for one in args if isinstance(one, Tensor) and one.array.ndim == 2 and one.array.dtype.kind == "i"]
        if len(data) > 1:
            self.looks = 0  # the first of several inputs does not tell examples apart
        elif isinstance(x, Tensor) and not x._requires and x.array.ndim and x.array.dtype.kind == "f":
            self._given, self.looks = x.array, 0
        elif isinstance(x, Tensor) and x.array.ndim == 2 and x.array.dtype.kind == "i" and self._index is None:
            self._index = x.array

    def _classes(self, plain: Plain, x: Tensor, target: Tensor) -> Array:
        result = plain(x, target)
        if modes.grad_enabled and self._count < _MOST and isinstance(result[1], np.ndarray):
            self._note(result[1].reshape(-1).copy(), self.run.labels)
        return result

    def _binary(self, plain: Plain, primitive: object, inputs: Array, params: object) -> Array:
        if modes.grad_enabled and self._count < _MOST:
            y = getattr(inputs[1], "array", None)
            if isinstance(y, np.ndarray) and y.ndim in (1, 2) and y.shape[0] == y.size and y.dtype.kind == "f":
                labels = y.reshape(-1).astype(np.int64)
                if bool((labels == y.reshape(-1)).all()) and 0 <= int(labels.min()) <= int(labels.max()) <= 1:
                    self._note(labels, self.run.binary_labels)
        return plain(primitive, inputs, params)

    def _note(self, labels: np.ndarray, kept: list[np.ndarray]) -> None:
        kept.append(labels)
        self._count += labels.size
        index, self._index = self._index, None
        if isinstance(index, np.ndarray) and len(index) == len(labels) and self._bytes < _PAIRS:
            self.run.indexed.append((index.copy(), labels))
            self._bytes += index.nbytes
        array, self._given, self.looks = self._given, None, _LOOKS if self._bytes < _PAIRS else 0
        if self.looks and isinstance(array, np.ndarray) and len(array) == len(labels):
            rows = array[:_ROWS].reshape(min(len(array), _ROWS), -1).copy()
            self.run.pairs.append((rows, labels[:_ROWS]))
            self._bytes += rows.nbytes
