"""``onnx``: models are not written in that format here."""

from __future__ import annotations

from typing import Any, NoReturn


def export(*args: Any, **kwargs: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("onnx.export: models are not written as ONNX here; save module.state_dict() with retrograd.save")


def is_in_onnx_export() -> bool:
    """Whether a model is being written: never."""
    return False
