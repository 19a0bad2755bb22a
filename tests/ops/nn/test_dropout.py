"""Dropout where nothing is dropped."""

import warnings

import pytest

import retrograd as rg

F = rg.nn.functional

DROPOUTS = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]


@pytest.mark.parametrize("name", DROPOUTS)
def test_where_nothing_is_dropped_dropout_gives_integers_and_bools_back(name):
    dropout = getattr(F, name)
    shape = {"dropout2d": (2, 3, 4, 4), "dropout3d": (2, 3, 2, 2, 2)}.get(name, (2, 3, 4))
    for x in (rg.ones(shape, dtype=rg.int64), rg.ones(shape, dtype=rg.bool)):
        assert dropout(x, 0.5, training=False) is x and dropout(x, 0.0, training=True) is x
        with pytest.raises(RuntimeError, match="expected a floating Tensor"):
            dropout(x, 0.5, training=True)


@pytest.mark.parametrize("name", ["dropout2d", "feature_alpha_dropout"])
def test_dropout_of_channels_takes_a_vector_where_nothing_is_drawn(name):
    function = getattr(rg.nn.functional, name)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="dropout2d")
        for x, p, training in ((rg.ones(3), 0.5, False), (rg.ones(3), 0.0, True), (rg.ones(0), 0.5, True)):
            assert rg.equal(function(x, p, training), x)
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            function(rg.ones(3), 0.5, True)
