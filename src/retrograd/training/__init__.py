"""A training loop and its helpers: checkpoints, metrics, early stopping and averaged weights.

``loop`` is ``fit``; every helper also works alone, in a loop that the program writes itself. The command ``retrograd
train`` is built on it.
"""

from .accumulation import accumulate as accumulate
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import CheckpointError as CheckpointError
from .checkpoint import Progress as Progress
from .early_stopping import EarlyStopping as EarlyStopping
from .ema import EMA as EMA
from .loop import DivergenceError as DivergenceError
from .loop import Interrupted as Interrupted
from .loop import Loop as Loop
from .metrics import AverageMeter as AverageMeter
from .metrics import ConfusionMatrix as ConfusionMatrix
from .metrics import R2Score as R2Score
from .metrics import accuracy as accuracy
