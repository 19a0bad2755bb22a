"""The operator harness: example calls of every operator, and the properties that each operator must satisfy."""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
