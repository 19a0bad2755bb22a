"""Classes of ``core.named_tuples`` are what ``typing.NamedTuple`` makes of the same statement."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
import typing

import pytest

from retrograd.core.named_tuples import NamedTuple


class Ours(NamedTuple):
    """A point."""

    x: int
    y: str = "a"

    @property
    def both(self) -> tuple[int, str]:
        return self.x, self.y


class Typings(typing.NamedTuple):
    """A point."""

    x: int
    y: str = "a"


def test_a_class_is_a_tuple_with_the_interface_of_a_named_tuple():
    assert Ours.__bases__ == (tuple,)
    for name in ("_fields", "_field_defaults", "__match_args__", "__doc__", "__slots__"):
        assert getattr(Ours, name) == getattr(Typings, name)
    point = Ours(2, y="b")
    assert point == (2, "b") == point.both == Ours._make([2, "b"])
    assert point._asdict() == {"x": 2, "y": "b"} and point._replace(x=3) == (3, "b")
    assert repr(point) == "Ours(x=2, y='b')" and not hasattr(point, "__dict__")


def test_arguments_are_those_of_the_class_statement():
    assert list(inspect.signature(Ours).parameters) == ["x", "y"]
    for call in (lambda cls: cls(), lambda cls: cls(1, 2, 3), lambda cls: cls(1, z=2)):
        with pytest.raises(TypeError) as found:
            call(Ours)
        with pytest.raises(TypeError) as wanted:
            call(Typings)
        # Python names the function of a missing or unknown argument by its qualified name or by its name
        assert str(found.value).partition(") ")[2] == str(wanted.value).partition(") ")[2]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_is_of_the_class(copied):
    assert copied(Ours(1)) == Ours(1) and type(copied(Ours(1))) is Ours


@pytest.mark.slow
def test_the_import_restores_the_garbage_collector_and_loads_no_rules_of_numpys_functions():
    program = """
import gc, sys
{}
before = gc.isenabled()
import retrograd
print(before is gc.isenabled(), [name for name in sys.modules if name.startswith("retrograd.ops.numpy.rules")])
import numpy as np
print(float(np.sum(retrograd.ones(3))), type(np.exp(retrograd.ones(3))).__name__)
"""
    for turn_off in ("", "gc.disable()"):
        run = subprocess.run([sys.executable, "-c", program.format(turn_off)], capture_output=True, text=True)
        assert run.stdout.split("\n")[:2] == ["True []", "3.0 Tensor"], run.stderr
