"""The same calls in PyTorch and here, at kinks, ties, poles, zeros, infinities and NaN.

Values, gradients and second derivatives must agree: PyTorch's choices at points without a derivative are ours, too.
Where ours differ on purpose, ``DIFFERENT`` says why.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from retrograd.testing.comparison import to_numpy
from tests.helpers.together import check_each

inf, nan = np.inf, np.nan


class Edge(NamedTuple):
    """A call ``function(library, *inputs)``, written once for both libraries."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]


def array(*values: Any) -> Any:
    return np.array(values, np.float64)


def method(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda m, *xs: getattr(m, name)(*xs, *args, **kwargs)


def functional(name: str, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda m, *xs: getattr(m.nn.functional, name)(*xs, *args, **kwargs)


def special(name: str) -> Callable[..., Any]:
    return lambda m, *xs: getattr(m.special, name)(*xs)


LOGITS = np.array(
    [
        [0.0, 0, 0],
        [1e4, -1e4, 0],
        [1e30, -1e30, 0],
        [inf, 0, 1],
        [-inf, 0, 1],
        [-inf, -inf, -inf],
        [inf, inf, 0],
        [nan, 0, 1],
        [inf, -inf, 0],
        [1e4, 1e4, 1e4],
    ]
)
ANY = array(
    0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 6, inf, -inf, nan, 1e-20, 1e-4, -1e-4, 1e4, -1e4, 1e30, -1e30, 0.99, -0.99
)
PAIRED = array(0, -0.0, 1, -1, 2, -2, 0.5, 3, inf, -inf, nan)
LEFT, RIGHT = (each.ravel().copy() for each in np.meshgrid(PAIRED, PAIRED))
EVEN = np.arange(LEFT.size) % 2 == 0
VECTORS = np.array([[0.0, 0, 0], [3, 0, 4], [-1, 1, 1], [inf, 1, 0], [-inf, 2, 3], [1e-30, 1e-30, 1e-30], [nan, 0, 1]])
POINTS, OTHERS = np.array([[0.0, 0, 0], [1, 2, 3], [1, 2, 4]]), np.array([[0.0, 0, 0], [1, 2, 3], [1, 5, 3]])
TIES = np.array(
    [
        [1.0, 3, 3, 2],
        [2, 2, 2, 2],
        [3, 1, 1, 3],
        [nan, 1, 2, nan],
        [inf, inf, 1, -inf],
        [-inf] * 4,
        [nan] * 4,
        [0, -0.0, 0, -0.0],
        [1, 2, nan, 2],
    ]
)
IMAGE = np.array([[[[1.0, 1, 1, 1], [1, nan, 1, 2], [-inf, -inf, 3, 3], [-inf, -inf, 3, nan]]]])
SCANNED = [
    array(1, 2, 3),
    array(-inf, -inf, 1),
    array(inf, 1, 2),
    array(nan, 1),
    array(1, nan, 2),
    array(1, -inf, 2),
    array(1, inf, -inf, 3),
    array(0, 1, 1, 0, 1),
]
FACTORS = [
    array(2, 3, 4),
    array(nan, 2, 3),
    array(0, 3, 4),
    array(0, 0, 4),
    array(0, 0, 0),
    array(nan, 0, 2),
    array(inf, 0, 2),
    array(0),
    array(-1, 0, 2),
]

UNARY = [
    "log",
    "log1p",
    "log2",
    "log10",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "exp2",
    "expm1",
    "acos",
    "asin",
    "atan",
    "acosh",
    "asinh",
    "atanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "abs",
    "sgn",
    "sign",
    "neg",
    "square",
    "sigmoid",
    "logit",
    "lgamma",
    "digamma",
    "sinc",
    "i0",
    "erf",
    "erfc",
    "erfinv",
    "relu",
    "ceil",
    "floor",
    "round",
    "trunc",
    "frac",
    "nan_to_num",
    "isnan",
    "isinf",
    "isfinite",
]
ACTIVATIONS = [
    "sigmoid",
    "logsigmoid",
    "softplus",
    "tanh",
    "gelu",
    "silu",
    "mish",
    "elu",
    "selu",
    "celu",
    "relu",
    "relu6",
    "hardtanh",
    "hardsigmoid",
    "hardswish",
    "softsign",
    "tanhshrink",
    "hardshrink",
    "softshrink",
    "leaky_relu",
]
BINARY = [
    "pow",
    "xlogy",
    "atan2",
    "hypot",
    "div",
    "remainder",
    "fmod",
    "logaddexp",
    "logaddexp2",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "copysign",
    "mul",
    "sub",
    "add",
]
SPECIAL = ["entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtr", "ndtri"]
ORDERS = (0, 1, 2, 3, 0.5, inf, -inf)


def bags() -> Iterator[Edge]:
    """Equal elements in a bag, a row that stands in it twice, and an empty bag."""
    numbers, starts = np.array([0, 1, 1, 1, 2, 0, 3]), np.array([0, 2, 4, 4])
    table = np.array([[1.0, 2, 0], [1, 3, -0.0], [0, 2, 0], [1, 2, 3]])
    for mode in ("sum", "mean", "max"):
        yield Edge(
            f"embedding_bag, {mode}",
            lambda m, x, mode=mode: m.nn.functional.embedding_bag(m.tensor(numbers), x, m.tensor(starts), mode=mode),
            (table,),
        )


def margins() -> Iterator[Edge]:
    """Losses whose hinge is just closed, one that is open, and one that is not."""
    x, sides = array(1, 1, 0, 2, 0.5), np.array([-1, 1, -1, -1, -1])
    scores, classes = np.array([[1.0, 0, 0], [1, 1, 1], [3, 0, 2.5]]), np.array([0, 1, 2])
    several = np.array([[0, 2, -1], [1, -1, 0], [2, 1, 0]])

    def loss(name: str, target: Any, **options: Any) -> Callable[..., Any]:
        return lambda m, *xs: getattr(m.nn.functional, name)(*xs, m.tensor(target), reduction="none", **options)

    yield Edge("hinge_embedding_loss", loss("hinge_embedding_loss", sides), (x,))
    yield Edge("margin_ranking_loss", loss("margin_ranking_loss", sides, margin=1.0), (x, array(1, 2, 1, 1, 0)))
    unit = np.array([[1.0, 0], [0, 1], [1, 1]])
    yield Edge("cosine_embedding_loss", loss("cosine_embedding_loss", sides[:3]), (unit, unit[[1, 1, 0]].copy()))
    for p in (1, 2):
        yield Edge(f"multi_margin_loss, p={p}", loss("multi_margin_loss", classes, p=p), (scores,))
    yield Edge("multilabel_margin_loss", loss("multilabel_margin_loss", several), (scores,))


def edges() -> Iterator[Edge]:
    for name in ("softmax", "log_softmax", "logsumexp"):
        yield Edge(name, method(name, -1), (LOGITS,))
        yield Edge(name + ", dim 0", method(name, 0), (LOGITS.T.copy(),))
    for target in (0, 1, 2):
        labels = np.full(len(LOGITS), target)
        yield Edge(f"cross_entropy, target {target}", functional("cross_entropy", reduction="none"), (LOGITS, labels))
        yield Edge(
            f"cross_entropy, target {target}, smoothed",
            functional("cross_entropy", reduction="none", label_smoothing=0.1),
            (LOGITS, labels),
        )
    yield Edge(
        "cross_entropy, probabilities",
        functional("cross_entropy", reduction="none"),
        (LOGITS, np.tile([0.0, 1, 0], (len(LOGITS), 1))),
    )
    for target in (0.0, 0.5, 1.0):
        yield Edge(
            f"binary_cross_entropy_with_logits, target {target}",
            functional("binary_cross_entropy_with_logits", reduction="none"),
            (ANY, np.full(ANY.shape, target)),
        )
        yield Edge(
            f"binary_cross_entropy, target {target}",
            functional("binary_cross_entropy", reduction="none"),
            (array(0, 1, 0.5), np.full(3, target)),
        )
    for name in UNARY:
        yield Edge(name, method(name), (ANY,))
    for name in SPECIAL:
        yield Edge(name, special(name), (ANY,))
    for name in ACTIVATIONS:
        yield Edge(name, functional(name), (ANY,))
    yield Edge("gelu by tanh", functional("gelu", approximate="tanh"), (ANY,))
    for name in BINARY:
        yield Edge(name, method(name), (LEFT, RIGHT))
    yield Edge("xlog1py", special("xlog1py"), (LEFT, RIGHT))
    for mode in ("floor", "trunc"):
        yield Edge(f"div, {mode}", method("div", rounding_mode=mode), (LEFT, RIGHT))
    for exponent in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 1.5):
        yield Edge(f"x ** {exponent}", lambda m, x, e=exponent: x**e, (ANY[np.isfinite(ANY) | np.isnan(ANY)],))
    for base in (0.0, 1.0, 2.0, -2.0):
        yield Edge(f"{base} ** x", lambda m, x, b=base: b**x, (ANY,))
    for eps in (0.0, 0.1):
        yield Edge(f"logit, eps={eps}", method("logit", eps), (ANY,))
    for low, high in ((-1, 1), (None, 1), (-1, None), (1, -1), (-inf, inf)):
        yield Edge(f"clamp to {low}, {high}", method("clamp", low, high), (ANY,))
    yield Edge("clamp to Tensors", method("clamp"), (LEFT, RIGHT, np.roll(LEFT, 7)))
    yield Edge("where", lambda m, x, y, c: m.where(c, x, y), (LEFT, RIGHT, EVEN))
    yield Edge("masked_fill", lambda m, x, c: m.masked_fill(x, c, 3.0), (LEFT, EVEN))
    yield Edge("masked_select", method("masked_select"), (LEFT, EVEN))
    for p in ORDERS:
        yield Edge(f"norm, p={p}", method("norm", p, -1), (VECTORS,))
        yield Edge(f"norm of 0-d, p={p}", lambda m, x, p=p: m.linalg.vector_norm(x, p), (np.array(0.0),))
        yield Edge(f"pairwise_distance, p={p}", method("pairwise_distance", p, 0.0), (POINTS, OTHERS))
        if p >= 0:
            yield Edge(f"normalize, p={p}", functional("normalize", p), (VECTORS,))
            yield Edge(f"cdist, p={p}", method("cdist", p), (POINTS, OTHERS))
            yield Edge(f"pdist, p={p}", functional("pdist", p), (POINTS,))
        if p > 0:
            yield Edge(f"dist, p={p}", method("dist", p), (POINTS[1], POINTS[1]))
            yield Edge(f"renorm, p={p}", method("renorm", p, 0, 1.0), (np.array([[0.0, 0], [3, 4], [0.1, 0]]),))
    for order in ("fro", "nuc", 1, -1, 2, inf, -inf):
        yield Edge(f"matrix_norm {order}", lambda m, x, p=order: m.linalg.matrix_norm(x, p), (np.zeros((2, 3)),))
    yield Edge("cosine_similarity", method("cosine_similarity"), (POINTS, OTHERS[::-1].copy()))
    for name in ("var", "std"):
        for correction in (0, 1):
            for x in (array([1], [2]), array([1, 1, 1], [1, 2, 3]), array([inf, 1], [nan, 1])):
                yield Edge(
                    f"{name}, correction {correction}, {x.tolist()}", method(name, dim=-1, correction=correction), (x,)
                )
        yield Edge(f"{name} of 0-d", method(name), (np.array(3.0),))
    for x in FACTORS:
        yield Edge(f"prod of {x.tolist()}", method("prod"), (x,))
        yield Edge(f"cumprod of {x.tolist()}", method("cumprod", 0), (x,))
    yield Edge("prod, keepdim", method("prod", 1, True), (np.array([[0.0, 1, 2], [0, 0, 3], [1, 2, 3]]),))
    for x in SCANNED:
        for name in ("cumsum", "cummax", "cummin", "logcumsumexp"):
            yield Edge(f"{name} of {x.tolist()}", method(name, 0), (x,))
    for row in TIES:
        for name in ("max", "min", "median", "nanmedian", "nansum", "nanmean"):
            yield Edge(f"{name} of {row.tolist()}", method(name), (row.copy(),))
    for name in (
        "amax",
        "amin",
        "max",
        "min",
        "median",
        "nanmedian",
        "mode",
        "argmax",
        "argmin",
        "nansum",
        "nanmean",
        "sort",
        "argsort",
    ):
        yield Edge(name + " at ties", method(name, dim=-1, **({"stable": True} if "sort" in name else {})), (TIES,))
    yield Edge("sort downwards", method("sort", dim=-1, descending=True, stable=True), (TIES,))
    yield Edge("aminmax", method("aminmax", dim=-1), (TIES,))
    yield Edge("topk", lambda m, x: m.topk(x, 2).values, (TIES[:1],))
    yield Edge("kthvalue", lambda m, x: m.kthvalue(x, 2).values, (array(3, 1, inf, nan),))
    for name in ("quantile", "nanquantile"):
        yield Edge(name, method(name, 0.5, dim=-1), (TIES[[0, 1, 2, 3, 5, 6, 7]],))
    yield Edge("threshold", functional("threshold", 1.0, 0.0), (ANY,))
    yield Edge("max_pool2d", functional("max_pool2d", 2), (IMAGE,))
    yield Edge("max_pool2d, padded", functional("max_pool2d", 3, 2, 1), (IMAGE,))
    yield Edge("max_pool2d, indices", functional("max_pool2d", 2, return_indices=True), (IMAGE,))
    yield Edge("adaptive_max_pool2d", functional("adaptive_max_pool2d", 2), (IMAGE,))
    yield Edge("avg_pool2d", functional("avg_pool2d", 2), (IMAGE,))
    yield Edge("lp_pool2d", functional("lp_pool2d", 2, 2), (np.zeros((1, 1, 4, 4)),))
    for name in ("l1_loss", "smooth_l1_loss", "huber_loss", "mse_loss"):
        yield Edge(name, functional(name, reduction="none"), (LEFT, RIGHT))
    yield Edge("kl_div", functional("kl_div", reduction="none"), (LEFT, np.abs(RIGHT)))
    yield Edge("kl_div, log_target", functional("kl_div", reduction="none", log_target=True), (LEFT, RIGHT))
    yield Edge("poisson_nll_loss", functional("poisson_nll_loss", reduction="none"), (LEFT, np.abs(RIGHT)))
    yield from bags()
    yield from margins()
    yield Edge("triplet_margin_loss", functional("triplet_margin_loss", reduction="none"), (POINTS, POINTS, POINTS))
    for name, x in (
        ("equal numbers", np.ones((3, 4))),
        ("zeros", np.zeros((3, 4))),
        ("NaN and inf", array([nan, 1, 1, 1], [inf, 1, 1, 1])),
    ):
        yield Edge(f"layer_norm of {name}", functional("layer_norm", (4,)), (x,))
        yield Edge(f"rms_norm of {name}", functional("rms_norm", (4,)), (x,))
        yield Edge(f"batch_norm of {name}", lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True), (x,))
    q, k, v = np.ones((1, 2, 2)), np.array([[[1.0, 0], [2, 1], [0, 1]]]), np.array([[[1.0, 2], [3, 4], [5, 6]]])
    attention = functional("scaled_dot_product_attention")
    for bad in (1e15, inf, -inf, nan):
        yield Edge(f"attention with {bad}", attention, (q, np.where(k == 2, bad, k), v))
    for name, mask in (
        ("bool", np.array([[True, False, True], [False] * 3])),
        ("-inf", np.array([[0.0, -inf, 0], [-inf] * 3])),
    ):
        yield Edge(
            f"attention, {name} mask",
            lambda m, q, k, v, mask: m.nn.functional.scaled_dot_product_attention(q, k, v, mask),
            (q, k, v, mask),
        )
    yield Edge("attention, causal", functional("scaled_dot_product_attention", is_causal=True), (q, k, v))


