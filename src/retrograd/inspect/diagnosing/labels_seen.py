"""Record the labels that losses get, and the inputs that belong to them, for the rules on the order of labels."""

from __future__ import annotations

import numpy as np

from ...core.arrays.dtypes import FLOATING
from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor
from .creations import Patches, Plain
from .run import Run
from .step_recorder import Array, numbers

_MOST = 1 << 20  # the most labels that are stored
_PAIRS = 1 << 22  # the most bytes of inputs that are stored
_ROWS = 32  # the most rows of a batch that are stored
_LOOKS = 8  # the number of module calls after a loss that are searched for the next input


class Labels:
    """Fills ``labels``, ``binary_labels``, ``pairs`` and ``indexed`` of a run."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.looks = _LOOKS  # the number of further module calls whose arguments are searched
        self._index: Array = None  # the first two-dimensional integer argument of a module since the last loss
        self._given: Array = None  # the first floating-point argument of a module since the last loss
        self._count = 0  # the number of stored labels
        self._bytes = 0  # the bytes of stored inputs

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
            self.looks = 0  # with several inputs, the first one alone does not identify an example
        elif isinstance(x, Tensor) and not x._requires and x.array.ndim and x.array.dtype.kind in FLOATING:
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
            if isinstance(y, np.ndarray) and y.ndim in (1, 2) and y.shape[0] == y.size and y.dtype.kind in FLOATING:
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
            rows = numbers(array[:_ROWS]).reshape(min(len(array), _ROWS), -1).copy()
            self.run.pairs.append((rows, labels[:_ROWS]))
            self._bytes += rows.nbytes
