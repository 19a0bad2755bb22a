"""Programs on a GPU: groups of instructions as generated CUDA kernels, replays as CUDA graphs.

CuPy compiles, launches and captures the kernels. A group of instructions becomes one kernel; CuPy would run a kernel
for each instruction. The partition into groups and the element expressions are those of loops on the CPU
(``passes/``). Matrix products and other library calls are left to CuPy. Only ``compiler.run`` imports this folder.
"""

from .graphs import Graph as Graph
from .kernel_fusion import fused as fused
from .kernels import Module as Module

__all__ = ["Graph", "Module", "fused"]
