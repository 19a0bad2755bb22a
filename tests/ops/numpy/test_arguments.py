"""Every argument that NumPy documents, of every function that asks a Tensor: it is taken, or refused by its name.

Which arguments a call gives is read off by NumPy's own signatures, so that a new function or argument of NumPy's, or
one that no call below gives, fails here.
"""

import inspect

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.numpy import protocol
from retrograd.ops.numpy.function_table import FACTS, FILES, INDICES, RULES, rule_of
from tests.ops.numpy.against_numpy import array, compare
from tests.ops.numpy.test_protocol import CALLS, GAPS, SPD, SQUARE, A, B, V, W, known

if np.lib.NumpyVersion(np.__version__) < "2.3.0":
    pytest.skip("the arguments are those of NumPy 2.3 and later", allow_module_level=True)

MASK = A > -0.4
ROW = np.array([True, False, True, True])
Z = V * (1 + 0.5j)
ENDS = np.where(A < -0.9, np.inf, -np.inf)
FLOAT = np.float32

# Per function: calls that give the arguments which CALLS does not.
FORMS = {
    "amax": [lambda x: np.amax(x, 1, keepdims=True, initial=0.3, where=MASK)],
    "amin": [lambda x: np.amin(x, 1, keepdims=True, initial=0.3, where=MASK)],
    "angle": [lambda x: np.angle(x * (1 + 1j), deg=True) + x, lambda x: np.angle(V + 1j * x)],
    "append": [lambda x: np.append(x, A, axis=0)],
    "astype": [lambda x: np.astype(x, FLOAT, copy=False, device="cpu")],
    "average": [
        lambda x: np.average(x, 1, np.arange(1.0, 5), returned=True)[0],
        lambda x: np.average(A, 0, x, keepdims=True),
    ],
    "clip": [lambda x: np.clip(x, min=-0.5, max=V), lambda x: np.clip(x, max=0.2)],
    "concatenate": [lambda x: np.concatenate([x, x], dtype=FLOAT, casting="same_kind")],
    "corrcoef": [lambda x: np.corrcoef(x, A**2, rowvar=False), lambda x: np.corrcoef(x, dtype=FLOAT)],
    "cov": [
        lambda x: np.cov(x, A**2, bias=True),
        lambda x: np.cov(x, fweights=[1, 2, 3, 1], aweights=[0.5, 1.0, 2.0, 1.0]),
        lambda x: np.cov(x, dtype=FLOAT),
    ],
    "cross": [lambda x: np.cross(x[:3, :3], SQUARE, axisa=0, axisb=1, axisc=0)],
    "cumprod": [lambda x: np.cumprod(x, 1, dtype=FLOAT)],
    "cumsum": [lambda x: np.cumsum(x, 1, dtype=FLOAT)],
    "cumulative_prod": [lambda x: np.cumulative_prod(x, axis=0, dtype=FLOAT)],
    "cumulative_sum": [lambda x: np.cumulative_sum(x, axis=0, dtype=FLOAT)],
    "diagflat": [lambda x: np.diagflat(x[0], 2), lambda x: np.diagflat(x[0], k=-1)],
    "diff": [lambda x: np.diff(x, 2, 1, append=x[:, :2], prepend=0.5)],
    "einsum": [
        lambda x: np.einsum("ij,jk,kl->il", x, B, x, optimize=True),
        lambda x: np.einsum(x, [0, 1], B, [1, 2], [2, 0], optimize="greedy"),
        lambda x: np.einsum("...i,i", x, V),
    ],
    "geomspace": [
        lambda x: np.geomspace(np.abs(x[0]), 9.0, 4, endpoint=False, axis=1),
        lambda x: np.geomspace(np.abs(x[0]), 9.0, 4, dtype=FLOAT),
    ],
    "hstack": [lambda x: np.hstack([x, x], dtype=FLOAT, casting="same_kind")],
    "interp": [lambda x: np.interp(x, [-0.5, 0.2, 0.6], W, left=-3.0, right=7.0) + x],
    "intersect1d": [
        lambda x: np.intersect1d(x[0], array(x)[0, 1:], assume_unique=True),
    ],
    "linspace": [lambda x: np.linspace(x, 3.0, 5, dtype=FLOAT, device="cpu")],
    "logspace": [lambda x: np.logspace(x, 2.0, 3, endpoint=False), lambda x: np.logspace(x, 1.0, 3, dtype=FLOAT)],
    "max": [lambda x: np.max(x, (0, 1), keepdims=True)],
    "mean": [lambda x: np.mean(x, 0, FLOAT, keepdims=True), lambda x: np.mean(x, (0, 1), keepdims=True, where=MASK)],
    "median": [lambda x: np.median(x, 0, keepdims=True, overwrite_input=False)],
    "meshgrid": [lambda x: np.meshgrid(x[0], x[1], copy=False)[1]],
    "min": [lambda x: np.min(x, 1, initial=0.3, where=MASK)],
    "nan_to_num": [lambda x: np.nan_to_num(np.where(MASK, x, ENDS), copy=True, posinf=3.0, neginf=-3.0)],
    "nancumprod": [lambda x: np.nancumprod(x + (GAPS - A), 0, FLOAT)],
    "nancumsum": [lambda x: np.nancumsum(x + (GAPS - A), 0, FLOAT)],
    "nanmax": [
        lambda x: np.nanmax(x + (GAPS - A), 1, keepdims=True),
        lambda x: np.nanmax(x + (GAPS - A), 0, initial=0.1, where=MASK),
    ],
    "nanmin": [
        lambda x: np.nanmin(x + (GAPS - A), 1, keepdims=True),
        lambda x: np.nanmin(x + (GAPS - A), 0, initial=0.1, where=MASK),
    ],
    "nanmean": [
        lambda x: np.nanmean(x + (GAPS - A), 1, keepdims=True, where=ROW),
        lambda x: np.nanmean(x + (GAPS - A), 1, FLOAT),
    ],
    "nanmedian": [lambda x: np.nanmedian(x + (GAPS - A), 1, keepdims=True, overwrite_input=False)],
    "nanpercentile": [
        lambda x: np.nanpercentile(x + (GAPS - A), [20, 70], 1, None, False, method="higher", keepdims=True),
    ],
    "nanquantile": [
        lambda x: np.nanquantile(x + (GAPS - A), 0.3, axis=1, method="lower", overwrite_input=False, keepdims=True),
    ],
    "nanprod": [
        lambda x: np.nanprod(x + (GAPS - A), 1, keepdims=True, initial=2.0, where=ROW),
        lambda x: np.nanprod(x + (GAPS - A), dtype=FLOAT),
    ],
    "nansum": [
        lambda x: np.nansum(x + (GAPS - A), 1, keepdims=True, initial=2.0, where=ROW),
        lambda x: np.nansum(x + (GAPS - A), dtype=FLOAT),
    ],
    "nanstd": [
        lambda x: np.nanstd(x + (GAPS - A), 1, ddof=0.5, keepdims=True, where=ROW),
        lambda x: np.nanstd(x + (GAPS - A), 0, FLOAT, correction=0.5),
        lambda x: np.nanstd(x + (GAPS - A), 1, mean=np.nanmean(x + (GAPS - A), 1, keepdims=True)),
    ],
    "nanvar": [
        lambda x: np.nanvar(x + (GAPS - A), 1, ddof=0.5, keepdims=True, where=ROW),
        lambda x: np.nanvar(x + (GAPS - A), 0, FLOAT, correction=0.5),
        lambda x: np.nanvar(x + (GAPS - A), 1, mean=x[:, :1] ** 2),
    ],
    "percentile": [
        lambda x: np.percentile(x, [[10, 30], [50, 90]], 1, method="hazen"),
        lambda x: np.percentile(x, 40, 0, overwrite_input=False, weights=[1.0, 2.0, 0.5], method="inverted_cdf"),
    ],
    "polyfit": [lambda x: np.polyfit([0.0, 1.0, 3.0, 4.0], x[0], 2, rcond=1e-9)],
    "prod": [lambda x: np.prod(x, 1, FLOAT)],
    "ptp": [lambda x: np.ptp(x, 0, keepdims=True)],
    "quantile": [
        *[lambda x, m=m: np.quantile(x, [0.0, 0.3, 0.62, 1.0], 1, method=m, keepdims=True) for m in [
            "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen",
            "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest"]],
        lambda x: np.quantile(x, [0.0, 0.4, 1.0], 0, weights=A**2, method="inverted_cdf", overwrite_input=False),
    ],
    "real_if_close": [lambda x: np.real_if_close(x * (1 + 1e-9j), tol=1e-6)],
    "reshape": [lambda x: np.reshape(x, (4, 3), copy=True)],
    "rot90": [lambda x: np.rot90(x, k=3, axes=(1, 0))],
    "setdiff1d": [lambda x: np.setdiff1d(x[0], W, assume_unique=True)],
    "setxor1d": [lambda x: np.setxor1d(x[0], W, assume_unique=True)],
    "sort": [
        lambda x: np.sort(x, 0, kind="stable"),
        lambda x: np.sort(x, stable=True),
        *([lambda x: np.sort(x, descending=True)] if "descending" in inspect.signature(np.sort).parameters else []),
    ],
    "partition": [lambda x: np.sort(np.partition(x, 1, 0, kind="introselect"), 0)],
    "stack": [lambda x: np.stack([x, x], 1, dtype=FLOAT, casting="same_kind")],
    "std": [
        lambda x: np.std(x, 1, FLOAT),
        lambda x: np.std(x, 1, keepdims=True, where=MASK, correction=0.5),
        lambda x: np.std(x, 0, mean=np.mean(x, 0, keepdims=True)),
    ],
    "sum": [lambda x: np.sum(x, 1, FLOAT)],
    "trace": [lambda x: np.trace(x, dtype=FLOAT)],
    "trim_zeros": [lambda x: np.trim_zeros(np.append([0.0], x[0]), trim="f"), lambda x: np.trim_zeros(x, axis=1)],
    "triu": [lambda x: np.triu(x, k=1)],
    "unique": [
        lambda x: np.unique(x, return_index=True, return_inverse=True, equal_nan=False)[0],
        lambda x: np.sort(np.unique(x, sorted=False)),
    ],
    "unwrap": [lambda x: np.unwrap(4 * x, discont=3.5)],
    "var": [
        lambda x: np.var(x, 1, FLOAT, keepdims=True),
        lambda x: np.var(x, 1, where=ROW, correction=0.5),
        lambda x: np.var(x, 0, mean=x[:1] ** 2),
    ],
    "vstack": [lambda x: np.vstack([x, x], dtype=FLOAT, casting="same_kind")],
    "linalg.cholesky": [lambda x: np.linalg.cholesky(SPD + (x[:, :3] + x[:, :3].T) / 9, upper=True)],
    "linalg.cond": [lambda x: np.linalg.cond(x, p=2), lambda x: np.linalg.cond(x[:, :3], "fro")],
    "linalg.diagonal": [lambda x: np.linalg.diagonal(x, offset=1)],
    "linalg.lstsq": [lambda x: np.linalg.lstsq(x, W, rcond=1e-9)[0]],
    "linalg.matrix_norm": [lambda x, o=o: np.linalg.matrix_norm(x, ord=o) for o in (1, np.inf, "nuc", 2)],
    "linalg.norm": [lambda x: np.linalg.norm(x, 3, 1, keepdims=True), lambda x: np.linalg.norm(x, "fro", (0, 1), True)],
    "linalg.pinv": [
        lambda x: np.linalg.pinv(x, rcond=1e-9),
        lambda x: np.linalg.pinv(x, rtol=1e-9),
        lambda x: np.linalg.pinv(SPD + x[:, :3] + x[:, :3].T, hermitian=True),
    ],
    "linalg.svd": [lambda x: np.linalg.svd(SPD + x[:, :3] + x[:, :3].T, hermitian=True)[1]],
    "linalg.tensorsolve": [lambda x: np.linalg.tensorsolve(np.reshape(SPD + x[:, :3], (3, 3, 1)), W, axes=(1,))],
    "linalg.trace": [lambda x: np.linalg.trace(x, offset=1), lambda x: np.linalg.trace(x, dtype=FLOAT)],
    "linalg.vecdot": [lambda x: np.linalg.vecdot(x, A, axis=0)],
    "linalg.vector_norm": [lambda x: np.linalg.vector_norm(x, axis=0, keepdims=True)],
    "fft.fftshift": [lambda x: np.fft.fftshift(x, axes=1)],
    **{
        f"fft.{name}": [lambda x, name=name: np.real(getattr(np.fft, name)(x, n=6, axis=0, norm="ortho"))]
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{
        f"fft.{name}": [lambda x, name=name: np.real(getattr(np.fft, name)(x, s=(4, 2), axes=(1, 0), norm="forward"))]
        for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
    },
}  # fmt: skip


def of_shape(name, *args, **options):
    made = getattr(np, name)(*args, **options)
    return np.array([*made.shape, made.dtype.itemsize, name == "empty_like" or array(made).mean()])


# Calls whose results have no gradient, with the same arguments on an array.
WITHOUT_GRADIENT = {
    "histogram": [lambda x: np.histogram(x, bins=3, range=(-1, 1), density=True, weights=A**2)[0]],
    "histogram2d": [lambda x: np.histogram2d(x[0], x[1], bins=2, range=[(-1, 1)] * 2, density=True, weights=V**2)[0]],
    "histogramdd": [lambda x: np.histogramdd(x, bins=2, range=[(-3, 3)] * 4, density=True, weights=W)[0]],
    "histogram_bin_edges": [lambda x: np.histogram_bin_edges(x, bins="auto", range=(-1, 1), weights=None)],
    **{
        name: [lambda x, name=name: of_shape(name, x, dtype=FLOAT, order="C", subok=False, shape=(2, 5), device="cpu")]
        for name in ("empty_like", "zeros_like", "ones_like")
    },
    "full_like": [
        lambda x: np.full_like(x, W[:, None], dtype=int, order="C", subok=False, device="cpu"),
        lambda x: np.full_like(x, 2.5, shape=(2, 5)),
    ],
    "shape": [lambda x: np.shape(a=x)],
    "size": [lambda x: np.size(a=x, axis=1)],
    "broadcast_to": [lambda x: np.broadcast_to(x, (2, 3, 4), subok=True)],
    "broadcast_arrays": [lambda x: np.broadcast_arrays(x, V, subok=True)[1]],
    "copy": [lambda x: np.copy(x, order="C", subok=True)],
    "copyto": [lambda x: [np.copyto(y := np.zeros((3, 4)), x, casting="same_kind", where=MASK), y][1]],
    "lib.stride_tricks.sliding_window_view": [
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, 0, subok=True, writeable=False)
    ],
}