EDGES = list(edges())


class Difference(NamedTuple):
    """Where our answer is another one than PyTorch's, and why.

    ``places`` masks them, by default all; ``orders`` are the derivatives concerned, from 0, the value.
    """

    reason: str
    places: Callable[..., Any] = lambda *xs: True
    orders: tuple[int, ...] = (1, 2)


NAN_STAYS = Difference("the derivative at NaN is NaN; PyTorch computes it from sign(NaN) = 0", np.isnan)
NAN_IN_ROW = NAN_STAYS._replace(places=lambda x: np.isnan(x).any(-1, keepdims=True))
LENGTH = Difference("PyTorch's gradient at NaN depends on the length of the Tensor (vectorized or not)", np.isnan)
POLES = Difference(
    "infinite at poles (as is every whole number that large), where PyTorch's is finite",
    lambda x: (x <= 0) & (x == np.trunc(x)),
    (0, 1, 2),
)
SECOND = (2,)
DIFFERENT = {
    "sign": Difference("NaN stays NaN, as in NumPy", np.isnan, (0,)),
    "sgn": Difference("NaN stays NaN, as in NumPy", np.isnan, (0,)),
    "abs": NAN_STAYS,
    "l1_loss": Difference(NAN_STAYS.reason, lambda x, y: np.isnan(x - y)),
    "norm, p=1": NAN_STAYS,
    "norm, p=inf": NAN_IN_ROW,
    "norm, p=-inf": NAN_IN_ROW,
    "norm, p=0.5": Difference("0 at zeros, also beside infinity and NaN", lambda x: x == 0),
    "normalize, p=0.5": Difference("0 at zeros, also beside infinity and NaN", lambda x: x == 0),
    "i0": NAN_STAYS,
    "i1": Difference("PyTorch: 1/2 at NaN, and cancellation near 0", lambda x: np.isnan(x) | (np.abs(x) < 0.01)),
    "i1e": Difference("PyTorch: 1/2 at NaN, and cancellation near 0", lambda x: np.isnan(x) | (np.abs(x) < 0.01)),
    "sinc": Difference("PyTorch's formula cancels near 0", lambda x: np.abs(x) < 0.01),
    "erfcx": Difference("both formulas cancel for large numbers", lambda x: np.abs(x) > 1e3, SECOND),
    "softsign": Difference("the limit 0 at infinity; PyTorch's formula gives NaN", np.isinf),
    "gelu": Difference(
        "the limits at infinity; PyTorch's vector loops give NaN on some processors", np.isinf, (0, 1, 2)
    ),
    "gelu by tanh": Difference(
        "the limits 0 and 1 at infinity; near them both formulas cancel", lambda x: np.abs(x) > 2
    ),
    "log_ndtr": Difference("the limit at -inf; far below 0 both second derivatives cancel", lambda x: x <= -1e4),
    "copysign": Difference("the limit at infinity; PyTorch's formula inf / inf gives NaN", lambda x, y: np.isinf(x)),
    "acosh": Difference("NaN outside the domain, where the value is NaN, too", lambda x: x < 1),
    "lgamma": POLES,
    "digamma": POLES,
    "pow": Difference(
        "the cross derivative by base and exponent holds the exponent's NaN for negative bases",
        lambda x, y: (x <= 0) | (y == 0),
        SECOND,
    ),
    "x ** -0.5": Difference(
        "rsqrt(-0.) is -inf in PyTorch, too, but its rule for powers forgets the sign",
        lambda x: (x == 0) & np.signbit(x),
    ),
    "binary_cross_entropy_with_logits, target 0.5": Difference(
        "inf at -inf, where PyTorch's 0 * inf gives NaN", lambda x, y: np.isinf(x), (0,)
    ),
    "binary_cross_entropy_with_logits, target 1.0": Difference(
        "inf at -inf, where PyTorch's 0 * inf gives NaN", lambda x, y: np.isinf(x), (0,)
    ),
    **dict.fromkeys(("relu6", "hardtanh", "hardshrink", "softshrink", "elu", "selu", "celu", "hardswish"), LENGTH),
    **{
        f"binary_cross_entropy, target {y}": Difference(
            "PyTorch differentiates its guard against 0, too", orders=SECOND
        )
        for y in (0.0, 0.5, 1.0)
    },
    "logsumexp": Difference(
        "our gradient sums to 1, PyTorch's feels the rounding of large results",
        lambda x: (x >= 1e4).any(-1, keepdims=True),
    ),
    "logsumexp, dim 0": Difference(
        "our gradient sums to 1, PyTorch's feels the rounding of large results",
        lambda x: (x >= 1e4).any(0, keepdims=True),
    ),
    "nanmedian at ties": Difference(
        "the index of one of the NaN is the first, PyTorch's an accident of its sort",
        lambda x: np.isnan(x).all(-1, keepdims=True),
        (0, 1, 2),
    ),
    "mode at ties": Difference(
        "PyTorch's sort does not order NaN", lambda x: np.isnan(x).any(-1, keepdims=True), (0, 1, 2)
    ),
    "var of 0-d": Difference("the second derivative of NaN is NaN", orders=SECOND),
    **dict.fromkeys(
        ("prod of [nan, 2.0, 3.0]", "cumprod of [nan, 2.0, 3.0]"),
        Difference("the product of the others; PyTorch divides by NaN"),
    ),
    **dict.fromkeys(
        [f"logcumsumexp of {x}" for x in ("[-inf, -inf, 1.0]", "[inf, 1.0, 2.0]", "[1.0, inf, -inf, 3.0]")],
        Difference("second derivatives beside infinities are NaN", orders=SECOND),
    ),
}


