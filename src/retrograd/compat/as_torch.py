"""``retrograd run``: run a PyTorch program, unchanged, with Retrograd as the module ``torch``."""

from __future__ import annotations

import functools
import os
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from multiprocessing import spawn
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import retrograd
import retrograd.serialization as serialization

from ..core.arrays.public_dtypes import dtype
from ..core.errors import GuardError
from ..core.missing_names import legacy_names
from ..core.tensor import tensor as _tensor
from ..distributed.launcher import launched, local_rank, local_size
from .absent import sentence
from .legacy_names import missing, name_as_torch
from .modules.toplevel import __version__

if TYPE_CHECKING:  # importing it takes 20 ms
    from importlib.metadata import Distribution, DistributionFinder

_NAMES = ("torch", "functorch")
_PACKAGE = os.path.dirname(retrograd.__file__) + os.sep
# Packages with which pip also installs PyTorch, and the requirements to pass to pip.
_REQUIRING_TORCH = {"torchvision": "torchvision==0.28.*", "pytorch_lightning": "pytorch-lightning"} | {
    name: name for name in ("accelerate", "gpytorch", "kornia", "lightning", "peft", "timm", "torchmetrics")
}


class Torch(ModuleType):
    """The module ``torch``: Retrograd's names, and the version of PyTorch that they follow."""

    is_retrograd = True

    def __getattr__(self, name: str) -> Any:
        value = getattr(retrograd, name)
        if not name.startswith("__"):
            setattr(self, name, value)
            if isinstance(value, ModuleType):
                name_as_torch()
        return value

    def __dir__(self) -> list[str]:
        return sorted({*dir(retrograd), *vars(self)})


class _Loader:
    """Loads ``torch`` and its submodules, which are those of Retrograd."""

    _own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name == "torch":
            module: ModuleType = Torch("torch", retrograd.__doc__)
            names = {name: value for name, value in vars(retrograd).items() if not name.startswith("_")}
            vars(module).update(names, torch=module, __version__=__version__, __path__=[])
            return module
        old = spec.name.partition(".")[0] == "functorch"
        room = spec.name.removesuffix(".experimental")  # functorch.experimental has the names of functorch
        path = f"retrograd.compat.modules.{room}" if old else "retrograd" + spec.name.removeprefix("torch")
        try:
            found = import_module(path)
            name_as_torch()
            self._own = found.__spec__  # the import system replaces it by the spec of torch's name
            # ``__getattr__`` handles missing names; ``__path__`` allows submodules, which PyTorch may have.
            found.__dict__.setdefault("__getattr__", legacy_names(path))
            found.__dict__.setdefault("__path__", [])
            _keep_functions(found, spec.name)
            return found
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] not in ("retrograd", "torch"):
                raise
            raise _no_module(spec.name) from None

    def exec_module(self, module: ModuleType) -> None:
        if self._own is not None:
            module.__spec__ = self._own


def _no_module(name: str) -> ImportError:
    parent, _, attribute = name.rpartition(".")
    if parent == "torch" and _is_named_by_from():  # Python would replace a ModuleNotFoundError by its own message
        return ImportError(f"cannot import name {attribute!r}: {missing('retrograd', attribute)}", name=parent)
    message = f"No module named {name!r}: {sentence(name)}"
    return ModuleNotFoundError(message, name=name)


def _is_named_by_from() -> bool:
    """Return whether the import system looks for a submodule because of ``from torch import name``."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__ or frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code.co_name == "_handle_fromlist":
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


class _MissingNames:
    """The last entry of ``sys.meta_path``: reports ``from torch.nn import name`` under the name of PyTorch.

    Python's own message would name the module of Retrograd.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        parent, _, attribute = name.rpartition(".")
        place = f"torch{parent.removeprefix('retrograd')}"
        if parent.startswith("retrograd") and place in sys.modules:
            raise ModuleNotFoundError(missing(parent, attribute), name=f"{place}.{attribute}")


def _keep_functions(package: ModuleType, name: str) -> None:
    """Add the submodules that have the name of a function of their package, such as ``autograd.gradcheck``.

    Otherwise an import by ``torch``'s name would replace the function by the submodule.
    """
    for attribute, value in list(vars(package).items()):
        submodule = sys.modules.get(f"{package.__name__}.{attribute}")
        if submodule is not None and submodule is not value:
            submodule.__dict__.setdefault("__getattr__", legacy_names(submodule.__name__))
            sys.modules[f"{name}.{attribute}"] = submodule


