"""What a compiled loop needs while it runs: threads, memory for results, BLAS and settings.

``library`` opens the library of loops for the processor's ``levels``, ``loop_calls`` makes functions of Python of them,
``numba_functions`` compiles loops where no library is open, ``threads`` is the pool, ``thread_protocol`` and
``thread_memory`` are how its threads meet without Python's lock, ``loop_blas`` and ``blas_address`` find NumPy's BLAS.
The modules of ``kernels/loops`` and ``kernels/build`` import these modules, operators do not.
"""
