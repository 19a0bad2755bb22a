"""Cases of linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Case

Calls = Callable[[np.random.Generator], Iterator[Call]]
Function = Callable[..., Any]


def drawn(*groups: tuple[tuple[int, ...], ...], **options: Any) -> Calls:
    """A call per group, of normal arrays of its shapes; square matrices are moved away from singular ones."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shapes in groups:
            arrays = []
            for shape in shapes:
                x = rng.standard_normal(shape)
                if len(shape) >= 2 and shape[-1] == shape[-2]:
                    x = x + 3 * np.eye(shape[-1])
                arrays.append(x)
            yield Call(*arrays, **options)

    return calls


def of_complex(*shapes: tuple[int, ...]) -> Calls:
    """A call per shape, of a complex matrix away from singular ones."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape in shapes:
            yield Call(rng.standard_normal(shape) + 1j * rng.standard_normal(shape) + 3 * np.eye(shape[-1]))

    return calls


def chained(*parts: Calls) -> Calls:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for part in parts:
            yield from part(rng)

    return calls


SQUARE = (((3, 3),), ((2, 2, 2),), ((1, 1),))
TALL = (((4, 2),), ((2, 3, 2),), ((3, 3),))
WIDE = (((2, 4),),)


def of_symmetric(function: Function) -> Function:
    """A function of symmetric matrices as one of any matrix."""
    return lambda x, *args, **kwargs: function(x + x.mT, *args, **kwargs)


def of_positive(function: Function) -> Function:
    """A function of positive-definite matrices as one of any matrix."""
    return lambda x, *args, **kwargs: function(x @ x.mT, *args, **kwargs)


def without_signs(function: Function) -> Function:
    """Results whose columns' signs are free, squared."""

    def signless(*args: Any, **kwargs: Any) -> Any:
        return [each * each for each in function(*args, **kwargs)]

    return signless


def with_determined_vectors(function: Function) -> Function:
    """Singular values and the vectors that belong to them."""

    def determined(x: Any, **options: Any) -> Any:
        u, s, vh = function(x, **options)
        return u[..., : s.shape[-1]], s, vh[..., : s.shape[-1], :]

    return determined


def with_few_values(rng: np.random.Generator) -> Iterator[Call]:
    yield Call([rng.standard_normal(shape) for shape in ((2, 3), (3, 4), (4, 2))])
    yield Call([rng.standard_normal(shape) for shape in ((3,), (3, 4), (4, 2), (2,))])
    yield Call([rng.standard_normal(shape) for shape in ((5, 1), (1, 5))])


