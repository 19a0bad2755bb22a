"""Load published weights into ``retrograd.models``, and save them, in the layout of Hugging Face's transformers.

``loading`` and ``saving`` convert between names by the tables of ``name_maps``; ``tokens`` reads tokenizer files.
Programs and the command import it.
"""

from .compact import Compact as Compact
from .compact import CompactEmbedding as CompactEmbedding
from .compact import CompactLinear as CompactLinear
from .loading import load_model as load_model
from .loading import renamed as renamed
from .saving import save_model as save_model
from .tokens import Tokens as Tokens
from .tokens import load_tokens as load_tokens
