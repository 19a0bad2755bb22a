"""The tasks of `retrograd train`, by name."""

import retrograd as rg

from .base import Task as Task
from .housing import Housing
from .images import Images
from .language import Names, Shakespeare

TASKS = {
    "mnist": "handwritten digits, by a convolutional network or an MLP",
    "fashion": "articles of clothing, by the same networks",
    "shakespeare": "text like Shakespeare's, by a character transformer",
    "names": "first names, by an LSTM or a transformer",
    "housing": "California house prices, by linear regression or an MLP",
}


def make_task(name: str, model: str, batch_size: int, seed: int) -> Task:
    """Return the task with a new model; `seed` determines the weights and the order of the data."""
    rg.manual_seed(seed)
    order = rg.Generator().manual_seed(seed)
    if name == "shakespeare":
        return Shakespeare(model, batch_size, order)
    if name == "names":
        return Names(model, batch_size, order)
    if name == "housing":
        return Housing(model, batch_size, seed, order)
    return Images(name, model, batch_size, order)