def pivoted(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(packed, np.array([2, 3, 3], np.int32), rng.standard_normal((3, 2)))
    yield Call(packed, np.array([1, 3, 3], np.int32), rng.standard_normal((3, 2)), adjoint=True)
    yield Call(packed, np.array([3, 2, 3], np.int32), rng.standard_normal((2, 3)), left=False)


def pivoted_last(rng: np.random.Generator) -> Iterator[Call]:
    packed = rng.standard_normal((3, 3)) + 3 * np.eye(3)
    yield Call(rng.standard_normal((3, 2)), packed, np.array([2, 3, 3], np.int32))


def each_order(*orders: Any) -> Calls:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for order in orders:
            yield Call(rng.standard_normal((2, 3, 4)), order)
        yield Call(rng.standard_normal((2, 3, 4)), orders[0], (0, 2), True)

    return calls


def norms(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((3, 4)))
    yield Call(rng.standard_normal((2, 3, 4)), None, 1)
    yield Call(rng.standard_normal((2, 3, 4)), 3, 1, keepdim=True)
    yield Call(rng.standard_normal(4), 1)
    yield Call(rng.standard_normal((3, 4)), 2)
    yield Call(rng.standard_normal((3, 4)), "nuc", (0, 1))
    yield Call(rng.standard_normal((2, 3, 4)), float("inf"), (1, 2), keepdim=True)


def conditions(rng: np.random.Generator) -> Iterator[Call]:
    for p in (None, 2, -2, "fro", 1, float("inf"), "nuc"):
        yield Call(rng.standard_normal((3, 3)) + 3 * np.eye(3), p)


def least_squares(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(rng.standard_normal((4, 2)), rng.standard_normal((4, 3)))
    yield Call(rng.standard_normal((2, 4, 2)), rng.standard_normal((2, 4, 1)))


def solution_only(function: Function) -> Function:
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


def triangle(x: Any, upper: bool) -> Any:
    return x.triu() if upper else x.tril()


def first_two(function: Function) -> Function:
    """L and U, without the permutation."""
    return lambda *args, **kwargs: function(*args, **kwargs)[1:]


def names(*both: str, calls: Calls, order: int = 2, **options: Any) -> list[Case]:
    """The same case for several names."""
    return [Case(name, calls, order=order, dtypes=DTYPES, **options) for name in both]


DTYPES: tuple[str, ...] = ()
POWERS = chained(*(drawn(((3, 3),), ((2, 2, 2),), n=n) for n in (0, 1, 2, 5, -2)))

CASES = [
    *names("linalg.inv", "inverse", calls=drawn(*SQUARE)),
    *names("linalg.det", "det", calls=chained(drawn(*SQUARE), of_complex((3, 3), (2, 2, 2)))),
    *names("linalg.slogdet", "slogdet", calls=chained(drawn(*SQUARE), of_complex((3, 3), (2, 2, 2)))),
    *names("logdet", calls=chained(drawn(*SQUARE), of_complex((3, 3))), wrap=of_positive),
    *names(
        "linalg.solve",
        calls=chained(
            drawn(((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((3, 3), (3,)), ((2, 3, 3), (3, 1))),
            drawn(((3, 3), (2, 3)), left=False),
        ),
    ),
    *names(
        "linalg.solve_triangular",
        calls=chained(
            drawn(((3, 3), (3, 2)), ((2, 3, 3), (3, 1)), upper=True),
            drawn(((3, 3), (2, 3)), upper=False, left=False),
            drawn(((3, 3), (3, 2)), upper=False, unitriangular=True),
        ),
    ),
    *names(
        "triangular_solve", calls=chained(drawn(((3, 2), (3, 3))), drawn(((3, 2), (3, 3)), upper=False, transpose=True))
    ),
    *names("linalg.tensorsolve", calls=drawn(((2, 3, 6), (2, 3)))),
    *names("linalg.tensorinv", calls=drawn(((4, 2, 2),), ind=1)),
    *names("linalg.matrix_power", calls=POWERS),
    *names("matrix_power", calls=POWERS),
    *names("linalg.multi_dot", calls=with_few_values),
    *names("linalg.diagonal", calls=chained(drawn(((3, 4),), ((2, 3, 3),)), drawn(((3, 4),), offset=1))),
    *names("trace", calls=drawn(((3, 3),), ((2, 3),))),
    *names("kron", calls=drawn(((2, 3), (2, 2)), ((3,), (2,)), ((2,), (2, 2)), ((), (2,)))),
    *names("linalg.vecdot", calls=chained(drawn(((2, 3), (2, 3)), ((2, 3), (3,))), drawn(((3, 2), (3, 2)), dim=0))),
    *names("linalg.cross", calls=chained(drawn(((2, 3), (2, 3)), ((1, 3), (2, 3))), drawn(((3, 2), (3, 2)), dim=0))),
    *names("cross", calls=drawn(((3, 2), (3, 2)), ((2, 3), (2, 3)))),
    *names("linalg.vander", calls=chained(drawn(((3,),), ((2, 2),)), drawn(((3,),), N=4))),
    *names("matrix_exp", "linalg.matrix_exp", calls=drawn(*SQUARE)),
    *names("linalg.cholesky", calls=chained(drawn(*SQUARE), drawn(((3, 3),), upper=True)), wrap=of_positive),
    *names("cholesky", calls=drawn(*SQUARE), wrap=of_positive),
    *names(
        "cholesky_solve",
        calls=chained(drawn(((3, 2), (3, 3))), drawn(((3, 2), (3, 3)), upper=True)),
        wrap=lambda f: lambda b, factor, upper=False: f(b, triangle(factor, upper), upper),
    ),
    *names(
        "cholesky_inverse",
        calls=chained(drawn(((3, 3),)), drawn(((3, 3),), upper=True)),
        wrap=lambda f: lambda factor, upper=False: f(triangle(factor, upper), upper),
    ),
    *names("linalg.qr", calls=drawn(*TALL, *WIDE), wrap=without_signs),
    *names("qr", calls=drawn(*TALL), wrap=without_signs),
    *names("linalg.eigh", calls=drawn(*SQUARE), wrap=lambda f: of_symmetric(without_signs(f)), tolerance=1e-5),
    *names("linalg.eigvalsh", calls=drawn(*SQUARE), wrap=of_symmetric),
    *names(
        "linalg.svd",
        calls=chained(drawn(*TALL, *WIDE, full_matrices=False), drawn(*TALL, *WIDE)),
        wrap=lambda f: without_signs(with_determined_vectors(f)),
        tolerance=1e-5,
    ),
    *names("svd", calls=drawn(*TALL, *WIDE), wrap=without_signs, tolerance=1e-5),
    *names("linalg.svdvals", calls=drawn(*TALL, *WIDE)),
    *names("linalg.pinv", calls=drawn(*TALL, *WIDE)),
    *names("pinverse", calls=drawn(*TALL, *WIDE)),
    *names("linalg.lstsq", calls=least_squares, wrap=solution_only),
    *names("linalg.lu_factor", calls=drawn(*TALL, *WIDE), wrap=lambda f: lambda x: f(x)[0]),
    *names("lu", calls=drawn(*TALL, *WIDE), wrap=lambda f: lambda x: f(x)[0]),
    *names("linalg.lu", calls=drawn(*TALL, *WIDE), wrap=first_two),
    *names("linalg.lu_solve", calls=pivoted),
    *names("lu_solve", calls=pivoted_last),
    *names("linalg.matrix_norm", calls=each_order("fro", "nuc", 1, -1, float("inf"), -float("inf"), 2, -2)),
    *names("linalg.norm", calls=norms),
    *names("linalg.cond", calls=conditions, reference=np.linalg.cond, torch=""),
]
