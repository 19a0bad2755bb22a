"""Load published weights into ``retrograd.models``, and save them, in the layout of Hugging Face's transformers."""

from .loading import load_model as load_model
from .loading import renamed as renamed
from .saving import save_model as save_model
from .tokens import Tokens as Tokens
from .tokens import load_tokens as load_tokens
