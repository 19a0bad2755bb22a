"""Networks for images and tables: a multilayer perceptron and a small convolutional network."""

from __future__ import annotations

from collections.abc import Sequence

from .. import nn
from ..core.tensor.tensor import Tensor


class MLP(nn.Sequential):
    """Linear layers of the given sizes with ReLU in between.

    Args:
        sizes: the numbers of features before, between and after the layers; at least two.
        flatten: start with a Flatten, for images.

    Raises:
        ValueError: fewer than two sizes.

    >>> from retrograd.models import MLP
    >>> MLP([784, 1024, 10], flatten=True)(rg.zeros(5, 1, 28, 28)).shape
    (5, 10)
    """

    def __init__(self, sizes: Sequence[int], flatten: bool = False) -> None:
        if len(sizes) < 2:
            raise ValueError(f"MLP: sizes must have at least two numbers, got {list(sizes)}")
        layers: list[nn.Module] = [nn.Flatten()] if flatten else []
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        super().__init__(*layers[:-1])


class CNN(nn.Module):
    """Two convolutions of 5x5, each with batch normalization, pooling to half the size and ReLU; two Linear layers.

    Args:
        channels: the channels of the image and after each convolution.
        size: height and width of the image, a multiple of 4.
        hidden: features between the Linear layers.
        classes: the number of classes.
        dropout: the dropout probability of the hidden features.

    Shape: images ``(N, channels[0], size, size)`` to logits ``(N, classes)``.

    Raises:
        ValueError: a size that is not a multiple of 4.

    Source: the layout of LeCun et al., Gradient-based learning applied to document recognition, 1998, with batch
    normalization (Ioffe and Szegedy, 2015).

    >>> from retrograd.models import CNN
    >>> CNN()(rg.zeros(2, 1, 28, 28)).shape
    (2, 10)
    """

    def __init__(
        self,
        channels: tuple[int, int, int] = (1, 16, 32),
        size: int = 28,
        hidden: int = 128,
        classes: int = 10,
        dropout: float = 0.25,
    ) -> None:
        super().__init__()
        if size % 4:
            raise ValueError(f"CNN: size must be a multiple of 4, got {size}")
        self.features = nn.Sequential()
        for before, after in zip(channels, channels[1:]):
            # Batch normalization cancels a bias. ReLU after pooling gives the same result on a quarter of the elements.
            self.features.extend(
                [
                    nn.Conv2d(before, after, 5, padding=2, bias=False),
                    nn.BatchNorm2d(after),
                    nn.MaxPool2d(2),
                    nn.ReLU(),
                ]
            )
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels[-1] * (size // 4) ** 2, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.features(images))
