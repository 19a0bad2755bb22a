"""retrograd.ode: values against SciPy, derivatives against differences, events, adjoints, vmap and errors."""

import math

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.func import grad, hessian, jacfwd, jacrev, vmap
from retrograd.ode import METHODS, SolveError, leapfrog, odeint, solve

integrate = pytest.importorskip("scipy.integrate")

P0, Y0 = np.array([1.5, 1.0, 3.0, 1.0]), np.array([2.0, 1.0])
TIMES = [0.0, 0.4, 1.0]
SLOW = pytest.mark.slow
FIXED = ("euler", "midpoint", "rk4")


def double(values, **options):
    return rg.tensor(values, dtype=rg.float64, **options)


def predator(t, y, p):
    return rg.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])


def reference(p=P0, y0=Y0):
    def f(t, y):
        return [p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]]

    return integrate.solve_ivp(f, (0, 1), y0, "DOP853", TIMES, rtol=1e-13, atol=1e-13).y.T


@pytest.mark.parametrize("method", [pytest.param(m, marks=[SLOW] * (m in ("heun", "kvaerno3"))) for m in METHODS])
def test_every_method_meets_the_reference_forwards_and_backwards_in_time(method):
    settings = {"steps": 50} if method in FIXED else {"rtol": 1e-5, "atol": 1e-7}
    bound = {"euler": 0.1, "midpoint": 1e-3}.get(method, 1e-4)
    solution = solve(predator, double(Y0), TIMES, (double(P0),), method=method, **settings)
    np.testing.assert_allclose(solution.y.numpy(), reference(), atol=bound)
    assert solution.status == 0 and solution.evaluations >= solution.steps
    back = solve(predator, solution.y[-1], TIMES[::-1], (double(P0),), method=method, **settings)
    np.testing.assert_allclose(back.y[-1].numpy(), Y0, atol=3 * bound)


@pytest.mark.parametrize(
    "method", ["tsit5", "dopri8", "rk4", *[pytest.param(m, marks=SLOW) for m in ("kvaerno3", "rodas5p")]]
)
def test_halving_the_step_divides_the_error_by_the_power_of_the_order(method):
    order = {"tsit5": 5, "dopri8": 8, "kvaerno3": 3, "rk4": 4, "rodas5p": 5}[method]

    def error(steps):
        y = solve(predator, double(Y0), [0.0, 1.0], (double(P0),), method=method, steps=steps, atol=1e-13, rtol=1e-13).y
        return abs(y[-1].numpy() - reference()[-1]).max()

    steps = 2 if method == "dopri8" else 8
    assert abs(math.log2(error(steps) / error(2 * steps)) - order) < 1


def differences(function, x, h=1e-5):
    return np.stack([(function(x + h * e) - function(x - h * e)) / (2 * h) for e in np.eye(len(x))], -1)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("method", "adjoint"),
    [
        ("tsit5", "direct"),
        ("tsit5", "checkpoint"),
        pytest.param("rodas5p", "direct", marks=SLOW),
        pytest.param("rk4", "direct", marks=SLOW),
        pytest.param("dopri8", "direct", marks=SLOW),
        pytest.param("bosh3", "direct", marks=SLOW),
        pytest.param("kvaerno3", "direct", marks=SLOW),
        pytest.param("kvaerno3", "checkpoint", marks=SLOW),
        pytest.param("dopri8", "backsolve", marks=SLOW),
    ],
)
def test_gradients_by_parameters_are_differences_of_the_solution(method, adjoint):
    settings = {"steps": 4 if method == "rk4" else 2} if method in ("rk4", "rodas5p") else {"rtol": 1e-4, "atol": 1e-6}
    settings = {"rtol": 1e-8, "atol": 1e-8} if adjoint == "backsolve" else settings

    def final(p):
        return solve(predator, double(Y0), TIMES, (p,), method=method, adjoint=adjoint, **settings).y

    found = jacrev(final)(double(P0)).numpy()
    exact = differences(lambda p: reference(p), P0)
    np.testing.assert_allclose(found, exact, atol=2e-3)
    if adjoint == "direct":
        np.testing.assert_allclose(jacfwd(final)(double(P0)).numpy(), found, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("method", "settings"),
    [("tsit5", {"rtol": 1e-4}), pytest.param("kvaerno3", {"rtol": 1e-3, "atol": 1e-4}, marks=SLOW)],
)
def test_second_derivatives_are_differences_of_gradients(method, settings):
    def total(p):
        return solve(predator, double(Y0), [0.0, 0.3], (p,), method=method, **settings).y[-1].sum()

    found = hessian(total)(double(P0)).numpy()
    np.testing.assert_allclose(found, differences(lambda p: grad(total)(double(p)).numpy(), P0), atol=2e-3)