# What is refused: the call, the name of the argument.
REFUSED = {
    "intersect1d": [(lambda x: np.intersect1d(x, A[0], return_indices=True), "return_indices")],
    "nanpercentile": [(lambda x: np.nanpercentile(x, 3, weights=A, method="inverted_cdf"), "weights|method")],
    "nanquantile": [(lambda x: np.nanquantile(x, 0.3, weights=A, method="inverted_cdf"), "weights|method")],
    "partition": [(lambda x: np.partition(x, 1, order="f"), "order")],
    "polyfit": [
        (lambda x: np.polyfit(V, x[0], 1, full=True), "full"),
        (lambda x: np.polyfit(V, x[0], 1, cov=True), "cov"),
    ],
    "sort": [(lambda x: np.sort(x, order="f"), "order")],
    "concatenate": [(lambda x: np.concatenate([x, x], dtype=int, casting="safe"), "cast")],
}

# How numbers are shown is Tensors' own affair, and NumPy's own functions show arrays.
SHOWING = {"array2string", "array_repr", "array_str"}


def functions():
    """NumPy's functions of arrays that ask a Tensor, by the names of the table of rules."""
    for module in (np, np.linalg, np.fft, np.lib.stride_tricks):
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if not name.startswith("_") and hasattr(function, "_implementation"):
                full = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
                if full not in INDICES | FACTS | FILES | SHOWING and not full.startswith("char."):
                    yield full, function


