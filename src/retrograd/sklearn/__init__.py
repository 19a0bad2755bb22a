"""Networks as scikit-learn estimators with skorch's names, for use in pipelines and searches; they can be pickled.

``net`` has ``NeuralNet``, ``estimators`` the classifier and the regressor, ``callbacks`` skorch's callbacks and
``splits`` its validation splits. No other package imports this one.
"""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("retrograd.sklearn needs scikit-learn: pip install 'retrograd[sklearn]'")

from .callbacks import EarlyStopping as EarlyStopping
from .callbacks import LRScheduler as LRScheduler
from .estimators import NeuralNetClassifier as NeuralNetClassifier
from .estimators import NeuralNetRegressor as NeuralNetRegressor
from .net import Callback as Callback
from .net import History as History
from .net import NeuralNet as NeuralNet
from .splits import ValidSplit as ValidSplit
from .splits import predefined_split as predefined_split
