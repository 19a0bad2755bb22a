"""Every family on the guarded arrays that stand for CuPy's: nothing reaches for NumPy by accident."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.distributions.families import EXAMPLES, Example
from tests.helpers.guarded import guarded_backend


def made_on_device(example: Example) -> Any:
    tensors = {
        name: rg.tensor(np.asarray(value, float).tolist(), dtype=rg.float64).to("cuda").requires_grad_()
        for name, value in example.parameters.items()
    }
    return getattr(rg.distributions, example.family)(**example.options, **tensors)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_families_stay_on_the_device_of_their_parameters(example: Example):
    with guarded_backend():
        distribution = made_on_device(example)
        samples = distribution.sample((3,))
        scores = distribution.log_prob(samples)
        assert samples.device.type == scores.device.type == "cuda"
        scores.sum().backward()
        if distribution.has_rsample:
            drawn = made_on_device(example).rsample((3,))
            assert drawn.device.type == "cuda"
            drawn.sum().backward()
        for name in ("mean", "mode", "variance", "entropy", "cdf"):
            try:
                value = getattr(distribution, name)
                value = value(samples) if name == "cdf" else value() if callable(value) else value
            except NotImplementedError:
                continue
            assert value.device.type == "cuda"
