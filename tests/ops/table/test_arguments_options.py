"""Options that are bools refuse other objects, whatever their truth value."""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.ops.table.arguments import bool_options
from retrograd.ops.table.registry import OPERATORS

PACKAGES = ("nn", "optim", "optim.lr_scheduler", "optim.swa_utils", "data", "distributions", "nn.parallel")


BOOLS = ("bool", "bool | None")


def _options(function: Callable[..., object]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of each option with the required arguments beside it."""
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for option in parameters:
        if option.annotation in BOOLS:
            others = [p for p in required if p is not option]
            yield option.name, {p.name: False if p.annotation in BOOLS else rg.ones(2) for p in others}


def _constructors() -> set[type]:
    """Return the public classes of ``PACKAGES`` that have a constructor, without plain data."""
    homes = [import_module(f"retrograd.{name}") for name in PACKAGES]
    values = {getattr(home, name) for home in homes for name in dir(home) if name[0] != "_"}
    return {
        value
        for value in values
        if inspect.isclass(value) and not dataclasses.is_dataclass(value) and inspect.isfunction(value.__init__)
    }


def test_every_operator_refuses_a_string_for_a_bool() -> None:
    accepting = []
    checked = 0
    for name, entry in OPERATORS.items():
        for option, others in _options(entry.function):
            if option == "non_blocking":  # has no effect
                continue
            checked += 1
            try:
                entry.function(**others, **{option: "no"})
            except TypeError as error:
                if f"argument '{option}' must be bool, not str" in str(error):
                    continue
            accepting.append((name, option))
    assert not accepting
    assert checked > 250


def test_every_constructor_refuses_a_string_for_a_bool() -> None:
    accepting = []
    checked = 0
    for cls in _constructors():
        for option, others in _options(cls):
            checked += 1
            try:
                cls(**others, **{option: "no"})
            except TypeError as error:
                if "must be bool, not str" in str(error):
                    continue
            accepting.append((cls.__qualname__, option))
    assert not accepting
    assert checked > 250


@pytest.mark.parametrize("value", ["no", [], 1.0, None])
def test_operators_accept_only_bools(value: Any) -> None:
    x = rg.ones(2, 3)
    with pytest.raises(TypeError, match="argument 'keepdim' must be bool"):
        x.sum(1, keepdim=value)
    with pytest.raises(TypeError, match="argument 'keepdim' must be bool"):
        x.sum(1, value)


def test_a_second_dimension_is_not_taken_for_keepdim() -> None:
    with pytest.raises(TypeError, match="argument 'keepdim' must be bool, not int"):
        rg.ones(2, 3).sum(0, 1)


def test_numpys_bools_are_bools() -> None:
    x = rg.ones(2, 3)
    assert x.sum(1, np.True_).shape == x.sum(1, keepdim=np.True_).shape == (2, 1)
    assert x.sum(1, np.False_).shape == (2,)
    assert rg.nn.Linear(2, 3, bias=np.False_).bias is None


def test_integers_by_name_are_bools_as_in_numpy() -> None:
    assert np.sum(rg.ones(2, 3), axis=1, keepdims=1).shape == (2, 1)  # type: ignore[call-overload]
    assert rg.ones(2, 3).sum(dim=1, keepdims=0).shape == (2,)


def test_constructors_accept_numbers_and_none_as_pytorchs_do() -> None:
    assert rg.nn.Linear(2, 3, bias=0).bias is None  # type: ignore[arg-type]
    assert rg.nn.Linear(2, 3, bias=None).bias is None  # type: ignore[arg-type]
    assert rg.nn.Linear(2, 3, 1).bias is not None  # type: ignore[arg-type]


def test_an_option_that_was_changed_later_is_checked_by_the_operator() -> None:
    dropout = rg.nn.Dropout(0.5)
    dropout.training = "no"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="training"):
        dropout(rg.ones(2))


def test_a_users_subclass_may_declare_what_it_likes() -> None:
    class Layer(rg.nn.Linear):
        def __init__(self, bias: bool) -> None:
            super().__init__(2, 3, bias=bias == "yes")

    assert Layer("yes").bias is not None  # type: ignore[arg-type]


def test_requires_grad_is_a_bool() -> None:
    for declare in (
        lambda: rg.zeros(2, requires_grad="no"),  # type: ignore[arg-type]
        lambda: rg.zeros(2).requires_grad_("no"),  # type: ignore[arg-type]
        lambda: rg.nn.Parameter(rg.zeros(2), requires_grad="no"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="requires_grad"):
            declare()


def test_the_positions_of_options_follow_the_signature() -> None:
    assert {name: place for name, (place, _) in bool_options(F.mse_loss).items()} == {"size_average": 2, "reduce": 3}
