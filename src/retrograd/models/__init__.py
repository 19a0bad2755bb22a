"""The networks of ``retrograd train``, and networks for which published weights exist.

``gpt2``, ``llama`` and ``bert`` have the parameter names of their published weights, ``cache`` keeps keys and values
between tokens, ``language`` generates text, ``classifiers`` are small networks. The packages ``weights`` and ``cli``
import this package.
"""

from .bert import BERT as BERT
from .cache import KeyValueCache as KeyValueCache
from .classifiers import CNN as CNN
from .classifiers import MLP as MLP
from .gpt2 import GPT2 as GPT2
from .language import CharTransformer as CharTransformer
from .language import NamesLSTM as NamesLSTM
from .language import generate as generate
from .llama import Llama as Llama
