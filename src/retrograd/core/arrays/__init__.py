"""What the engine knows of arrays, without Tensors: dtypes, devices, memory layout and memory itself.

``dtypes``, ``bfloat16``, ``half_precision`` and ``python_numbers`` decide dtypes and conversions; ``devices`` finds the
backend of an array type; ``layout`` and ``adjacent`` describe strides; ``summation`` sums accurately; ``memory``,
``blas`` and ``fp_warnings`` touch settings of the process and restore them. Any room may import these modules.
"""
