"""Layers with hand-written gradients over plain NumPy arrays.

There is no engine and no graph: every layer has a ``forward(x)`` and a ``backward(dout)`` that is derived in its
docstring, and a ``Net`` runs them in order and in reverse. Programs and ``retrograd train`` import it. One training
step:

>>> import numpy as np
>>> from retrograd import manual
>>> rng = np.random.default_rng(0)
>>> net = manual.Net(manual.Linear(2, 8, rng=rng), manual.Tanh(), manual.Linear(8, 2, rng=rng))
>>> loss, optimizer = manual.CrossEntropyLoss(), manual.SGD(net, lr=1.0)
>>> x, target = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([0, 1, 1, 0])
>>> for step in range(200):
...     value = loss(net(x), target)
...     dx = net.backward(loss.backward())
...     optimizer.step()
>>> net(x).argmax(axis=1)
array([0, 1, 1, 0])
"""

from .activations import LogSoftmax as LogSoftmax
from .activations import LogSumExp as LogSumExp
from .activations import ReLU as ReLU
from .activations import Sigmoid as Sigmoid
from .activations import Softmax as Softmax
from .activations import Tanh as Tanh
from .base import Layer as Layer
from .base import Loss as Loss
from .base import NamedArrays as NamedArrays
from .check import CheckReport as CheckReport
from .check import GradientCheck as GradientCheck
from .check import check_layer as check_layer
from .clipping import clip_grad_norm_ as clip_grad_norm_
from .clipping import clip_grad_value_ as clip_grad_value_
from .convolution import Conv2d as Conv2d
from .convolution import MaxPool2d as MaxPool2d
from .dropout import Dropout as Dropout
from .linear import Embedding as Embedding
from .linear import Linear as Linear
from .losses import CrossEntropyLoss as CrossEntropyLoss
from .losses import MSELoss as MSELoss
from .net import Net as Net
from .normalization import BatchNorm1d as BatchNorm1d
from .normalization import LayerNorm as LayerNorm
from .optimizers import SGD as SGD
from .optimizers import Optimizer as Optimizer
from .optimizers import RMSprop as RMSprop
