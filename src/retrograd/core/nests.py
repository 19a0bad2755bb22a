"""What is inside arguments and results: values in lists, tuples, dictionaries, slices, and the keys of indices.

``func/nests.py`` has the nests of Tensors that users register and differentiate; these functions serve any call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def replaced(nest: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to all leaves; return the same object if nothing changes.

    >>> replaced({"a": (1, [2, 3])}, lambda x: 10 * x)
    {'a': (10, [20, 30])}
    >>> same = [slice(1, 2)]
    >>> replaced(same, lambda x: x) is same
    True
    """
    kind = type(nest)
    if kind is tuple or kind is list or isinstance(nest, (tuple, list)):
        items = [replaced(item, change) for item in nest]
        if all(new is old for new, old in zip(items, nest, strict=True)):
            return nest
        if kind in (tuple, list):
            return kind(items)
        return kind(*items) if hasattr(nest, "_fields") else tuple(items)
    if kind is dict:
        entries = {name: replaced(item, change) for name, item in nest.items()}
        return nest if all(entries[name] is nest[name] for name in nest) else entries
    if kind is slice:
        parts = nest.start, nest.stop, nest.step
        changed = replaced(parts, change)
        return nest if changed is parts else slice(*changed)
    if hasattr(kind, "with_key"):
        key = replaced(nest.key, change)
        return nest if key is nest.key else nest.with_key(key)
    return change(nest)


def leaves(nest: Any) -> Iterator[Any]:
    """Yield all leaves, in order. The keys of dictionaries are none.

    A Tensor or an array is one leaf.

    >>> list(leaves(((1, [2]), {"a": slice(3, None)})))
    [1, 2, 3, None, None]
    """
    kind = type(nest)
    if kind is tuple or kind is list or isinstance(nest, (tuple, list)):
        for item in nest:
            yield from leaves(item)
    elif kind is dict:
        for item in nest.values():
            yield from leaves(item)
    elif kind is slice:
        yield from (nest.start, nest.stop, nest.step)
    elif hasattr(kind, "with_key"):
        yield from leaves(nest.key)
    else:
        yield nest
