"""Every operator under the guard, on numbers that are not finite or make such: a story or nothing, no other error."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect
from retrograd.core.errors import GuardError
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.programs import programs
from tests.helpers.together import check_each, namespaces

CASES = {case.name: case for case in all_cases()}
SPOILERS = [np.nan, np.inf, -np.inf, 1e308, 0.0, -2.5]

pytestmark = pytest.mark.filterwarnings("ignore")


def tensors(result):
    if isinstance(result, rg.Tensor):
        return [result]
    return [x for value in result for x in tensors(value)] if isinstance(result, (list, tuple)) else []


def run(program, inputs):
    outputs = [x for x in tensors(program(*inputs)) if x.requires_grad]
    if outputs:
        sum(abs(x).sum() for x in outputs).backward()


# LAPACK may not come back from infinities.
KNOWN = namespaces(
    name for name in CASES if name in OPERATORS and ".ops.linear." not in OPERATORS[name].function.__module__
)


@pytest.mark.slow
@pytest.mark.parametrize("names", KNOWN.values(), ids=KNOWN)
def test_a_spoiled_input_makes_a_story_or_nothing(names):
    check_each(check_story, names)


def check_story(name):
    for program in list(programs(OPERATORS[name], CASES[name]))[:1]:
        for spoiler in SPOILERS:
            inputs = program.inputs()
            for x in inputs:
                if x.array.size and x.dtype.kind == "f":
                    x.array.reshape(-1)[:1] = spoiler
            plain: type[BaseException] | None = None
            try:
                run(program, inputs)
            except Exception as error:
                plain = type(error)
            inputs = program.inputs()
            for x in inputs:
                if x.array.size and x.dtype.kind == "f":
                    x.array.reshape(-1)[:1] = spoiler
            with inspect.guard() as g:
                try:
                    run(program, inputs)
                except GuardError as error:
                    assert str(error) == g.story and ".py:" in g.story.splitlines()[0]
                except Exception as error:
                    assert plain is type(error), f"{program.call} with {spoiler}"