class _Finder:
    """The entry of ``sys.meta_path`` for ``torch``. It is the first, because PyTorch may be installed."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _NAMES:
            return None
        return ModuleSpec(name, _Loader(), is_package=True)  # type: ignore[arg-type]

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Return the distribution ``torch`` for ``importlib.metadata``."""
        from .distribution import find_distributions

        return find_distributions(context)


class _InstallAtImport:
    """An entry of ``sys.meta_path`` that calls ``install`` at the first import of ``torch``."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] not in _NAMES:
            return None
        install()
        return _Finder().find_spec(name)


@contextmanager
def installed_when_imported() -> Iterator[None]:
    """Install Retrograd as ``torch`` if the program imports it inside the ``with`` statement."""
    finder = _InstallAtImport()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def install() -> None:
    """Make ``import torch`` import Retrograd in this process, with PyTorch's semantics where the two differ.

    As in PyTorch, ``Tensor(array)`` has the default dtype, ``Size`` and dtypes have PyTorch's repr, and ``save``
    accepts whole modules.
    """
    for name in [name for name in sys.modules if name.partition(".")[0] in _NAMES]:
        del sys.modules[name]
    if not any(isinstance(entry, _Finder) for entry in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        sys.meta_path.append(_MissingNames())
    _tensor.arrays_keep_dtype = False
    serialization.saves_objects = True
    _install_in_children()
    name_as_torch()
    dtype.package = "torch"
    _tensor.Size.__repr__ = _size_repr  # type: ignore[assignment]
    if "recompiles" in os.environ.get("TORCH_LOGS", ""):
        from .modules.internals.private import set_logs

        set_logs(recompiles=True)


def take_the_place_of(name: str) -> None:
    """Replace the module that is being imported: the file of ``torch`` that ``retrograd torch install`` writes."""
    install()
    sys.modules.pop(name, None)
    import_module(name)


class _ForChild:
    """An object that installs Retrograd as ``torch`` in the process that unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return install, ()


def _install_in_children() -> None:
    """Install Retrograd as ``torch`` in processes started by spawn, before they import the program."""
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
    """Run a script as ``python script`` does, with Retrograd as ``torch``; see ``run_program``."""
    install()
    _set_rank()
    return run_program(script, args)


def _set_rank() -> None:
    rank, size = launched()
    if size == 1:
        return
    ranks = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": local_rank() or 0, "LOCAL_WORLD_SIZE": local_size()}
    for name, number in {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}.items():
        os.environ.setdefault(name, str(number))


def run_program(script: str, args: Sequence[str] = (), failed: Callable[[BaseException], object] | None = None) -> int:
    """Run a script as ``python script`` does.

    Args:
        script: the path of the file.
        args: the rest of ``sys.argv``.
        failed: called with the error that ends the script, after its traceback is printed.

    Returns:
        The exit code: 0, or 1 after an error, whose traceback is printed.

    Raises:
        SystemExit: the script raised it.
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
            hub.guard.tell(error, functools.partial(_print_error, error, script))
        _print_error(error, script)
        if failed is not None:
            failed(error)
        return 1
    finally:
        sys.argv, sys.path[:] = argv, path


def _print_error(error: BaseException, script: str) -> None:
    """Print the traceback, from the script's own frame on, without the frames of a guard that stopped it."""
    frames = error.__traceback__
    own = os.path.realpath(script)
    while frames is not None and os.path.realpath(frames.tb_frame.f_code.co_filename) != own:
        frames = frames.tb_next
    text = traceback.TracebackException(type(error), error, frames or error.__traceback__)
    if isinstance(error, GuardError):
        while len(text.stack) > 1 and text.stack[-1].filename.startswith(_PACKAGE):
            text.stack.pop()
    print("".join(text.format()), end="", file=sys.stderr)
    if isinstance(error, ModuleNotFoundError) and error.name in _REQUIRING_TORCH:
        print(
            f"retrograd: {error.name} requires torch: run `retrograd torch install`, so that pip does not download "
            f"PyTorch, and then `pip install '{_REQUIRING_TORCH[error.name]}'`",
            file=sys.stderr,
        )


def main() -> int:
    """Run ``python -m retrograd.as_torch script.py [args]``."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m retrograd.as_torch script.py [args]", file=sys.stderr)
        return 0 if sys.argv[1:] else 2
    if not os.path.isfile(sys.argv[1]):
        print(f"retrograd: error: {sys.argv[1]}: No such file", file=sys.stderr)
        return 2
    return run(sys.argv[1], sys.argv[2:])
