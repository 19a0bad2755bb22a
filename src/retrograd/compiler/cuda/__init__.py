"""Programs on a GPU: groups of instructions as generated CUDA kernels, replays as CUDA graphs.

CuPy compiles, launches and captures. What it would run as a kernel of its own for each instruction becomes one for each
group, by the same partition and the same forms as the processor's loops (``passes/``); products of matrices and all
else that a library computes stay CuPy's.
"""

from .graphs import Graph as Graph
from .groups import fused as fused
from .kernels import Module as Module

__all__ = ["Graph", "Module", "fused"]
