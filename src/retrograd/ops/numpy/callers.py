"""Find the call or assignment in a program that converts a Tensor to a Python number.

``float(t)``, ``math.sin(t)`` and ``array[0] = t`` all call ``Tensor.__float__`` from C code, which has no frame. This
module distinguishes them by the current instruction of the calling Python frame: a store, or a call of a named
function.
"""

from __future__ import annotations

import dis
import itertools
from functools import lru_cache
from types import CodeType, FrameType, ModuleType
from typing import Any

from ...core.named_tuples import NamedTuple

_NO_FALLTHROUGH = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RAISE_VARARGS")
# Instructions that do not load a callable.
_BETWEEN = ("PRECALL", "KW_NAMES", "PUSH_NULL", "POP_TOP", "EXTENDED_ARG", "NOP", "NOT_TAKEN")


class Caller(NamedTuple):
    """The code that converts a Tensor to a number.

    Attributes:
        frame: the module of the calling Python frame.
        operation: the instruction, ``CALL`` or ``STORE_SUBSCR`` for example.
        module: for a call, the module of the called function; empty if unknown.
        name: for a call, the name of the called function; empty if unknown.
    """

    frame: str
    operation: str
    module: str = ""
    name: str = ""

    @property
    def stores(self) -> bool:
        """Whether the number is stored in an array or another container."""
        return self.operation.startswith("STORE_")

    @property
    def library(self) -> str:
        """``math``, ``numpy`` or ``scipy`` if the caller is one of their functions; otherwise empty."""
        for module in (self.module, "" if self.module else self.frame):
            top = module.partition(".")[0]
            if top in ("math", "cmath", "numpy", "scipy"):
                return top
        top = self.frame.partition(".")[0]
        return top if top in ("numpy", "scipy") else ""


def caller_of(frame: FrameType) -> Caller:
    """Return the current call or store of a frame."""
    home = str(frame.f_globals.get("__name__", ""))
    operation, path = _instruction(frame.f_code, frame.f_lasti)
    module, name = _called(frame, path) if path else ("", "")
    return Caller(home, operation, module, name)


def _called(frame: FrameType, path: tuple[str, ...]) -> tuple[str, str]:
    """Return the module and name of the object at a dotted path in the frame; empty strings if unknown."""
    first, *attributes = path
    scopes = (frame.f_locals, frame.f_globals, frame.f_builtins)
    value: Any = next((scope[first] for scope in scopes if first in scope), None)
    for attribute in attributes:
        if not isinstance(value, ModuleType):  # do not read attributes of other objects, which may be properties
            kind = value if isinstance(value, type) else type(value)
            return kind.__module__, f"{kind.__name__}.{attribute}"
        value = getattr(value, attribute, None)
    if value is None:
        return "", ""
    owner = getattr(value, "__self__", None)
    module = getattr(value, "__module__", None) or (type(value) if owner is None else type(owner)).__module__
    return str(module), str(getattr(value, "__name__", ""))


@lru_cache(1024)
def _instruction(code: CodeType, offset: int) -> tuple[str, tuple[str, ...]]:
    """Return the operation at an offset and, for a call, the dotted path of the callable in the source."""
    instructions = list(dis.get_instructions(code))
    place = next((i for i, found in enumerate(instructions) if found.offset == offset), None)
    if place is None:
        return "", ()
    if instructions[place].opname == "PRECALL":  # Python 3.11: CALL follows
        place = next(i for i in range(place, len(instructions)) if instructions[i].opname == "CALL")
    operation = instructions[place].opname
    if not operation.startswith("CALL"):
        return operation, ()
    depths = _depths(instructions)
    result = depths[place] + _effect(instructions[place])  # the call leaves one value in place of the callable
    return operation, _path(instructions, depths, place, result + 1)


def _path(instructions: list[dis.Instruction], depths: list[int], place: int, height: int) -> tuple[str, ...]:
    """Return the names that load the callable, from the last instruction that pushes a value at ``height``."""
    for i in reversed(range(place)):
        found = instructions[i]
        if found.opname in _BETWEEN or "JUMP" in found.opname or depths[i] + _effect(found) > height:
            continue
        if found.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            owner = _path(instructions, depths, i, depths[i])
            return (*owner, str(found.argval)) if owner else ()
        named = found.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "STORE_FAST_LOAD_FAST"))
        name = found.argval[-1] if isinstance(found.argval, tuple) else found.argval  # Python 3.13 fuses instructions
        return (name,) if named and isinstance(name, str) else ()
    return ()


def _effect(instruction: dis.Instruction, jump: bool = False) -> int:
    try:
        return dis.stack_effect(instruction.opcode, instruction.arg, jump=jump)
    except ValueError:
        return 0


def _depths(instructions: list[dis.Instruction]) -> list[int]:
    """Return the depth of the stack before each instruction, relative to the start of its section of the code."""
    index = {found.offset: i for i, found in enumerate(instructions)}
    depths: dict[int, int] = {}
    for start in range(len(instructions)):  # starts at exception handlers, too: no jump leads there
        pending = [(start, 0)] if start not in depths else []
        while pending:
            i, depth = pending.pop()
            if i in depths or i >= len(instructions):
                continue
            depths[i], found = depth, instructions[i]
            if found.opcode in itertools.chain(dis.hasjrel, dis.hasjabs) and found.argval in index:
                pending.append((index[found.argval], depth + _effect(found, jump=True)))
            if found.opname not in _NO_FALLTHROUGH:
                pending.append((i + 1, depth + _effect(found)))
    return [depths[i] for i in range(len(instructions))]
