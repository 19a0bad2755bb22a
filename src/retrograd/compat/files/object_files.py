"""Read files of whole objects in the format before PyTorch's zip archives: a magic line and a pickle.

As in PyTorch, ``weights_only`` is the default: the unpickler knows tensors, plain containers, the modules and operators
of this package, and classes that the program listed by ``safe_globals``. Other objects need ``weights_only=False``,
which can run arbitrary code.
"""

from __future__ import annotations

import pickle
from typing import IO, Any

from .arrays import Placed
from .names import FileNames
from .sealed_pickle import SealedUnpickler

MAGIC = b"retrograd objects\n"


def read(stream: IO[bytes], placed: Placed, weights_only: bool) -> Any:
    """Return the content of the file. The stream is then at the end of the file.

    Args:
        stream: the file's bytes.
        placed: moves a Tensor from the CPU, given the device that the file names.
        weights_only: create only known and listed objects.

    Raises:
        CorruptFileError: with ``weights_only``, the file is damaged or uses a name that is not allowed.
    """
    stream.seek(len(MAGIC), 1)
    if not weights_only:
        return pickle.Unpickler(stream).load()
    names = FileNames(placed)
    unpickler = SealedUnpickler(stream, names.find)
    names.reads_for(unpickler)
    return unpickler.load()
