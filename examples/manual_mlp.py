"""MNIST by hand: an MLP 784-1024-1024-1024-10 whose every gradient is written out, trained by RMSprop with momentum.

    python examples/manual_mlp.py              ten epochs
    python examples/manual_mlp.py --steps 20   a quick look

The images are found in the folder that RETROGRAD_DATA names, or else downloaded.
"""

import argparse
import time

import numpy as np

from retrograd import manual
from retrograd.data import mnist


def make_net(rng: np.random.Generator) -> manual.Net:
    return manual.Net(
        manual.Linear(784, 1024, input_gradient=False, rng=rng),
        manual.ReLU(),
        manual.Linear(1024, 1024, rng=rng),
        manual.ReLU(),
        manual.Linear(1024, 1024, rng=rng),
        manual.ReLU(),
        manual.Linear(1024, 10, rng=rng),
    )


def as_rows(images: np.ndarray) -> np.ndarray:
    """Bytes (n, 28, 28) as float32 (n, 784) of mean 0 and standard deviation 1."""
    return ((images.reshape(len(images), 784) / np.float32(255)) - np.float32(0.1307)) / np.float32(0.3081)


def accuracy(net: manual.Net, x: np.ndarray, labels: np.ndarray) -> float:
    right = 0
    for start in range(0, len(x), 1000):
        batch = slice(start, start + 1000)
        right += int((net(x[batch]).argmax(axis=1) == labels[batch]).sum())
    return right / len(x)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train an MLP on MNIST with hand-written gradients.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, help="stop after so many steps")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    data = mnist()
    x, test_x = as_rows(data.train_images), as_rows(data.test_images)
    rng = np.random.default_rng(arguments.seed)
    net = make_net(rng)
    loss = manual.CrossEntropyLoss()
    steps_per_epoch = len(x) // arguments.batch_size
    steps = arguments.steps or arguments.epochs * steps_per_epoch
    optimizer = manual.RMSprop(net, lr=arguments.lr, momentum=0.9)

    print("The gradients of a small net of the same layers, against central differences:")
    small = manual.Net(
        manual.Linear(4, 5, dtype=np.float64, rng=1), manual.ReLU(), manual.Linear(5, 3, dtype=np.float64, rng=2)
    )
    manual.check_layer(small, np.random.default_rng(0).standard_normal((2, 4)))

    began, total = time.perf_counter(), 0.0
    for step in range(steps):
        place = step % steps_per_epoch
        if place == 0:
            order, total = rng.permutation(len(x)), 0.0
        batch = order[place * arguments.batch_size : (place + 1) * arguments.batch_size]
        total += loss(net(x[batch]), data.train_labels[batch])
        net.backward(loss.backward())
        optimizer.lr = arguments.lr * (1 - step / steps)
        optimizer.step()
        if place == steps_per_epoch - 1 or step == steps - 1:
            reached = accuracy(net, test_x, data.test_labels)
            seconds = time.perf_counter() - began
            print(f"step {step + 1}: loss {total / (place + 1):.4f}, test accuracy {reached:.2%}, {seconds:.0f} s")


if __name__ == "__main__":
    main()
