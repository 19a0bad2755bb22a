"""ONNX files: ``load`` returns a Module with differentiable parameters, ``export`` writes a model.

``loading`` and ``graph`` run files by the rules of ``operators``; ``exporting`` records a model by ``model_calls`` and
writes it by the rules of ``writing``; ``building`` creates the nodes of a file. Programs and the command import it.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from ..core.missing_names import legacy_names as _legacy_names

if TYPE_CHECKING:
    from .exporting import export as export
    from .loading import ONNXModule as ONNXModule
    from .loading import UnsupportedError as UnsupportedError
    from .loading import load as load

if not TYPE_CHECKING:
    _ROOMS = {"loading": ("load", "ONNXModule", "UnsupportedError"), "exporting": ("export",)}
    _legacy = _legacy_names(__name__)

    def __getattr__(name: str) -> _Any:
        for room, names in _ROOMS.items():
            if name in names:
                found = globals()[name] = getattr(_import_module(f"{__name__}.{room}"), name)
                return found
        return _legacy(name)
