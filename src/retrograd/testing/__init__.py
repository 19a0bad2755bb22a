"""The operator harness: example calls of every operator, and the properties that each operator must satisfy.

``case`` declares example calls, ``cases`` has those of all operators and ``scipy_cases`` those of SciPy's functions,
``harness`` checks them. ``retrograd check`` and tests import it.
"""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
