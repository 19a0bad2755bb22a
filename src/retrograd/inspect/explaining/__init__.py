"""Where a gradient comes from, and why it is zero or missing.

``explanation`` is the result of ``explain``, and ``flow`` follows cotangents through the graph. ``zero_gradient``,
``missing_gradient`` and ``freed_graph`` explain gradients that are zero, missing, or from a freed graph. Only
``retrograd.inspect`` imports the folder.
"""

from .explain_gradient import explain as explain
from .explanation import Explanation as Explanation
from .paths import Path as Path