FUNCTIONS = dict(functions())
DATES = {"busday_count", "busday_offset", "is_busday", "datetime_as_string"}


def test_every_function_of_numpy_has_a_rule():
    without = {name for name, function in FUNCTIONS.items() if rule_of(function) is None}
    assert without <= DATES | {"printoptions"}


@pytest.mark.parametrize("name", [name for name in FORMS if known(name)])
def test_value_and_gradient_with_every_argument(name):
    for function in FORMS[name]:
        compare(function, A)


@pytest.mark.parametrize("name", WITHOUT_GRADIENT)
def test_value_with_every_argument(name):
    for function in WITHOUT_GRADIENT[name]:
        np.testing.assert_allclose(array(function(rg.tensor(A))), function(A), rtol=1e-14)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_named(name):
    for function, words in REFUSED[name]:
        with pytest.raises(TypeError, match=words):
            function(rg.tensor(A, requires_grad=True))


def parameters(function):
    return inspect.signature(function).parameters.values()


def test_every_argument_of_every_function_is_given_somewhere(monkeypatch):
    given = {name: set() for name in FUNCTIONS}
    asked = protocol.array_function

    def noting(self, function, types, args, kwargs):
        full = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
        if full in given:
            given[full] |= set(inspect.signature(function).bind(*args, **kwargs).arguments)
        return asked(self, function, types, args, kwargs)

    monkeypatch.setattr(rg.Tensor, "__array_function__", noting)
    calls = [call for pairs in CALLS.values() for call in pairs]
    calls += [(f, A) for table in (FORMS, WITHOUT_GRADIENT) for functions in table.values() for f in functions]
    calls += [(function, A) for refused in REFUSED.values() for function, _ in refused]
    for function, x in calls:
        try:
            function(rg.tensor(x))
        except (TypeError, AttributeError):  # refused, or not in this NumPy
            continue
    missing = {}
    for name, function in FUNCTIONS.items():
        wanted = {p.name for p in parameters(function) if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        if left := wanted - given[name] - {"out"}:
            missing[name] = left
    assert not {name: left for name, left in missing.items() if rule_of(FUNCTIONS[name]) is not None}


REDUCED = {"nanpercentile": (30,), "nanquantile": (0.3,), "percentile": (30,), "quantile": (0.3,)}
OTHERS = {
    "cumulative_prod": lambda: (rg.tensor(V),),
    "cumulative_sum": lambda: (rg.tensor(V),),
    "choose": lambda: (np.array([[0, 1, 0, 1]] * 3), [rg.tensor(A), rg.tensor(A * A)]),
    "clip": lambda: (rg.tensor(A), -0.5, 0.5),
    "compress": lambda: (np.array([True, False, True]), rg.tensor(A)),
    "concatenate": lambda: ([rg.tensor(A), A],),
    "dot": lambda: (rg.tensor(A), B),
    "einsum": lambda: ("ij,jk", rg.tensor(A), B),
    "linalg.multi_dot": lambda: ([rg.tensor(A), B],),
    "outer": lambda: (rg.tensor(V), W),
    "stack": lambda: ([rg.tensor(A), A],),
    "take": lambda: (rg.tensor(A), [1, 2]),
}
WITH_OUT = [name for name, f in FUNCTIONS.items() if "out" in inspect.signature(f).parameters and rule_of(f)]


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_is_written_by_keyword_and_by_position(name):
    function = FUNCTIONS[name]
    arguments = OTHERS[name]() if name in OTHERS else (rg.tensor(A), *REDUCED.get(name, ()))
    wanted = function(*arguments)
    out = np.zeros_like(wanted)
    assert function(*arguments, out=out) is out
    np.testing.assert_array_equal(array(out), array(wanted))
    positional = [p for p in parameters(function) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in positional]
    if "out" not in names or name == "linalg.multi_dot":
        return
    between = [p.default for p in positional[len(arguments) : names.index("out")]]
    second = np.zeros_like(wanted)
    assert function(*arguments, *between, second) is second
    np.testing.assert_array_equal(array(second), array(wanted))


def test_keepdims_behind_a_positional_out_is_no_other_argument():
    x = rg.tensor(A)
    assert np.sum(x, 0, None, None, True).shape == (1, 4)
    np.testing.assert_array_equal(array(np.max(x, 0, None, True)), A.max(0, keepdims=True))


def test_rules_have_the_names_of_numpys_arguments():
    """Which signature NumPy shows, in the order that calls by position rely on."""
    for name, function in FUNCTIONS.items():
        rule = rule_of(function)
        if rule is None or name == "einsum":
            continue
        theirs = [
            p for p in parameters(function) if p.name != "out" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        ours = {p.name: p for p in parameters(rule)}
        if any(p.kind is p.VAR_KEYWORD for p in ours.values()):
            continue
        assert {p.name for p in theirs} <= set(ours), name
        order = [p.name for p in theirs if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        assert [p for p in ours if p in order] == order, name


UFUNC_CALLS = [
    lambda x, out: np.divide(1.0, x, out=out, where=A > 0.3),
    lambda x, out: np.log(x, out=out, where=[True, False, True, False]),
    lambda x, out: np.power(x, 3, where=A > 0, out=out),
    lambda x, out: np.add(x, V, out, where=V > 0),
]


@pytest.mark.parametrize("call", UFUNC_CALLS)
def test_ufuncs_write_the_chosen_elements_alone(call):
    x = np.abs(A) + 0.2
    t = rg.tensor(x, requires_grad=True)
    start = rg.tensor(B.T.copy(), requires_grad=True)
    out = start * 1
    result = call(t, out)
    assert result is out
    wanted = call(x, B.T.copy())
    np.testing.assert_allclose(array(out), wanted, rtol=1e-14)
    (out * out).sum().backward()
    step = 1e-6
    for place in ((0, 0), (0, 1), (2, 3)):
        e = np.zeros_like(x)
        e[place] = step
        numeric = (np.sum(call(x + e, B.T.copy()) ** 2) - np.sum(call(x - e, B.T.copy()) ** 2)) / (2 * step)
        assert t.grad[place].item() == pytest.approx(numeric, rel=1e-6, abs=1e-7)
        kept = 2 * B.T[place] if wanted[place] == B.T[place] else 0
        assert start.grad[place].item() == pytest.approx(kept)


def test_where_writes_to_arrays_too_where_no_gradient_is_lost():
    out = np.zeros((3, 4))
    assert np.divide(1.0, rg.tensor(A), out=out, where=A > 0) is out
    np.testing.assert_array_equal(out, np.divide(1.0, A, out=np.zeros((3, 4)), where=A > 0))
    with pytest.raises(TypeError, match=r"np\.divide.*bare array"):
        np.divide(1.0, rg.tensor(A, requires_grad=True), out=out, where=A > 0)
    with pytest.raises(TypeError, match=r"np\.log.*pass out="):
        np.log(rg.tensor(A), where=A > 0)


def test_methods_of_ufuncs_take_their_arguments():
    t = rg.tensor(A, requires_grad=True)
    for ufunc in (np.add, np.multiply, np.maximum):
        np.testing.assert_allclose(array(ufunc.reduceat(t, [0, 2, 1], axis=1)), ufunc.reduceat(A, [0, 2, 1], axis=1))
        wanted = ufunc.reduce(A, axis=1, where=MASK, initial=0.4, keepdims=True)
        np.testing.assert_allclose(array(ufunc.reduce(t, axis=1, where=MASK, initial=0.4, keepdims=True)), wanted)
    compare(lambda x: np.add.reduceat(x, [0, 2, 1], axis=1), A)


def test_add_at_adds_as_often_as_an_index_comes():
    places = np.array([0, 0, 2])
    t = rg.tensor(W, requires_grad=True)
    sums = rg.tensor(V) * 1
    assert np.add.at(sums, places, t * t) is None
    wanted = V.copy()
    np.add.at(wanted, places, W * W)
    np.testing.assert_allclose(array(sums), wanted)
    (sums * V).sum().backward()
    np.testing.assert_allclose(array(t.grad), 2 * W * V[places])
    bare = V.copy()
    np.subtract.at(bare, places, rg.tensor(W))
    np.testing.assert_allclose(bare, V - np.bincount(places, W, 4))
    with pytest.raises(TypeError, match=r"np\.add\.at.*bare array"):
        np.add.at(bare, places, t)
    with pytest.raises(IndexError, match=r"np\.add\.at.*out of bounds"):
        np.add.at(sums, [4], 1.0)


def test_like_makes_tensors_and_keeps_gradients():
    t = rg.tensor(W, requires_grad=True)
    y = np.array([t[0], 2.0, t[2] * t[0]], like=t, ndmin=2)
    assert y.shape == (1, 3) and y.requires_grad
    (grad,) = rg.autograd.grad(y.sum(), t)
    np.testing.assert_allclose(array(grad), [1 + W[2], 0, W[0]])
    assert np.asarray(t, like=t) is t and np.array(t, like=t) is not t
    assert np.full((2, 3), t, like=t).requires_grad
    for made, wanted in (
        (np.zeros((2, 3), int, like=t), np.zeros((2, 3), int)),
        (np.arange(2, 9, 3, like=t), np.arange(2, 9, 3)),
        (np.eye(2, 3, k=1, like=t), np.eye(2, 3, k=1)),
        (np.asarray([1, 2], like=t), np.asarray([1, 2])),
    ):
        assert isinstance(made, rg.Tensor) and made.dtype == wanted.dtype
        np.testing.assert_array_equal(array(made), wanted)


EMATH = [
    *[(getattr(np.emath, name), V) for name in ("sqrt", "log", "log2", "log10")],
    *[(getattr(np.emath, name), 2 * V) for name in ("arccos", "arcsin", "arctanh")],
    (lambda x: np.emath.logn(3.0, x), V),
    (lambda x: np.emath.power(x, 1.5), V),
    (lambda x: np.emath.power(x, np.array([-1, 2, 3, 1])), V),
    (np.emath.sqrt, V**2),
]


@pytest.mark.parametrize("function, x", EMATH)
def test_functions_that_leave_the_real_numbers(function, x):
    compare(function, x)


def test_rules_of_emath_are_all_tested():
    assert sum(name.startswith("lib.scimath.") for name in RULES) == 9
