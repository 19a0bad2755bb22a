"""PyTorch's file formats: zip archives and pickles, read without running code that a file names.

``sealed_pickle`` interprets pickles, ``records`` reads and writes the container and creates its Tensors and arrays,
``pt_reader`` lists what a file may refer to and reads it, ``pt_writer`` writes it. ``serialization`` imports them on
first use.
"""
