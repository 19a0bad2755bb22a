"""The distribution ``torch`` as ``importlib.metadata`` and pip see it: its version and its files.

``retrograd torch install`` writes the files into an environment. Under ``retrograd run`` they exist in memory only.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder, PackageNotFoundError
from pathlib import Path
from typing import Final

from .modules.toplevel import __version__

NAME: Final = "torch"
MODULES: Final = ("torch", "functorch")
MARK: Final = "+retrograd"
"""The local label of the version, which distinguishes the distribution from PyTorch's."""

_METADATA = """\
Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: Retrograd under the name torch. This is not PyTorch.
Author: The Retrograd developers
License: MIT
Requires-Python: >=3.11
{requires}
`retrograd torch install` wrote this distribution: `import torch` imports Retrograd, with the names of the version of
PyTorch above. `retrograd torch remove` or `pip uninstall torch` removes it.
"""
_WHEEL = "Wheel-Version: 1.0\nGenerator: retrograd\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_MODULE = '''\
"""Retrograd under the name {module}, written by `retrograd torch install`. This is not PyTorch."""

try:
    from retrograd.compat.as_torch import take_the_place_of
except ModuleNotFoundError as error:
    if error.name != "retrograd":
        raise
    raise ImportError(
        "{module} is Retrograd's in this environment, but retrograd is not installed: run `pip install retrograd`, "
        "or `pip uninstall torch` before installing PyTorch"
    ) from None

take_the_place_of(__name__)
'''


def metadata_files() -> dict[str, str]:
    """Return the files of the folder ``torch-VERSION.dist-info``, except for RECORD, by name."""
    try:
        Distribution.from_name("retrograd")
        requires = "Requires-Dist: retrograd\n"
    except PackageNotFoundError:  # on the path without being installed: pip check would miss it
        requires = ""
    return {
        "METADATA": _METADATA.format(name=NAME, version=__version__, requires=requires),
        "WHEEL": _WHEEL,
        "INSTALLER": "retrograd\n",
        "top_level.txt": "".join(f"{module}\n" for module in MODULES),
    }


def module_files() -> dict[str, str]:
    """Return the files of the modules, by path."""
    return {f"{module}/__init__.py": _MODULE.format(module=module) for module in MODULES}


def is_ours(distribution: Distribution) -> bool:
    """Return whether a distribution named torch is Retrograd's."""
    return distribution.version.endswith(MARK)


class InMemory(Distribution):
    """The distribution ``torch`` of a process that Retrograd runs in PyTorch's place without an installation."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the metadata, or None."""
        return metadata_files().get(filename)

    def locate_file(self, path: object) -> Path:
        """Return the path of a file in Retrograd's package: the distribution has no files of its own."""
        return Path(__file__).resolve().parents[2] / str(path)


def find_distributions(context: DistributionFinder.Context) -> Iterator[Distribution]:
    """Find ``torch`` for ``importlib.metadata``, unless Retrograd's is installed or the caller names folders."""
    if context.name is not None and re.sub(r"[-_.]+", "-", context.name).lower() != NAME or "path" in vars(context):
        return
    if not any(map(is_ours, MetadataPathFinder.find_distributions(DistributionFinder.Context(name=NAME)))):
        yield InMemory()


# Installation


class InstallationError(Exception):
    """The requested change of the environment is impossible; the message gives the reason and a remedy."""


