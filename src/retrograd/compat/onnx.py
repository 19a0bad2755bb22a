"""``onnx``: PyTorch's enumerations around ``export``, which programs hand over and nothing here depends on."""

from __future__ import annotations

from enum import Enum

__all__ = ["OperatorExportTypes", "TrainingMode", "is_in_onnx_export"]


class TrainingMode(Enum):
    """How a model is to be written: here always in evaluation mode."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """Which operators may stand in a file: here always those of ONNX alone."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Whether a model is being written; models run there as anywhere."""
    return False
