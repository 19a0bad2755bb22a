"""Files of whole objects that Retrograd wrote before it wrote PyTorch's zip archives: a line of magic, and a pickle.

They are read as PyTorch reads its own: with ``weights_only``, the default, by an unpickler that knows tensors, plain
containers, the modules and operators of this package, and what the program itself has listed by ``safe_globals``.
Anything else needs ``weights_only=False``, which runs whatever the file holds.
"""

from __future__ import annotations

import pickle
from typing import IO, Any

from .arrays import Placed
from .names import FileNames
from .sealed_pickle import SealedUnpickler

MAGIC = b"retrograd objects\n"


def read(stream: IO[bytes], placed: Placed, weights_only: bool) -> Any:
    """What is in the file. The stream is left behind its end.

    Args:
        stream: the file's bytes.
        placed: moves a Tensor of the CPU to where it is wanted, given the device that the file names.
        weights_only: make nothing but what is known or listed.

    Raises:
        CorruptFileError: with ``weights_only``, the file is damaged or names what is neither allowed nor listed.
    """
    stream.seek(len(MAGIC), 1)
    if not weights_only:
        return pickle.Unpickler(stream).load()
    names = FileNames(placed)
    unpickler = SealedUnpickler(stream, names.find)
    names.reads_for(unpickler)
    return unpickler.load()
