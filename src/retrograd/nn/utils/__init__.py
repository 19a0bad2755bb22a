"""Utilities for modules: gradient clipping, parameters as a vector, parametrizations.

``parametrize`` and ``parametrizations`` compute parameters from others, ``prune`` masks them, ``rnn`` packs sequences,
``fusion`` merges a batch normalization into the layer before it. Inside Retrograd, ``nn.sequence`` imports ``rnn``.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from ...core.missing_names import legacy_names as _legacy_names
from . import fusion as fusion
from . import rnn as rnn
from . import stateless as stateless
from .clip_grad import clip_grad_norm_ as clip_grad_norm_
from .clip_grad import clip_grad_value_ as clip_grad_value_
from .clip_grad import clip_grads_with_norm_ as clip_grads_with_norm_
from .clip_grad import get_total_norm as get_total_norm
from .convert_parameters import parameters_to_vector as parameters_to_vector
from .convert_parameters import vector_to_parameters as vector_to_parameters
from .fusion import fuse_conv_bn_eval as fuse_conv_bn_eval
from .fusion import fuse_conv_bn_weights as fuse_conv_bn_weights
from .fusion import fuse_linear_bn_eval as fuse_linear_bn_eval
from .fusion import fuse_linear_bn_weights as fuse_linear_bn_weights
from .weight_hooks import remove_spectral_norm as remove_spectral_norm
from .weight_hooks import remove_weight_norm as remove_weight_norm
from .weight_hooks import spectral_norm as spectral_norm
from .weight_hooks import weight_norm as weight_norm

if TYPE_CHECKING:
    from . import parametrizations as parametrizations
    from . import parametrize as parametrize
    from . import prune as prune
else:
    _legacy, _LAZY = _legacy_names(__name__), ("parametrizations", "parametrize", "prune")

    def __getattr__(name: str) -> _Any:
        return _import_module(f"{__name__}.{name}") if name in _LAZY else _legacy(name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})
