"""Passes over programs: what is fused, that nothing else changes, and that it computes the eager numbers."""

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.compiler import Compiled
from retrograd.core.graph.primitive import Primitive
from retrograd.core.graph.primitive import apply as applied
from retrograd.nn import functional as F
from retrograd.testing.fuzzing import FuzzedProgram
from tests.compiler.programs.ways import NO_REGIONS, loops_of_every_size

pytestmark = pytest.mark.skipif(not kernels.available(), reason="needs the library of loops")


@pytest.fixture
def everything_fuses(monkeypatch):
    """Loops of every size, and no regions."""
    counts = {"loops": 0}

    def made() -> None:
        counts["loops"] += 1

    for holder, name, value in [*loops_of_every_size(made), NO_REGIONS]:
        monkeypatch.setattr(holder, name, value)
    return counts


def check_fuzzed(seed: int) -> None:
    program = FuzzedProgram(seed, steps=20)
    try:
        wanted = [program.run(program.function, number) for number in range(3)]
    except RuntimeError:
        return  # what it writes may not be written
    function = Compiled(program.function, fallback=False, dynamic=False)
    for number in range(3):
        for got, want in zip(program.run(function, number), wanted[number], strict=True):
            assert (got is None) == (want is None)
            if want is not None:
                assert got.dtype == want.dtype and got.strides == want.strides
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12, err_msg=f"seed {seed}")


@pytest.mark.slow
def test_random_programs_of_fused_loops(everything_fuses):
    for seed in range(20):
        check_fuzzed(seed)
    assert everything_fuses["loops"] > 40


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("first", range(20, 2960, 490))
def test_hundreds_of_random_programs_of_fused_loops(first, everything_fuses, pytestconfig):
    for seed in range(first, first + (490 if pytestconfig.getoption("--long") else 20)):
        check_fuzzed(seed)


def parts_of(step: Compiled) -> list[list[str]]:
    """The operators in each loop of the only program."""
    (found,) = step.entries
    return [[p.operator or p.name for p in x.parts] for x in found.trace.program.instructions if x.kind == "loop"]


def compared(function: Any, *leaves: Any, exact: bool = True) -> Compiled:
    """The function compiled, after its results and gradients were compared with the eager ones."""

    def run(f: Any) -> list[Any]:
        for x in leaves:
            x.grad = None
        loss = f(*leaves)
        loss.backward() if loss.requires_grad else None
        return [loss.detach().numpy().copy(), *[None if x.grad is None else x.grad.numpy().copy() for x in leaves]]

    step = Compiled(function, fallback=False, dynamic=False)
    wanted = run(function)
    for _ in range(2):
        for got, want in zip(run(step), wanted, strict=True):
            if want is not None and want.size > 1 and exact:
                np.testing.assert_array_equal(got, want)
            elif want is not None:
                np.testing.assert_allclose(got, want, rtol=1e-5 if want.dtype == np.float32 else 1e-12)
    return step


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return rg.from_numpy(np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)).requires_grad_()


def test_forward_and_backward_of_a_chain_are_one_loop(everything_fuses):
    def step(x):
        loss = ((x * 1.5 + 0.5) * (x - 2)).mean()
        loss.backward()
        return loss.detach()

    assert len(parts_of(compared(step, normal(500)))) == 1


def test_rows_columns_and_slices_are_operands(everything_fuses):
    def step(x, row, column, wide):
        y = (x * row + column) / (wide[:, 1:-1].abs() + 1)
        y = rg.where(y > row, y, x.T.reshape(7, 5) if False else y * 0.5)
        loss = (y * x).sum()
        loss.backward()
        return loss.detach()

    step = compared(step, normal(7, 5), normal(5), normal(7, 1), normal(7, 7), exact=False)
    assert max(map(len, parts_of(step))) >= 5


