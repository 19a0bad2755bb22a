"""Attention and recurrent layers over whole sequences."""
