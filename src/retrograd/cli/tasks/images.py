"""Handwritten digits and articles of clothing, classified by a convolutional network or an MLP."""

import numpy as np

import retrograd as rg
from retrograd import data
from retrograd.data import TensorDataset
from retrograd.models import CNN, MLP
from retrograd.nn.functional import softmax
from retrograd.training import ConfusionMatrix

from ..training.report import Confusion, Gallery, Section
from .base import Array, Classification, Predict, Split, predictions, shuffled

HIDDEN = (1024, 1024, 1024)  # sizes of the MLP's hidden layers
SHOWN = 60  # maximum number of wrong answers in the report


class Images(Classification):
    """Images of 28x28 pixels in ten classes; training images of the convolutional network are shifted at random."""

    def __init__(self, name: str, model: str, batch_size: int, order: rg.Generator) -> None:
        images = data.mnist() if name == "mnist" else data.fashion_mnist()
        mean, deviation = (0.1307, 0.3081) if name == "mnist" else (0.2860, 0.3530)
        self.classes = [str(digit) for digit in range(10)] if name == "mnist" else list(data.FASHION_MNIST_CLASSES)
        self.pixels = images.test_images

        def scaled(pixels: Array) -> Array:
            return ((pixels[:, None] / np.float32(255)) - np.float32(mean)) / np.float32(deviation)

        train = TensorDataset(scaled(images.train_images), images.train_labels)
        super().__init__(
            CNN() if model == "cnn" else MLP([784, *HIDDEN, 10], flatten=True),
            shuffled(train, batch_size, order),
            Split("test", scaled(images.test_images), images.test_labels),
        )

    def augment(self, inputs: Array) -> Array:
        return shifted(inputs) if isinstance(self.model, CNN) else inputs

    def sections(self, predict: Predict, seed: int) -> list[Section]:
        """The confusion matrix, and the wrong answers with the highest confidence."""
        shares = softmax(rg.from_numpy(predictions(predict, self.test)), -1).numpy()
        predicted, targets = shares.argmax(axis=1), self.test.targets
        confusion = ConfusionMatrix(self.classes)
        confusion.update(predicted, targets)
        wrong = np.flatnonzero(predicted != targets)
        shown = wrong[np.argsort(-shares.max(axis=1)[wrong], kind="stable")][:SHOWN]
        gallery = Gallery(
            f"Wrong answers: {len(wrong):,} of {len(targets):,}" + (", highest confidence first" if len(wrong) else ""),
            [(self.pixels[i], f"{self.classes[targets[i]]} taken for {self.classes[predicted[i]]}") for i in shown],
        )
        return [Confusion("Confusion matrix of the test images: true class down, answer across", confusion), gallery]


def shifted(images: Array, pixels: int = 2) -> Array:
    """Shift each image by up to `pixels` vertically and horizontally; edge values fill the gap."""
    random, (n, _, height, width) = rg.default_generator.numpy, images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (pixels, pixels), (pixels, pixels)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    down, right = random.integers(2 * pixels + 1, size=(2, n))
    return np.ascontiguousarray(windows[np.arange(n), :, down, right])
