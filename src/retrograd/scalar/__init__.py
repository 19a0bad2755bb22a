"""Minimal reverse-mode differentiation on single numbers: ``Value``, networks of Values, and drawings of graphs.

``value`` is an autograd engine in one file, to be read; ``compile`` replays a recorded function of Values on Tensors,
for many inputs at once. Chapters of ``docs/learn`` and the command ``retrograd`` import this package.
"""

from .compile import DataDependent, compile
from .draw import Drawing, draw_graph, trace_graph
from .nn import MLP, SGD, Adam, Layer, Module, Neuron
from .value import Value, dot

__all__ = [
    "MLP",
    "SGD",
    "Adam",
    "DataDependent",
    "Drawing",
    "Layer",
    "Module",
    "Neuron",
    "Value",
    "compile",
    "dot",
    "draw_graph",
    "trace_graph",
]
