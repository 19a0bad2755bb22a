"""A function with a derivative of one's own: a straight-through estimator, and a numerically stable logarithm of cosh.

python examples/custom_function.py
"""

import argparse

import numpy as np

import retrograd as rg
from retrograd.autograd import Function, gradcheck


class RoundStraightThrough(Function):
    """Rounds; the gradient passes as if it did not (Y. Bengio et al., 2013)."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class LogCosh(Function):
    """log(cosh(x)) without overflow; its derivative is tanh(x)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        size = abs(x)
        return size + (-2 * size).exp().log1p() - float(np.log(2))

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.tanh()


def main(arguments: list[str] | None = None) -> None:
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)

    x = rg.tensor([-1000.0, -1.0, 0.0, 2.0], requires_grad=True)
    y = LogCosh.apply(x)
    y.sum().backward()
    print("log cosh:  ", y.tolist())
    print("derivative:", x.grad.tolist())
    points = rg.tensor(np.linspace(-2, 2, 5), requires_grad=True)
    print("gradcheck: ", gradcheck(LogCosh.apply, (points,)))

    # Quantized to whole numbers in the forward pass, and trained nevertheless.
    weight = rg.tensor(0.2, requires_grad=True)
    for _ in range(100):
        loss = (RoundStraightThrough.apply(weight) - 3.0) ** 2 + 0.01 * (weight - 3.0) ** 2
        loss.backward()
        weight.data -= 0.05 * weight.grad
        weight.grad = None
    print("quantized weight:", RoundStraightThrough.apply(weight).item())


if __name__ == "__main__":
    main()
