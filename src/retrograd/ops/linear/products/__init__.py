"""Products of vectors and matrices, affine maps, and Einstein summation.

``matmul`` and ``affine`` (``linear``) call BLAS, ``einsum`` is reduced to them, and ``vector_products`` has ``dot``,
``cross``, ``outer``, Kronecker products and products of several matrices. The other folders of ``ops`` import them.
"""
