"""An interpreter of pickles that creates plain values, and other objects only if a table of names allows it.

Python's unpickler calls every function that a file names, sets attributes of any object, and trusts the sizes in the
file. This interpreter reads untrusted files:

* Names are looked up in a table. A file can call a name only if the table has a ``make`` for it, which checks the
  arguments.
* Only objects that the file created get a state, once, by the ``build`` of the name that created them.
* Sizes are compared with the number of bytes present. Copies are charged to a budget proportional to the file's length,
  so that a small file cannot exhaust the memory.
* Keys of dictionaries are numbers, texts, and small tuples of them, so that hashing is fast.
* No opcode recurses.

Every error in a file raises CorruptFileError. Intermediate values (storages, functions that build tensors) are
``Opaque`` and cannot become part of the result.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from ...core.arrays.devices import Device
from ...core.arrays.layout import Size
from ...core.tensor.tensor import Tensor
from ...safetensors_format import CorruptFileError

Value = TypeVar("Value")
Mapped = TypeVar("Mapped", bound=dict[Any, Any])


class Opaque:
    """An intermediate value that cannot become part of the result."""


class Pending(Opaque):
    """A placeholder for an object that ``build`` creates when its state has been read."""

    def __init__(self) -> None:
        self.places: list[int] = []  # positions in the memo

    def build(self, state: object) -> object:
        """Return the object."""
        raise NotImplementedError


class _OpaqueTuple(tuple[object, ...]):
    """A tuple that contains an Opaque."""


class Name(NamedTuple):
    """An entry of the table of names.

    Attributes:
        value: the value of the name if the file does not call it.
        make: the function that a call in the file runs; None if calls are not allowed.
        new: the function that creates an object without ``__init__``; None if that is not allowed.
        build: called with a created object and its state.
        listed: whether the program trusts the name, so that objects' own ``append`` and ``__setitem__`` may be called.
    """

    value: object
    make: Callable[..., object] | None = None
    new: Callable[..., object] | None = None
    build: Callable[[Any, Any], None] | None = None
    listed: bool = False


class _Mark:
    pass


_MARK = _Mark()
_MOST_IN_A_KEY = 1000
_MOST_LONG_KEYS = 4000  # maximum number of integer keys beyond 60 bits, whose hashes can be chosen to be equal
# The maximum number of nested defaultdicts: Python frees them recursively, and the stack may overflow.
_MOST_DEFAULTS = 2000
_PLAIN_KEYS = (str, int, float, bool, bytes, complex, type(None), Tensor, Device, np.dtype)


class SealedUnpickler:
    """Read one pickle from a stream's present position. The stream is then at the end of the pickle.

    Args:
        stream: the file's bytes; it supports seek.
        find: returns the entry of a name of a module; raises CorruptFileError for a name that is not allowed.
        persistent: returns the object of a persistent id.
    """

    def __init__(
        self, stream: IO[bytes], find: Callable[[str, str], Name], persistent: Callable[[object], object] | None = None
    ) -> None:
        self._stream = stream
        begin = stream.tell()
        self._end = stream.seek(0, 2)
        stream.seek(begin)
        self._budget = 2 * (self._end - begin) + 100_000
        self._long_keys = self._nested_defaults = 0
        self._find = find
        self._persistent = persistent
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        # Keyed by identity; an entry keeps its object alive.
        self._names: dict[int, Name] = {}
        self._call_results: dict[int, tuple[object, Name]] = {}

    def load(self) -> Any:
        """Return the value.

        Raises:
            CorruptFileError: the pickle is damaged, or uses a name that is not allowed.
        """
        read, find = self._stream.read, _OPCODES.get
        while (opcode := read(1)) != b".":
            method = find(opcode)
            if method is None:
                raise CorruptFileError(f"unsupported opcode {opcode!r}" if opcode else "truncated")
            method(self)
        value = self._pop()
        if self._stack:
            raise CorruptFileError("damaged: values are left over")
        return self._storable(value)

    def charge(self, amount: int) -> None:
        """Charge copied bytes or elements to the budget, which limits how often a file can copy its content."""
        self._budget -= amount
        if self._budget < 0:
            raise CorruptFileError("the file copies its own content more often than any saved file does")

    # Parts of opcodes

    def _read(self, count: int) -> bytes:
        # Do not read more than the file has: the stream might allocate memory for it.
        data = self._stream.read(count) if count <= 255 or count <= self._left() else b""
        if len(data) != count:
            raise CorruptFileError("truncated")
        return data

    def _left(self) -> int:
        return self._end - self._stream.tell()

    def _number(self, form: str) -> int:
        return struct.unpack(form, self._read(struct.calcsize(form)))[0]

    def _line(self) -> bytes:
        line = self._stream.readline()
        if not line.endswith(b"\n"):
            raise CorruptFileError("truncated")
        return line[:-1]

    def _decimal(self, text: bytes) -> int:
        if len(text) > 4000:
            raise CorruptFileError("damaged: a number with thousands of digits")
        return int(text)

    def _pop(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise CorruptFileError("damaged: a value is missing")
        return self._stack.pop()

    def _top(self) -> Any:
        if not self._stack or self._stack[-1] is _MARK:
            raise CorruptFileError("damaged: a value is missing")
        return self._stack[-1]

    def _pop_to_mark(self) -> list[Any]:
        place = len(self._stack) - 1
        while place >= 0 and self._stack[place] is not _MARK:
            place -= 1
        if place < 0:
            raise CorruptFileError("damaged: a mark is missing")
        items = self._stack[place + 1 :]
        del self._stack[place:]
        return items

    def _push(self, value: object) -> None:
        self._stack.append(value)

    def _storable(self, value: Value) -> Value:
        if isinstance(value, (Opaque, _OpaqueTuple)):
            raise CorruptFileError("damaged: it stores a part of a tensor, or a function, as a value")
        return value

    def _key(self, value: Value) -> Value:
        """Return a value after a check that its hash is fast, or that the program trusts its class."""
        pending: list[Any] = [value]
        count = 0
        while pending:
            part = pending.pop()
            count += 1
            if isinstance(part, int) and part.bit_length() > 60:
                self._long_keys += 1
                self.charge(part.bit_length() // 8)
            if type(part) in (tuple, Size, frozenset):
                pending += part
            elif not (isinstance(part, _PLAIN_KEYS) or id(part) in self._names or self._is_of_listed(part)):
                raise CorruptFileError(f"damaged: a {type(part).__name__} as a key, or in a set")
            if count > _MOST_IN_A_KEY or self._long_keys > _MOST_LONG_KEYS:
                raise CorruptFileError("the file has keys that take too long to compare")
        self.charge(count - 1)
        return value

    def _is_of_listed(self, value: object) -> bool:
        """Return whether the file created the object by a class or function that the program listed."""
        created = self._call_results.get(id(value))
        return created is not None and created[1].listed

    # Names, calls and states

    def _global(self, module: object, name: object) -> None:
        if not (isinstance(module, str) and isinstance(name, str) and len(module) + len(name) < 1000):
            raise CorruptFileError("damaged: an invalid name")
        found = self._find(module, name)
        self._names[id(found.value)] = found
        self._push(found.value)

    def _call(self, function: object, args: object, options: object = None, *, new: bool) -> None:
        name = self._names.get(id(function))
        make = None if name is None else name.new if new else name.make
        if name is None or make is None or not isinstance(args, tuple):
            raise CorruptFileError(f"the file calls {_describe(function)}, which a file may not call")
        if not isinstance(options, (dict, type(None))) or options and not name.listed:
            raise CorruptFileError(f"the file calls {_describe(function)} with keyword arguments")
        value = make(*args, **(options or {}))
        if name.build is not None or name.listed:
            self._call_results[id(value)] = value, name
        self._push(value)

    def _build(self) -> None:
        state = self._storable(self._pop())
        target = self._top()
        if isinstance(target, Pending):
            value = self._stack[-1] = target.build(state)
            for place in target.places:
                if self._memo.get(place) is target:
                    self._memo[place] = value
            return
        _, name = self._call_results.get(id(target), (None, None))
        if name is None or name.build is None:
            raise CorruptFileError(f"the file sets attributes of {_describe(target)}")
        if not name.listed:
            del self._call_results[id(target)]
        name.build(target, state)

    def _put(self, place: int) -> None:
        if place < 0:
            raise CorruptFileError("damaged: a negative position")
        value = self._memo[place] = self._top()
        if isinstance(value, Pending):
            value.places.append(place)

    def _get(self, place: int) -> None:
        try:
            self._push(self._memo[place])
        except KeyError:
            raise CorruptFileError("damaged: it refers to a missing value") from None

    # Containers

    def _append(self, items: list[object]) -> None:
        target = self._top()
        items = [self._storable(item) for item in items]
        if type(target) is list:
            target.extend(items)
        elif self._is_of_listed(target) and hasattr(target, "append"):
            for item in items:
                target.append(item)
        else:
            raise CorruptFileError(f"the file appends to {_describe(target)}")

    def _set_items(self, items: list[object]) -> None:
        target = self._top()
        if type(target) not in (dict, OrderedDict, defaultdict, Counter) and not (
            self._is_of_listed(target) and hasattr(target, "__setitem__")
        ):
            raise CorruptFileError(f"the file sets items of {_describe(target)}")
        if len(items) % 2:
            raise CorruptFileError("damaged: a key without a value")
        if type(target) is defaultdict:
            self._nested_defaults += sum(type(value) is defaultdict for value in items[1::2])
            if self._nested_defaults > _MOST_DEFAULTS:
                raise CorruptFileError("the file has thousands of nested defaultdicts")
        for key, value in zip(items[::2], items[1::2]):
            target[self._key(key)] = self._storable(value)

    def _add_items(self) -> None:
        items = self._pop_to_mark()
        target = self._top()
        if type(target) is not set:
            raise CorruptFileError(f"the file adds to {_describe(target)}")
        target.update([self._key(item) for item in items])

    def _tuple(self, items: Iterable[object]) -> None:
        value = tuple(items)
        for item in value:
            if isinstance(item, (Opaque, _OpaqueTuple)):
                value = _OpaqueTuple(value)
                break
        self._push(value)

    def _last(self, count: int) -> list[Any]:
        return [self._pop() for _ in range(count)][::-1]

    def set_of(
        self, kind: type[set[object]] | type[frozenset[object]], items: object = ()
    ) -> set[object] | frozenset[object]:
        """Return a set of the items of a list."""
        if not isinstance(items, (list, tuple, set, frozenset)):
            raise CorruptFileError(f"a set of {_describe(items)}")
        self.charge(len(items))
        return kind([self._key(item) for item in items])

    def sequence_of(
        self, kind: type[list[object]] | type[tuple[object, ...]], items: object = ()
    ) -> list[Any] | tuple[Any, ...]:
        """Return a list or tuple of the items of another."""
        if not isinstance(items, (list, tuple)):
            raise CorruptFileError(f"a {kind.__name__} of {_describe(items)}")
        self.charge(len(items))
        return kind(self._storable(item) for item in items)

    def mapping_of(self, kind: Callable[[], Mapped], items: object = ()) -> Mapped:
        """Return a dictionary of pairs, or of another dictionary's items."""
        pairs = list(items.items()) if isinstance(items, dict) else items
        if not isinstance(pairs, (list, tuple)):
            raise CorruptFileError(f"a dictionary of {_describe(items)}")
        self.charge(2 * len(pairs))
        made = kind()
        if type(made) is defaultdict and pairs:
            raise CorruptFileError("a defaultdict that is created with items")
        for pair in pairs:
            if not isinstance(pair, (list, tuple)) or len(pair) != 2:
                raise CorruptFileError(f"a dictionary of {_describe(pair)}")
            made[self._key(pair[0])] = self._storable(pair[1])
        return made

    # Opcodes

    def _op_proto(self) -> None:
        if (protocol := self._read(1)[0]) > 5:
            raise CorruptFileError(f"a pickle of protocol {protocol}")

    def _op_frame(self) -> None:
        if self._number("<Q") > self._left():
            raise CorruptFileError("truncated")

    def _op_pop(self) -> None:
        if not self._stack:
            raise CorruptFileError("damaged: a value is missing")
        self._stack.pop()

    def _op_float(self) -> None:
        self._push(float(self._line()))

    def _op_int(self) -> None:
        line = self._line()
        self._push({b"00": False, b"01": True}[line] if line in (b"00", b"01") else self._decimal(line))

    def _op_long(self) -> None:
        self._push(self._decimal(self._line().removesuffix(b"L")))

    def _op_unicode(self) -> None:
        self._push(self._line().decode("raw-unicode-escape"))

    def _text(self, form: str, encoding: str) -> None:
        errors = "surrogatepass" if encoding == "utf-8" else "strict"
        self._push(self._read(self._size(form)).decode(encoding, errors))

    def _size(self, form: str) -> int:
        size = self._number(form)
        if size < 0:
            raise CorruptFileError("damaged: a negative size")
        return size

    def _op_global(self) -> None:
        module, name = self._line(), self._line()
        self._global(module.decode(), name.decode())

    def _op_stack_global(self) -> None:
        name = self._pop()
        self._global(self._pop(), name)

    def _op_reduce(self) -> None:
        args = self._pop()
        self._call(self._pop(), args, new=False)

    def _op_newobj(self) -> None:
        args = self._pop()
        self._call(self._pop(), args, new=True)

    def _op_newobj_ex(self) -> None:
        options, args = self._pop(), self._pop()
        self._call(self._pop(), args, options, new=True)

    def _op_binpersid(self) -> None:
        pid = self._pop()
        if self._persistent is None:
            raise CorruptFileError(f"an unknown object {_describe(pid)}")
        self._push(self._persistent(pid))

    def _op_dict(self) -> None:
        items = self._pop_to_mark()
        self._push({})
        self._set_items(items)

    def _op_list(self) -> None:
        self._push([self._storable(item) for item in self._pop_to_mark()])


