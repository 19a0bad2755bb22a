"""``compile``: trace a function once, then replay the traced program.

``program.py`` describes programs; ``trace`` writes them, ``passes``, ``cpu`` and ``cuda`` optimize and compile them,
and ``run`` replays them. Programs call it; besides, ``compat`` has PyTorch's names of compilers from here.
"""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names
from .program import Instruction as Instruction
from .program import Program as Program
from .program import Value as Value
from .run.compiled_function import Compiled as Compiled
from .run.compiled_module import compile as compile
from .trace.sizes import mark_dynamic as mark_dynamic
from .trace.sizes import mark_static as mark_static
from .trace.trace_modes import set_stance as set_stance
from .trace.tracer import DataDependent as DataDependent

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)

__all__ = [
    "Compiled", "DataDependent", "Instruction", "Program", "Value", "compile", "mark_dynamic", "mark_static",
    "set_stance",
]  # fmt: skip
