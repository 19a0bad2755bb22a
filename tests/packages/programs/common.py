"""What the programs share: weights and data without random numbers, and how results are printed."""

import zlib

import numpy as np
import torch


def data(name: str, *shape: int) -> torch.Tensor:
    """Return normal numbers in float64 that depend on the name alone."""
    return torch.from_numpy(np.random.RandomState(zlib.crc32(name.encode())).standard_normal(shape))


def tokens(name: str, limit: int, *shape: int) -> torch.Tensor:
    """Return integers from 0 to ``limit - 1`` that depend on the name alone."""
    return torch.from_numpy(np.random.RandomState(zlib.crc32(name.encode())).randint(0, limit, shape))


def filled(model: torch.nn.Module) -> torch.nn.Module:
    """Return the model in float64, with weights that depend on their names and shapes alone."""
    model.double()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(data(name, *p.shape) * (0.5 / max(p[0].numel(), 1) ** 0.5 if p.dim() > 1 else 0.1))
            if p.dim() == 1 and "weight" in name:
                p += 1.0
    return model


def gradients(model: torch.nn.Module) -> float:
    """Return one number that depends on all gradients."""
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    return sum(float((g * torch.cos(torch.arange(g.numel(), dtype=g.dtype).reshape(g.shape))).sum()) for g in grads)


def show(rounded: bool = False, **values: object) -> None:
    """Print results, one per line: numbers with 12 digits, and text.

    Args:
        rounded: whether the package computes in float32 somewhere; the names of such results begin with ``~``.
        values: the results by name. A Tensor stands for the sum of its elements.
    """
    for name, value in values.items():
        name = "~" * rounded + name
        if isinstance(value, torch.Tensor):
            value = float(value.detach().double().sum())
        print(name, f"{value:.12g}" if isinstance(value, float) else value)
