"""Executable documentation: run the Python blocks of Markdown pages and check their printed output."""
