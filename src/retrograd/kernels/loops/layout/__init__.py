"""Loops that move elements: copies and casts, gather and scatter, search."""
