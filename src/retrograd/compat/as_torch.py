"""``retrograd run``: a PyTorch program runs with ``torch`` being Retrograd, without a line changed."""

from __future__ import annotations

import functools
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from pathlib import Path
from types import ModuleType
from typing import Any

import retrograd

from .. import serialization
from ..core.tensor import tensor as _tensor
from ..distributed.launcher import launched, local_rank, local_size
from .logs import set_logs
from .version import __version__

_NAMES = ("torch", "functorch")


class Torch(ModuleType):
    """The module ``torch``: Retrograd's names, with PyTorch's version."""

    is_retrograd = True

    def __getattr__(self, name: str) -> Any:
        value = getattr(retrograd, name)
        if not name.startswith("__"):
            setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(retrograd), *vars(self)})


class _Loader:
    """Gives ``torch.nn`` and its kind the modules that Retrograd has under those names."""

    _own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name == "torch":
            module: ModuleType = Torch("torch", retrograd.__doc__)
            names = {name: value for name, value in vars(retrograd).items() if not name.startswith("_")}
            vars(module).update(names, __version__=__version__, __path__=[])
            return module
        old = spec.name.partition(".")[0] == "functorch"
        room = spec.name.removesuffix(".experimental")  # functorch.experimental has the names of functorch
        path = f"retrograd.compat.{room}" if old else "retrograd" + spec.name.removeprefix("torch")
        try:
            found = import_module(path)
            self._own = found.__spec__  # which the import system replaces by that of the other name
            _keep_functions(found, spec.name)
            return found
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith("retrograd"):
                raise
            message = f"No module named {spec.name!r} in Retrograd, which runs this program in PyTorch's place"
            raise ModuleNotFoundError(message, name=spec.name) from None

    def exec_module(self, module: ModuleType) -> None:
        if self._own is not None:
            module.__spec__ = self._own


def _keep_functions(package: ModuleType, name: str) -> None:
    """Enter the submodules that are named as a function of their package, such as ``autograd.gradcheck``.

    The import system would put them in the function's place when the program imports them by ``torch``'s name.
    """
    for attribute, value in list(vars(package).items()):
        submodule = sys.modules.get(f"{package.__name__}.{attribute}")
        if submodule is not None and submodule is not value:
            sys.modules[f"{name}.{attribute}"] = submodule


class _Finder:
    """The entry of ``sys.meta_path`` for ``torch``; first in it, for PyTorch may be installed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _NAMES:
            return None
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]


class _Waiting:
    """An entry of ``sys.meta_path`` that installs what is here when ``torch`` is first asked for."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _NAMES:
            return None
        install()
        return _Finder().find_spec(name)


@contextmanager
def installed_when_imported() -> Iterator[None]:
    """Inside, ``import torch`` installs Retrograd in its place; programs without it are as they are."""
    waiting = _Waiting()
    sys.meta_path.insert(0, waiting)
    try:
        yield
    finally:
        sys.meta_path.remove(waiting)


def install() -> None:
    """Let ``import torch`` mean Retrograd in this process, with PyTorch's meanings where the two differ.

    ``Tensor(array)`` takes the default dtype, ``Size`` is printed, and ``save`` takes whole modules as there.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] in _NAMES]:
        del sys.modules[name]
    if not any(isinstance(entry, _Finder) for entry in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _tensor.arrays_keep_dtype = False
    serialization.saves_objects = True
    _tell_children()
    _tensor.Size.__repr__ = _size_repr  # type: ignore[assignment]
    if "recompiles" in os.environ.get("TORCH_LOGS", ""):
        set_logs(recompiles=True)


class _ForChild:
    """A value that installs Retrograd for ``torch`` in the process that reads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return install, ()


def _tell_children() -> None:
    """Let processes started by spawn know ``torch`` as this one does, before they import the program."""
    prepare = spawn.get_preparation_data
    if getattr(prepare, "is_retrograd", False):
        return

    @functools.wraps(prepare)
    def get_preparation_data(name: str) -> dict[str, Any]:
        return {"torch": _ForChild(), **prepare(name)}

    get_preparation_data.is_retrograd = True  # type: ignore[attr-defined]
    spawn.get_preparation_data = get_preparation_data


def _size_repr(size: tuple[int, ...]) -> str:
    return f"torch.Size({list(size)})"


def run(script: str, args: Sequence[str] = ()) -> int:
    """Run a script as ``python script`` would, with Retrograd for ``torch``; see ``run_program``."""
    install()
    _tell_rank()
    return run_program(script, args)


def _tell_rank() -> None:
    """Put where torchrun puts it what mpiexec says of this process."""
    rank, size = launched()
    if size == 1:
        return
    told = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank() or 0, "LOCAL_WORLD_SIZE": local_size()}
    for name, number in {**told, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}.items():
        os.environ.setdefault(name, str(number))


def run_program(script: str, args: Sequence[str] = ()) -> int:
    """Run a script as ``python script`` would.

    Args:
        script: the file.
        args: what it finds in ``sys.argv``.

    Returns:
        The exit code: 0, or 1 after an error, whose traceback is printed.

    Raises:
        SystemExit: the script's own.
    """
    argv, path = sys.argv, sys.path[:]
    sys.argv = [script, *args]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
        return 0
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        hub = sys.modules.get("retrograd.distributed.guard")
        if hub is not None:
            hub.guard.tell(error, functools.partial(_show, error, script))
        _show(error, script)
        return 1
    finally:
        sys.argv, sys.path[:] = argv, path


def _show(error: BaseException, script: str) -> None:
    """The traceback from the script's own first line on."""
    frames = error.__traceback__
    own = os.path.realpath(script)
    while frames is not None and os.path.realpath(frames.tb_frame.f_code.co_filename) != own:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)


def main() -> int:
    """``python -m retrograd.as_torch script.py [args]``."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m retrograd.as_torch script.py [args]", file=sys.stderr)
        return 0 if sys.argv[1:] else 2
    if not os.path.isfile(sys.argv[1]):
        print(f"retrograd: error: {sys.argv[1]}: No such file", file=sys.stderr)
        return 2
    return run(sys.argv[1], sys.argv[2:])
