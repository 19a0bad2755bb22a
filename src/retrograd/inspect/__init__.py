"""Tools that show what was recorded, what a backward pass did, and which lines values and gradients come from.

All tools use the records of ``trace``. They have no overhead while they are off, and are turned on by one line around
a program. Only programs and the command import them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.missing_names import legacy_names

if TYPE_CHECKING:
    from .diagnosing.doctor_mode import diagnose as diagnose
    from .diagnosing.doctor_mode import doctor as doctor
    from .drawing.draw import Drawing as Drawing
    from .drawing.draw import draw as draw
    from .drawing.tree import tree as tree
    from .explaining import explain as explain
    from .guarding import guard as guard
    from .profiling import profile as profile
    from .stepping import step as step
    from .tracing import trace as trace
    from .watching.watch import watch as watch

# The module of each public name. No module has the name of a function, since its import would replace the function.
_MODULES = {
    "Drawing": "drawing.draw",
    "diagnose": "diagnosing.doctor_mode",
    "doctor": "diagnosing.doctor_mode",
    "draw": "drawing.draw",
    "explain": "explaining",
    "guard": "guarding",
    "profile": "profiling",
    "step": "stepping",
    "trace": "tracing",
    "tree": "drawing.tree",
    "watch": "watching.watch",
}

__all__ = list(_MODULES)

if not TYPE_CHECKING:  # type checkers use the imports above
    _legacy_name = legacy_names(__name__)

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            return _legacy_name(name)
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value
