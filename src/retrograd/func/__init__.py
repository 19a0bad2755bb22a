"""Function transforms: derivatives as functions of functions."""

from .forward import jvp as jvp
