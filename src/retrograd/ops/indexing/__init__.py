"""Operators that read or write elements at indices or under masks."""
