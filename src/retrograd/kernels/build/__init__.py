"""How a loop becomes machine code: compiled by Numba, ahead of time or when it first runs.

``make_library`` compiles and links all loops ahead of time. For loops that the library does not have, ``object_files``
compiles, ``code_store`` and ``private_files`` keep the code, ``compiled_loops`` finds or compiles a loop,
``compile_ahead`` and ``compile_process`` compile in a second process. Only ``kernels`` itself, the command ``retrograd
warmup`` and ``compiler/cpu`` import these modules.
"""