@pytest.mark.parametrize("dim", [0, 1, (0, 2), (1, 2), (0, 1), None])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_along_axes_end_loops(dim, keepdim, everything_fuses):
    def step(x):
        y = x * x + 1
        return y.sum(dim, keepdim=keepdim) if dim is not None else y.sum()

    function = Compiled(step, fallback=False, dynamic=False)
    for seed in range(2):
        x = rg.from_numpy(np.random.default_rng(seed).standard_normal((3, 4, 9)))
        np.testing.assert_allclose(function(x).numpy(), step(x).numpy(), rtol=1e-13)
    if dim != 1:  # with the axes before and after it that is no sum of rows or columns
        assert ["mul", "add", "sum"] in parts_of(function)


def test_activation_and_residual_after_a_product_are_one_loop(everything_fuses):
    def step(x, w, b):
        y = x + F.relu(F.linear(x, w, b)) * 0.5
        return (y * y).sum()

    found = parts_of(compared(step, normal(6, 4), normal(4, 4), normal(4), exact=False))
    assert ["relu", "mul", "add"] in [names[:3] for names in found]


def test_a_product_that_others_read_is_kept(everything_fuses):
    def step(x, w):
        h = x @ w
        return (h.relu() * h.sort(0)[0]).sum()

    compared(step, normal(6, 4), normal(4, 8), exact=False)


def test_casts_comparisons_and_masks_are_steps(everything_fuses):
    def step(x):
        single = x.float() * 2
        mask = (single > 0.25) & (x < 1)
        loss = rg.where(mask, x, single.double() * 0.1).sum()
        loss.backward()
        return loss.detach()

    found = parts_of(compared(step, normal(64)))
    assert max(map(len, found)) >= 6


def test_a_mean_of_parts_does_not_join_what_needs_it(everything_fuses):
    def step(x):
        y = x * 2
        centred = y - y.mean()
        loss = (centred * centred).mean()
        loss.backward()
        return loss.detach()

    compared(step, normal(40), exact=False)


def test_writes_between_are_seen(everything_fuses):
    def step(x):
        y = x * 2
        before = y + 1
        y.mul_(3)
        after = y + 1
        y.add_(before)
        return (before * after + y).sum()

    compared(step, normal(32))


def test_a_gradient_that_is_given_away_is_added_to_in_place():
    x = normal(5000, dtype=np.float32)

    @rg.compile
    def step():
        x.grad = None
        (x * x).sum().backward()
        kept = x.grad
        (x * 2).sum().backward()
        return kept

    for _ in range(3):
        kept = step()
        np.testing.assert_array_equal(kept.numpy(), x.grad.numpy())
        np.testing.assert_array_equal(kept.numpy(), 2 * x.detach().numpy() + 2)


def test_what_is_computed_twice_is_computed_once(everything_fuses):
    @rg.compile
    def step(x):
        y = x.sort(0)[0] + x.sort(0)[0]
        x.mul_(2)
        return y, x.sort(0)[0], x.cumsum(0), x.cumsum(0)

    for number in range(3):
        x = normal(6).detach() + number
        y, after, one, other = step(x.clone())
        np.testing.assert_array_equal(y.numpy(), 2 * np.sort(x.numpy()))
        np.testing.assert_array_equal(after.numpy(), 2 * np.sort(x.numpy()))
        one.zero_()
        np.testing.assert_array_equal(other.numpy(), np.cumsum(2 * x.numpy()))


def test_repeats_of_pure_instructions_are_removed(everything_fuses):
    def step(x):
        return (x.cumsum(0) * 2 + x.cumsum(0)).sum()

    compiled = compared(step, normal(6))
    names = [step.name for step in compiled.entries[0].trace.program.instructions]
    assert len([name for name in names if name == "cumsum"]) == 1


