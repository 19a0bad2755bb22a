"""The networks that `retrograd train` trains, as programs may use and change them."""

from .classifiers import CNN as CNN
from .classifiers import MLP as MLP
from .language import CharTransformer as CharTransformer
from .language import NamesLSTM as NamesLSTM
from .language import generate as generate
