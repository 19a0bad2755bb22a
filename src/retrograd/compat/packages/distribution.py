"""The distribution ``torch`` as ``importlib.metadata`` and pip see it: its version and its files.

``retrograd torch install`` writes the files into an environment. Under ``retrograd run`` they exist in memory only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder, PackageNotFoundError
from pathlib import Path
from typing import Final

from ..modules.toplevel import __version__

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
