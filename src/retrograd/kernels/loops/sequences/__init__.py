"""Attention, recurrent layers, lookups and CTC alignments.

``recurrent`` runs the steps of an LSTM or GRU, ``lookups`` reads tables such as embeddings, ``alignments`` computes the
sums of CTC. Only ``ops`` calls these modules.
"""
