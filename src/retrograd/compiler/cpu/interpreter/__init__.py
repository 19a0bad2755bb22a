"""Regions without LLVM: their steps as code, which a loop of the library executes (``kernels/loops/regions``).

``step_code.py`` writes the code of one step, ``map_code.py`` the code of an elementwise step, and ``region_program.py``
puts a region together. Only the other modules of ``compiler/cpu``, and ``compiler/loops``, import this folder.
"""
