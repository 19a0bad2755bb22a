"""Tell two moons apart with MLP(2, [16, 16, 1]) on single numbers, and draw the decision boundary."""

from __future__ import annotations

import argparse
import math
import random

from retrograd.scalar import MLP, SGD

Point = tuple[float, float]


def two_moons(count: int, noise: float = 0.1) -> list[tuple[Point, int]]:
    """Points of two interleaved half circles with labels -1 and 1."""
    points = []
    for i in range(count):
        angle, label = math.pi * random.random(), 1 if i % 2 else -1
        x, y = math.cos(angle), math.sin(angle)
        if label == 1:
            x, y = 1 - x, 0.5 - y
        points.append(((x + random.gauss(0, noise), y + random.gauss(0, noise)), label))
    return points


def train(model: MLP, points: list[tuple[Point, int]], epochs: int) -> None:
    """Gradient descent on the mean hinge loss with a small penalty on the squares of the weights."""
    parameters = model.parameters()
    optimizer = SGD(parameters)
    for epoch in range(epochs):
        optimizer.lr = 0.5 * (1 - 0.9 * epoch / epochs)
        scores = [model(x) for x, _ in points]
        margins = [score * label for score, (_, label) in zip(scores, points, strict=True)]
        hinge = sum((1 - margin).relu() for margin in margins) / len(margins)
        loss = hinge + 1e-4 * sum(p * p for p in parameters)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % max(epochs // 10, 1) == 0 or epoch == epochs - 1:
            accuracy = sum(margin > 0 for margin in margins) / len(margins)
            print(f"epoch {epoch:3}  loss {loss.data:.4f}  accuracy {accuracy:.0%}", flush=True)


def draw_boundary(model: MLP, points: list[tuple[Point, int]], path: str, resolution: int) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    (left, right), (bottom, top) = ((min(c) - 0.5, max(c) + 0.5) for c in zip(*(x for x, _ in points), strict=True))
    across = [left + (right - left) * i / (resolution - 1) for i in range(resolution)]
    upward = [bottom + (top - bottom) * i / (resolution - 1) for i in range(resolution)]
    scores = [[model((x, y)).data for x in across] for y in upward]
    limit = max(abs(score) for row in scores for score in row)
    figure, axes = pyplot.subplots(figsize=(6, 5))
    axes.contourf(across, upward, scores, levels=20, cmap="RdBu", vmin=-limit, vmax=limit, alpha=0.8)
    axes.contour(across, upward, scores, levels=[0.0], colors="black")
    labels = [label for _, label in points]
    axes.scatter(*zip(*(x for x, _ in points), strict=True), c=labels, cmap="RdBu", edgecolors="black")
    axes.set_title("MLP(2, [16, 16, 1]) on two moons; the line is its decision boundary")
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"The decision boundary is drawn in {path}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--resolution", type=int, default=60, help="points of the drawing across and upward")
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--out", help="PNG file for the decision boundary (needs matplotlib)")
    options = parser.parse_args(arguments)

    random.seed(options.seed)
    points, model = two_moons(options.points), MLP(2, [16, 16, 1])
    train(model, points, options.epochs)
    if options.out:
        draw_boundary(model, points, options.out, options.resolution)


if __name__ == "__main__":
    main()