@pytest.mark.slow
def test_compiled_loops_keep_every_bit_of_eager_kernels():
    def step(x, w, b):
        h = F.gelu(F.linear(x, w, b))
        y = x + rg.tanh(h) * rg.sigmoid(h) + F.silu(h)
        loss = (y * y).mean()
        loss.backward()
        return loss.detach()

    x, w, b = [normal(*shape, dtype=np.float32) for shape in [(512, 256), (256, 256), (256,)]]
    compared(step, x, w, b, exact=False)  # the gradient of b is a sum, which has another order
    found = compared(lambda x, w: step(x, w, b.detach()), x, w)
    assert any("gelu" in names and len(names) > 3 for names in parts_of(found))


@pytest.mark.skipif(not kernels.multiplies(), reason="needs loops that call BLAS")
def test_large_products_with_bias_and_activation_have_eager_bits():
    rng = np.random.default_rng(0)
    x, w, b = [rg.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in ((501, 170), (130, 170), 130)]

    def layer(x):
        return F.relu(F.linear(x, w, b)) * 0.5

    step = rg.compile(layer)
    for _ in range(3):
        found = step(x)
    assert (found.numpy() == layer(x).numpy()).all()
    assert ["relu", "mul"] in [names[:2] for names in parts_of(step)]


@pytest.mark.skipif(not kernels.multiplies(), reason="needs loops that call BLAS")
@pytest.mark.slow  # compiles loops
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
def test_gradients_that_go_on_are_added_to_by_products(dtype):
    def made(wrap):
        rg.manual_seed(0)
        model = rg.nn.Sequential(rg.nn.Linear(320, 200), rg.nn.ReLU(), rg.nn.Linear(200, 320)).to(dtype)

        def step(x):
            loss = ((model(x) - x) ** 2).mean()
            loss.backward()
            return loss.detach()

        return model, wrap(step)

    (one, compiled), (two, eager) = made(rg.compile), made(lambda f: f)
    for k in range(5):
        x = rg.from_numpy(np.random.default_rng(k).standard_normal((700, 320))).to(dtype)
        compiled(x), eager(x)
        for p, q in zip(one.parameters(), two.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)
    names = [step.name for step in compiled.entries[0].replay.instructions]
    assert names.count("add_product") == 2 and "linear_weight" not in names


@pytest.mark.skipif(not kernels.multiplies(), reason="needs loops that call BLAS")
def test_a_product_that_somebody_else_reads_is_not_added_to_what_it_reads():
    w = rg.from_numpy(np.eye(200, dtype=np.float32))

    def alone(x, total):
        total += x @ w
        return total.sum()

    def read(x, total):
        product = x @ w
        total += product
        return product.sum()

    def written(x, total):
        product = x @ w
        x += 1
        total += product
        return x.sum()

    def factor(x, total):
        x += x @ w
        return (x + total).sum()

    for f, expected in ((alone, 1), (read, 0), (written, 0), (factor, 0)):
        compiled, states = rg.compile(f), []
        for run in (compiled, f):
            x = rg.from_numpy(np.random.default_rng(0).standard_normal((200, 200)).astype(np.float32))
            total = rg.ones(200, 200)
            found = [run(x, total).item() for _ in range(4)]
            states.append((found, x.numpy(), total.numpy()))
        for got, wanted in zip(*states, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)
        names = [step.name for step in compiled.entries[0].replay.instructions]
        assert names.count("add_product") == expected, f.__name__


@pytest.mark.parametrize("name", ["sign", "floor_divide", "hypot"])
def test_functions_with_a_loop_that_fused_steps_do_not_have_stay_apart(name):
    if not kernels.available():
        pytest.skip("there is no library of loops")
    x, y = rg.randn(40_000), rg.rand(40_000) + 0.5
    function = getattr(rg, name)

    def f(x, y):
        z = x * 2.0
        return (function(z, y) if name != "sign" else function(z)) + y

    assert rg.equal(rg.compile(f)(x, y), f(x, y))


def apply(primitive: Primitive, inputs: Any, params: Any = None) -> Any:
    return applied(primitive, inputs, params or {})


def own_bits(x: Any, mask: Any) -> Any:
    """``np.where(mask, x, 0)`` in a way that no pass reads."""
    return (x.view(np.int32) * mask.view(np.int8)).view(np.float32)


