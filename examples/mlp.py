"""A multi-layer perceptron on MNIST, with the pieces spelt out: model, loss, optimizer, loader.

python examples/mlp.py --epochs 3
python examples/mlp.py --steps 20     a quick look
"""

import argparse

import numpy as np

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import nn, optim
from retrograd.data import DataLoader, TensorDataset, mnist


def as_rows(images: np.ndarray) -> rg.Tensor:
    return rg.from_numpy(images.reshape(len(images), 784).astype(np.float32) / 255)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, help="stop after this many steps")
    options = parser.parse_args(arguments)

    rg.manual_seed(0)
    data = mnist()
    train = TensorDataset(as_rows(data.train_images), rg.from_numpy(data.train_labels))
    loader = DataLoader(train, batch_size=256, shuffle=True)
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    print(model)

    step = 0
    for epoch in range(options.epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 50 == 0:
                print(f"epoch {epoch + 1} step {step}: loss {loss.item():.4f}")
            if step == options.steps:
                break
        if step == options.steps:
            break

    with rg.no_grad():
        predicted = model(as_rows(data.test_images)).argmax(1)
    accuracy = (predicted == rg.from_numpy(data.test_labels)).float().mean()
    print(f"test accuracy {accuracy.item():.2%}")


if __name__ == "__main__":
    main()
