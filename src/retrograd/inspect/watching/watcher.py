"""The observer behind ``watch``: records activations, losses, and gradient norms during one step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import backend_of
from ...core.arrays.fp_warnings import silent
from ...core.graph.modes import modes
from ...core.graph.nodes import Node
from ...core.graph.observers import Observer, attach, detach
from ...core.graph.plan import Inputs, Params, Recordable
from ...core.tensor.tensor import Tensor, is_dense
from ...nn.base.module import Module
from .measures import Activation, Calls, norm_of

_ACTIVATIONS = {"relu": "relu", "tanh": "tanh", "sigmoid": "sigmoid", "softmax": "softmax", "hardtanh": "relu"}
_PRODUCTS = ("linear", "matmul", "conv", "einsum", "bilinear", "lstm", "gru", "rnn")  # prefixes of operator names
_LEAST_SCALE = 1024.0


class Watcher(Observer):
    """Observes a model from the end of one step to the end of the next."""

    def __init__(self, model: Module, probes: Iterable[Tensor]) -> None:
        self.losses: list[float] = []
        self.norms: dict[int, float] = {}  # by id of the parameter: gradient norm after the last backward pass
        self.carried = False
        self._model = model
        self._paths: dict[int, str] = {}
        self._layers: dict[str, bool] = {}  # module without children -> whether the module has parameters
        for path, module in model.named_modules():
            self._paths[id(module)] = path
            if not module._modules:
                self._layers[path] = bool(module._parameters)
        self._running: list[tuple[str, dict[str, int]]] = []  # active modules, with the calls of functions in them
        self._calls: dict[str, Calls] = {}
        self._order = 0  # the number of the last operator
        self._last_product = 0  # the number of the last operator that multiplies by weights
        self._scalars: WeakKeyDictionary[Node, tuple[Array, float]] = WeakKeyDictionary()
        self._began = False
        self._scale = 1.0
        self._finished: dict[int, Tensor] = {}
        # If the gradient is bitwise unchanged when the next backward pass starts, it was not zeroed.
        self._left = {id(x): x.grad.array.copy() for x in probes if x.grad is not None}
        self.on = True
        self.attach()

    def attach(self, *anything: object) -> None:
        """Add the observer to this thread, unless it is off; needed again if the end of a block has removed it."""
        if self.on:
            attach(self)

    def detach(self) -> None:
        """Remove the observer; if the end of a block attaches it again, the next call removes it again."""
        self.on = False
        detach(self)

    # The forward

    def opened(self, what: object, inputs: tuple[object, ...]) -> None:
        if not self.on:
            detach(self)
        elif id(what) in self._paths:
            self._running.append((self._paths[id(what)], {}))

    def closed(self, what: object, inputs: tuple[object, ...], result: object) -> None:
        path = self._paths.get(id(what))
        if path is None or not self._running:
            return
        self._running.pop()
        if path not in self._layers or not self._model.training or not modes.grad_enabled:
            return
        x = result[0] if isinstance(result, tuple) and result else result
        seen = self._calls.get(path)
        if is_dense(x) and x.dtype.kind in "fcV" and (seen is None or not seen.kind):
            self._see(path, "", x)

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        if not self.on:
            detach(self)
            return
        name = primitive.name
        self._order += 1
        if name.startswith(_PRODUCTS):
            self._last_product = self._order
        kind = _ACTIVATIONS.get(name) if name != "hardtanh" or params.get("min_val") == 0 else None
        if kind is not None and self._running and self._model.training and modes.grad_enabled:
            self._see(self._place(name), kind, outputs[0])
        if node is not None and outputs[0].array.size == 1:
            self._scalars[node] = outputs[0].array, _loss_scale(name, inputs)

    def _place(self, name: str) -> str:
        """Return the path of the activation module, or the enclosing module and the number of the call in it."""
        path, counts = self._running[-1]
        module = self._model.get_submodule(path) if path in self._layers and not self._layers[path] else None
        if module is not None and type(module).__module__.startswith("retrograd.nn."):
            return path or type(module).__name__
        counts[name] = counts.get(name, 0) + 1
        number = f" {counts[name]}" if counts[name] > 1 else ""
        return f"{path}.{name}{number}" if path else f"{name}{number}"

    def _see(self, place: str, kind: str, x: Tensor) -> None:
        place = place or type(self._model).__name__
        name, number = place, 1
        while (calls := self._calls.get(name)) is not None and not calls.has_units_of(x.array):
            number += 1
            name = f"{place} {number}"  # one module after layers of several sizes
        if calls is None:
            calls = self._calls[name] = Calls(kind)
        calls.order = self._order
        with silent():
            calls.add(x.array)

    def activations(self) -> dict[str, tuple[Activation, Array | None]]:
        """Return the activations, with the live units of relus."""
        found = {}
        for place, calls in self._calls.items():
            activation = calls.measured()
            activation.hidden = calls.order < self._last_product
            found[place] = activation, calls.alive
        return found

    # The backward pass

    def began(self) -> None:
        self._began = self.on
        self._finished.clear()

    def entered(self, node: Node, g: object) -> None:
        if self._began:
            self._began = False
            array, self._scale = self._scalars.get(node, (None, 1.0))
            if array is not None:
                self.losses.append(float(abs(_number(array)) if array.dtype.kind == "c" else _number(array)))
                self.losses[-1] /= self._scale

    def finished(self, leaf: Tensor, g: Array) -> None:
        self._finished[id(leaf)] = leaf
        left = self._left.get(id(leaf))
        if left is not None:
            grad = leaf.grad
            if grad is None or not grad.array.any():
                self.carried = False
            elif grad.array.shape == left.shape and bool((grad.array == left).all()):
                self.carried = True

    def ended(self) -> None:
        if self.on:
            for key, leaf in self._finished.items():
                if leaf.grad is not None:
                    self.norms[key] = norm_of(leaf.grad.array) / self._scale
        self._finished.clear()
        self._scalars.clear()


def _number(array: Array) -> Any:
    return backend_of(array).to_numpy(array).reshape(-1)[0]


def _loss_scale(name: str, inputs: tuple[object, ...]) -> float:
    """Return the power of two by which a loss is multiplied for half precision, else 1."""
    if name != "mul":
        return 1.0
    for x in inputs:
        if not is_dense(x) or not x.requires_grad:
            value = x.array if is_dense(x) else np.asarray(x)
            if value.size == 1 and value.dtype.kind in "fViu":
                number = float(_number(value))
                if number >= _LEAST_SCALE and math.frexp(number)[0] == 0.5:
                    return number
    return 1.0
