"""The command `retrograd`: check gradients, train on real data, show what is installed.

``parser`` and ``arguments`` read the command line, ``application`` calls the module of ``commands``, ``console``
prints. Only ``python -m retrograd`` and the installed script import this package.
"""

from .application import main as main