@SLOW
def test_times_have_derivatives_of_higher_order():
    def states(t):
        return solve(lambda t, y: -t * y, double([1.0]), t, rtol=1e-8, atol=1e-10).y[:, 0]

    t = double([0.5, 1.0, 1.5], requires_grad=True)
    exact = np.exp((0.25 - np.array([0.5, 1.0, 1.5]) ** 2) / 2)
    np.testing.assert_allclose(states(t).detach().numpy(), exact, rtol=1e-7)
    assert gradcheck(states, (t,)) and gradgradcheck(states, (t,), atol=1e-4)


def falling(t, y, g):
    return rg.stack([y[1], -g])


def hits_ground(t, y, g):
    return y[0]


hits_ground.terminal = True
hits_ground.direction = -1


def test_the_time_of_an_event_is_differentiated_to_second_order():
    def landing(height, g):
        y0 = rg.stack([height, rg.zeros((), dtype=rg.float64)])
        found = solve(falling, y0, [0.0, 10.0], (g,), events=hits_ground, rtol=1e-8, atol=1e-8)
        assert found.status == 1 and found.t.shape == (2,)
        return rg.cat([found.t_events[0], found.y_events[0][0, 1:]])

    height, g = double(5.0, requires_grad=True), double(9.81, requires_grad=True)
    np.testing.assert_allclose(landing(height, g).detach().numpy(), [(10 / 9.81) ** 0.5, -((98.1) ** 0.5)], rtol=1e-8)
    assert gradcheck(landing, (height, g)) and gradgradcheck(landing, (height, g))


def test_interpolants_keep_their_history_when_they_are_first_read_without_one():
    def fall(t, y):
        return rg.stack([y[1], -1 - 0.3 * y[1] * y[1].abs()])

    def ground(t, y):
        return y[0]

    ground.terminal = True
    options = {"rtol": 1e-5, "atol": 1e-7}

    def landing(y0):  # the root of the event is found without recording
        return solve(fall, y0, (0.0, 5.0), method="dopri8", events=ground, **options).t_events[0][0]

    def middle(y0, method, silent):
        solution = solve(fall, y0, (0.0, 0.5), method=method, dense=True, **options)
        if silent:
            with rg.no_grad():
                solution(0.37)
        return solution(0.37)[0]

    y0, direction, step = double([1.0, 0.5]), double([0.3, -0.7]), 1e-4
    expected = (landing(y0 + step * direction) - landing(y0 - step * direction)).item() / (2 * step)
    assert (grad(landing)(y0) * direction).sum().item() == pytest.approx(expected, rel=2e-4)
    for method in ("dopri8", "bosh3", "kvaerno3"):
        assert rg.equal(grad(middle)(y0, method, True), grad(middle)(y0, method, False))


def test_events_have_directions_and_dense_output_meets_the_solution():
    up, down = (lambda t, y: y[0] - 0.5), (lambda t, y: y[0] - 0.5)
    up.direction, down.direction = 1, -1
    turn = lambda t, y: rg.stack([y[1], -y[0]])  # noqa: E731
    found = solve(turn, double([0.0, 1.0]), [0.0, 6.0], events=[up, down], dense=True, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.t_events[0].numpy(), [np.pi / 6], rtol=1e-7)
    np.testing.assert_allclose(found.t_events[1].numpy(), [np.pi * 5 / 6], rtol=1e-7)
    times = np.linspace(0, 6, 7)
    np.testing.assert_allclose(found(times)[:, 0].numpy(), np.sin(times), atol=1e-6)
    time = double(1.3, requires_grad=True)
    found(time)[0].backward()
    np.testing.assert_allclose(time.grad.item(), np.cos(1.3), rtol=1e-6)
    with pytest.raises(ValueError, match=r"t must be in \[0.0, 6.0\], got 7.0"):
        found(7.0)


@pytest.mark.parametrize("method", ["tsit5", *[pytest.param(m, marks=SLOW) for m in ("kvaerno3", "rodas5p")]])
def test_examples_of_vmap_are_the_solutions_one_by_one(method):
    settings = {"method": method, "rtol": 1e-4, "atol": 1e-6}
    if method == "rodas5p":
        settings = {"method": method, "steps": 1}
    ps = double(np.stack([P0, 1.1 * P0]))

    def total(p):
        return solve(predator, double(Y0), [0.0, 0.5], (p,), **settings).y[-1].sum()

    values, slopes = vmap(total)(ps), vmap(grad(total))(ps)
    for index, p in enumerate(ps):
        np.testing.assert_allclose(values[index].item(), total(p).item(), rtol=1e-3)
        np.testing.assert_allclose(slopes[index].numpy(), grad(total)(p).numpy(), rtol=1e-2, atol=1e-3)


