"""Linear regression on the California housing data that ships with the package, beside the closed-form solution.

python examples/linear_regression.py
"""

import argparse

import numpy as np

import retrograd as rg
from retrograd.data import housing


def descend(x: rg.Tensor, wanted: rg.Tensor, weight: rg.Tensor, bias: rg.Tensor) -> rg.Tensor:
    """A step of gradient descent on the mean squared error, which it returns as it was before."""
    loss = ((x @ weight + bias - wanted) ** 2).mean()
    loss.backward()
    with rg.no_grad():
        for parameter in (weight, bias):
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    return loss


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args(arguments)

    features, target, _ = housing()
    x = (features - features.mean(0)) / features.std(0)
    inputs, wanted = rg.from_numpy(x), rg.from_numpy(target)

    weight = rg.zeros(8, dtype=rg.float64, requires_grad=True)
    bias = rg.zeros((), dtype=rg.float64, requires_grad=True)
    for step in range(options.steps):
        loss = descend(inputs, wanted, weight, bias)
        if step % max(1, options.steps // 5) == 0:
            print(f"step {step:5}: mean squared error {loss.item():.6f}")

    columns = np.column_stack([x, np.ones(len(x))])
    residual = columns @ np.linalg.lstsq(columns, target, rcond=None)[0] - target
    print(f"gradient descent {loss.item():.6f}, least squares {(residual**2).mean():.6f}")


if __name__ == "__main__":
    main()
