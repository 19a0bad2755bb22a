"""Matrix products by tiles of vector registers, for use inside compiled loops.

``tiles`` computes one tile, ``packed_products`` multiplies packed matrices by tiles, ``vector_width`` returns the width
of a register. The modules of ``kernels/loops`` and ``compiler/cpu`` import them.
"""
