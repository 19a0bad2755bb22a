"""Operators that read or write elements at chosen places."""
