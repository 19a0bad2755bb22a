"""``utils._pytree``: functions over nests of lists, tuples and dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def tree_map(func: Callable[[Any], Any], tree: Any) -> Any:
    """The nest with every leaf replaced by the function's value."""
    if isinstance(tree, dict):
        return type(tree)((key, tree_map(func, value)) for key, value in tree.items())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[tree_map(func, value) for value in tree])
    if isinstance(tree, (list, tuple)):
        return type(tree)(tree_map(func, value) for value in tree)
    return func(tree)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a nest, in order."""
    leaves: list[Any] = []
    tree_map(leaves.append, tree)
    return leaves


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a nest, and what ``tree_unflatten`` needs to make it again."""
    return tree_leaves(tree), tree


def tree_unflatten(leaves: Any, treespec: Any) -> Any:
    """A nest like the one given to ``tree_flatten``, with other leaves."""
    remaining = iter(leaves)
    return tree_map(lambda leaf: next(remaining), treespec)
