"""Constraints: what they admit, how they are shown, and what depends on instances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.distributions import Normal, Uniform, constraints

nan, inf = float("nan"), float("inf")
NUMBERS = [-1.5, -1.0, 0.0, 0.3, 1.0, 2.0, 2.5, inf, -inf, nan]
VECTORS = [[0.2, 0.8], [0.5, 0.6], [-0.1, 1.1], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [nan, 1.0]]
MATRICES = [
    [[1.0, 0.0], [0.5, 2.0]], [[1.0, 0.1], [0.5, 2.0]], [[-1.0, 0.0], [0.5, 2.0]], [[2.0, 0.5], [0.5, 1.0]],
    [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.6, 0.8]], [[1.0, 1.0], [1.0, 1.0]],
]  # fmt: skip

CASES: list[tuple[str, tuple[Any, ...], list[Any]]] = [
    *((name, (), NUMBERS) for name in (
        "real", "positive", "nonnegative", "unit_interval", "boolean", "nonnegative_integer", "positive_integer"
    )),
    *((name, (-1.0, 2.0), NUMBERS) for name in ("interval", "half_open_interval", "integer_interval")),
    *((name, (0.3,), NUMBERS) for name in ("greater_than", "greater_than_eq", "less_than")),
    *((name, (), VECTORS) for name in ("simplex", "one_hot", "real_vector")),
    ("multinomial", (1,), VECTORS),
    *((name, (), MATRICES) for name in (
        "lower_triangular", "lower_cholesky", "corr_cholesky", "square", "symmetric", "positive_semidefinite",
        "positive_definite",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "bounds", "values"), CASES, ids=[case[0] for case in CASES])
def test_constraints_admit_what_those_of_torch_admit(name: str, bounds: tuple[Any, ...], values: list[Any]):
    torch = pytest.importorskip("torch")
    results = []
    for library in (rg, torch):
        constraint = getattr(library.distributions.constraints, name)
        constraint = constraint(*bounds) if bounds else constraint
        with np.errstate(invalid="ignore"):
            # PyTorch looks at a whole batch at once where one member fails before its eigenvalues are asked for.
            checks = [constraint.check(library.tensor(value, dtype=library.float64)) for value in values]
        results.append(([bool(check) for check in checks], constraint.is_discrete, constraint.event_dim))
        if name != "multinomial":
            results[-1] += (repr(constraint),)
    assert results[0] == results[1]


def test_matrices_of_a_batch_are_judged_one_by_one():
    batch = rg.tensor(MATRICES)
    assert constraints.positive_definite.check(batch).tolist() == [False, False, False, True, False, False, False]
    assert constraints.positive_definite.check(
        rg.tensor([[[inf, 0.0], [0.0, 1.0]], [[nan, 0.0], [0.0, 1.0]]])
    ).tolist() == [
        False,
        False,
    ]
    assert not bool(constraints.positive_definite.check(rg.ones(2, 3)))
    assert constraints.square.check(rg.ones(4, 2, 3)).tolist() == [False] * 4


def test_dependent_constraints_say_what_they_know():
    assert constraints.is_dependent(constraints.dependent) and not constraints.is_dependent(constraints.real)
    assert constraints.is_dependent(Uniform.support) and Uniform.support.event_dim == 0
    known = constraints.dependent(is_discrete=True, event_dim=1)
    assert known.is_discrete and known.event_dim == 1
    with pytest.raises(NotImplementedError, match="event_dim cannot be determined"):
        constraints.dependent.event_dim
    with pytest.raises(NotImplementedError, match="is_discrete cannot be determined"):
        constraints.dependent.is_discrete
    with pytest.raises(ValueError, match="dependent constraint"):
        constraints.dependent.check(rg.zeros(1))
    assert repr(Uniform(0.0, 2.0).support) == "Interval(lower_bound=0.0, upper_bound=2.0)"
    assert Normal.support is constraints.real


def test_joined_constraints_judge_their_pieces():
    x = rg.tensor([[1.0, -1.0, 0.5], [-1.0, 2.0, 3.0]])
    cat = constraints.cat([constraints.positive, constraints.unit_interval], dim=1, lengths=[1, 2])
    assert cat.check(x).tolist() == [[True, False, True], [False, False, False]]
    stack = constraints.stack([constraints.positive, constraints.real, constraints.unit_interval], dim=-1)
    assert stack.check(x).tolist() == [[True, True, True], [False, True, False]]
    with pytest.raises(ValueError, match="1 constraints and 2 lengths"):
        constraints.cat([constraints.real], lengths=[1, 2])
    with pytest.raises(TypeError, match="sequence of Constraints"):
        constraints.stack([1])  # type: ignore[list-item]


def test_independent_constraints_need_their_dimensions():
    with pytest.raises(ValueError, match="Expected value.dim"):
        constraints.real_vector.check(rg.tensor(1.0))
    with pytest.raises(ValueError, match="must be >= 0"):
        constraints.independent(constraints.real, -1)
    with pytest.raises(TypeError, match="expected a Constraint"):
        constraints.independent(rg.zeros(1), 1)  # type: ignore[arg-type]
    assert constraints.independent(constraints.real, 0).check(rg.zeros(2)).tolist() == [True, True]
