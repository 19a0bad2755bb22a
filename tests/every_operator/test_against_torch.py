"""Every operator against PyTorch in float64: forward and gradients of its calls, which ``--long`` draws six times, and
how results and gradients lie in memory and in the graph.
"""

import numpy as np
import pytest

from retrograd.core.tensor.tensor import new_tensor
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from tests.helpers.against_torch import check_attached, check_memory, check_torch, layout_differences, torch_function
from tests.helpers.together import check_all

pytest.importorskip("torch")

CASES = {case.name: case for case in all_cases() if not case.random and case.torch != ""}
KNOWN = sorted(name for name in CASES if name in OPERATORS)


# PyTorch conjugates when the result is read; until then it shares the input's memory. Ours are new numbers.
CONJUGATES = {"adjoint", "conj", "conj_physical"}


# PyTorch attaches even the gradients of running statistics, which nobody differentiates.
RUNNING = {"nn.functional.batch_norm", "nn.functional.instance_norm"}


# Results that lie in memory otherwise than PyTorch's, on purpose: row-major here.
LIE_OTHERWISE = {
    name: reason
    for reason, names in {
        "PyTorch's are column-major, as LAPACK leaves them": """
            cholesky cholesky_inverse inverse linalg.cholesky linalg.eigh linalg.inv linalg.lu_factor linalg.qr
            linalg.svd linalg.tensorinv lu qr svd geqrf linalg.cholesky_ex linalg.eig linalg.inv_ex
            linalg.lu_factor_ex""",
        "PyTorch's have the transformed dimension innermost": """
            fft.fft fft.fft2 fft.fftn fft.hfft fft.hfft2 fft.hfftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft
            fft.ihfft2 fft.ihfftn fft.irfft
            fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn""",
        "images whose channels lie innermost stay so in PyTorch": """
            nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_max_pool1d
            nn.functional.adaptive_max_pool2d nn.functional.avg_pool1d nn.functional.avg_pool2d
            nn.functional.channel_shuffle nn.functional.group_norm nn.functional.interpolate
            nn.functional.local_response_norm nn.functional.lp_pool1d nn.functional.lp_pool2d
            nn.functional.max_pool2d nn.functional.pad nn.functional.pixel_shuffle nn.functional.pixel_unshuffle
            nn.functional.upsample nn.functional.upsample_bilinear nn.functional.upsample_nearest""",
        "PyTorch's keep the order of the input": "argsort frexp msort sort Tensor.__getitem__",
        "PyTorch's keep the gaps of the input, whose memory they share or imitate": """
            adjoint conj conj_physical slice_scatter""",
        "PyTorch's are copies or views of a result for another order of dimensions": """
            argwhere frexp nonzero rot90 unique_consecutive unravel_index""",
        "made by masked_fill, whose results are row-major": "nn.functional.poisson_nll_loss",
    }.items()
    for name in names.split()
}


@pytest.mark.parametrize("name", KNOWN)
def test_operator_against_pytorch(name, pytestconfig, few):
    operator, case = OPERATORS[name], CASES[name]
    assert callable(torch_function(operator, case))
    seeds = range(6 if pytestconfig.getoption("--long") else 1)

    def numbers():
        assert check_torch(operator, case, seeds) <= 1e-10

    def memory_is_shared():
        if name not in CONJUGATES:
            check_memory(operator, few(case))

    def gradients_are_attached():
        if case.order >= 1 and name not in RUNNING:
            check_attached(operator, few(case))

    def results_lie_in_memory():
        lost, others = layout_differences(operator, case)
        assert not lost, "contiguous in PyTorch only"
        assert bool(others) == (name in LIE_OTHERWISE), LIE_OTHERWISE.get(name)

    checks = numbers, memory_is_shared, gradients_are_attached, results_lie_in_memory
    check_all((check.__name__, check) for check in checks)


@pytest.mark.parametrize(
    "name",
    ["nn.functional.gelu", "erf", "nn.functional.silu", "tanh", "sigmoid", "exp", "nn.functional.relu", "clone"],
)
def test_elementwise_operators_keep_the_order_of_large_inputs_as_in_pytorch(name):
    """Where compiled loops and blocks take over."""
    x = np.random.default_rng(0).normal(size=(3, 200, 100)).astype(np.float32).transpose(2, 0, 1)
    ours, theirs = OPERATORS[name].function(new_tensor(x)), torch_function(OPERATORS[name], CASES[name])
    wanted = theirs(pytest.importorskip("torch").from_numpy(x))
    assert ours.stride() == wanted.stride()
    assert np.allclose(ours.array, wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cumsum", "nn.functional.softmax"])
def test_results_along_a_dimension_of_large_transposed_inputs_can_be_viewed(name):
    x = np.random.default_rng(0).normal(size=(200, 300)).astype(np.float32).T
    for dim in (0, 1):
        assert OPERATORS[name].function(new_tensor(x), dim).view(-1).shape == (60000,)


def test_random_operators_have_a_counterpart_in_pytorch():
    for case in all_cases():
        if case.random and case.torch != "":
            assert callable(torch_function(OPERATORS[case.name], case))


def test_most_operators_are_compared():
    """Only few have no counterpart in PyTorch, or are random."""
    assert len(KNOWN) >= 0.85 * len(OPERATORS)
