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

    def __reduce__(self) -> tuple[Value, ...]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Value, Value]):
    """A dict that refuses changes in place."""

    def __reduce__(self) -> tuple[Value, ...]:
        return immutable_dict, (tuple(self.items()),)


_IN_PLACE = {
    immutable_list: "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort",
    immutable_dict: "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update",
}
for _kind, _names in _IN_PLACE.items():
    for _name in _names.split():
        setattr(_kind, _name, _refuse)
for _kind, _hash in (
    (immutable_list, lambda x: hash(tuple(x))),
    (immutable_dict, lambda x: hash(frozenset(x.items()))),
):
    _kind.__hash__ = _hash  # type: ignore[assignment]

nests.register(immutable_list, lambda x: (list(x), None), lambda _, children: immutable_list(children))
nests.register(
    immutable_dict,
    lambda x: (list(x.values()), tuple(x)),
    lambda keys, children: immutable_dict(zip(keys, children, strict=True)),
)
