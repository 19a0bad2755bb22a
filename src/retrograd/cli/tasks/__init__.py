"""The tasks of `retrograd train`, by name.

``base`` says what a task must define; ``tables`` and ``csv_files`` read the user's tables. Only other folders of
``cli`` import it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import retrograd as rg
from retrograd import data

from .base import Task as Task
from .housing import Housing
from .images import Images
from .language import Names, Passages, text_of
from .tables import table_task

TASKS = {
    "mnist": "handwritten digits, by a convolutional network or an MLP",
    "fashion": "articles of clothing, by the same networks",
    "shakespeare": "text like Shakespeare's, by a character transformer",
    "names": "first names, by an LSTM or a transformer",
    "housing": "California house prices, by linear regression or an MLP",
    "table": "a column of your CSV file, by an MLP or a linear model",
    "text": "text like that of your file, by a character transformer",
}


def make_task(config: Mapping[str, Any]) -> Task:
    """Return the task of a run's settings with a new model; the seed determines weights and the order of the data."""
    name, model, batch_size, seed = (config[key] for key in ("task", "model", "batch_size", "seed"))
    rg.manual_seed(seed)
    order = rg.Generator().manual_seed(seed)
    if name == "shakespeare":
        return Passages(data.shakespeare(), model, batch_size, order)
    if name == "text":
        return Passages(text_of(Path(config["text"])), model, batch_size, order)
    if name == "names":
        return Names(model, batch_size, order)
    if name == "housing":
        return Housing(model, batch_size, seed, order)
    if name == "table":
        return table_task(Path(config["data"]), config["target"], config.get("kind"), model, batch_size, seed, order)
    return Images(name, model, batch_size, order)
