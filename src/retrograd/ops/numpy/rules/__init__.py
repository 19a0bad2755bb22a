"""The rules of NumPy's functions on Tensors, by family.

Each rule has the signature of its NumPy function and calls operators of ``ops``. Only ``ops.numpy.function_table``, its
neighbors and ``polynomial`` import them.
"""