def install(user: bool = False, break_system_packages: bool = False) -> Path:
    """Write the distribution ``torch`` into the environment of this interpreter.

    An older installation of Retrograd's is replaced.

    Args:
        user: whether to write into the user's site-packages instead of the environment's.
        break_system_packages: whether to write into an environment that the operating system manages.

    Returns:
        The folder: the environment's site-packages.

    Raises:
        InstallationError: PyTorch is installed, the folder cannot be written, or the system manages it.
    """
    folder = _user_folder() if user else Path(sysconfig.get_path("purelib"))
    _check_that_pytorch_is_absent(folder)
    if sys.prefix == sys.base_prefix and not break_system_packages:
        _check_that_pip_may_write()
    _delete_from(folder)
    info = f"{NAME}-{__version__}.dist-info"
    files = {**module_files(), **{f"{info}/{name}": text for name, text in metadata_files().items()}}
    record = "".join(f"{path},{_digest(text)},{len(text.encode())}\n" for path, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        _delete_from(folder)
        raise _not_writable(folder, error) from None
    return folder


def remove(user: bool = False) -> list[Path]:
    """Delete Retrograd's distribution ``torch`` from the environment of this interpreter.

    Args:
        user: whether to delete it from the user's site-packages only.

    Returns:
        The folders that had it; an empty list if there was none.

    Raises:
        InstallationError: PyTorch itself is installed, or the folder cannot be written.
    """
    only = _user_folder() if user else None
    found = list(dict.fromkeys(_folder(own) for own in _installed() if is_ours(own)))
    folders = [folder for folder in found if only is None or folder == only.resolve()]
    pytorch = [own for own in _installed() if not is_ours(own)]
    if pytorch and not folders:
        raise InstallationError(
            f"torch {pytorch[0].version} in {_folder(pytorch[0])} is PyTorch; nothing was removed. "
            "Remove PyTorch by `pip uninstall torch`"
        )
    for folder in folders:
        _delete_from(folder)
    return folders


def _installed(path: list[str] | None = None) -> Iterator[Distribution]:
    """Return the distributions named torch of this interpreter, or in the given folders."""
    context = (
        DistributionFinder.Context(name=NAME) if path is None else DistributionFinder.Context(name=NAME, path=path)
    )
    return iter(MetadataPathFinder.find_distributions(context))


def _folder(distribution: Distribution) -> Path:
    return Path(str(distribution.locate_file(""))).resolve()


def _check_that_pytorch_is_absent(folder: Path) -> None:
    for found in (*_installed(), *_installed([str(folder)])):
        if not is_ours(found):
            raise InstallationError(
                f"PyTorch {found.version} is installed in {_folder(found)}; run programs by `retrograd run`, "
                "install into another environment, or run `pip uninstall torch` first"
            )
    for name in MODULES:
        module = folder / name / "__init__.py"
        if module.exists() and "retrograd" not in module.read_text(encoding="utf-8", errors="replace"):
            raise InstallationError(f"{folder / name} exists and is not Retrograd's; move or delete this folder first")


def _check_that_pip_may_write() -> None:
    """Raise an error for an environment that is marked as managed by the operating system (PEP 668)."""
    if (Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED").exists():
        raise InstallationError(
            f"the operating system manages the Python in {sys.prefix}; activate a virtual environment, or add "
            "--break-system-packages as for pip"
        )


def _user_folder() -> Path:
    if not site.ENABLE_USER_SITE:
        raise InstallationError(
            f"--user: the Python in {sys.prefix} does not look into the user's site-packages; leave --user out"
        )
    return Path(site.getusersitepackages())


def _delete_from(folder: Path) -> None:
    """Delete Retrograd's distribution from a folder, even after an interrupted installation."""
    own = [folder / name for name in MODULES if (folder / name / "__init__.py").exists()]
    try:
        for path in (*own, *folder.glob(f"{NAME}-*{MARK}.dist-info")):
            shutil.rmtree(path)
    except OSError as error:
        raise _not_writable(folder, error) from None


def _not_writable(folder: Path, error: OSError) -> InstallationError:
    reason = error.strerror or str(error)
    hint = "activate a virtual environment" if os.access(folder, os.W_OK) or not site.ENABLE_USER_SITE else "add --user"
    return InstallationError(f"cannot write to {folder} ({reason}); {hint}")


def _digest(text: str) -> str:
    value = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"sha256={value}"
