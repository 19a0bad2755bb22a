"""What `retrograd train` can train: for each task the data, the models, and what is measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import data, nn
from retrograd.data import DataLoader, RandomSampler, TensorDataset
from retrograd.models import CNN, MLP, CharTransformer, NamesLSTM
from retrograd.nn import functional as F

Array = np.ndarray
PADDING = -100  # the target that a loss ignores
STEPS_PER_EPOCH = 250  # of Shakespeare, whose pieces are drawn at random places
CONTEXT = 64
HIDDEN = (1024, 1024, 1024)  # of the MLP for images
END = "\n"  # between names


@dataclass(frozen=True)
class Split:
    """Inputs and targets, sample by sample."""

    name: str
    inputs: Array
    targets: Array

    def batches(self, size: int) -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(self.inputs), size):
            yield self.inputs[start : start + size], self.targets[start : start + size]


@dataclass
class Task:
    """A model and its data. `augment` changes the inputs of a training batch; `vocabulary` is that of a language."""

    name: str
    model: nn.Module
    train: DataLoader[Any]
    test: Split
    regression: bool = False
    augment: Callable[[Array], Array] | None = None
    vocabulary: str = ""

    def loss(self, output: rg.Tensor, targets: rg.Tensor) -> rg.Tensor:
        """Mean squared error or cross entropy."""
        if self.regression:
            return F.mse_loss(output, targets)
        return F.cross_entropy(output.flatten(0, -2), targets.flatten(), ignore_index=PADDING)

    def evaluate(self, predict: Callable[[Array], Array], batch_size: int = 500) -> dict[str, float]:
        """The mean loss over the test split, and its accuracy or, of a regression, R2."""
        loss, right, count = 0.0, 0, 0
        for inputs, targets in self.test.batches(batch_size):
            output = predict(inputs)
            known = int((targets != PADDING).sum())
            with rg.no_grad():
                loss += self.loss(rg.from_numpy(output), rg.from_numpy(targets)).item() * known
            right += correct(output, targets)
            count += known
        part, mean = self.test.name, loss / count
        if self.regression:
            return {f"{part}_loss": mean, f"{part}_r2": 1 - mean / float(self.test.targets.var())}
        return {f"{part}_loss": mean, f"{part}_accuracy": right / count}


def correct(output: Array, targets: Array) -> int:
    """How many targets are the likeliest class."""
    return int((output.argmax(axis=-1) == targets).sum()) if targets.dtype.kind == "i" else 0


def make_task(name: str, model: str, batch_size: int, seed: int) -> Task:
    """The task with a new model, drawn from `seed`, as is the order of the data."""
    rg.manual_seed(seed)
    order = rg.Generator().manual_seed(seed)
    if name in ("mnist", "fashion"):
        return _images(name, model, batch_size, order)
    if name == "shakespeare":
        return _shakespeare(batch_size, order)
    if name == "names":
        return _names(model, batch_size, order)
    return _housing(batch_size, seed, order)


def _images(name: str, model: str, batch_size: int, order: rg.Generator) -> Task:
    images = data.mnist() if name == "mnist" else data.fashion_mnist()
    mean, deviation = (0.1307, 0.3081) if name == "mnist" else (0.2860, 0.3530)

    def scaled(pixels: Array) -> Array:
        return ((pixels[:, None] / np.float32(255)) - np.float32(mean)) / np.float32(deviation)

    train = TensorDataset(scaled(images.train_images), images.train_labels)
    return Task(
        name,
        CNN() if model == "cnn" else MLP([784, *HIDDEN, 10], flatten=True),
        DataLoader(train, batch_size, shuffle=True, drop_last=True, generator=order),
        Split("test", scaled(images.test_images), images.test_labels),
        augment=shifted if model == "cnn" else None,
    )


def shifted(images: Array, pixels: int = 2) -> Array:
    """Each image moved by up to `pixels` up or down and left or right; the edge values fill the gap."""
    random, (n, _, height, width) = rg.default_generator.numpy, images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (pixels, pixels), (pixels, pixels)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    down, right = random.integers(2 * pixels + 1, size=(2, n))
    return np.ascontiguousarray(windows[np.arange(n), :, down, right])


class Pieces(data.Dataset[tuple[Array, Array]]):
    """The pieces of a text that begin at each place, and the same one character on."""

    def __init__(self, text: Array, length: int) -> None:
        self.text = text
        self.length = length

    def __len__(self) -> int:
        return len(self.text) - self.length

    def __getitem__(self, start: int) -> tuple[Array, Array]:
        piece = self.text[start : start + self.length + 1]
        return piece[:-1], piece[1:]


def _shakespeare(batch_size: int, order: rg.Generator) -> Task:
    text = data.shakespeare()
    vocabulary = "".join(sorted(set(text)))
    codes = encode(text, vocabulary)
    train, validation = np.split(codes, [int(0.9 * len(codes))])
    pieces = Pieces(train, CONTEXT)
    places = RandomSampler(pieces, replacement=True, num_samples=STEPS_PER_EPOCH * batch_size, generator=order)
    rows = (len(validation) - 1) // CONTEXT
    inputs, targets = (validation[i : i + rows * CONTEXT].reshape(rows, CONTEXT) for i in (0, 1))
    return Task(
        "shakespeare",
        language_model("shakespeare", "transformer", len(vocabulary)),
        DataLoader(pieces, batch_size, sampler=places, generator=order),
        Split("validation", inputs, targets),
        vocabulary=vocabulary,
    )


def _names(model: str, batch_size: int, order: rg.Generator) -> Task:
    names = data.names()
    vocabulary = END + "".join(sorted(set("".join(names))))
    length = max(map(len, names)) + 1
    inputs = np.zeros((len(names), length), np.int64)
    targets = np.full((len(names), length), PADDING)
    for row, name in enumerate(names):
        codes = encode(END + name + END, vocabulary)
        inputs[row, : len(name) + 1] = codes[:-1]
        targets[row, : len(name) + 1] = codes[1:]
    mixed = order.numpy.permutation(len(names))
    train, test = np.split(mixed, [int(0.9 * len(names))])
    return Task(
        "names",
        language_model("names", model, len(vocabulary), length),
        DataLoader(
            TensorDataset(inputs[train], targets[train]), batch_size, shuffle=True, drop_last=True, generator=order
        ),
        Split("validation", inputs[test], targets[test]),
        vocabulary=vocabulary,
    )


def language_model(task: str, model: str, vocabulary: int, context: int = CONTEXT) -> nn.Module:
    """The model of a language, without its data."""
    if model == "lstm":
        return NamesLSTM(vocabulary, context=context)
    return CharTransformer(vocabulary, context, channels=64 if task == "names" else 128)


def encode(text: str, vocabulary: str) -> Array:
    """Each character's place in the vocabulary; KeyError for one that is not in it."""
    places = {character: place for place, character in enumerate(vocabulary)}
    return np.array([places[character] for character in text], np.int64)


def _housing(batch_size: int, seed: int, order: rg.Generator) -> Task:
    from .housing import standardized_split

    table = data.housing()
    # Counts and averages of rooms, people and households have tails of a hundred deviations; their logarithms do not.
    features = np.column_stack([table.features[:, :2], np.log(table.features[:, 2:6]), table.features[:, 6:]])
    split = standardized_split(features, table.target, np.random.default_rng(seed))
    x_train, y_train, x_test, y_test = (
        array.astype(np.float32) for array in (split.x_train, split.y_train, split.x_test, split.y_test)
    )
    return Task(
        "housing",
        MLP([8, 128, 128, 64, 1]),
        DataLoader(TensorDataset(x_train, y_train[:, None]), batch_size, shuffle=True, drop_last=True, generator=order),
        Split("test", x_test, y_test[:, None]),
        regression=True,
    )
