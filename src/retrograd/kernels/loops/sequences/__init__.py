"""Attention, recurrent layers, lookups and CTC alignments."""
