"""Which elements of its input an element of a result depends on."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.influence import influences
from retrograd.core.graph.primitive import Primitive


@pytest.mark.parametrize(("by_rows", "places"), [(True, [3, 4, 5]), (False, [5])])
def test_a_primitive_by_rows_depends_on_the_whole_row(by_rows, places):
    last = Primitive(
        "last", lambda x, dim: x[:, 2], "x", [lambda g: g[:, None] * np.array([0.0, 0.0, 1.0])], by_rows=by_rows
    )
    (found,) = influences(last, (rg.ones(2, 3, requires_grad=True),), {"dim": 1}, (1,))
    assert found.tolist() == places
