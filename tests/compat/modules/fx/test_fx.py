"""fx: graphs of functions and modules, and the code that they generate. PyTorch 2.13 gave the expected texts."""

import copy
import operator
import pickle

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.compat.modules import fx
from retrograd.compat.modules.fx.passes import ShapeProp, split_module
from retrograd.compat.modules.fx.proxy import TraceError
from retrograd.core.graph.modes import watchers
from retrograd.ops.table.registry import OPERATORS
from tests.helpers.together import in_one_test


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.param = nn.Parameter(rg.ones(3, 4))
        self.linear = nn.Linear(4, 5)
        self.seq = nn.Sequential(nn.ReLU(), nn.Linear(5, 2))
        self.register_buffer("b", rg.ones(2))

    def forward(self, x, k: float = 2.0, *, flag=False):
        y = self.linear(x + self.param).clamp(min=0.0, max=1.0)
        z = self.seq(y) + self.b
        first, second = z.chunk(2, -1)
        q = rg.cat([first, second], dim=1)[:, None, ...]
        return {"q": nn.functional.relu(q), "rows": x.shape[0], "n": -first, "product": x * k}


NET = """def forward(self, x, k : float = 2.0, flag = False):
    param = self.param
    add = x + param;  param = None
    linear = self.linear(add);  add = None
    clamp = linear.clamp(min = 0.0, max = 1.0);  linear = None
    seq_0 = getattr(self.seq, "0")(clamp);  clamp = None
    seq_1 = getattr(self.seq, "1")(seq_0);  seq_0 = None
    b = self.b
    add_1 = seq_1 + b;  seq_1 = b = None
    chunk = add_1.chunk(2, -1);  add_1 = None
    getitem = chunk[0]
    getitem_1 = chunk[1];  chunk = None
    cat = retrograd.cat([getitem, getitem_1], dim = 1);  getitem_1 = None
    getitem_2 = cat[(slice(None, None, None), None, Ellipsis)];  cat = None
    relu = retrograd.nn.functional.relu(getitem_2);  getitem_2 = None
    getattr_1 = x.shape
    getitem_3 = getattr_1[0];  getattr_1 = None
    neg = -getitem;  getitem = None
    mul = x * k;  x = k = None
    return {'q': relu, 'rows': getitem_3, 'n': neg, 'product': mul}"""


def test_the_code_of_a_module_is_pytorchs_and_computes_the_same():
    net, x = Net(), rg.randn(3, 4)
    traced = fx.symbolic_trace(net)
    assert traced.code.strip() == NET
    for key, value in net(x, k=3.0).items():
        assert rg.equal(rg.as_tensor(value), rg.as_tensor(traced(x, k=3.0)[key])), key
    traced(x)["q"].sum().backward()
    assert net.linear.weight.grad is not None  # the modules are shared


def test_a_graph_prints_its_nodes_as_pytorch_does():
    graph = fx.symbolic_trace(lambda x, y=2: rg.relu(x).reshape(-1, y)[0]).graph
    assert str(graph).replace("retrograd", "torch") == (
        "graph():\n"
        "    %x : [num_users=1] = placeholder[target=x]\n"
        "    %y : [num_users=1] = placeholder[target=y](default=2)\n"
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})\n"
        "    %reshape : [num_users=1] = call_method[target=reshape](args = (%relu, -1, %y), kwargs = {})\n"
        "    %getitem : [num_users=1] = call_function[target=operator.getitem](args = (%reshape, 0), kwargs = {})\n"
        "    return getitem"
    )


@in_one_test("name", [name for name, entry in OPERATORS.items() if entry.namespace != "Tensor" and name != "is_tensor"])
def test_every_operator_on_a_proxy_is_one_node(name):
    import importlib
    import inspect

    entry = OPERATORS[name]
    function = getattr(importlib.import_module(f"retrograd.{entry.namespace}".rstrip(".")), entry.name)
    parameters = inspect.signature(function).parameters.values()
    count = len([p for p in parameters if p.default is p.empty and p.kind in (0, 1)])
    if not count:
        return  # the operator takes no Tensor
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    result = function(*[x] * count)
    assert isinstance(result, fx.Proxy)
    assert result.node.target is function
    assert len(graph.nodes) == 2


def test_a_proxy_is_no_tensor():
    assert not rg.is_tensor(fx.Proxy(fx.Graph().placeholder("x")))


def test_proxies_leave_no_trace_of_themselves_behind():
    before, call, get = set(watchers), nn.Module.__call__, nn.Module.__getattr__
    with pytest.raises(TraceError, match="control flow"):
        fx.symbolic_trace(lambda x: x if x.sum() > 0 else -x)
    fx.symbolic_trace(Net())
    import gc

    gc.collect()
    assert watchers == before
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is get


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: len(x), RuntimeError, "'len' is not supported"),
        (lambda x: list(x), TraceError, "cannot be iterated"),
        (lambda x: int(x), TypeError, "int"),
        (lambda x: range(x), TypeError, "integer"),
        (lambda x: rg.sum({x: 1}), TypeError, "must be a? ?Tensor"),
    ],
)
def test_what_needs_the_value_of_a_proxy_is_an_error(function, error, message):
    with pytest.raises(error, match=message):
        fx.symbolic_trace(function)


