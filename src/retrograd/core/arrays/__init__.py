"""Arrays: dtypes, devices, memory layout and allocation.

``dtypes``, ``bfloat16``, ``half_precision`` and ``python_numbers`` decide dtypes and conversions; ``devices`` finds the
backend of an array type; ``layout`` and ``adjacent`` describe strides; ``summation`` sums accurately; ``memory``,
``blas`` and ``fp_warnings`` control settings of the process. Any package may import these modules.
"""

from typing import Any, TypeAlias

import numpy as np

# The values that rules and kernels compute with: NumPy or CuPy arrays, traced arrays, Batched arrays, and Tensors in a
# recorded backward pass. All have the interface of NumPy arrays, which is their static type.
Array: TypeAlias = np.ndarray[Any, Any]
