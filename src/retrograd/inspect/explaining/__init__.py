"""Where a gradient comes from, and why it is zero or missing.

``explanation`` is the result of ``explain``, ``flow`` follows cotangents through the graph, and a module each answers
why a gradient is zero, missing or freed. Only ``retrograd.inspect`` imports the folder.
"""

from .explain_gradient import explain as explain
from .explanation import Explanation as Explanation
from .paths import Path as Path
