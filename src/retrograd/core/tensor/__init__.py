"""Tensor and its memory.

``tensor`` defines the class, ``storage`` tracks shared memory, ``mutation`` writes in place with copy on write,
``copies`` copies and pickles Tensors, and ``printing`` defines their repr. Most packages import only ``tensor``;
operators that write import ``mutation``, and views ``storage``.
"""
