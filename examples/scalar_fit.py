"""Fit MLP(3, [4, 4, 1]), 41 parameters in all, to four points by gradient descent on single numbers."""

from __future__ import annotations

import argparse
import random

from retrograd.scalar import MLP, SGD

POINTS = [([2.0, 3.0, -1.0], 1.0), ([3.0, -1.0, 0.5], -1.0), ([0.5, 1.0, 1.0], -1.0), ([1.0, 1.0, -1.0], 1.0)]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)

    random.seed(options.seed)
    model = MLP(3, [4, 4, 1])
    optimizer = SGD(model.parameters(), lr=options.lr)
    print(f"{len(model.parameters())} parameters")
    for step in range(options.steps):
        loss = sum((model(x) - y) ** 2 for x, y in POINTS)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        if step % max(options.steps // 10, 1) == 0:
            print(f"step {step:4}  loss {loss.data:.6f}")
    print(f"finally    loss {sum((model(x) - y) ** 2 for x, y in POINTS).data:.6f}")
    for x, y in POINTS:
        print(f"{x} -> {model(x).data:+.4f}, wanted {y:+.0f}")


if __name__ == "__main__":
    main()
