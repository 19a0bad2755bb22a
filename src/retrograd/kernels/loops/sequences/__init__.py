"""Attention, recurrent layers, lookups and CTC alignments.

``recurrent`` runs the steps of an LSTM or GRU, ``lookups`` are embeddings, ``alignments`` the sums of CTC. Only ``ops``
calls them.
"""
