"""Rules that write operators as ONNX nodes, by family.

``rules`` has the decorator that registers a rule for operators of the package. Only ``onnx.exporting`` imports the
folder.
"""

from . import elementwise, layers, reductions, shape
from .rules import PRIMITIVES, WHOLE

__all__ = ["PRIMITIVES", "WHOLE", "elementwise", "layers", "reductions", "shape"]
