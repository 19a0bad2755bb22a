"""List the in-place programs of tests/core/tensor/test_mutation.py that PyTorch refuses, with its messages.

Retrograd runs all of them, and the test compares the gradients with central differences. Needs PyTorch.

    python benchmarks/refused_by_pytorch.py
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
X, Y = [0.7, -0.3, 1.2, 0.4], [1.1, 0.6, -0.8, 0.9]


def outcome(source: str, name: str) -> str:
    """Return "runs", or the first line of PyTorch's error, for a program's source."""
    names: dict[str, Any] = {"rg": torch}
    exec(textwrap.dedent(source.split("\n", 1)[1]), names)  # without the decorator
    x, y = (torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in (X, Y))
    try:
        names[name](x, y).backward()
    except (RuntimeError, TypeError) as error:
        return str(error).splitlines()[0]
    return "runs"


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.core.tensor.test_mutation import PROGRAMS

    outcomes = {name: outcome(inspect.getsource(function), name) for name, function in sorted(PROGRAMS.items())}
    refused = {name: message for name, message in outcomes.items() if message != "runs"}
    print(f"PyTorch {torch.__version__} refuses {len(refused)} of {len(outcomes)} programs; Retrograd runs them all.\n")
    for name, message in refused.items():
        print(f"{name.replace('_', ' ')}\n    {message}")
    print("\nAccepted by both:", ", ".join(name.replace("_", " ") for name in outcomes if name not in refused))


if __name__ == "__main__":
    main()
