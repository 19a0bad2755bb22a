"""Regions: runs of instructions on small arrays, compiled to one function each to avoid Python's overhead.

``regions.py`` chooses these runs. ``lowering.py`` turns each instruction into steps (``region_steps.py``) on places
in memory; ``numpy_loops.py``, ``product_kernels.py`` and ``scalar_operations.py`` write the kernels as LLVM text
(``emission.py``), ``module.py`` assembles the module, and ``machine_code.py`` compiles the text. Without LLVM,
``interpreter/`` writes code that a loop of the library executes. The other folders of the compiler import these
modules.
"""

from .optimizer_updates import with_scaling_steps as with_scaling_steps
from .regions import compiled_regions as compiled_regions
