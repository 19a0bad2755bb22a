"""How each operator of this package is written in operators of ONNX, by family."""

from . import elementwise, layers, reductions, shape
from .rules import PRIMITIVES, WHOLE

__all__ = ["PRIMITIVES", "WHOLE", "elementwise", "layers", "reductions", "shape"]
