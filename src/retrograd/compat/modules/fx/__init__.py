"""``fx``: functions and modules as graphs that a program can read, change, and turn into Python code again.

``tracer`` records a program on ``proxy`` objects, ``graph`` and ``node`` hold the result, ``code`` generates source,
``graph_module`` runs the source, and ``passes`` runs and changes graphs. Only programs that import
``torch.fx`` load it. Decision 108 has the reasons.
"""

from .code import CodeGen
from .graph import Graph
from .graph_module import GraphModule
from .node import Node, has_side_effect, map_arg
from .passes import Interpreter, Transformer, replace_pattern
from .proxy import Proxy
from .tracer import PH, Tracer, symbolic_trace, wrap

__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "Tracer", "Transformer", "has_side_effect",
    "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
