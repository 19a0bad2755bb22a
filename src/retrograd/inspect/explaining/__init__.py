"""Where a gradient comes from, and why it is zero or missing."""

from .explain_gradient import explain as explain
from .explanation import Explanation as Explanation
from .paths import Path as Path
