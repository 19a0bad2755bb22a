"""Modules compiled in place, and what PyTorch's programs ask of a compiler."""

import copy
import io
import logging
import pickle
from contextlib import contextmanager

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.compiler import Compiled


def model_of() -> nn.Module:
    rg.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).double()


def is_compiled(model: nn.Module) -> bool:
    return isinstance(model.forward, Compiled)


@pytest.mark.slow
def test_a_module_compiled_in_place_computes_what_it_did():
    eager, model, x = model_of(), model_of(), rg.randn(6, 4, dtype=rg.float64)
    model.compile(mode="reduce-overhead", backend="inductor", dynamic=False, options=None)
    for mode in (True, False, True, False):
        for one in (eager, model):
            one.train(mode)
            rg.manual_seed(1)
            one.zero_grad()
            (one(x) ** 2).sum().backward()
        for (name, p), (same, q) in zip(eager.named_parameters(), model.named_parameters(), strict=True):
            assert name == same
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-12, atol=1e-12)
    assert model.forward.traces == 2 and not model.forward.eager
    assert list(model.state_dict()) == list(eager.state_dict())
    for a, b in zip(model.state_dict().values(), eager.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)


def test_hooks_run_around_it_at_every_call():
    model, calls = nn.Linear(2, 2), []
    model.compile()
    x = rg.ones(1, 2)
    model(x)
    handles = [
        model.register_forward_pre_hook(lambda module, args: calls.append("before")),
        model.register_forward_hook(lambda module, args, output: calls.append("after") or output * 2),
        model.register_full_backward_hook(lambda module, before, after: calls.append("backward")),
    ]
    wanted = 2 * (x @ model.weight.T + model.bias)
    for _ in range(3):
        y = model(x.requires_grad_())
        assert rg.allclose(y, wanted)
        y.sum().backward()
    assert calls == ["before", "after", "backward"] * 3
    for handle in handles:
        handle.remove()
    assert rg.allclose(model(x), wanted / 2)


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_are_of_the_module_without_programs(copied):
    model, x = model_of().eval(), rg.randn(3, 4, dtype=rg.float64)
    model.compile()
    wanted = model(x)
    other = copied(model)
    assert not is_compiled(other) and vars(other).keys() == vars(model_of()).keys()
    assert rg.allclose(other(x), wanted) and is_compiled(model)
    with rg.no_grad():
        for p in other.parameters():
            p.zero_()
    assert (other(x) == 0).all() or copied is copy.copy


def test_a_saved_module_is_read_again():
    model = nn.Linear(2, 1)
    model.compile()
    model(rg.ones(1, 2))
    file = io.BytesIO()
    rg.save(model.state_dict(), file)
    file.seek(0)
    other = nn.Linear(2, 1)
    other.compile()
    other.load_state_dict(rg.load(file))
    assert rg.equal(other(rg.ones(1, 2)), model(rg.ones(1, 2)))


def test_a_forward_of_the_instances_own_comes_back_in_copies():
    model = nn.Linear(2, 2)
    model.forward = lambda x: nn.Linear.forward(model, x) + 1
    plain = model.forward
    model.compile()
    x = rg.ones(1, 2)
    for _ in range(2):
        assert rg.allclose(model(x), nn.Linear.forward(model, x) + 1)
    assert copy.copy(model).forward is plain
    model.compile(disable=True)
    assert model.forward is plain


def test_a_part_compiled_in_place_is_taken_into_the_program_around_it():
    model = model_of()
    model[0].compile()
    whole = rg.compile(model)
    x = rg.randn(5, 4, dtype=rg.float64)
    for _ in range(3):
        whole(x)
    assert whole.compiled.traces == 1 and not whole.compiled.eager and model[0].forward.traces == 0


def test_a_copy_of_an_object_with_a_compiled_method_has_a_method_of_its_own():
    class Scale:
        def __init__(self):
            self.factor = rg.ones(2)

        @rg.compile
        def times(self, x):
            return x * self.factor

    one = Scale()
    one.times(rg.ones(2))
    other = copy.deepcopy(one)
    other.factor.fill_(3.0)
    for _ in range(2):
        assert one.times(rg.ones(2)).tolist() == [1, 1] and other.times(rg.ones(2)).tolist() == [3, 3]


def test_options_are_pytorchs():
    assert rg.compile(mode="max-autotune", fullgraph=True)(lambda x: x * 2)(rg.ones(1)).item() == 2
    with pytest.raises(RuntimeError, match="mode 'fast': must be one of default"):
        rg.compile(len, mode="fast")
    with pytest.raises(RuntimeError, match="either mode or options"):
        rg.compile(len, mode="default", options={"a": 1})
    with pytest.raises(TypeError, match="speed"):
        rg.compile(len, speed=1)
    with pytest.warns(UserWarning, match="ignoring the backend"):
        rg.compile(lambda x: x, backend=lambda graph, inputs: graph)


