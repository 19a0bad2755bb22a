"""Every operator of the table through the harness: one test per operator and group of properties."""

import sys
from functools import partial

import pytest

from retrograd.core.graph.primitive import Primitive
from retrograd.core.mapping import batching
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing import harness, mapping
from retrograd.testing.cases import all_cases
from tests.helpers.against_torch import check_edges
from tests.helpers.together import check_all

CASES = {case.name: case for case in all_cases()}
KNOWN = sorted(name for name in CASES if name in OPERATORS)
DIFFERENTIABLE = [name for name in KNOWN if CASES[name].order >= 1]

pytestmark = pytest.mark.whole

every_operator = pytest.mark.parametrize("name", KNOWN)
every_differentiable = pytest.mark.parametrize("name", DIFFERENTIABLE)


def pair(name, few=None):
    """Return an operator and its case; with ``few``, with few example calls."""
    return OPERATORS[name], CASES[name] if few is None else few(CASES[name])


def test_every_operator_has_a_case():
    missing = sorted(set(OPERATORS) - set(CASES))
    assert not missing


def test_every_case_belongs_to_an_operator():
    assert set(CASES) <= set(OPERATORS)


def test_no_operator_has_two_cases():
    names = [case.name for case in all_cases()]
    assert sorted(names) == sorted(set(names))


def test_orders_agree_with_the_table():
    wrong = [name for name in KNOWN if OPERATORS[name].differentiable != (CASES[name].order > 0)]
    assert not wrong


def check_columns(operator, case, **columns):
    """Each column has a name of its own among the findings, and is run whatever the others find."""
    check_all((column, partial(check, operator, case)) for column, check in columns.items())


@every_operator
def test_values(name, few):
    check_columns(*pair(name), forward=harness.check_forward)
    check_columns(*pair(name, few), dtypes=harness.check_dtypes, layouts=harness.check_layouts)


@every_differentiable
def test_derivatives(name, pytestconfig):
    check_columns(
        *pair(name),
        gradient=partial(harness.check_gradient, quick=not pytestconfig.getoption("--long")),
        forward_mode=harness.check_forward_mode,
        chain=harness.check_chain,
    )


@pytest.mark.parametrize("name", [name for name in KNOWN if CASES[name].order >= 2])
def test_second_order(name, pytestconfig, few):
    harness.check_second_order(*pair(name, few), quick=not pytestconfig.getoption("--long"))


@every_operator
def test_memory(name, few):
    columns = {"views": harness.check_views, "inputs_unchanged": harness.check_inputs_unchanged}
    if CASES[name].order >= 1:
        columns |= {
            "no_aliasing": harness.check_no_aliasing,
            "freed": harness.check_freed,
            "mutation": harness.check_mutation,
            "written_result": harness.check_written_result,
        }
    check_columns(*pair(name, few), **columns)


@every_operator
def test_vmap(name, pytestconfig, monkeypatch, few):
    """Compare ``vmap`` with a loop over the examples, and check that no rule loops over them."""
    looped, names = batching.looped, set()
    monkeypatch.setattr(batching, "looped", lambda call: names.add(call.primitive.name) or looped(call))
    mapping.check_vmap(*pair(name, few), long=pytestconfig.getoption("--long"))
    assert names == set()


def test_every_primitive_that_is_called_has_a_batching_rule():
    """``attach`` and ``output`` stand in graphs and are never called."""
    modules = [module for name, module in sys.modules.items() if name.startswith(("retrograd.ops", "retrograd.core"))]
    primitives = {
        value for module in modules for value in vars(module).values() if isinstance(value, Primitive)
    }  # fmt: skip
    loops = {primitive.name for primitive in primitives if primitive.batch is None and not primitive.elementwise}
    assert loops == {"attach", "output"}


@pytest.mark.parametrize("name", [name for name in KNOWN if OPERATORS[name].inplace])
def test_inplace(name):
    assert harness.check_inplace(*pair(name)) > 0


@pytest.mark.parametrize("name", [name for name in KNOWN if CASES[name].edge_calls is not None])
def test_edges(name):
    pytest.importorskip("torch")
    check_edges(*pair(name))
