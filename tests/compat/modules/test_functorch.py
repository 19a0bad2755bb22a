"""The module functorch and the timers of PyTorch's tutorials, as programs of their time import them."""

import subprocess
import sys
from functools import partial

import pytest

import retrograd as rg
from retrograd.compat.modules import functorch

PROGRAM = """
import torch, torch.nn as nn
from functorch import combine_state_for_ensemble, grad, make_functional, make_functional_with_buffers, vmap
from torch.utils.benchmark import Timer

torch.manual_seed(0)
model = nn.Linear(3, 1)
function, weights = make_functional(model)
x, y = torch.randn(5, 3), torch.randn(5, 1)
loss = lambda weights, x, y: ((function(weights, x) - y) ** 2).mean()
gradients = vmap(grad(loss), (None, 0, 0))(weights, x, y)
assert gradients[0].shape == (5, 1, 3) and gradients[0].requires_grad
loss(model.parameters(), x, y).backward()
assert torch.allclose(gradients[0].mean(0), model.weight.grad)

models = [nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval() for _ in range(2)]
together, weights, buffers = combine_state_for_ensemble(models)
outputs = vmap(together, (0, 0, None))(weights, buffers, x)
assert torch.allclose(outputs[1], models[1](x))
try:
    make_functional(models[0])
except RuntimeError as error:
    assert "make_functional_with_buffers" in str(error)
function, weights, buffers = make_functional_with_buffers(models[0], disable_autograd_tracking=True)
assert not function(weights, buffers, x).requires_grad

from functorch.experimental import chunk_vmap, replace_all_batch_norm_modules_
for chunks in (1, 2, 3, 9):
    assert torch.allclose(chunk_vmap(torch.dot, (0, None), chunks=chunks)(x, x[0]), x @ x[0])
norm = replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))
assert torch.func.replace_all_batch_norm_modules_ is replace_all_batch_norm_modules_
assert vmap(norm)(x.reshape(1, 5, 3)).shape == (1, 5, 3) and norm[0].running_mean is None

found = Timer("x @ x.T", globals={"x": x}).timeit(10)
assert found.times[0] > 0 and "10 runs each" in str(found)
assert Timer("x.sum()", globals={"x": x}).blocked_autorange(min_run_time=0.01).median > 0
print("done")
"""


@pytest.mark.slow
def test_programs_that_import_functorch_run_unchanged(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", "retrograd", "run", str(script)], capture_output=True, text=True)
    assert done.stdout == "done\n", done.stderr


def test_functions_of_modules_are_instances_of_pytorchs_classes():
    with pytest.warns(FutureWarning, match="is deprecated.*torch.func.functional_call"):
        plain, parameters = functorch.make_functional(rg.nn.Linear(2, 1))
        norm, weights, buffers = functorch.make_functional_with_buffers(rg.nn.BatchNorm1d(2))
    assert type(plain) is functorch.FunctionalModule and type(norm) is functorch.FunctionalModuleWithBuffers
    assert plain.param_names == ("weight", "bias") and norm.buffer_names[:2] == ("running_mean", "running_var")
    x = rg.randn(3, 2)
    assert rg.equal(partial(plain, parameters)(x), x @ parameters[0].T + parameters[1])
    assert norm(weights, buffers, x).shape == (3, 2)
    with pytest.raises(RuntimeError, match="has buffers"), pytest.warns(FutureWarning):
        functorch.make_functional(rg.nn.BatchNorm1d(2))
