"""Automatic differentiation: ``grad`` and ``backward``, user-defined Functions, anomaly mode, and gradient checks.

``gradients`` is ``grad``, ``function`` and ``context`` have user-defined operators, ``graph`` hooks and saved Tensors,
``gradcheck`` and ``numerical`` compare with differences, ``forward_ad`` has dual numbers. ``nn``, ``func`` and
``inspect`` import modules.
"""

from typing import TYPE_CHECKING

from ..core.graph import hooks as hooks
from ..core.graph.modes import enable_grad as enable_grad
from ..core.graph.modes import inference_mode as inference_mode
from ..core.graph.modes import no_grad as no_grad
from ..core.graph.modes import set_grad_enabled as set_grad_enabled
from ..core.missing_names import legacy_names
from .anomaly import detect_anomaly as detect_anomaly
from .anomaly import set_detect_anomaly as set_detect_anomaly
from .function import Function as Function
from .function import once_differentiable as once_differentiable
from .gradcheck import GradcheckError as GradcheckError
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .gradients import backward as backward
from .gradients import grad as grad
from .numerical import numerical_gradient as numerical_gradient

if TYPE_CHECKING:
    from . import forward_ad as forward_ad
    from . import functional as functional
    from . import graph as graph
else:
    __getattr__ = legacy_names(__name__)