RTOL = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2}
ATOL = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-3}


def weights(shape: tuple[int, ...], dtype: Any) -> Any:
    """A cotangent that tells places apart."""
    return (1 + 0.25 * (np.arange(int(np.prod(shape))) * 3 % 5)).reshape(shape).astype(dtype)


def derivatives(library: Any, edge: Edge, dtype: str) -> dict[str, list[Any]]:
    """Values, gradients and the gradients of the gradients, as arrays."""
    tensors = [library.tensor(x.astype(dtype) if x.dtype.kind == "f" else x) for x in edge.inputs]
    leaves = [x.requires_grad_() for x in tensors if x.dtype in (library.float64, library.float32, library.float16)]
    outputs = edge.function(library, *tensors)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    found = {"value": outputs}
    last = outputs
    for order in ("gradient", "second derivative"):
        last = [y for y in last if y is not None and y.requires_grad]
        cotangents = [library.tensor(weights(tuple(y.shape), dtype)) for y in last]
        try:
            last = (
                list(library.autograd.grad(last, leaves, cotangents, create_graph=True, allow_unused=True))
                if last
                else []
            )
        except RuntimeError as error:
            assert "implemented" in str(error)  # PyTorch does not have all second derivatives
            break
        found[order] = [g if g is not None else library.zeros_like(x) for g, x in zip_longest(last, leaves)]
    return {what: [to_numpy(y) for y in ys] for what, ys in found.items()}


