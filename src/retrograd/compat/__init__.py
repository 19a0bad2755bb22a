"""PyTorch's legacy names and module paths, its file formats (``files``), and the command that runs its programs.

Nothing here is imported before a program needs it. The rest of the package calls ``legacy_names`` for missing
attributes and for imports, ``tensor_methods`` for legacy methods, and ``calls`` for calls that failed in their present
form. ``modules`` holds the contents of PyTorch's modules.
"""