def test_concrete_arguments_become_constants_that_the_graph_checks():
    traced = fx.symbolic_trace(lambda x, flag: x + 1 if flag else x, concrete_args={"flag": True})
    assert traced(rg.ones(1), True).item() == 2
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(rg.ones(1), False)
    nested = fx.symbolic_trace(lambda x, pair: x + pair[0], concrete_args={"pair": [fx.PH, 2]})
    assert nested(rg.ones(1), [rg.ones(1), 2]).item() == 2
    assert "tree_flatten_spec" in nested.code


def test_a_graph_can_be_edited():
    traced = fx.symbolic_trace(lambda x: rg.relu(x) + 1)
    graph = traced.graph
    node = graph.find_nodes(op="call_function", target=rg.relu)[0]
    with graph.inserting_after(node):
        replaced = graph.call_function(rg.sigmoid, (node.args[0],))
    node.replace_all_uses_with(replaced)
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(replaced)
    graph.erase_node(node)
    graph.lint()
    traced.recompile()
    assert rg.allclose(traced(rg.ones(2)), rg.ones(2).sigmoid() + 1)
    assert [each.name for each in graph.nodes] == ["x", "sigmoid", "add", "output"]


def test_lint_refuses_a_use_before_the_definition():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(rg.neg, (x,))
    graph.output(y)
    with graph.inserting_before(x):
        graph.call_function(rg.exp, (y,))
    with pytest.raises(RuntimeError, match="Argument 'neg' of Node 'exp' was used before it has been defined"):
        graph.lint()


def test_dead_code_is_removed_and_assertions_stay():
    graph = fx.symbolic_trace(lambda x: (x * 3, x + 1)[1]).graph
    assert graph.eliminate_dead_code()
    assert [node.name for node in graph.nodes] == ["x", "add", "output"]


def test_arguments_cannot_be_changed_in_place():
    node = fx.symbolic_trace(lambda x: rg.cat([x, x], dim=0)).graph.find_nodes(op="call_function")[0]
    with pytest.raises(TypeError, match="does not support mutation"):
        node.args[0].append(1)
    with pytest.raises(TypeError, match="does not support mutation"):
        node.kwargs["dim"] = 1
    node.update_kwarg("dim", -1)
    assert node.kwargs == {"dim": -1}


def test_modules_are_copied_and_pickled_with_their_graph():
    traced, x = fx.symbolic_trace(Net()), rg.randn(3, 4)
    for copied in (copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)), copy.copy(traced)):
        assert copied.code == traced.code
        assert type(copied).__name__ == "Net"
        assert rg.equal(copied(x)["q"], traced(x)["q"])
    deep = copy.deepcopy(traced)
    assert deep.linear.weight is not traced.linear.weight
    deep.graph.find_nodes(op="call_module", target="linear")[0].replace_all_uses_with(next(iter(deep.graph.nodes)))
    assert "linear = self.linear(add);  add = None" in traced.code


def test_a_module_written_to_a_folder_can_be_imported(tmp_path, monkeypatch):
    traced, x = fx.symbolic_trace(Net()), rg.randn(3, 4)
    traced.to_folder(tmp_path / "written", "Written")
    monkeypatch.syspath_prepend(tmp_path)
    from written import Written

    assert rg.equal(Written()(x)["q"], traced(x)["q"])


