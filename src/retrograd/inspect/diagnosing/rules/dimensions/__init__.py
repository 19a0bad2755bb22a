"""Questions on the dimensions of arrays: operators in which examples meet, and reshapes that exchange lengths only.

Only ``data`` asks them.
"""
