"""The default settings of each task and model."""

import math
from dataclasses import dataclass
from typing import Any

from retrograd import optim


@dataclass(frozen=True)
class Recipe:
    """Settings of a training run. The learning rate rises over the share `warmup` of the steps, then decays."""

    epochs: int
    batch_size: int
    lr: float
    optimizer: str = "adamw"
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    momentum: float = 0.9  # momentum, which only sgd and rmsprop use
    decay: str = "cosine"
    warmup: float = 0.0
    floor: float = 0.0
    clip: float | None = None

    def rate(self, step: int, total: int) -> float:
        """Return the learning rate of step 0, 1, ... of `total`, as a share of `lr`.

        >>> from retrograd.cli.training.recipes import Recipe
        >>> recipe = Recipe(epochs=1, batch_size=1, lr=1.0, warmup=0.5, floor=0.1)
        >>> [round(recipe.rate(step, 8), 3) for step in (0, 3, 4, 6)]
        [0.2, 0.8, 1.0, 0.55]
        """
        rising = round(self.warmup * total)
        if step < rising:
            return (step + 1) / (rising + 1)
        if self.decay == "constant":
            return 1.0
        way = (step - rising) / max(1, total - rising)
        left = 1 - way if self.decay == "linear" else (1 + math.cos(math.pi * way)) / 2
        return self.floor + (1 - self.floor) * left


# By task and model. The first model of a task is its default.
IMAGES = {
    "cnn": Recipe(epochs=4, batch_size=128, lr=4e-3, weight_decay=0.01, warmup=0.2),
    "mlp": Recipe(epochs=10, batch_size=512, lr=1e-4, optimizer="rmsprop", decay="linear"),
}
# 8 times 250 steps: nanoGPT's configuration for a CPU, with twice its learning rate.
TEXT = {"transformer": Recipe(8, 12, 2e-3, weight_decay=0.1, betas=(0.9, 0.99), warmup=0.05, floor=0.1, clip=1.0)}
RECIPES = {
    "mnist": IMAGES,
    "fashion": IMAGES,
    "shakespeare": TEXT,
    "text": TEXT,
    "table": {
        "mlp": Recipe(epochs=60, batch_size=32, lr=2e-3, weight_decay=0.05, warmup=0.05, clip=1.0),
        "linear": Recipe(epochs=60, batch_size=32, lr=5e-3, warmup=0.05, clip=1.0),
    },
    "names": {
        "lstm": Recipe(epochs=8, batch_size=64, lr=4e-3, weight_decay=0.01, warmup=0.05, clip=1.0),
        "transformer": Recipe(epochs=8, batch_size=64, lr=1e-3, weight_decay=0.1, warmup=0.05, floor=0.1, clip=1.0),
    },
    "housing": {
        # Some districts are more than 100 standard deviations from the mean: with a learning rate of 0.01, a batch of
        # 64 rows that contains such a district overshoots.
        "linear": Recipe(epochs=100, batch_size=64, lr=1e-3, optimizer="sgd", momentum=0.0, decay="constant"),
        "mlp": Recipe(epochs=30, batch_size=128, lr=3e-3, weight_decay=0.01, warmup=0.1),
    },
}
OPTIMIZERS = ("sgd", "rmsprop", "adam", "adamw")


def make_optimizer(model: Any, recipe: Recipe) -> optim.Optimizer:
    """Return the recipe's optimizer; weight decay applies to matrices and kernels, not to biases and norms."""
    if recipe.optimizer == "rmsprop":
        return optim.RMSprop(model.parameters(), lr=recipe.lr, momentum=recipe.momentum)
    if recipe.optimizer == "sgd":
        return optim.SGD(model.parameters(), lr=recipe.lr, momentum=recipe.momentum)
    if recipe.optimizer == "adam":
        return optim.Adam(model.parameters(), lr=recipe.lr, betas=recipe.betas)
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return optim.AdamW([group for group in groups if group["params"]], lr=recipe.lr, betas=recipe.betas)
