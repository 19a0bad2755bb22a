"""`retrograd torch`: let pip, subprocesses and notebooks find Retrograd under the name torch."""

import argparse
import os
import sys

from ..console import UserError
from ..parser import Subparsers


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "torch",
        help="install Retrograd under the name torch, or remove it",
        description="Put a small distribution named torch into the active environment: `import torch` then imports "
        "Retrograd, and pip sees torch as installed. It is refused where PyTorch is installed.",
        examples="  retrograd torch install\n  retrograd torch remove\n",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    install = actions.add_parser(
        "install",
        help="write the distribution torch into the active environment",
        examples="  retrograd torch install\n  retrograd torch install --user\n",
    )
    install.add_argument("--user", action="store_true", help="write into the user's site-packages")
    install.add_argument(
        "--break-system-packages", action="store_true", help="write into a Python that the operating system manages"
    )
    install.set_defaults(run=run_install)
    remove = actions.add_parser(
        "remove",
        help="delete the distribution torch from the active environment",
        examples="  retrograd torch remove\n",
    )
    remove.add_argument("--user", action="store_true", help="delete from the user's site-packages only")
    remove.set_defaults(run=run_remove)


def run_install(options: argparse.Namespace) -> int:
    """Write the distribution and print where it is."""
    from retrograd.compat.distribution import InstallationError, install
    from retrograd.compat.modules.toplevel import __version__

    _warn_of_another_environment()
    try:
        folder = install(options.user, options.break_system_packages)
    except InstallationError as error:
        raise UserError(f"torch install: {error}") from None
    print(f"torch {__version__} is installed in {folder}: `import torch` imports Retrograd")
    print("pip replaces it for a package that requires a newer torch: install torchvision as 'torchvision==0.28.*'")
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Delete the distribution and print where it was."""
    from retrograd.compat.distribution import InstallationError, remove

    _warn_of_another_environment()
    try:
        folders = remove(options.user)
    except InstallationError as error:
        raise UserError(f"torch remove: {error}") from None
    for folder in folders:
        print(f"torch is removed from {folder}")
    if not folders:
        print(f"Retrograd's torch is not installed in {sys.prefix}; nothing was removed")
    return 0


def _warn_of_another_environment() -> None:
    """Warn if the shell's active environment is not that of this interpreter, as with pipx."""
    active = os.environ.get("VIRTUAL_ENV")
    if active and os.path.realpath(active) != os.path.realpath(sys.prefix):
        message = f"retrograd: warning: {active} is active, but this retrograd belongs to {sys.prefix}"
        print(f"{message}; run `python -m retrograd torch` there", file=sys.stderr)
