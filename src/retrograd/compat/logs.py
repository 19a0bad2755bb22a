"""``_logging``: what PyTorch's compiler says while it works."""

from __future__ import annotations

import logging
from typing import Any

_FORMAT = "%(levelname)s %(name)s: %(message)s"


def set_logs(*, recompiles: bool = False, recompiles_verbose: bool = False, **others: Any) -> None:
    """Say on the standard error why compiled functions are traced again, as ``TORCH_LOGS=recompiles`` does.

    It is the logger ``retrograd.compiler``. PyTorch's other logs are taken and stay silent: ``explain()`` of a compiled
    function shows what became of it.

    Args:
        recompiles: whether to say it.
        recompiles_verbose: the same.
        others: names of other logs.

    >>> rg._logging.set_logs(recompiles=False)
    """
    logger = logging.getLogger("retrograd.compiler")
    wanted = recompiles or recompiles_verbose
    logger.setLevel(logging.INFO if wanted else logging.NOTSET)
    if wanted and not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(_FORMAT))
        logger.addHandler(handler)


__all__ = ["set_logs"]
