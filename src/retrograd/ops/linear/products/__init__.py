"""Products of vectors and matrices, affine maps, and Einstein summation.

``matmul`` and ``affine`` (``linear``) call BLAS, ``einsum`` is reduced to them, ``chains`` has products of several
matrices, ``vector_products`` has ``dot``, ``cross`` and ``outer``. The other folders of ``ops`` import them.
"""