@pytest.mark.parametrize("edge", EDGES, ids=[edge.name for edge in EDGES])
@pytest.mark.filterwarnings("ignore")  # PyTorch's own
def test_against_torch(edge):
    torch = pytest.importorskip("torch")
    check_each(partial(check_edge, torch, edge), ["float64", "float32"])


def check_edge(torch, edge, dtype):
    ours, theirs = derivatives(rg, edge, dtype), derivatives(torch, edge, dtype)
    different = DIFFERENT.get(edge.name)
    for order, (what, arrays) in enumerate(theirs.items()):
        for index, (got, wanted) in enumerate(zip(ours[what], arrays, strict=True)):
            # Infinities and NaN of a second derivative are what PyTorch's formulas come to, not a choice.
            skipped = ~np.isfinite(wanted) if order == 2 else np.zeros(wanted.shape, bool)
            if different and order in different.orders:
                mask = np.broadcast_to(different.places(*edge.inputs), edge.inputs[0].shape)
                skipped = skipped | (mask if mask.shape == wanted.shape else mask.any(-1))
            got, wanted = np.where(skipped, 0, got), np.where(skipped, 0, wanted)
            np.testing.assert_allclose(got, wanted, RTOL[dtype], ATOL[dtype], err_msg=f"{what} {index}")


def test_every_difference_belongs_to_an_edge():
    assert set(DIFFERENT) <= {edge.name for edge in EDGES}
