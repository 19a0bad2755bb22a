"""A training step by the engine, or by the layers of `retrograd.manual`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import retrograd as rg
from retrograd import manual, nn

from ..console import UserError
from ..tasks import Task
from . import processes
from .recipes import Recipe, make_optimizer

Array = np.ndarray


class Trainer(Protocol):
    """The interface of a run: a step, a prediction, and the parts of a checkpoint."""

    def step(self, inputs: Array, targets: Array, rate: float, weight: float = 1.0) -> tuple[float, Array]: ...
    def predict(self, inputs: Array) -> Array: ...
    def parts(self) -> dict[str, Any]: ...


class EngineTrainer:
    """Training with Retrograd's engine and optimizers."""

    def __init__(self, task: Task, recipe: Recipe, device: str = "cpu", compiled: bool = False) -> None:
        self.task = task
        self.recipe = recipe
        self.device = device
        self.model = task.model.to(device)
        self.parallel = self.model
        if processes.count() > 1:
            from retrograd.nn.parallel import DistributedDataParallel

            task.model = self.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.model)
            self.parallel = DistributedDataParallel(self.model)
        self.optimizer = make_optimizer(self.model, recipe)
        self.compiled = rg.compile(self._step) if compiled else None

    def step(self, inputs: Array, targets: Array, rate: float, weight: float = 1.0) -> tuple[float, Array]:
        """Update the parameters with a batch at `rate` times the learning rate; return its loss and output before that.

        `weight` is the weight of this process's loss in the mean over all processes.
        """
        self.parallel.train()
        for group in self.optimizer.param_groups:
            group["lr"] = rate * self.recipe.lr
        step = self._step if self.compiled is None else self.compiled
        loss, output = step(rg.from_numpy(inputs).to(self.device), rg.from_numpy(targets).to(self.device), weight)
        return loss.item(), output.detach().cpu().numpy()

    def _step(self, inputs: rg.Tensor, targets: rg.Tensor, weight: float) -> tuple[rg.Tensor, rg.Tensor]:
        output = self.parallel(inputs)
        loss = self.task.loss(output, targets)
        self.optimizer.zero_grad()
        (loss if weight == 1 else loss * weight).backward()
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimizer.step()
        return loss, output

    def predict(self, inputs: Array) -> Array:
        self.model.eval()
        with rg.no_grad():
            return self.model(rg.from_numpy(inputs).to(self.device)).cpu().numpy()

    def parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer}


class ManualTrainer:
    """Training of an MLP with `retrograd.manual`, starting at the weights of the task's model."""

    def __init__(self, task: Task, recipe: Recipe) -> None:
        if processes.count() > 1:
            raise UserError("--engine manual supports only one process")
        if recipe.optimizer not in ("rmsprop", "sgd"):
            raise UserError(f"--engine manual supports the optimizers rmsprop and sgd, not {recipe.optimizer}")
        self.recipe = recipe
        self.net = manual_net(task.model)
        self.loss = manual.CrossEntropyLoss()
        self.optimizer = (manual.RMSprop if recipe.optimizer == "rmsprop" else manual.SGD)(self.net, momentum=0.9)

    def step(self, inputs: Array, targets: Array, rate: float, weight: float = 1.0) -> tuple[float, Array]:
        """Update the parameters with a batch at `rate` times the learning rate; return loss and output before that."""
        output = self.predict(inputs)
        loss = self.loss.forward(output, targets)
        self.net.backward(self.loss.backward())
        self.optimizer.lr = rate * self.recipe.lr
        self.optimizer.step()
        return loss, output

    def predict(self, inputs: Array) -> Array:
        return self.net.forward(inputs.reshape(len(inputs), -1))

    def parts(self) -> dict[str, Any]:
        # The model's Flatten counts in the names of its layers but has no counterpart here.
        weights = {_shift(name, 1): array for name, array in self.net.parameters.items()}
        parts = {"model": Arrays(weights)}
        for name in ("momentum_buffers", "mean_squares"):
            if hasattr(self.optimizer, name):
                parts[name] = Arrays(getattr(self.optimizer, name))
        return parts


@dataclass(frozen=True)
class Arrays:
    """Named arrays as a part of a checkpoint; loading writes to them in place."""

    arrays: Mapping[str, Array]

    def state_dict(self) -> dict[str, rg.Tensor]:
        return {name: rg.from_numpy(array) for name, array in self.arrays.items()}

    def load_state_dict(self, state: Mapping[str, rg.Tensor]) -> None:
        for name, array in self.arrays.items():
            array[...] = state[name].numpy()


def manual_net(model: nn.Module) -> manual.Net:
    """Return an MLP of Flatten, Linear and ReLU as a net of manual layers with copies of its weights."""
    layers: list[Any] = []
    for layer in list(model.children())[1:]:
        if isinstance(layer, nn.Linear):
            layers.append(manual.Linear(layer.in_features, layer.out_features, input_gradient=bool(layers)))
        else:
            layers.append(manual.ReLU())
    net = manual.Net(*layers)
    weights = model.state_dict()
    for name, array in net.parameters.items():
        array[...] = weights[_shift(name, 1)].cpu().numpy()
    return net


def _shift(name: str, places: int) -> str:
    place, parameter = name.split(".")
    return f"{int(place) + places}.{parameter}"