def test_states_are_nests_of_any_floating_dtype():
    def f(t, s):
        return {"z": 1j * s["z"], "x": [-s["x"][0]]}

    y0 = {"z": rg.tensor(1.0 + 0j, dtype=rg.complex64), "x": [rg.tensor([1.0, 2.0])]}
    for method in ("dopri5", "kvaerno3", "rodas5p"):
        y = odeint(f, y0, [0.0, 1.0], method=method, rtol=1e-4, atol=1e-6)
        assert y["z"].dtype == rg.complex64 and y["x"][0].dtype == rg.float32 and y["x"][0].shape == (2, 2)
        np.testing.assert_allclose(y["z"][-1].numpy(), np.exp(1j), atol=2e-3)
        np.testing.assert_allclose(y["x"][0][-1].numpy(), np.exp(-1) * np.array([1, 2]), atol=2e-3)


@pytest.mark.parametrize(("method", "bound"), [("kvaerno5", 1e-3), ("rodas5p", 1e-5)])
def test_a_stiff_system_takes_few_steps(method, bound):
    def robertson(t, y):
        a = -0.04 * y[0] + 1e4 * y[1] * y[2]
        c = 3e7 * y[1] ** 2
        return rg.stack([a, -a - c, c])

    found = solve(robertson, double([1.0, 0.0, 0.0]), [0.0, 100.0], method=method, rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(found.y[-1].numpy(), [0.617234922, 6.15359216e-06, 0.382758925], rtol=bound)
    assert found.steps < 60


@pytest.mark.parametrize("method", ["tsit5", "kvaerno5", "rodas5p"])
def test_a_tensor_that_f_reads_late_has_its_gradient_and_a_nest_has_the_same_solution(method):
    settings = {"method": method, "rtol": 1e-7, "atol": 1e-9}

    def f(t, y):
        return rate * -y if t > 1 else -y

    rate, y0 = double(3.0, requires_grad=True), double([1.0, 2.0])
    found = solve(f, y0, [0.0, 1.0, 1.5], **settings)
    nest = solve(lambda t, y: (f(t, y[0]),), (y0,), [0.0, 1.0, 1.5], **settings)
    np.testing.assert_allclose(nest.y[0].detach().numpy(), found.y.detach().numpy(), rtol=1e-4)
    for y in (found.y, nest.y[0]):
        (slope,) = rg.autograd.grad(y[-1, 1], rate)
        np.testing.assert_allclose(slope.numpy(), -0.5 * 2 * math.exp(-1 - 1.5), rtol=1e-4)
    scalar = solve(lambda t, y: -rate * y, double(1.0), [0.0, 1.0], **settings).y[-1]
    np.testing.assert_allclose(rg.autograd.grad(scalar, rate)[0].numpy(), -math.exp(-3), rtol=1e-5)
    with rg.no_grad():
        plain = solve(f, y0, [0.0, 1.0, 1.5], **settings)
    np.testing.assert_allclose(plain.y.numpy(), found.y.detach().numpy(), rtol=1e-4)
    if method == "kvaerno5":  # without a gradient, f is not called again at the solution of a stage
        assert plain.evaluations < 0.9 * found.evaluations


@pytest.mark.parametrize("unknowns", [2, pytest.param(12, marks=SLOW)])
def test_a_rosenbrock_method_interpolates_and_reads_the_time(unknowns):
    times = np.linspace(0, 1, 9)
    y0 = double(np.linspace(1, 2, unknowns))
    found = solve(lambda t, y: -50 * (y - rg.cos(t)), y0, [0.0, 1.0], method="rodas5p", dense=True, rtol=1e-6)
    # y' = -a (y - cos t) has the solution (a^2 cos t + a sin t) / (1 + a^2) + c e^(-a t)
    forced = (2500 * np.cos(times) + 50 * np.sin(times)) / 2501
    exact = forced[:, None] + (y0.numpy() - 2500 / 2501) * np.exp(-50 * times)[:, None]
    np.testing.assert_allclose(found(times).numpy(), exact, atol=2e-5)
    with pytest.raises(SolveError, match="Jacobian of f has entries that are not finite"):
        solve(lambda t, y: rg.sqrt(y), double([0.0]), [0.0, 1.0], method="rodas5p", steps=2)


def test_a_module_has_gradients_by_the_backward_integration():
    class Field(rg.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = rg.nn.Linear(2, 2)

        def forward(self, t, y):
            return rg.tanh(self.inner(y))

    rg.manual_seed(0)
    field, y0 = Field().double(), double(Y0)
    gradients = []
    for adjoint in ("direct", "backsolve"):
        field.zero_grad()
        odeint(field, y0, [0.0, 1.0], adjoint=adjoint)[-1].sum().backward()
        gradients.append([p.grad.numpy().copy() for p in field.parameters()])
    for direct, back in zip(*gradients, strict=True):
        np.testing.assert_allclose(back, direct, rtol=1e-5, atol=1e-8)


def test_leapfrog_keeps_the_energy_and_has_gradients():
    q, v = leapfrog(lambda t, q: -q, double(1.0), double(0.0), (0.0, 20.0), steps=200)
    energy = (q * q + v * v).numpy() / 2
    assert q.shape == (201,) and abs(energy - 0.5).max() < 2e-3
    q0 = double(1.0, requires_grad=True)
    assert gradcheck(lambda q0: leapfrog(lambda t, q: -(q**3), q0, q0, (0.0, 1.0), steps=5)[0], (q0,))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: solve(lambda t, y: y**2, double([1.0]), [0.0, 2.0]), SolveError, "step size fell|steps ended"),
        (lambda: solve(lambda t, y: y, double([1.0]), [0.0, 9.0], max_steps=3), SolveError, "3 steps reached"),
        (lambda: solve(lambda t, y: y, double([float("nan")]), [0.0, 1.0]), SolveError, "not finite at t = 0.0"),
        (lambda: solve(lambda t, y: y / 0, double([1.0]), [0.0, 1.0]), SolveError, "not finite at t = 0.0"),
        (lambda: solve(lambda t, y: y, double([1.0]), [0.0, 1.0], method="lsoda"), ValueError, "method must be one of"),
        (lambda: solve(lambda t, y: y, double([1.0]), [0.0, 1.0], method="rk4"), ValueError, "no error estimate"),
        (lambda: solve(lambda t, y: y[0], double([1.0]), [0.0, 1.0]), ValueError, "y0 has shape"),
        (lambda: solve(lambda t, y: y, double([1.0]), [0.0, 1.0, 0.5]), ValueError, "ascend or descend"),
        (lambda: solve(lambda t, y: y, double([1.0]), [0.0]), ValueError, "at least two times"),
        (lambda: solve(lambda t, y: y, double([1.0]), [0.0, 1.0], rtol=-1.0), ValueError, "rtol and atol"),
        (lambda: solve(lambda t, y: 1j * y, double([1.0]), [0.0, 1.0]), TypeError, "complex"),
        (lambda: solve(lambda t, y: y, rg.tensor([1]), [0.0, 1.0]), RuntimeError, "floating point and complex"),
    ],
)
def test_what_cannot_be_integrated_is_an_error(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_compiled_function_takes_the_times_from_a_tensor():
    y, times = rg.tensor([1.0, 2.0]), rg.tensor([0.0, 1.0, 3.0])

    def states(y, times):
        return odeint(lambda t, y: -t * y, y, times, method="rk4", steps=4)

    compiled = rg.compile(states)
    for scale in (1.0, 0.5):
        np.testing.assert_allclose(compiled(y, scale * times).numpy(), states(y, scale * times).numpy(), rtol=1e-6)


@SLOW
@pytest.mark.parametrize("method", ["rk4", "rodas5p"])
def test_a_compiled_loop_of_equal_steps_gives_the_eager_result(method):
    def final(p):
        return solve(lambda t, y, p: -p * y * y, double([1.0]), [0.0, 1.0], (p,), method=method, steps=20).y[-1].sum()

    p = double([2.0])
    compiled, expected = rg.compile(grad(final)), grad(final)(p).numpy()
    for _ in range(2):
        np.testing.assert_allclose(compiled(p).numpy(), expected, rtol=1e-12)
    assert "a loop of 20 steps" in compiled.explain()


def test_an_integration_whose_steps_depend_on_values_says_why_it_is_not_compiled():
    compiled = rg.compile(lambda y: solve(lambda t, y: -y, y, [0.0, 1.0], method="kvaerno3", steps=1).y)
    compiled(double([1.0]))
    assert "pass steps=N to an explicit method or to 'rodas5p'" in compiled.explain()
