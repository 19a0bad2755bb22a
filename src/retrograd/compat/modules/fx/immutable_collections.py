"""Lists and dicts that nodes hold as arguments. They cannot be changed in place: a node counts its users."""

from __future__ import annotations

from typing import Any, NoReturn, TypeAlias

from ....func import nests

Value: TypeAlias = Any  # an argument or a result of a function of PyTorch


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to modify the kwargs or args "
        "of a torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n    node.args = new_args"
    )


class immutable_list(list[Value]):
    """A list that refuses changes in place."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse  # type: ignore[assignment]
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Value, ...]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Value, Value]):
    """A dict that refuses changes in place."""

    __delitem__ = __setitem__ = __ior__ = _refuse  # type: ignore[assignment]
    clear = pop = popitem = setdefault = update = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Value, ...]:
        return immutable_dict, (tuple(self.items()),)


nests.register(immutable_list, lambda x: (list(x), None), lambda _, children: immutable_list(children))
nests.register(
    immutable_dict,
    lambda x: (list(x.values()), tuple(x)),
    lambda keys, children: immutable_dict(zip(keys, children, strict=True)),
)
