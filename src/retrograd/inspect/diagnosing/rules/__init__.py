"""The questions of the doctor: a function per kind of finding, by family, and the order of their importance.

A rule takes a ``Case`` and returns what it ``Found``, or None. Only ``doctor_mode`` calls them. A new kind is a new
function under ``@kind`` and a name in ``ORDER``: causes that are certain first, symptoms that follow from them last.
"""

from . import cuts, data, gradients, labels, losses, modes, objectives, parameters, sharing, targets, writes
from .growth import depth, rates, schedules

ORDER = (
    "backward-missing", "detached", "step-missing", "zeroed-before-step", "gradients-not-zeroed",
    "reused-optimizer-of-old-model", "modules-not-registered", "parameters-not-optimized", "broadcast-loss",
    "target-mismatch", "double-softmax", "double-sigmoid", "softmax-axis", "loss-sign", "masked-after-loss",
    "data-write", "batch-norm-of-one", "batch-mixing", "eval-mode", "nan-birth", "constant-init", "tied-copies",
    "frozen-layer", "scheduler-kills-rate", "unshuffled-data", "wrong-reduction-scale", "unnormalized-input",
    "exploding-gradient", "weight-decay-too-high", "learning-rate-too-high", "dead-units", "vanishing-gradient",
    "learning-rate-too-low", "labels-unrelated", "accumulation-unscaled", "graph-grows", "train-mode-in-evaluation",
)  # fmt: skip

__all__ = [
    "ORDER",
    "cuts",
    "data",
    "depth",
    "gradients",
    "labels",
    "losses",
    "modes",
    "objectives",
    "parameters",
    "rates",
    "schedules",
    "sharing",
    "targets",
    "writes",
]