def test_stances():
    double = rg.compile(lambda x: x * 2)
    with rg.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="no program for this call"):
        double(rg.ones(1))
    with rg.compiler.set_stance("eager_on_recompile"):
        double(rg.ones(1))
    assert double.traces == 0
    double(rg.ones(1))
    with rg.compiler.set_stance("fail_on_recompile"):
        assert double(rg.full((1,), 3.0)).item() == 6 and double.entries[0].calls == 1
    rg.compiler.set_stance("force_eager")
    try:
        double(rg.ones(1))
    finally:
        rg.compiler.set_stance("default")
    assert double.entries[0].calls == 1
    with pytest.raises(RuntimeError, match="stance must be one of"):
        rg.compiler.set_stance("lazy")
    with pytest.raises(RuntimeError, match="set_stance: called inside a compiled function"):
        rg.compile(rg.compiler.set_stance("force_eager")(lambda x: x))(rg.ones(1))


@contextmanager
def said_by(logger):
    """What is logged meanwhile."""
    handler, messages = logging.Handler(logging.INFO), []
    handler.emit = lambda record: messages.append(record.getMessage())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield messages
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def test_a_function_says_why_it_is_traced_again():
    factor, weight = 2.0, rg.ones(3, requires_grad=True)

    @rg.compile
    def f(x, *, options=None):
        return (x * weight * factor).sum()

    def reason(*args, **kwargs):
        before = len(messages)
        f(*args, **kwargs)
        said = messages[before:]
        with rg.compiler.set_stance("fail_on_recompile"):
            f(*args, **kwargs)
        return said[-1] if said else ""

    with said_by(logging.getLogger("retrograd.compiler")) as messages:
        assert reason(rg.ones(3)) == "" == reason(rg.ones(3))
        assert reason(rg.ones(1)).endswith("f> is traced again: x: its shape is (1,), it was (3,)")
        assert "x: its dtype is float64, it was float32" in reason(rg.ones(3, dtype=rg.float64))
        assert "x: its strides are (8,), they were (4,)" in reason(rg.ones(3, 2)[:, 0])
        assert "x: a ndarray, it was a Tensor" in reason(np.ones(3))
        assert "options['a']" not in reason(rg.ones(3), options={"a": 1})  # other arguments altogether
        assert "options['a']: 2, it was 1" in reason(rg.ones(3), options={"a": 2})
        with rg.no_grad():
            assert "grad mode is False, it was True" in reason(rg.ones(3), options={"a": 2})
        f.entries.clear()
        reason(rg.ones(3))
        factor = 3.0
        assert "a variable of an enclosing function is 3.0, it was 2.0" in reason(rg.ones(3))
        assert "why it was traced again: a variable of an enclosing function" in f.explain()
        weight.requires_grad_(False)
        assert "a Tensor from outside: requires_grad is False, it was True" in reason(rg.ones(3))
    with (
        rg.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match=r"recompile': x: its shape is \(7,\)"),
    ):
        f(rg.ones(7))


def test_the_log_of_recompilations_is_pytorchs(capfd):
    logger = logging.getLogger("retrograd.compiler")
    try:
        rg._logging.set_logs(recompiles=True)
        double = rg.compile(lambda x: x * 2)
        double(rg.ones(1)), double(rg.ones(2))
        assert "is traced again: x: its shape is (2,), it was (1,)" in capfd.readouterr().err
        rg._logging.set_logs(recompiles=False)
        double(rg.ones(1, dtype=rg.float64))
        assert capfd.readouterr().err == ""
    finally:
        logger.handlers.clear()


def test_what_is_marked_with_disable_runs_in_every_call():
    calls = []

    @rg.compiler.disable(reason="it counts")
    def count():
        calls.append(1)

    @rg.compile
    def f(x):
        count()
        return x * 2

    with pytest.warns(UserWarning, match="it counts"):
        for _ in range(5):
            assert f(rg.ones(1)).item() == 2
    assert len(calls) == 5 and rg.compiler.disable(f) is f.function


def test_settings_of_pytorchs_compilers_may_be_set():
    rg._dynamo.config.cache_size_limit = 64
    assert rg._dynamo.config.cache_size_limit == 64 and rg._inductor.config.cache_size_limit == 8
    rg._dynamo.config.cache_size_limit = 8
    assert rg._dynamo.optimize("eager")(lambda x: x + 1)(rg.ones(1)).item() == 2
    assert "add" in rg._dynamo.explain(lambda x: x + 1)(rg.ones(1))
    assert "inductor" in rg._dynamo.list_backends()
