"""What compiled loops stand on: machine code found on disk or made now, the pool of threads, and BLAS."""
