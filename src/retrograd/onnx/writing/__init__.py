"""Rules that write operators as ONNX nodes, by family."""

from . import elementwise, layers, reductions, shape
from .rules import PRIMITIVES, WHOLE

__all__ = ["PRIMITIVES", "WHOLE", "elementwise", "layers", "reductions", "shape"]
