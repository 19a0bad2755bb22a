"""Tensor, and the memory behind it.

``tensor`` is the class; ``storage`` counts who shares memory and ``mutation`` writes in place with copy on write;
``copies`` copies and pickles, ``printing`` shows. Importing ``tensor`` is enough for most rooms;
``mutation`` is for operators that write, ``storage`` for views.
"""
