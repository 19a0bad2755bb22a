"""The methods by name."""

from __future__ import annotations

from . import tableaus
from .explicit import ExplicitMethod
from .implicit import ImplicitMethod
from .rosenbrock import RODAS5P, RosenbrockMethod

_TABLEAUS = {
    "bosh3": tableaus.BOSH3,
    "dopri5": tableaus.DOPRI5,
    "dopri8": tableaus.DOPRI8,
    "euler": tableaus.EULER,
    "heun": tableaus.HEUN,
    "kvaerno3": tableaus.KVAERNO3,
    "kvaerno5": tableaus.KVAERNO5,
    "midpoint": tableaus.MIDPOINT,
    "rk4": tableaus.RK4,
    "tsit5": tableaus.TSIT5,
}

_ROSENBROCK = {"rodas5p": RODAS5P}

METHODS = (*_TABLEAUS, *_ROSENBROCK)


def method_named(caller: str, name: str) -> ExplicitMethod:
    """Return a new object of the method.

    Raises:
        ValueError: there is no method of this name.
    """
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"{caller}: method must be one of {', '.join(METHODS)}, got {name!r}")
    if name in _ROSENBROCK:
        return RosenbrockMethod(name, _ROSENBROCK[name])
    tableau = _TABLEAUS[name]
    return (ImplicitMethod if tableau.implicit else ExplicitMethod)(name, tableau)
