"""A training loop and its helpers: checkpoints, metrics, early stopping and averaged weights.

``loop`` has ``Loop``, which the command ``retrograd train`` uses. Every helper also works without ``Loop``, in a
training loop that the program writes itself.
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
