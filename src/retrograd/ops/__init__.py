"""All operators. Importing a module of the package registers its operators, in the operator table and on Tensor.

``import retrograd`` loads the modules that nearly every program uses. Each other module is loaded when one of its
public names or methods is first used, and all of them when the operator table or a submodule of this package is used.
Every package above may import it.
"""

import gc as _gc
from collections.abc import Iterable as _Iterable
from importlib import import_module as _import_module
from typing import Any as _Any

from .._generated.operators import METHODS as _METHODS
from .._generated.operators import MODULES as _MODULES
from ..core.missing_names import enter_lazy_methods as _enter_lazy_methods
from ..core.missing_names import lazy_methods as _lazy_methods
from ..core.missing_names import legacy_names as _legacy_names
from ..core.missing_names import provided as _provided
from ..core.tensor.tensor import Tensor as _Tensor

# Arithmetic, creation, conversion, shapes and sums. Python's other operators on Tensors load as other methods do.
_BASIC = (
    "ops.make.creation", "ops.math.arithmetic", "ops.numpy.bare_arrays", "ops.reduce.reductions",
    "ops.shape.conversion", "ops.shape.shape",
)  # fmt: skip


def _load(modules: _Iterable[str]) -> None:
    # The modules create many objects and no garbage: the garbage collector would take a tenth of the import time.
    collecting = _gc.isenabled()
    _gc.disable()
    try:
        for module in modules:
            _import_module(f"retrograd.{module}")
    finally:
        if collecting:
            _gc.enable()


def _load_all() -> None:
    """Load every operator and enter all methods on Tensor."""
    _load(_MODULES)
    for method in list(_lazy_methods.values()):
        method.loaded()


_load(_BASIC)
_enter_lazy_methods(_Tensor, _METHODS)
_provided["all_operators"] = _load_all
_legacy_name = _legacy_names(__name__)  # the names of PyTorch's ``ops``, such as ``ops.aten``


def __getattr__(name: str) -> _Any:
    if any(module.startswith(f"ops.{name}.") for module in _MODULES):
        _load_all()
        return globals()[name]
    return _legacy_name(name)
