"""Questions on the dimensions of arrays: operators in which examples meet, and reshapes that exchange lengths only.

``data`` and ``labels`` ask them, and the interventions that come last.
"""
