"""The operator test harness: example calls of every operator, and checks of properties that each must satisfy.

``case`` declares example calls, ``cases`` has calls of all operators, ``scipy_cases`` has calls of SciPy's functions,
and ``harness`` has the checks. The command ``retrograd check`` and the tests import this package.
"""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
