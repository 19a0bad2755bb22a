"""Nests: what is taken apart and how it is made again; the paths that errors name."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import pytest

import retrograd as rg
from retrograd.func import grad, jacrev, nests, vjp

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Layer:
    weight: object
    bias: object = None

    def __post_init__(self):
        if isinstance(self.weight, str):
            raise ValueError("checked")


@dataclass
class Model:
    layers: list
    scale: object
    steps: int = field(default=0, init=False)


NESTS = [
    (1, 2, (3,)),
    [1, [2, []], 3],
    {"b": 1, "a": {"c": (2, 3)}},
    OrderedDict([("z", 1), ("y", [2])]),
    Point(1, {"a": 2}),
    deque([1, 2], maxlen=5),
    Layer(1, (2, 3)),
    {"none": None, "one": 1, 3: (None,)},
    5,
    None,
]


@pytest.mark.parametrize("nest", NESTS)
def test_a_nest_is_made_again_of_its_leaves(nest):
    leaves, structure = nests.flatten(nest)
    assert structure.size == len(leaves) == len(structure.paths())
    assert None not in leaves
    again = structure.unflatten(leaves)
    assert again == nest and type(again) is type(nest)
    assert structure.leaves_of(nest) == leaves
    assert nests.flatten(again)[1] == structure


def test_what_containers_carry_beside_their_children_is_kept():
    table = defaultdict(list, {"a": 1})
    again = nests.mapped(lambda leaf: leaf + 1, {"table": table, "queue": deque([1], maxlen=7)})
    assert again["table"] == {"a": 2} and again["table"]["missing"] == []
    assert again["queue"].maxlen == 7


def test_a_dataclass_is_made_without_its_checks_and_with_fields_that_init_does_not_take():
    model = Model([Layer(1)], 2)
    model.steps = 3
    names = nests.mapped(str, model)
    assert names.layers[0].weight == "1" and names.steps == "3"


def test_subclasses_of_containers_modules_and_strings_are_leaves():
    class Own(dict):
        pass

    things = [Own(a=1), rg.nn.Linear(1, 1), "text", rg.ones(2), rg.ones(2, 3).shape]
    assert [leaf is thing for leaf, thing in zip(nests.flatten(things)[0], things, strict=True)] == [True] * 5


@pytest.mark.parametrize(
    ("nest", "paths"),
    [
        ({"layer.0": {"weight": 1}}, ["params['layer.0']['weight']"]),
        ([1, (2,)], ["params[0]", "params[1][0]"]),
        (Point(1, [2]), ["params.x", "params.y[0]"]),
        (Model([Layer(1, 2)], 3), ["params.layers[0].weight", "params.layers[0].bias", "params.scale", "params.steps"]),
        ({3: 1}, ["params[3]"]),
    ],
)
def test_paths_are_what_a_program_would_write(nest, paths):
    assert nests.flatten(nest)[1].paths("params") == paths


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": [1, 2]}, r"x\['b'\] is missing"),
        ({"a": [1, 2], "b": 3, "c": 4}, r"x\['c'\] was not expected"),
        ({"a": [1], "b": 3}, r"x\['a'\]: expected 2 elements, got 1"),
        ({"a": (1, 2), "b": 3}, r"x\['a'\]: expected a list, got tuple"),
        ([1, 2], "x: expected a dict, got list"),
    ],
)
def test_a_nest_of_another_structure_is_refused_with_the_path(other, message):
    structure = nests.flatten({"a": [1, 2], "b": 3})[1]
    with pytest.raises(nests.Mismatch, match=message):
        structure.leaves_of(other, "x")


def test_dicts_match_whatever_the_order_of_their_keys():
    structure = nests.flatten({"a": 1, "b": 2})[1]
    assert structure.leaves_of({"b": 20, "a": 10}) == [10, 20]


def test_a_wrong_number_of_leaves_is_refused():
    structure = nests.flatten((1, 2))[1]
    with pytest.raises(ValueError, match="fewer leaves"):
        structure.unflatten([1])
    with pytest.raises(ValueError, match="more leaves than the 2"):
        structure.unflatten([1, 2, 3])


def test_a_registered_class_is_a_container_of_arguments_and_results():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    nests.register(Pair, lambda pair: ((pair.a, pair.b), None), lambda _, children: Pair(*children))
    try:
        found = grad(lambda pair: (pair.a * pair.b).sum())(Pair(rg.ones(2), rg.full((2,), 3.0)))
        assert (found.a.tolist(), found.b.tolist()) == ([3.0, 3.0], [1.0, 1.0])
        with pytest.raises(ValueError, match="Pair is registered already"):
            nests.register(Pair, lambda pair: ((), None), lambda _, children: Pair(0, 0))
    finally:
        nests._KINDS.pop(Pair)


def test_gradients_come_in_the_nest_of_the_argument():
    x = rg.tensor([1.0, 2.0])
    model = Model(
        [Layer(x, x * 2), Layer(x * 3)],
        rg.tensor(2.0),
    )
    model.steps = rg.tensor(0.0)

    def loss(model):
        total = model.scale * 0
        for layer in model.layers:
            total = total + (layer.weight * model.scale).sum() + (0 if layer.bias is None else layer.bias.prod())
        return total

    found = grad(loss)(model)
    assert type(found) is Model and type(found.layers[0]) is Layer
    assert found.layers[0].bias.tolist() == [4.0, 2.0] and found.layers[1].bias is None
    assert found.scale.item() == 12.0 and found.steps.item() == 0.0


def test_results_may_be_any_nest():
    x = rg.tensor([1.0, 2.0])
    jacobian = jacrev(lambda p: Point({"sum": (p["w"] * x).sum()}, [p["w"] * 2]))({"w": x})
    assert jacobian.x["sum"]["w"].tolist() == [1.0, 2.0]
    assert jacobian.y[0]["w"].tolist() == [[2.0, 0.0], [0.0, 2.0]]
    _, pull = vjp(lambda x: Point(x * 2, {"none": None, "x": x}), x)
    assert pull(Point(rg.ones(2), {"x": rg.ones(2), "none": None}))[0].tolist() == [3.0, 3.0]


def test_pytorchs_functions_over_nests_take_none_as_a_leaf():
    torch_pytree = pytest.importorskip("torch.utils._pytree")
    from retrograd.utils import _pytree

    nest = {"a": (1, None), "b": [2, Point(3, 4)]}
    for name in ("tree_leaves",):
        assert getattr(_pytree, name)(nest) == getattr(torch_pytree, name)(nest)
    leaves, spec = _pytree.tree_flatten(nest)
    assert leaves == torch_pytree.tree_flatten(nest)[0]
    assert _pytree.tree_unflatten(leaves, spec) == nest
    for call in (
        lambda m: m.tree_map(lambda a, b: (a, b), [1, 2], [3, 4]),
        lambda m: m.tree_map_only(int, lambda x: x + 1, {"a": 1, "b": "x"}),
        lambda m: m.tree_all(lambda x: x > 0, [1, 2]),
        lambda m: m.tree_any(lambda x: x > 1, [1, (0,)]),
        lambda m: m.tree_map(len, [[1, 2], [3]], is_leaf=lambda x: x == [3] or x == [1, 2]),
    ):
        assert call(_pytree) == call(torch_pytree)
