"""Regions: runs of instructions on small arrays that become one compiled function, so that Python enters once.

``regions.py`` chooses the runs. ``lowering.py`` makes of each instruction steps (``steps.py``) on places in memory,
``loops.py``, ``products.py`` and ``scalars.py`` write their kernels in LLVM's text (``emission.py``), ``memory.py``
plans the arena, ``module.py`` puts them together, ``machine.py`` compiles and keeps the result on disk.
"""

from .regions import compiled_regions as compiled_regions
