"""Reverse mode at its smallest, on single numbers: `Value`, networks of Values, and drawings of their graphs."""

from .draw import Drawing, draw_graph, trace_graph
from .nn import MLP, SGD, Adam, Layer, Module, Neuron
from .value import Value, dot

__all__ = ["MLP", "SGD", "Adam", "Drawing", "Layer", "Module", "Neuron", "Value", "dot", "draw_graph", "trace_graph"]
