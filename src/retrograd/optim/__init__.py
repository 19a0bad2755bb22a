"""Optimizers, with PyTorch's names and hyper-parameters, and the schedulers of their learning rates.

``optimizer`` has the base class, ``array_updates`` the in-place arithmetic that the optimizers share,
``differentiable`` the updates that are recorded for differentiation, and ``lr_scheduler`` the schedulers. The
packages ``training``, ``sklearn`` and ``distributed`` import this package.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from ..core.missing_names import explain_calls as _explain_calls
from ..core.missing_names import legacy_names as _legacy_names
from ..ops.table.documentation import complete as _complete
from . import differentiable as differentiable
from . import lr_scheduler as lr_scheduler
from .adam import Adam as Adam
from .adam import Adamax as Adamax
from .adam import AdamW as AdamW
from .adam import NAdam as NAdam
from .adam import RAdam as RAdam
from .adam import SparseAdam as SparseAdam
from .adaptive import Adadelta as Adadelta
from .adaptive import Adagrad as Adagrad
from .adaptive import RMSprop as RMSprop
from .adaptive import Rprop as Rprop
from .hyperparameters import ARGUMENTS as _ARGUMENTS
from .hyperparameters import ERRORS as _ERRORS
from .lbfgs import LBFGS as LBFGS
from .matrix import Adafactor as Adafactor
from .matrix import Muon as Muon
from .optimizer import Optimizer as Optimizer
from .sgd import ASGD as ASGD
from .sgd import SGD as SGD

_complete(globals(), Optimizer, _ARGUMENTS, _ERRORS)
_explain_calls(globals())

if TYPE_CHECKING:
    from . import swa_utils as swa_utils
    from .minimization import minimize as minimize
else:
    _legacy = _legacy_names(__name__)

    def __getattr__(name: str) -> _Any:
        if name == "minimize":  # ``minimize`` needs func, which is imported at the first use
            globals()[name] = _import_module(f"{__name__}.minimization").minimize
            return globals()[name]
        return _legacy(name)
