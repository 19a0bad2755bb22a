"""The operator table's example calls, compiled one behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd as rg
from retrograd.func.nests import flatten
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.programs import Program, programs
from tests.compiler.programs.ways import compiling

CASES = {case.name: case for case in all_cases()}
NAMES = sorted(name for name in OPERATORS if name in CASES and CASES[name].calls is not None)
# What these read of their arguments decides what they do.
EAGER = {
    # some of whose calls read their targets as NumPy arrays
    "nn.functional.cross_entropy", "nn.functional.ctc_loss", "nn.functional.linear_cross_entropy",
    "nn.functional.nll_loss",
    "isin", "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve", "nn.functional.adaptive_max_pool2d",
    "spmm", "sparse.mm", "sparse_coo_tensor", "sparse_csr_tensor",
}  # fmt: skip
_COMPOSED = [name for name in NAMES if name not in EAGER and not CASES[name].random]  # those seed a generator


class ComposedProgram:
    """Calls of the table, some of them at the edges; what one gives scales the arguments of the next a little."""

    def __init__(self, seed: int, steps: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.calls: list[Program] = []
        while len(self.calls) < steps:
            name = _COMPOSED[int(rng.integers(len(_COMPOSED)))]
            found = list(programs(OPERATORS[name], CASES[name], edges=bool(rng.random() < 0.2)))
            if found:
                self.calls.append(found[int(rng.integers(len(found)))])

    def __str__(self) -> str:
        return "; ".join(map(str, self.calls))

    def function(self, *leaves: rg.Tensor) -> object:
        """What the calls give."""
        rest, factor, results = iter(leaves), rg.ones((), dtype=rg.float64), []
        for call in self.calls:
            inputs = [next(rest) for _ in call.arrays]
            results.append(call(*[x * factor.to(x.dtype) for x in inputs]))
            for x in flatten(results[-1])[0]:
                if isinstance(x, rg.Tensor) and x.numel():
                    size = (x.abs() if x.dtype.kind in "cfi" else x).double().mean().nan_to_num(0.0, 0.0, 0.0)
                    factor = 1.0 - 1e-3 * size.sigmoid()
        return results

    def run(self, function: Any) -> list[Any]:
        """The results and the gradients, as arrays."""
        leaves = [x for call in self.calls for x in call.inputs(call.operator.differentiable)]
        results = [x for x in flatten(function(*leaves))[0] if isinstance(x, rg.Tensor)]
        found = [np.array(x.detach().numpy()) for x in results]
        walked = [x for x in results if x.requires_grad]
        if walked:
            rg.autograd.backward(walked, [rg.ones_like(x) for x in walked])
        return found + [None if x.grad is None else np.array(x.grad.numpy()) for x in leaves]


def check_composed(seed: int, way: str = "usual") -> str:
    """Compare a composition with the eager one.

    Returns:
        ``compiled``, ``eagerly`` where it was given up, or ``refused`` where the eager program is an error.
    """
    program = ComposedProgram(seed)
    try:
        wanted = program.run(program.function)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return "refused"
    with compiling(way, seed):
        function = rg.compile(program.function, dynamic=False, fallback=False)
        for _ in range(3):
            for got, want in zip(program.run(function), wanted, strict=True):
                assert (got is None) == (want is None), str(program)
                if want is not None:
                    assert got.dtype == want.dtype and got.shape == want.shape, str(program)
                    tolerance = 1e-4 if want.dtype.char in "efF" else 1e-9
                    if want.dtype.kind != "V":
                        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=str(program))
    assert function.entries or function.why
    return "compiled" if function.entries else "eagerly"