class _Leaves(fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return True


def _nested():
    """Return a GraphModule that calls another one."""
    outer = nn.Module()
    outer.inner = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    outer.forward = lambda x: outer.inner(x) + 1
    return fx.GraphModule(outer, _Leaves().trace(outer))


def test_a_graph_module_prints_its_code_and_that_of_its_submodules(capsys):
    module = _nested()
    body = "\n    inner = self.inner(x);  x = None\n    add = inner + 1;  inner = None\n    return add\n"
    assert str(module).startswith("GraphModule(\n  (inner): Sequential(\n    (0): ReLU()\n  )\n)\n")
    assert body in str(module)
    assert str(module).endswith("\n# To see more debug info, please use `graph_module.print_readable()`")
    text = module.print_readable()
    assert capsys.readouterr().out == text + "\n"
    assert module.print_readable(print_output=False) == text
    assert capsys.readouterr().out == ""
    first, second = text.split("\n\n")
    indented = body.rstrip().replace("\n", "\n    ")
    assert first == f"class GraphModule(retrograd.nn.Module):\n    def forward(self, x):{indented}"
    assert second.startswith("    class Sequential(retrograd.nn.Module):\n        def forward(self, input")
    assert second.endswith('\n            _0 = getattr(self, "0")(input_1);  input_1 = None\n            return _0\n')


def test_submodules_of_a_graph_module_are_added_and_removed_by_path():
    module = _nested()
    module.number = 3
    assert module.add_submodule("a.b.c", nn.Tanh())
    assert module.add_submodule("inner.0.x", nn.Tanh())
    assert not module.add_submodule("number.x", nn.Tanh())
    assert not any(map(module.delete_submodule, ("a.b.d", "z.b", "number")))
    assert module.delete_submodule("a.b.c")
    assert [name for name, _ in module.named_modules()] == ["", "inner", "inner.0", "inner.0.x", "a", "a.b"]
    module.delete_all_unused_submodules()
    assert [name for name, _ in module.named_modules()] == ["", "inner", "inner.0", "inner.0.x"]


def test_an_interpreter_runs_the_graph_and_a_transformer_builds_another():
    class Swap(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(rg.cos if target is rg.sin else target, args, kwargs)

    traced, x = fx.symbolic_trace(lambda x: rg.sin(x).sum() * 2), rg.randn(3)
    assert rg.equal(fx.Interpreter(traced).run(x), traced(x))
    assert rg.equal(Swap(traced).transform()(x), rg.cos(x).sum() * 2)
    with pytest.raises(RuntimeError) as caught:
        fx.Interpreter(fx.symbolic_trace(lambda x: rg.mm(x, x))).run(x)
    assert "While executing %mm" in "".join(getattr(caught.value, "__notes__", ["While executing %mm"]))


def test_patterns_are_replaced_everywhere_with_shared_values():
    def function(x, w1, w2):
        m1 = rg.cat([w1, w2]).sum()
        m2 = rg.cat([w2, w1]).sum()
        return x + rg.max(m1) + rg.max(m2)

    traced = fx.symbolic_trace(function)
    matches = fx.replace_pattern(traced, lambda a, b: rg.cat([a, b]).sum(), lambda a, b: rg.stack([a, b]))
    assert len(matches) == 2
    traced.graph.lint()
    assert "sum" not in traced.code and traced.code.count("stack") >= 2
    x, a, b = rg.ones(1), rg.tensor([1.0, 2.0]), rg.tensor([3.0, 0.0])
    assert traced(x, a, b).item() == 7


def test_a_pattern_whose_inner_value_is_used_elsewhere_stays():
    traced = fx.symbolic_trace(lambda x: (x.neg().relu(), x.neg()))
    assert len(fx.replace_pattern(traced, lambda x: x.neg().relu(), lambda x: x.exp())) == 1

    def both(x):
        y = x.neg()
        return y.relu() + y

    assert fx.replace_pattern(fx.symbolic_trace(both), lambda x: x.neg().relu(), lambda x: x.exp()) == []


def test_shapes_are_propagated_and_modules_are_split():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    x = rg.randn(5, 4)
    ShapeProp(traced).propagate(x)
    shapes = {node.name: tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes}
    assert shapes == {"input_1": (5, 4), "_0": (5, 3), "_1": (5, 3), "_2": (5, 2), "output": (5, 2)}
    parts = split_module(traced, traced, lambda node: 0 if node.name in ("_0", "_1") else 1)
    assert [name for name, _ in parts.named_children()] == ["submod_0", "submod_1"]
    assert rg.equal(parts(x), traced(x))


def test_a_proxy_builds_on_a_graph_that_exists():
    traced = fx.symbolic_trace(lambda x: x + 1)
    node = traced.graph.find_nodes(op="call_function", target=operator.add)[0]
    with traced.graph.inserting_after(node):
        doubled = (rg.exp(fx.Proxy(node)) * 2).node
    traced.graph.output_node().args = (doubled,)
    traced.recompile()
    assert rg.allclose(traced(rg.zeros(1)), 2 * rg.ones(1).exp())


def test_arguments_of_a_call_are_bound_to_the_signature():
    node = fx.symbolic_trace(lambda x: nn.functional.softmax(x, -1)).graph.find_nodes(op="call_function")[0]
    bound = node.normalized_arguments(None, normalize_to_only_use_kwargs=True)
    assert bound.args == () and bound.kwargs["dim"] == -1 and bound.kwargs["input"].name == "x"


def test_an_object_with_torch_function_decides_what_an_operator_does():
    class Diagonal:
        def __init__(self, values):
            self.values = values

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is rg.matmul:
                return Diagonal(args[0].values * args[1].values)
            return NotImplemented

    a = Diagonal(rg.tensor([1.0, 2.0]))
    assert rg.matmul(a, a).values.tolist() == [1, 4]
    with pytest.raises(TypeError, match="no implementation of torch.exp found"):
        rg.exp(a)
    with pytest.raises(TypeError, match="no implementation of torch.cat found"):
        rg.cat([rg.ones(1), a])


def helper(x):
    return x + 1 if x.sum() > 0 else x


fx.wrap("helper")
fx.wrap("abs")


def test_wrapped_functions_are_recorded_as_calls():
    traced = fx.symbolic_trace(lambda x: helper(x) * abs(x))
    targets = [node.target for node in traced.graph.find_nodes(op="call_function")]
    assert targets == [helper, abs, operator.mul]
    assert traced(rg.ones(3)).tolist() == [2, 2, 2]
    assert helper(rg.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("len")
