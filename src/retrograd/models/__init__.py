"""The networks of ``retrograd train``, and those for which published weights exist; programs may modify them.

``gpt2``, ``llama`` and ``bert`` have the parameter names of their published weights, ``cache`` keeps keys and values
between tokens, ``language`` generates text, ``classifiers`` are small networks. ``weights`` and the command import it.
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
