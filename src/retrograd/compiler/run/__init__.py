"""Run compiled functions: find the program that fits a call, and replay it.

``compiled_function`` has the object that ``compile`` returns and ``program_entry`` one program with its ``guards``;
``replay`` runs the instructions in memory that ``arenas`` plans. ``compiler`` exports the public names.
"""
