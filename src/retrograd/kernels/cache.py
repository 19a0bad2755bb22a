"""Compiled loops on disk, such that nothing found there can break a call.

Numba's own cache raises what reading and writing raise, from pickles cut short to a full disk, and runs whatever
machine code it reads; two processes that compile at once may leave an index that leads to another signature's code.
Here a file holds one loop for one signature and one processor, and begins with a digest over its content and all that
the content depends on: a file that is damaged, old or another's does not match and the loop is compiled again. This
guards against accidents, not against somebody who may write to the folder: as little as for Python's own ``.pyc``.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

_DIGEST = hashlib.sha256


class LoopCache(FunctionCache):
    """The cache of one function, in the folder that Numba chooses.

    Raises:
        RuntimeError: there is no folder that can be written.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function of a signature, or None."""
        target_context.refresh()
        try:
            path, identity = self._file(sig, target_context.codegen())
            with open(path, "rb") as file:
                content = file.read()
            digest, payload = content[: _DIGEST().digest_size], content[_DIGEST().digest_size :]
            if _DIGEST(identity + payload).digest() != digest:
                return None
            return self._impl.rebuild(target_context, pickle.loads(payload))
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled function of a signature, if that can be done."""
        with suppress(Exception):
            if self._impl.check_cachable(data):
                path, identity = self._file(sig, data.codegen)
                payload = dumps(self._impl.reduce(data))
                _write(path, _DIGEST(identity + payload).digest() + payload)

    def _file(self, sig: Any, codegen: Any) -> tuple[str, bytes]:
        """Where a signature's code is kept on this processor, and all that the code depends on."""
        key = repr((sig, codegen.magic_tuple(), self._py_func.__module__, self._py_func.__qualname__))
        name = f"{self._impl.filename_base}.{_DIGEST(key.encode()).hexdigest()[:16]}.loop"
        versions = numba.__version__, llvmlite.__version__, sys.version, _sources()
        return os.path.join(self.cache_path, name), repr((key, versions)).encode()


@cache
def _sources() -> str:
    """A digest of this folder's files: loops are compiled from several, and one line may change them all."""
    digest = _DIGEST()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _write(path: str, content: bytes) -> None:
    """A whole file at once: another process reads the old one or the new one."""
    new = f"{path}.{os.urandom(8).hex()}"
    try:
        with open(new, "xb") as file:
            file.write(content)
        os.replace(new, path)
    finally:
        with suppress(OSError):
            os.unlink(new)


def keep_on_disk(dispatcher: Any) -> None:
    """Let what Numba compiles of a function be kept on disk, where some folder can be written."""
    with suppress(Exception):  # no such folder, or a Numba that works in another way
        dispatcher._cache = LoopCache(dispatcher.py_func)
