"""Function transforms with torch.func's names. Each submodule is imported at the first use of one of its names.

``function_graph`` records the graph of the function, ``reverse``, ``forward`` and ``jacobians`` differentiate it,
``mapping`` has ``vmap``; ``loops``, ``implicit``, ``taylor`` and ``memory`` are further families. ``autograd``,
``scipy``, ``ode`` and ``compiler`` import modules.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from ..core.missing_names import legacy_names as _legacy_names

if TYPE_CHECKING:
    from .by_element import vectorize as vectorize
    from .custom import custom_jvp as custom_jvp
    from .custom import custom_vjp as custom_vjp
    from .forward import jvp as jvp
    from .forward import linearize as linearize
    from .implicit.optima import argmin as argmin
    from .implicit.optima import fixed_point as fixed_point
    from .implicit.roots import custom_linear_solve as custom_linear_solve
    from .implicit.roots import custom_root as custom_root
    from .jacobians import hessian as hessian
    from .jacobians import jacfwd as jacfwd
    from .jacobians import jacrev as jacrev
    from .loops.counted import cond as cond
    from .loops.counted import fori_loop as fori_loop
    from .loops.counted import while_loop as while_loop
    from .loops.prefixes import associative_scan as associative_scan
    from .loops.scan import map as map
    from .loops.scan import scan as scan
    from .mapping import vmap as vmap
    from .memory.budget import memory_budget as memory_budget
    from .modules import functional_call as functional_call
    from .modules import ravel_pytree as ravel_pytree
    from .modules import stack_module_state as stack_module_state
    from .recomputation import checkpoint as checkpoint
    from .reverse import grad as grad
    from .reverse import grad_and_value as grad_and_value
    from .reverse import hvp as hvp
    from .reverse import value_and_grad as value_and_grad
    from .reverse import vhp as vhp
    from .reverse import vjp as vjp
    from .taylor.jet import jet as jet

_ROOMS = {
    "mapping": ("vmap",),
    "by_element": ("vectorize",),
    "custom": ("custom_jvp", "custom_vjp"),
    "forward": ("jvp", "linearize"),
    "implicit.optima": ("argmin", "fixed_point"),
    "implicit.roots": ("custom_linear_solve", "custom_root"),
    "jacobians": ("hessian", "jacfwd", "jacrev"),
    "loops.counted": ("cond", "fori_loop", "while_loop"),
    "loops.prefixes": ("associative_scan",),
    "loops.scan": ("map", "scan"),
    "memory.budget": ("memory_budget",),
    "modules": ("functional_call", "ravel_pytree", "stack_module_state"),
    "recomputation": ("checkpoint",),
    "reverse": ("grad", "grad_and_value", "hvp", "value_and_grad", "vhp", "vjp"),
    "taylor.jet": ("jet",),
}
__all__ = sorted(name for names in _ROOMS.values() for name in names)


if not TYPE_CHECKING:
    _legacy = _legacy_names(__name__)

    def __getattr__(name: str) -> _Any:
        if name in _ROOMS:  # `from ..func import modules` looks up the attribute before it imports the submodule
            return _import_module(f"{__name__}.{name}")
        for room, names in _ROOMS.items():
            if name in names:
                found = globals()[name] = getattr(_import_module(f"{__name__}.{room}"), name)
                return found
        return _legacy(name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
