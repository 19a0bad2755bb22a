"""Layers, networks and their parameters."""

from . import functional as functional
from .module import Module as Module
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
