"""Matrix products made of tiles of vector registers, for use inside compiled loops.

``tiles`` is one tile, ``packed_products`` multiplies packed matrices by tiles, ``vector_width`` says how wide a
register is. The modules of ``kernels/loops`` and ``compiler/cpu`` import them.
"""
