"""How a loop becomes machine code: compiled by Numba, kept on disk, loaded again.

``object_files`` compiles, ``code_store`` and ``private_files`` keep the code, ``compiled_loops`` finds or compiles a
loop, ``compile_ahead`` and ``compile_process`` compile in a second process. Only ``kernels`` itself, the command
``retrograd warmup`` and ``compiler/cpu`` import these modules.
"""
