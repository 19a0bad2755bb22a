"""PyTorch's file formats: zip archives and pickles, read without running code that a file names.

``allowed_names`` lists what a file may refer to, ``sealed_pickle`` interprets pickles, ``zip_archives`` reads and
writes the container, ``pt_reader`` and ``pt_writer`` combine these. ``serialization`` imports them on first use.
"""
