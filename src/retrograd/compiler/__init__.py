"""``compile``: trace a function once, replay what it does to arrays.

``program.py`` says what a program is.
"""

from typing import TYPE_CHECKING

from ..core.fallback import legacy_names
from .compiled import Compiled as Compiled
from .modes import set_stance as set_stance
from .modules import compile as compile
from .program import Instruction as Instruction
from .program import Program as Program
from .program import Value as Value
from .sizes import mark_dynamic as mark_dynamic
from .sizes import mark_static as mark_static
from .tracer import DataDependent as DataDependent

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)

__all__ = [
    "Compiled", "DataDependent", "Instruction", "Program", "Value", "compile", "mark_dynamic", "mark_static",
    "set_stance",
]  # fmt: skip
