"""How the library of loops is built, with Numba and LLVM's linker: users never run this code.

``object_files`` compiles a loop to an object file and is the only module that uses Numba's private interface,
``make_library`` compiles all loops in several processes and links them. Only ``make kernels`` and tests import these
modules.
"""
