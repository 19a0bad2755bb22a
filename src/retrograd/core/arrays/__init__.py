"""What the engine knows of arrays, without Tensors: dtypes, devices, memory layout and memory itself.

``dtypes``, ``bfloat16``, ``half_precision`` and ``python_numbers`` decide dtypes and conversions; ``devices`` finds the
backend of an array type; ``layout`` and ``adjacent`` describe strides; ``summation`` sums accurately; ``memory``,
``blas`` and ``fp_warnings`` touch settings of the process and restore them. Any room may import these modules.
"""

from typing import Any, TypeAlias

import numpy as np

# What rules and kernels compute with: an array of NumPy or CuPy, or what stands for one: a traced or mapped array, and
# in a rule of higher order a Tensor. All have NumPy's interface, as which they are typed.
Array: TypeAlias = np.ndarray[Any, Any]
