"""Running compiled functions: which program fits a call, and its replay.

``compiled_function`` is what ``compile`` returns, ``program_entry`` one program with its ``guards``, ``replay`` runs
its instructions in the memory that ``arenas`` plans. ``compiler`` exports the public names.
"""
