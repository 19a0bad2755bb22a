"""The results of each epoch."""

from __future__ import annotations

from typing import Any


class History(list[dict[str, Any]]):
    """A list of dictionaries, one per epoch, which can also be indexed by rows and names, as skorch's.

    >>> from retrograd.sklearn import History
    >>> history = History([{"epoch": 1, "train_loss": 0.9}, {"epoch": 2, "train_loss": 0.5}])
    >>> history[:, "train_loss"], history[-1, ("epoch", "train_loss")]
    ([0.9, 0.5], (2, 0.5))
    """

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return super().__getitem__(key)
        if len(key) != 2:
            raise KeyError(f"history takes at most two keys, history[epochs, names], got {len(key)}")
        rows, names = super().__getitem__(key[0]), key[1]
        single = isinstance(rows, dict)
        for row in [rows] if single else rows:
            for name in names if isinstance(names, (tuple, list)) else (names,):
                if name not in row:
                    raise KeyError(f"the name must be one of {', '.join(row)}, got {name!r}")
        found = [
            tuple(row[name] for name in names) if isinstance(names, (tuple, list)) else row[names]
            for row in ([rows] if single else rows)
        ]
        return found[0] if single else found
