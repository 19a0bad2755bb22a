"""Modules of operators that are imported when one of their names or methods is first used."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib
import pkgutil
import sys
import numpy
before = set(sys.modules)
import retrograd as rg
loaded = {name for name in set(sys.modules) - before if name.startswith("retrograd")}
assert len(loaded) <= 88, f"{len(loaded)} modules are imported at once: {sorted(loaded)}"

from retrograd.core.missing_names import LazyMethod
from retrograd.core.tensor.tensor import Tensor
from retrograd.ops.table import registry

at_import = set(dir(Tensor))
assert {"relu", "c_", "autograd"} <= set(dir(rg)) and "relu" not in vars(rg)
assert isinstance(vars(Tensor)["cosh"], LazyMethod) and isinstance(vars(Tensor)["flip"], LazyMethod)

# An import that Ctrl-C ends is repeated.
def interrupted(*method):
    registry.tensor_method = entered
    raise KeyboardInterrupt

entered, registry.tensor_method = registry.tensor_method, interrupted
try:
    rg.median(rg.ones(3))
except KeyboardInterrupt:
    pass
else:
    raise AssertionError("the import was not interrupted")
assert rg.median(rg.ones(3)).item() == rg.ones(3).median().item() == 1

# What a program puts in the place of a method stays when the module is imported, and can be undone.
placeholder, own = vars(Tensor)["cosh"], lambda self: "own"
Tensor.cosh = own
rg.sin(rg.ones(1))
assert rg.ones(1).cosh() == "own"
Tensor.cosh = placeholder
assert rg.ones(1).cosh().item() > 1.5 and vars(Tensor)["cosh"].__name__ == "cosh"

# A subclass calls the method that it overrides.
class Own(Tensor):
    def relu(self):
        return super().relu() + 1

assert Own([-1.0, 2.0]).relu().tolist() == [1.0, 3.0]

# Properties are set and special methods are found by Python.
x = rg.ones(2, dtype=rg.complex64)
x.imag = 3
assert x.tolist() == [1 + 3j, 1 + 3j] and len(list(x)) == 2 and round(rg.tensor([1.7])).tolist() == [2.0]

# NumPy's ufuncs find operators that no name has loaded, in the form that the operator enters for NumPy.
assert numpy.fmax(rg.ones(2), 2.0).tolist() == [2.0, 2.0] and numpy.conjugate(x).tolist() == [1 - 3j, 1 - 3j]

# The table has every operator, and then no method is a placeholder.
assert len(registry.OPERATORS) > 600
more = set(dir(Tensor)) ^ at_import
assert more == {"__torch_function__"}, more  # which the first subclass of Tensor adds
assert not any(isinstance(value, LazyMethod) for value in vars(Tensor).values())
assert rg.ops.nn.losses.entropy.__name__ == "retrograd.ops.nn.losses.entropy"

# The generated list has every module that enters operators or methods.
names = set(dir(Tensor)), set(registry.OPERATORS)
for module in pkgutil.walk_packages(rg.ops.__path__, "retrograd.ops."):
    importlib.import_module(module.name)
assert (set(dir(Tensor)), set(registry.OPERATORS)) == names
"""


@pytest.mark.slow
def test_modules_of_operators_load_at_the_first_use_of_a_name_and_nobody_notices():
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100)
    assert made.returncode == 0, made.stderr
