"""NumPy's functions on Tensors: the value is NumPy's on arrays, the gradient that of the same call by differences."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.numpy.function_table import FACTS, INDICES, RULES, rule_of
from tests.ops.numpy.against_numpy import array, compare

rng = np.random.default_rng(5)
A = rng.standard_normal((3, 4))
B = rng.standard_normal((4, 3))
V = rng.standard_normal(4)
W = np.array([0.5, -1.5, 2.5])
SQUARE = rng.standard_normal((3, 3))
SPD = SQUARE @ SQUARE.T + np.eye(3)
C3 = rng.standard_normal((2, 3, 4))
GAPS = np.where(rng.random((3, 4)) < 0.3, np.nan, A)

# Calls of functions with one differentiated argument, made on arrays and on Tensors alike.
CALLS = {
    "sum": [
        (lambda x: np.sum(x, axis=1, where=A > 0, initial=2.0), A),
        (lambda x: np.sum(x, where=[True, False, True, True]), A),
        (lambda x: np.sum(x), A),
        (lambda x: np.sum(x, axis=(0, 1), keepdims=True), A),
        (lambda x: np.sum(x, 1), A),
    ],
    "mean": [
        (lambda x: np.mean(x, axis=1, where=[True, False, True, True]), A),
        (lambda x: np.mean(x), A),
        (lambda x: np.mean(x, axis=-1), A),
    ],
    "average": [(lambda x: np.average(x, axis=0), A), (lambda x: np.average(x, 1, weights=np.arange(1.0, 5)), A)],
    "prod": [
        (lambda x: np.prod(x, axis=0, where=A > -1, initial=2.0, keepdims=True), A),
        (lambda x: np.prod(x), A),
        (lambda x: np.prod(x, axis=(0, 2)), C3),
        (lambda x: np.prod(x, 1, keepdims=True), A),
    ],
    "max": [
        (lambda x: np.max(x, axis=1, initial=0.3), A),
        (lambda x: np.max(x, where=A < 1, initial=-9.0), A),
        (lambda x: np.max(x, initial=-9.0), V[0]),
        (lambda x: np.abs(np.max(x + 1j * x * x, axis=0)), A),
        (lambda x: np.max(x), A),
        (lambda x: np.max(x, axis=0), A),
    ],
    "min": [
        (lambda x: np.min(x, axis=(0, 1), initial=-9.5, keepdims=True), A),
        (lambda x: np.imag(np.min(np.floor(x) + 1j * x)), A),
        (lambda x: np.min(x), A),
        (lambda x: np.min(x, axis=0), A),
    ],
    "amax": [(lambda x: np.amax(x, axis=1), A)],
    "amin": [(lambda x: np.amin(x, axis=1), A)],
    "ptp": [(lambda x: np.ptp(x, axis=1), A)],
    "var": [(lambda x: np.var(x), A), (lambda x: np.var(x, axis=0, ddof=1), A)],
    "std": [(lambda x: np.std(x), A), (lambda x: np.std(x, axis=(0, 1), ddof=1, keepdims=True), A)],
    "median": [(lambda x: np.median(x), A), (lambda x: np.median(x, axis=1), A)],
    "quantile": [(lambda x: np.quantile(x, 0.3), A), (lambda x: np.quantile(x, [0.1, 0.7], axis=0), A)],
    "percentile": [(lambda x: np.percentile(x, 30, axis=(0, 1), keepdims=True), A)],
    "nanprod": [(lambda x: np.nanprod(x, axis=0), GAPS)],
    "nancumsum": [(lambda x: np.nancumsum(x, axis=1), GAPS), (lambda x: np.nancumsum(x), GAPS)],
    "nancumprod": [(lambda x: np.nancumprod(x, axis=0), GAPS)],
    "nanvar": [(lambda x: np.nanvar(x), GAPS), (lambda x: np.nanvar(x, axis=1, ddof=1, keepdims=True), GAPS)],
    "nanstd": [(lambda x: np.nanstd(x), GAPS), (lambda x: np.nanstd(x, axis=0), GAPS)],
    "nanmedian": [(lambda x: np.nanmedian(x, axis=1), GAPS), (lambda x: np.nanmedian(x), A)],
    "cumulative_sum": [
        (lambda x: np.cumulative_sum(x), V),
        (lambda x: np.cumulative_sum(x, axis=1, include_initial=True), A),
    ],
    "cumulative_prod": [(lambda x: np.cumulative_prod(x, axis=0, include_initial=True), A)],
    "partition": [
        (lambda x: np.sort(np.partition(x, 2, axis=0)[2:], 0), A),
        (lambda x: np.partition(x, 3, None)[3], A),
    ],
    "sort_complex": [(lambda x: np.real(np.sort_complex(x)), V)],
    "correlate": [
        (lambda x: np.correlate(x, W), V),
        (lambda x: np.correlate(W, x, "full"), V),
        (lambda x: np.correlate(x, W[:2], "same"), V),
        (lambda x: np.correlate(W[:2], x, "same"), V),
    ],
    "bincount": [(lambda x: np.bincount([0, 2, 2, 1], weights=x, minlength=5), V)],
    "unwrap": [(lambda x: np.unwrap(x), 5 * V), (lambda x: np.unwrap(x, axis=0, period=1.0), A)],
    "real_if_close": [(lambda x: np.real_if_close(x * (1 + 0j)), V), (lambda x: np.real_if_close(x), V)],
    "imag": [(lambda x: np.imag(x * 1j), V), (lambda x: np.imag(x), V)],
    "vander": [(lambda x: np.vander(x), V), (lambda x: np.vander(x, 2, increasing=True), V)],
    "polyadd": [(lambda x: np.polyadd(x, W), V), (lambda x: np.polyadd(2.0, x), V)],
    "polysub": [(lambda x: np.polysub(W, x), V)],
    "polymul": [(lambda x: np.polymul(x, W), V), (lambda x: np.polymul(3.0, x), V)],
    "polydiv": [
        (lambda x: np.polydiv(x, W)[0], V),
        (lambda x: np.polydiv(V, x)[1], W),
        (lambda x: np.polydiv(x, V)[1], W),
        (lambda x: np.polydiv(x, W[:1])[0], V),
    ],
    "polyder": [(lambda x: np.polyder(x), V), (lambda x: np.polyder(x, 2), V)],
    "polyint": [(lambda x: np.polyint(x), V), (lambda x: np.polyint(x, 2, [1.0, 2.0]), V)],
    "polyfit": [
        (lambda y: np.polyfit([0.0, 1.0, 3.0, 4.0], y, 2), V),
        (lambda x: np.polyfit(x, [1.0, -1.0, 2.0, 0.5], 1, w=[1.0, 2.0, 1.0, 3.0]), V),
    ],
    "poly": [(lambda x: np.poly(x), V), (lambda x: np.poly(x + np.swapaxes(x, 0, 1)), SPD)],
    "roots": [
        (lambda x: np.abs(np.roots(x)), V),
        (lambda x: np.roots(np.concatenate([[0.0, 1.0], -np.abs(x), [0.0]])), V[:2]),
    ],
    "trim_zeros": [(lambda x: np.trim_zeros(np.concatenate([[0.0], x, [0.0, 0.0]])), V)],
    "linspace": [
        (lambda x: np.linspace(x, 3.0, 5), V),
        (lambda x: np.linspace(0.0, x, 4, endpoint=False, axis=-1), A),
        (lambda x: np.linspace(1.0, x, 1), V),
        (lambda x: np.linspace(0.0, x, 7, retstep=True)[1], V),
    ],
    "logspace": [(lambda x: np.logspace(x, 1.0, 4), V), (lambda x: np.logspace(0.0, x, 3, base=2.0, axis=1), A)],
    "geomspace": [(lambda x: np.geomspace(np.abs(x), 20.0, 5), V), (lambda x: np.geomspace(-2.0, -np.abs(x), 3), V)],
    "insert": [
        (lambda x: np.insert(x, 1, 5.0), V),
        (lambda x: np.insert(x, [0, 2, 2], W), V),
        (lambda x: np.insert(A, -1, x, axis=0), V),
        (lambda x: np.insert(x, slice(0, 2), [7.0, 8.0], axis=1), A),
        (lambda x: np.insert(x, [1], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], axis=1), A),
        (lambda x: np.insert(x, 1, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], axis=1), A),
    ],
    "extract": [(lambda x: np.extract(A > 0, x), A)],
    "choose": [
        (lambda x: np.choose([0, 1, 0, 2], [x, V + 1, x * x]), V),
        (lambda x: np.choose([-1, 1, 5, 2], [x, V + 1, x * x], mode="clip"), V),
        (lambda x: np.choose([[3], [1], [-2]], [x, V + 1], mode="wrap"), V),
    ],
    "resize": [(lambda x: np.resize(x, (2, 5)), V), (lambda x: np.resize(x, 2), A)],
    "block": [
        (lambda x: np.block([[x, x], [np.ones((1, 8))]]), A),
        (lambda x: np.block([x, 3.0, [x * x]][:2]), V),
        (lambda x: np.block(x), V),
    ],
    "lib.stride_tricks.sliding_window_view": [
        (lambda x: np.lib.stride_tricks.sliding_window_view(x, 2), V),
        (lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)), A),
        (lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0), A),
    ],
    "atleast_3d": [(lambda x: np.atleast_3d(x), V), (lambda x: np.atleast_3d(x), A)],
    "apply_along_axis": [
        (lambda x: np.apply_along_axis(np.sum, 0, x), A),
        (lambda x: np.apply_along_axis(lambda line: np.outer(line, line), 1, x), C3),
    ],
    "apply_over_axes": [(lambda x: np.apply_over_axes(np.sum, x, [0, -1]), C3)],
    "piecewise": [
        (lambda x: np.piecewise(x, [x < -0.5, x > 0.5], [lambda y: y**2, lambda y: np.log(y), 3.0]), A),
        (lambda x: np.piecewise(x, x > 0, [lambda y: y**3, lambda y: -y]), V),
    ],
    "unique": [(lambda x: np.unique(x), A), (lambda x: np.unique(x, axis=0, return_counts=True)[0], A)],
    "unique_values": [(lambda x: np.sort(np.unique_values(x)), V)],
    "unique_all": [(lambda x: np.unique_all(x).values, V)],
    "unique_counts": [(lambda x: np.unique_counts(x).values, V)],
    "unique_inverse": [(lambda x: np.unique_inverse(x).values, V)],
    "intersect1d": [(lambda x: np.intersect1d(x, array(x)[1:]), V)],
    "setdiff1d": [(lambda x: np.setdiff1d(x, array(x)[1:]), V)],
    "setxor1d": [(lambda x: np.setxor1d(x, W), V)],
    "union1d": [(lambda x: np.union1d(x, W), V)],
    "copyto": [(lambda x: written(np.copyto, x, 2.0, where=A > 0), A), (lambda x: written(np.copyto, A + 0, x), V)],
    "putmask": [(lambda x: written(np.putmask, x, A > 0, [1.0, 2.0]), A)],
    "place": [(lambda x: written(np.place, x, A > 0, [1.0, 2.0]), A)],
    "put": [
        (lambda x: written(np.put, x, [1, -2], [7.0]), A),
        (lambda x: written(np.put, x, [1, 14], [7.0, 8.0], mode="wrap"), A),
    ],
    "put_along_axis": [(lambda x: written(np.put_along_axis, x, np.array([[1], [0], [3]]), 9.0, 1), A)],
    "fill_diagonal": [
        (lambda x: written(np.fill_diagonal, x, 2.0), A),
        (lambda x: written(np.fill_diagonal, x, [1.0, 2.0], wrap=True), np.concatenate([A, A, A])),
    ],
    "nanquantile": [(lambda x: np.nanquantile(x, 0.3), GAPS)],
    "nanpercentile": [(lambda x: np.nanpercentile(x, 30), GAPS)],
    "nansum": [(lambda x: np.nansum(x, axis=0), GAPS)],
    "nanmean": [(lambda x: np.nanmean(x), GAPS)],
    "nanmax": [(lambda x: np.nanmax(x), GAPS)],
    "nanmin": [(lambda x: np.nanmin(x), GAPS)],
    "cov": [(lambda x: np.cov(x), A), (lambda x: np.cov(x, rowvar=False, ddof=0), A)],
    "corrcoef": [(lambda x: np.corrcoef(x), A)],
    "cumsum": [(lambda x: np.cumsum(x), A), (lambda x: np.cumsum(x, axis=1), A)],
    "cumprod": [(lambda x: np.cumprod(x, axis=0), A)],
    "sort": [
        (lambda x: np.imag(np.sort(np.floor(x) + 1j * x)), A),
        (lambda x: np.sort(x), A),
        (lambda x: np.sort(x, axis=None), A),
        (lambda x: np.sort(x, 0), A),
    ],
    "diff": [(lambda x: np.diff(x), A), (lambda x: np.diff(x, 2, axis=0), A), (lambda x: np.diff(x, prepend=V[:1]), V)],
    "ediff1d": [(lambda x: np.ediff1d(x), V), (lambda x: np.ediff1d(x, to_end=[1.0, 2.0], to_begin=0.5), V)],
    "gradient": [
        (lambda x: np.gradient(x)[1], A),
        (lambda x: np.gradient(x, 2.0, axis=0, edge_order=2), A),
        (lambda x: np.gradient(x, np.array([0.0, 1.0, 3.0, 4.5])), V),
    ],
    "trapezoid": [(lambda x: np.trapezoid(x, dx=0.5, axis=0), A), (lambda x: np.trapezoid(x, np.arange(4.0) ** 2), A)],
    "interp": [
        (lambda x: np.interp(x, [-1.0, 0.0, 2.0], [1.0, 3.0, 2.0]), V),
        (lambda y: np.interp(V, np.array([-1.0, 0.3, 2.0]), y), W),
        (lambda x: np.interp(x, [0.1, 1.7, 0.9], [1.0, 3.0, 2.0], period=2.0), V),
    ],
    "concatenate": [(lambda x: np.concatenate([x, A, x], axis=1), A), (lambda x: np.concatenate((x, V), axis=None), A)],
    "stack": [(lambda x: np.stack([x, A], axis=-1), A)],
    "vstack": [(lambda x: np.vstack([x, A]), V)],
    "hstack": [(lambda x: np.hstack([x, W]), V)],
    "dstack": [(lambda x: np.dstack([x, A]), A)],
    "column_stack": [(lambda x: np.column_stack([x, V]), V)],
    "append": [(lambda x: np.append(x, V), A)],
    "split": [(lambda x: np.split(x, 2, axis=1)[1], A)],
    "array_split": [(lambda x: np.array_split(x, 3, axis=1)[0], A), (lambda x: np.array_split(x, [1, 2])[1], A)],
    "vsplit": [(lambda x: np.vsplit(x, 3)[1], A)],
    "hsplit": [(lambda x: np.hsplit(x, [1])[1], A)],
    "dsplit": [(lambda x: np.dsplit(x, 2)[1], C3)],
    "unstack": [(lambda x: np.unstack(x, axis=1)[2], A)],
    "tile": [(lambda x: np.tile(x, 2), A), (lambda x: np.tile(x, (2, 1, 2)), A)],
    "repeat": [(lambda x: np.repeat(x, 2), A), (lambda x: np.repeat(x, [1, 0, 2], axis=0), A)],
    "reshape": [
        (lambda x: np.reshape(x, (2, 6)), A),
        (lambda x: np.reshape(x, -1), A),
        (lambda x: np.reshape(x, (4, -1), order="F"), C3),
    ],
    "ravel": [(lambda x: np.ravel(x), A), (lambda x: np.ravel(x, order="F"), C3)],
    "transpose": [(lambda x: np.transpose(x), C3), (lambda x: np.transpose(x, (1, 0, 2)), C3)],
    "matrix_transpose": [(lambda x: np.matrix_transpose(x), C3)],
    "swapaxes": [(lambda x: np.swapaxes(x, 0, -1), C3)],
    "moveaxis": [(lambda x: np.moveaxis(x, 0, -1), C3), (lambda x: np.moveaxis(x, (0, 1), (2, 0)), C3)],
    "rollaxis": [(lambda x: np.rollaxis(x, 2), C3), (lambda x: np.rollaxis(x, 0, 2), C3)],
    "squeeze": [(lambda x: np.squeeze(x[:, None]), A), (lambda x: np.squeeze(x[None], axis=0), A)],
    "expand_dims": [(lambda x: np.expand_dims(x, (0, -1)), A), (lambda x: np.expand_dims(x, 1), A)],
    "broadcast_to": [(lambda x: np.broadcast_to(x, (3, 4)), V)],
    "broadcast_arrays": [(lambda x: np.broadcast_arrays(x, A)[0], V)],
    "atleast_1d": [(lambda x: np.atleast_1d(x), V)],
    "atleast_2d": [(lambda x: np.atleast_2d(x), V)],
    "flip": [(lambda x: np.flip(x), A), (lambda x: np.flip(x, 0), A)],
    "fliplr": [(lambda x: np.fliplr(x), A)],
    "flipud": [(lambda x: np.flipud(x), A)],
    "roll": [
        (lambda x: np.roll(x, (1, 2)), A),
        (lambda x: np.roll(x, 1, axis=(0, 1)), A),
        (lambda x: np.roll(x, [1, 2], axis=(0, 0)), A),
        (lambda x: np.roll(x, 2), A),
        (lambda x: np.roll(x, -1, axis=1), A),
    ],
    "rot90": [(lambda x: np.rot90(x), A)],
    "pad": [
        (lambda x: np.pad(x, 1), A),
        (lambda x: np.pad(x, ((0, 1), (2, 0)), constant_values=3.0), A),
        (lambda x: np.pad(x, 2, mode="reflect"), A),
        (lambda x: np.pad(x, ((1, 1), (0, 2)), mode="edge"), A),
        (lambda x: np.pad(x, 2, mode="wrap"), A),
        (lambda x: np.pad(x, 2, mode="symmetric"), A),
    ],
    "tril": [(lambda x: np.tril(x, -1), A)],
    "triu": [(lambda x: np.triu(x), A)],
    "diag": [(lambda x: np.diag(x), A), (lambda x: np.diag(x, 1), V)],
    "diagflat": [(lambda x: np.diagflat(x), V)],
    "diagonal": [(lambda x: np.diagonal(x, 1, 0, 2), C3)],
    "meshgrid": [
        (lambda x: np.meshgrid(x, W, V, sparse=True)[0], V),
        (lambda x: np.meshgrid(x, W, sparse=True, indexing="ij")[0], V),
        (lambda x: np.meshgrid(x, W)[0], V),
        (lambda x: np.meshgrid(x, W, indexing="ij")[0], V),
    ],
    "where": [
        (lambda x: np.where([1, 0, 2, 0], x, 0.0), A),
        (lambda x: np.where(1.5, x, 0.0), A),
        (lambda x: np.where(A > 0, x, 0.0), A),
        (lambda x: np.where(x > 0, V, x), A),
    ],
    "select": [
        (lambda x: np.select([A > 1, A > 0], [x, 2 * x], 0.0), A),
    ],
    "clip": [(lambda x: np.clip(x, -0.5, 0.5), A), (lambda x: np.clip(x, None, 0.5), A)],
    "take": [
        (lambda x: np.take(x, [0, 2, 2]), A),
        (lambda x: np.take(x, np.array([[0, 1], [1, 1]]), axis=1), A),
        (lambda x: np.take(x, [5], axis=0, mode="clip"), A),
    ],
    "take_along_axis": [(lambda x: np.take_along_axis(x, np.argsort(A, axis=1), axis=1), A)],
    "delete": [(lambda x: np.delete(x, 1, axis=0), A)],
    "compress": [(lambda x: np.compress([True, False, True], x, axis=0), A)],
    "nan_to_num": [(lambda x: np.nan_to_num(x, nan=2.0), A)],
    "dot": [
        (lambda x: np.dot(x, B), A),
        (lambda x: np.dot(x, x), V),
        (lambda x: np.dot(x, 2.0), A),
        (lambda x: np.dot(x, rng_c), A),
    ],
    "inner": [(lambda x: np.inner(x, V), A)],
    "outer": [(lambda x: np.outer(x, W), A)],
    "vdot": [(lambda x: np.vdot(x, A), A)],
    "kron": [(lambda x: np.kron(x, B[:2, :2]), A)],
    "tensordot": [(lambda x: np.tensordot(x, B, 1), A), (lambda x: np.tensordot(x, A, ([0, 1], [0, 1])), A)],
    "einsum": [(lambda x: np.einsum("ij,jk->ik", x, B), A), (lambda x: np.einsum("ij->j", x), A)],
    "trace": [(lambda x: np.trace(x, 1), SQUARE), (lambda x: np.trace(x, axis1=0, axis2=2), C3)],
    "cross": [(lambda x: np.cross(x, W), SQUARE), (lambda x: np.cross(x, SQUARE, axis=0), SQUARE)],
    "convolve": [
        (lambda x: np.convolve(x, W), V),
        (lambda x: np.convolve(W[:2], x, "same"), V),
        (lambda x: np.convolve(x, W, "valid"), V),
    ],
    "polyval": [(lambda x: np.polyval([2.0, -1.0, 3.0], x), V)],
    "round": [(lambda x: np.round(x, 1), A)],
    "around": [(lambda x: np.around(x, 1), A)],
    "fix": [(lambda x: np.fix(x), A)],
    "sinc": [(lambda x: np.sinc(x), V)],
    "i0": [(lambda x: np.i0(x), V)],
    "copy": [(lambda x: np.copy(x), A)],
    "astype": [(lambda x: np.astype(x, np.float64), A)],
    "real": [(lambda x: np.real(x), A)],
    "linalg.norm": [(lambda x: np.linalg.norm(x), A), (lambda x: np.linalg.norm(x, 1, axis=0), A)],
    "linalg.vector_norm": [(lambda x: np.linalg.vector_norm(x, axis=1, ord=3), A)],
    "linalg.matrix_norm": [(lambda x: np.linalg.matrix_norm(x, keepdims=True), C3)],
    "linalg.inv": [(lambda x: np.linalg.inv(x), SQUARE)],
    "linalg.pinv": [(lambda x: np.linalg.pinv(x), A)],
    "linalg.det": [(lambda x: np.linalg.det(x), SQUARE)],
    "linalg.slogdet": [(lambda x: np.linalg.slogdet(x)[1], SQUARE)],
    "linalg.solve": [(lambda x: np.linalg.solve(x, W), SQUARE), (lambda b: np.linalg.solve(SQUARE, b), W)],
    "linalg.cholesky": [(lambda x: np.linalg.cholesky((x + np.swapaxes(x, 0, 1)) / 2), SPD)],
    "linalg.qr": [(lambda x: np.linalg.qr(x)[1], SQUARE), (lambda x: np.linalg.qr(x, "r"), SQUARE)],
    "linalg.cross": [(lambda x: np.linalg.cross(x, W), SQUARE), (lambda x: np.linalg.cross(W, x, axis=0), W)],
    "linalg.tensordot": [(lambda x: np.linalg.tensordot(x, B, axes=1), A)],
    "linalg.eig": [
        (lambda x: np.real(np.linalg.eig(x)[0] * 1j), SQUARE),
        (lambda x: np.linalg.eig(x @ x.T + np.diag([1.0, 2.0, 3.0]))[0], SQUARE),
        (lambda x: np.abs(np.linalg.eig(x)[1]), SQUARE),
    ],
    "linalg.eigvals": [(lambda x: np.abs(np.linalg.eigvals(x)), SQUARE)],
    "linalg.lstsq": [
        (lambda x: np.linalg.lstsq(x, V)[0], B),
        (lambda x: np.linalg.lstsq(x, V)[1], B),
        (lambda x: np.linalg.lstsq(A, x)[0], W),
        (lambda x: np.linalg.lstsq(x, V[:, None])[3], B),
    ],
    "linalg.svd": [
        (lambda x: np.linalg.svd(x, compute_uv=False), A),
        (lambda x: np.linalg.svd(x, full_matrices=False)[1], A),
    ],
    "linalg.svdvals": [(lambda x: np.linalg.svdvals(x), A)],
    "linalg.eigh": [
        (lambda x: np.linalg.eigh((x + np.swapaxes(x, 0, 1)) / 2)[0], SPD),
        (lambda x: np.linalg.eigh(x)[1] ** 2, SQUARE),
        (lambda x: np.linalg.eigh(x, "U")[1] ** 2, SQUARE),
    ],
    "linalg.eigvalsh": [
        (lambda x: np.linalg.eigvalsh((x + np.swapaxes(x, 0, 1)) / 2), SPD),
        (lambda x: np.linalg.eigvalsh(x), SQUARE),
        (lambda x: np.linalg.eigvalsh(x, "U"), SQUARE),
    ],
    "linalg.matrix_power": [(lambda x: np.linalg.matrix_power(x, 3), SQUARE)],
    "linalg.multi_dot": [(lambda x: np.linalg.multi_dot([x, B, A]), A)],
    "linalg.cond": [(lambda x: np.linalg.cond(x), SQUARE)],
    "linalg.matmul": [(lambda x: np.linalg.matmul(x, B), A)],
    "linalg.outer": [(lambda x: np.linalg.outer(x, W), V)],
    "linalg.trace": [(lambda x: np.linalg.trace(x), C3)],
    "linalg.diagonal": [(lambda x: np.linalg.diagonal(x), C3)],
    "linalg.vecdot": [(lambda x: np.linalg.vecdot(x, V), A)],
    "linalg.matrix_transpose": [(lambda x: np.linalg.matrix_transpose(x), A)],
    "linalg.tensorinv": [(lambda x: np.linalg.tensorinv(x, 1), SQUARE)],
    "linalg.tensorsolve": [(lambda x: np.linalg.tensorsolve(x, W), SQUARE)],
    "fft.rfft": [(lambda x: np.abs(np.fft.rfft(x)), V)],
    "fft.irfft": [(lambda x: np.fft.irfft(x, 6), V)],
    "fft.fft": [(lambda x: np.real(np.fft.fft(x, axis=0)), A)],
    "fft.ifft": [(lambda x: np.imag(np.fft.ifft(x, norm="ortho")), A)],
    "fft.fft2": [(lambda x: np.real(np.fft.fft2(x)), A)],
    "fft.fftn": [(lambda x: np.imag(np.fft.fftn(x)), A)],
    "fft.ifft2": [(lambda x: np.real(np.fft.ifft2(x)), A)],
    "fft.ifftn": [(lambda x: np.real(np.fft.ifftn(x)), A)],
    "fft.rfft2": [(lambda x: np.real(np.fft.rfft2(x)), A)],
    "fft.rfftn": [(lambda x: np.real(np.fft.rfftn(x)), A)],
    "fft.irfft2": [(lambda x: np.fft.irfft2(x), A)],
    "fft.irfftn": [(lambda x: np.fft.irfftn(x), A)],
    "fft.hfft": [(lambda x: np.fft.hfft(x), V)],
    "fft.ihfft": [(lambda x: np.real(np.fft.ihfft(x)), V)],
    "fft.fftshift": [(lambda x: np.fft.fftshift(x), A)],
    "fft.ifftshift": [(lambda x: np.fft.ifftshift(x, axes=1), A)],
}
rng_c = rng.standard_normal((2, 4, 3))

# Rules without a gradient of their own to compare, tested below by themselves.
ELSEWHERE = {
    "angle", "histogram", "histogram2d", "histogramdd", "histogram_bin_edges",
    "zeros_like", "ones_like", "empty_like", "full_like",
    "shape", "ndim", "size", "array_repr", "array_str", "array2string",
}  # fmt: skip


def written(function, target, *args, **options):
    """What a function that writes leaves in a copy of its target, which is a Tensor where anything is."""
    target = rg.tensor(target) if any(isinstance(x, rg.Tensor) for x in args) else target + 0
    function(target, *args, **options)
    return target


def known(name):
    """Whether this NumPy has the function."""
    found = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None


PAIRS = [pytest.param(*call, id=name) for name, calls in CALLS.items() for call in calls if known(name)]


def test_every_rule_is_tested():
    tested = set(CALLS) | ELSEWHERE
    assert {name for name in RULES if not name.startswith("lib.scimath.")} == tested


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")
@pytest.mark.parametrize("function, x", PAIRS)
def test_value_and_gradient(function, x):
    compare(function, x)


SMOOTH = """exp exp2 expm1 sin cos tan arctan sinh cosh tanh arcsinh negative positive square
    absolute fabs deg2rad rad2deg degrees radians"""
POSITIVE = "log log2 log10 log1p sqrt reciprocal"
BINARY = """add subtract multiply divide true_divide power maximum minimum fmax fmin
    arctan2 hypot logaddexp logaddexp2 copysign float_power"""


@pytest.mark.parametrize("name", (SMOOTH + " " + POSITIVE).split())
def test_unary_ufuncs(name):
    ufunc, x = getattr(np, name), np.abs(A) + 0.5
    t = rg.tensor(x, requires_grad=True)
    y = ufunc(t)
    np.testing.assert_allclose(array(y), ufunc(x), rtol=1e-14)
    y.sum().backward()
    np.testing.assert_allclose(array(t.grad), (ufunc(x + 1e-6) - ufunc(x - 1e-6)) / 2e-6, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", BINARY.split())
def test_binary_ufuncs_with_arrays_on_either_side(name):
    ufunc, x, y = getattr(np, name), np.abs(A) + 0.5, np.abs(V) + 0.2
    for left, right in ((rg.tensor(x, requires_grad=True), y), (x, rg.tensor(y, requires_grad=True))):
        out = ufunc(left, right)
        np.testing.assert_allclose(array(out), ufunc(x, y), rtol=1e-14)
        out.sum().backward()
        t = left if isinstance(left, rg.Tensor) else right
        moved = [ufunc(x + s, y) if t is left else ufunc(x, y + s) for s in (1e-6, -1e-6)]
        numeric = (moved[0] - moved[1]) / 2e-6
        wanted = numeric if t is left else numeric.sum(axis=0)
        np.testing.assert_allclose(array(t.grad), wanted, rtol=1e-7, atol=1e-8)


TRUTHS = "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor"


@pytest.mark.parametrize("name", TRUTHS.split())
def test_comparing_ufuncs(name):
    ufunc = getattr(np, name)
    np.testing.assert_array_equal(array(ufunc(rg.tensor(A), V)), ufunc(A, V))
    np.testing.assert_array_equal(array(ufunc(A, rg.tensor(V))), ufunc(A, V))


@pytest.mark.parametrize(
    "name", ["isnan", "isinf", "isfinite", "signbit", "sign", "floor", "ceil", "trunc", "rint", "logical_not"]
)
def test_ufuncs_of_pieces(name):
    ufunc = getattr(np, name)
    np.testing.assert_array_equal(array(ufunc(rg.tensor(GAPS))), ufunc(GAPS))


def test_operators_with_an_array_on_the_left():
    t = rg.tensor(V, requires_grad=True)
    for y in (A + t, A * t, A - t, A / t, A**2 @ t):
        assert isinstance(y, rg.Tensor) and y.requires_grad
    np.testing.assert_array_equal(array(A - t), A - V)
    assert isinstance(np.float64(2.0) * t, rg.Tensor)
    np.testing.assert_array_equal(array(t < A), A > V)


def test_an_array_does_not_swallow_a_gradient():
    t = rg.tensor(V, requires_grad=True)
    a = np.zeros(4)
    with pytest.raises(TypeError, match="np.add.*requires grad"):
        a += t
    assert not a.any()
    a += t.detach()
    np.testing.assert_array_equal(a, V)
    with pytest.raises(RuntimeError, match="requires grad"):
        a[...] = t


def test_out_writes_to_a_tensor_with_its_history():
    t = rg.tensor(V, requires_grad=True)
    out = rg.tensor(np.zeros(4))
    assert np.multiply(t, 3.0, out=out) is out
    out.sum().backward()
    np.testing.assert_array_equal(array(t.grad), np.full(4, 3.0))
    array_out = np.zeros(4)
    assert np.cumsum(t.detach(), 0, out=array_out) is array_out
    np.testing.assert_array_equal(array_out, np.cumsum(V))
    with pytest.raises(TypeError, match="requires grad"):
        np.sum(t, out=np.zeros(()))


def test_dtype_argument():
    t = rg.tensor(V)
    assert np.add(t, 1, dtype=np.float32).dtype == np.float32
    assert np.sum(t, dtype=np.float32).dtype == np.float32


def test_methods_of_ufuncs():
    t = rg.tensor(A, requires_grad=True)
    for y, wanted in (
        (np.add.reduce(t), A.sum(0)),
        (np.add.reduce(t, axis=None), A.sum()),
        (np.multiply.reduce(t, axis=1, keepdims=True), A.prod(1, keepdims=True)),
        (np.maximum.reduce(t, axis=(0, 1)), A.max()),
        (np.minimum.reduce(t), A.min(0)),
        (np.logaddexp.reduce(t, axis=1), np.logaddexp.reduce(A, axis=1)),
        (np.add.accumulate(t, axis=1), A.cumsum(1)),
        (np.maximum.accumulate(t), np.maximum.accumulate(A)),
        (np.multiply.outer(t, V), np.multiply.outer(A, V)),
        (np.subtract.outer(V, t), np.subtract.outer(V, A)),
    ):
        assert y.requires_grad
        np.testing.assert_allclose(array(y), wanted, rtol=1e-13)


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda t: np.polyfit(V[:3], t[0], 1, full=True), "np.polyfit.*full"),
        (lambda t: np.histogram([1, 2, 3], weights=t[0]), "np.histogram.*weights"),
        (lambda t: np.copyto(np.zeros((3, 3)), t), "np.copyto.*bare array"),
        (lambda t: np.greater.reduce(t), "np.greater.reduce"),
        (lambda t: np.add.at(t, [0], 1j), "np.add.at.*complex128"),
        (lambda t: np.add(t, 1, where=A > 0), "np.add.*where"),
        (lambda t: np.reshape(t, -1, order="K"), "np.reshape.*order"),
        (lambda t: np.linalg.qr(t, "raw"), "np.linalg.qr.*mode"),
        (lambda t: np.pad(t, 1, mode="mean"), "np.pad.*mode"),
    ],
)
def test_what_has_no_rule_says_so_by_name(call, name):
    with pytest.raises(TypeError, match=name):
        call(rg.tensor(A[:, :3] + 0, requires_grad=True))


def test_functions_of_arrays_alone():
    t = rg.tensor(A, requires_grad=True)
    for function in (np.argmax, np.argmin, np.argsort, np.count_nonzero, np.flatnonzero, np.argwhere, np.any, np.all):
        got = function(t)
        assert isinstance(got, rg.Tensor) and not got.requires_grad
        np.testing.assert_array_equal(array(got), function(A))
    assert np.allclose(t, A) is True and np.array_equal(t, A + 1) is False
    assert np.shape(t) == (3, 4) and np.ndim(t) == 2 and np.size(t) == 12 and np.size(t, 1) == 4
    assert np.isclose(t, A).all()
    assert np.result_type(t, np.float32) == np.float64 and not np.iscomplexobj(t)
    assert all(map(callable, map(rule_of, (np.nonzero, np.searchsorted))))
    assert not (INDICES | FACTS) & set(RULES)


def test_creation_from_a_tensor():
    t = rg.tensor(A)
    assert np.zeros_like(t).shape == (3, 4) and np.ones_like(t, dtype=np.float32).dtype == np.float32
    assert isinstance(np.empty_like(t), rg.Tensor)
    np.testing.assert_array_equal(array(np.full_like(t, 2.5)), np.full((3, 4), 2.5))
    z = rg.tensor(A + 1j * A**2)
    np.testing.assert_array_equal(array(np.imag(z)), A**2)
    np.testing.assert_allclose(array(np.angle(z, deg=True)), np.angle(array(z), deg=True))
    assert np.array_repr(t) == repr(t) and np.array_str(t) == str(t) == np.array2string(t)


def test_a_numpy_program_differentiates():
    """A program written for arrays: softmax regression with NumPy's functions only."""

    def loss(weights, x, labels):
        logits = np.dot(x, weights)
        logits = logits - np.max(logits, axis=1, keepdims=True)
        log_p = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
        return -np.mean(np.take_along_axis(log_p, labels[:, None], axis=1))

    labels = np.array([0, 2, 1])
    w = rg.tensor(B, requires_grad=True)
    loss(w, A, labels).backward()
    e = np.zeros_like(B)
    e[1, 2] = 1e-6
    numeric = (loss(B + e, A, labels) - loss(B - e, A, labels)) / 2e-6
    assert array(w.grad)[1, 2] == pytest.approx(numeric, rel=1e-7)


def test_asarray_of_a_detached_tensor_shares_memory():
    t = rg.tensor(A, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(t)
    detached = t.detach()
    assert np.shares_memory(np.asarray(detached), t.array)


@pytest.mark.parametrize("function", [np.positive, np.conj, np.conjugate])
def test_numpys_positive_and_conjugate_are_copies(function):
    x = rg.tensor([1.0, -2.0], requires_grad=True)
    y = function(x)
    assert y is not x and not np.shares_memory(y.array, x.array)
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_positive_and_conj_of_real_numbers_are_the_tensor_itself_as_in_pytorch():
    x = rg.tensor([1.0, -2.0])
    assert rg.positive(x) is x and +x is x and rg.conj(x) is x and x.conj() is x


def test_positive_refuses_bools_by_its_numpy_name_too():
    with pytest.raises(TypeError, match="positive"):
        np.positive(rg.tensor([True]))