def _describe(value: object) -> str:
    """Return a short text for a value. Its own repr may be long or not terminate."""
    if isinstance(value, (str, int, float, type(None))):
        return f"{value!r:.80}" if not isinstance(value, int) or value.bit_length() < 200 else "a long integer"
    name = getattr(value, "__qualname__", None) if isinstance(value, type) or callable(value) else None
    return name if isinstance(name, str) else f"a {type(value).__name__.strip('_')}"


_Op = Callable[[SealedUnpickler], object]

_OPCODES: dict[bytes, _Op] = {
    b"\x80": SealedUnpickler._op_proto,
    b"\x95": SealedUnpickler._op_frame,
    b"(": lambda u: u._push(_MARK),
    b"0": SealedUnpickler._op_pop,
    b"1": lambda u: u._pop_to_mark(),
    b"2": lambda u: u._push(u._top()),
    b"N": lambda u: u._push(None),
    b"\x88": lambda u: u._push(True),
    b"\x89": lambda u: u._push(False),
    b"I": SealedUnpickler._op_int,
    b"L": SealedUnpickler._op_long,
    b"F": SealedUnpickler._op_float,
    b"V": SealedUnpickler._op_unicode,
    b"J": lambda u: u._push(u._number("<i")),
    b"K": lambda u: u._push(u._number("<B")),
    b"M": lambda u: u._push(u._number("<H")),
    b"\x8a": lambda u: u._push(int.from_bytes(u._read(u._size("<B")), "little", signed=True)),
    b"\x8b": lambda u: u._push(int.from_bytes(u._read(u._size("<i")), "little", signed=True)),
    b"G": lambda u: u._push(struct.unpack(">d", u._read(8))[0]),
    b"X": lambda u: u._text("<I", "utf-8"),
    b"\x8c": lambda u: u._text("<B", "utf-8"),
    b"\x8d": lambda u: u._text("<Q", "utf-8"),
    b"T": lambda u: u._text("<i", "latin1"),
    b"U": lambda u: u._text("<B", "latin1"),
    b"B": lambda u: u._push(u._read(u._size("<I"))),
    b"C": lambda u: u._push(u._read(u._size("<B"))),
    b"\x8e": lambda u: u._push(u._read(u._size("<Q"))),
    b"\x96": lambda u: u._push(bytearray(u._read(u._size("<Q")))),
    b")": lambda u: u._push(()),
    b"\x85": lambda u: u._tuple(u._last(1)),
    b"\x86": lambda u: u._tuple(u._last(2)),
    b"\x87": lambda u: u._tuple(u._last(3)),
    b"t": lambda u: u._tuple(u._pop_to_mark()),
    b"]": lambda u: u._push([]),
    b"l": SealedUnpickler._op_list,
    b"a": lambda u: u._append([u._pop()]),
    b"e": lambda u: u._append(u._pop_to_mark()),
    b"}": lambda u: u._push({}),
    b"d": SealedUnpickler._op_dict,
    b"s": lambda u: u._set_items(u._last(2)),
    b"u": lambda u: u._set_items(u._pop_to_mark()),
    b"\x8f": lambda u: u._push(set()),
    b"\x90": SealedUnpickler._add_items,
    b"\x91": lambda u: u._push(u.set_of(frozenset, u._pop_to_mark())),
    b"p": lambda u: u._put(u._decimal(u._line())),
    b"q": lambda u: u._put(u._number("<B")),
    b"r": lambda u: u._put(u._number("<I")),
    b"\x94": lambda u: u._put(len(u._memo)),
    b"g": lambda u: u._get(u._decimal(u._line())),
    b"h": lambda u: u._get(u._number("<B")),
    b"j": lambda u: u._get(u._number("<I")),
    b"c": SealedUnpickler._op_global,
    b"\x93": SealedUnpickler._op_stack_global,
    b"R": SealedUnpickler._op_reduce,
    b"\x81": SealedUnpickler._op_newobj,
    b"\x92": SealedUnpickler._op_newobj_ex,
    b"b": SealedUnpickler._build,
    b"Q": SealedUnpickler._op_binpersid,
}
