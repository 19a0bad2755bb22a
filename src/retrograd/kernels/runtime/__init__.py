"""The runtime of compiled loops: threads, memory for results, BLAS and settings.

``library`` opens the library of loops for the processor's ``levels``, ``loop_calls`` makes Python functions of loops,
``numba_functions`` compiles loops if no library is open, ``threads`` is the thread pool, ``thread_protocol`` and
``thread_memory`` synchronize its threads without the GIL, ``loop_blas`` and ``blas_address`` call NumPy's BLAS.
``kernels`` and ``compiler`` import these modules, and so do operators that request memory for results.
"""
