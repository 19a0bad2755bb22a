"""Attention, recurrent layers, look-ups and alignments over whole sequences."""
