"""The rules of the doctor: a function per kind of finding, by family, and the order of the kinds' importance.

A rule takes a ``Case`` and returns a ``Found``, or None. Only ``doctor_mode`` calls the rules. To add a kind of
finding, decorate a function with ``@kind`` and add its name to ``ORDER``: certain causes first, symptoms last.
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
