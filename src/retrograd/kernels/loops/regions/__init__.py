"""The loop that executes a region of a compiled program: many steps on small arrays in one call, without LLVM.

``region_code.py`` defines the code, which ``compiler/cpu/interpreter`` writes; ``region_loops.py`` executes it, and
``accumulator_loops.py`` executes elementwise code, for regions and for ``elements/fused_step_loops.py``.
"""
