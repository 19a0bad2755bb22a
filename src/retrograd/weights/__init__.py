"""Load published weights, in the layout of Hugging Face's transformers, into ``retrograd.models``."""

from .loading import load_model as load_model
from .loading import renamed as renamed
from .tokens import Tokens as Tokens
from .tokens import load_tokens as load_tokens
