"""Programs on a GPU: groups of instructions as generated CUDA kernels, replays as CUDA graphs.

CuPy compiles, launches and captures. A group of instructions, for which CuPy would run a kernel each, becomes one
kernel, by the same partition and the same element expressions as loops on the CPU (``passes/``). Matrix products and
other library calls remain CuPy's.
"""

from .graphs import Graph as Graph
from .kernel_fusion import fused as fused
from .kernels import Module as Module

__all__ = ["Graph", "Module", "fused"]
