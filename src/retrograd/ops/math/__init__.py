"""Operators that work element by element: arithmetic, functions, comparisons."""