OWN_KEEP = Primitive(
    "own_keep",
    own_bits,
    "x mask",
    [lambda g, mask: OWN_KEEP(g, mask), None],
    elementwise=True,
    reference=lambda x, mask: np.where(mask, x, 0),
)
OWN_SUM = Primitive("own_sum", lambda x, dim, keepdim: np.sum(x, dim, keepdims=keepdim), computes="sum")
OWN_WEIGHT = Primitive("own_weight", lambda dy, x: np.dot(dy.T, x), "dy x", computes="x.T @ y")
OWN_LINEAR = Primitive(
    "own_linear",
    lambda x, w: np.dot(x, w.T),
    "x w",
    [lambda g, w: np.matmul(g, w), lambda g, x: OWN_WEIGHT(g, x)],
    computes="x @ y.T",
)


def whole_numbers(seed: int, *shape: int) -> Any:
    return rg.from_numpy(np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32))


def test_an_operator_of_the_user_is_fused_as_it_declares(everything_fuses):
    x, mask = rg.randn(300, 700, requires_grad=True), rg.rand(300, 700) > 0.5

    def kept(x):
        y = apply(OWN_KEEP, (x * 2.0, mask)) + 1.0
        return (y * y).sum()

    assert ["mul", "own_keep", "add"] in [names[:3] for names in parts_of(compared(kept, x))]

    def summed(x):
        return apply(OWN_SUM, (x * 2.0 + 1.0,), {"dim": (1,), "keepdim": False}).max()

    assert ["mul", "add", "own_sum"] in parts_of(compared(summed, whole_numbers(0, 300, 700)))


@pytest.mark.skipif(not kernels.multiplies(), reason="needs loops that call BLAS")
def test_a_product_of_the_user_is_added_to_a_gradient_as_it_declares():
    x, factor = whole_numbers(0, 700, 320), whole_numbers(1, 700, 200)
    w, other = whole_numbers(2, 200, 320), whole_numbers(2, 200, 320)

    def step(x, w):
        (apply(OWN_LINEAR, (x, w)) * factor).sum().backward()

    compiled = rg.compile(step)
    for weight, run in ((w, compiled), (other, step)):
        weight.requires_grad_()
        for _ in range(4):
            run(x, weight)
    assert (w.grad.numpy() == other.grad.numpy()).all()
    names = [step.name for step in compiled.entries[0].replay.instructions]
    assert names.count("add_product") == 1 and "own_weight" not in names


def test_a_declaration_that_no_pass_knows_is_an_error():
    with pytest.raises(ValueError, match="own: computes must be one of 'x @ y', .*, got 'total'"):
        Primitive("own", np.sum, computes="total")


def test_a_rule_with_the_name_of_an_operator_is_not_taken_for_it():
    def mean(g):
        return np.array(g) * 2

    doubled = Primitive("doubled", lambda x: x * 2, "x", [mean])
    x = rg.randn(300, 700, requires_grad=True)
    compared(lambda x: ((apply(doubled, (x * 2,)) * x) ** 2).sum(), x, exact=False)


@pytest.mark.parametrize("shape", [(4, 5), (300, 700)])
def test_an_array_is_flattened_in_the_order_that_the_call_names(shape):
    x = rg.randn(*shape)
    for flattened in (
        lambda x: x.flatten("F"),
        lambda x: x.reshape(-1, order="F"),
        lambda x: x.ravel("F"),
        lambda x: np.reshape(x, (-1,), order="F"),
    ):
        compared(lambda x, flattened=flattened: rg.tensor(flattened(x.array + 1) * 2), x)


def test_numpys_products_of_large_arrays_are_no_elementwise_functions():
    def of(x, y):
        z = np.matmul(x, y)
        np.matmul(z, y, out=x)
        x @= y
        return z + x

    compared(lambda x: rg.tensor(of(x.array + 1, x.array - 3)), rg.randn(512, 512))
