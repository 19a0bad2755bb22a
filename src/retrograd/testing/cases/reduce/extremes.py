"""Cases of the extremes."""

from __future__ import annotations

from ...case import Call, Case, together
from .reductions import all_dims, calls_of, distinct, one_dim, plain, with_nan, with_ties

pairs = calls_of(lambda rng: Call(distinct(rng, (3, 4)), distinct(rng, (4,)) + 0.5))

CASES = [
    Case("amax", all_dims(distinct), edge_calls=all_dims(with_ties)),
    Case("amin", all_dims(distinct), edge_calls=all_dims(with_ties)),
    Case(
        "max",
        together(plain(distinct), one_dim(distinct), pairs),
        edge_calls=together(plain(with_ties), one_dim(with_nan)),
    ),
    Case(
        "min",
        together(plain(distinct), one_dim(distinct), pairs),
        edge_calls=together(plain(with_ties), one_dim(with_nan)),
    ),
    Case(
        "aminmax",
        calls_of(
            lambda rng: Call(distinct(rng, (3, 4))),
            lambda rng: Call(distinct(rng, (3, 4)), dim=0),
            lambda rng: Call(distinct(rng, (3, 4)), dim=-1, keepdim=True),
        ),
        edge_calls=plain(with_ties),
    ),
    Case(
        "argmax",
        together(plain(distinct), one_dim(distinct)),
        edge_calls=together(one_dim(with_ties), plain(with_nan)),
        order=0,
    ),
    Case(
        "argmin",
        together(plain(distinct), one_dim(distinct)),
        edge_calls=together(one_dim(with_ties), plain(with_nan)),
        order=0,
    ),
]
