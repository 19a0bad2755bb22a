"""A convolutional network on MNIST: two blocks of convolution, batch normalization, ReLU and pooling.

python examples/cnn.py --epochs 1
python examples/cnn.py --steps 10     a quick look
"""

import argparse

import numpy as np

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import nn, optim
from retrograd.data import DataLoader, TensorDataset, mnist


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.second = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.classify = nn.Linear(32 * 7 * 7, 10)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.classify(self.second(self.first(x)).flatten(1))


def as_images(images: np.ndarray) -> rg.Tensor:
    return rg.from_numpy(images[:, None].astype(np.float32) / 255)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--steps", type=int, help="stop after this many steps")
    options = parser.parse_args(arguments)

    rg.manual_seed(0)
    data = mnist()
    train = TensorDataset(as_images(data.train_images), rg.from_numpy(data.train_labels))
    loader = DataLoader(train, batch_size=64, shuffle=True)
    model = Net()
    optimizer = optim.AdamW(model.parameters(), lr=2e-3)
    steps = options.steps or options.epochs * len(loader)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    step = 0
    while step < steps:
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % 50 == 0:
                print(f"step {step}: loss {loss.item():.4f}")
            if step == steps:
                break

    model.eval()
    right = 0
    count = len(data.test_images) if options.steps is None else 500
    with rg.no_grad():
        for start in range(0, count, 500):
            predicted = model(as_images(data.test_images[start : start + 500])).argmax(1)
            right += int((predicted == rg.from_numpy(data.test_labels[start : start + 500])).sum())
    print(f"test accuracy {right / count:.2%}")


if __name__ == "__main__":
    main()
