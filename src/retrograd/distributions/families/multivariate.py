"""Normal vectors and random matrices."""

from __future__ import annotations

import math
import warnings

from ..._generated.linalg import cholesky, slogdet, solve_triangular
from ..._generated.toplevel import arange, cholesky_inverse, cholesky_solve, eye, flip, mvlgamma
from ...core.graph.modes import recording
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from .. import constraints
from ..constraints import Constraint
from ..distribution import Distribution, Shape
from ..sampling.draws import normal, standard_gamma
from ..utils import Number, broadcast_all, broadcast_shapes, choose, eps_of, is_number, lazy_property, tiny_of
from .simplex import Beta

LOG_TAU = math.log(2 * math.pi)


def half_log_det(tril: Tensor) -> Tensor:
    """Return log det L of triangular matrices L, which is half of log det L L^T."""
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def mahalanobis(tril: Tensor, x: Tensor) -> Tensor:
    """Return the squared length of L^-1 x, which is x^T (L L^T)^-1 x, with broadcasting."""
    if tril.dim() > 2:
        return solve_triangular(tril, x.unsqueeze(-1), upper=False).square().sum((-2, -1))
    # If one matrix serves all vectors, they are the columns of one linear system.
    columns = x.reshape((-1, x.shape[-1])).mT
    return solve_triangular(tril, columns, upper=False).square().sum(-2).reshape(x.shape[:-1])


def trace_of_square(x: Tensor) -> Tensor:
    """Return tr(X X^T), the sum of squares, of each matrix."""
    return x.square().sum((-2, -1))


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Multiply matrices by vectors, with broadcasting."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def identity_like(matrices: Tensor) -> Tensor:
    """Return the identity matrix of the size of the last dimension."""
    return eye(matrices.shape[-1], dtype=matrices.dtype, device=matrices.device)


class _WithCovariance(Distribution):
    """A distribution whose covariance is given as a matrix, as its inverse, or as its Cholesky factor, which is stored.

    The other matrices are computed on first access.
    """

    _unbroadcasted_scale_tril: Tensor

    def _take_covariance(
        self, covariance_matrix: Tensor | None, precision_matrix: Tensor | None, scale_tril: Tensor | None
    ) -> tuple[str, Tensor]:
        """Return the only matrix that is not None, and its name."""
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {name: operand(matrix, name) for name, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified, "
                f"got {', '.join(given) or 'none'}."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions, "
                f"got shape {tuple(matrix.shape)}"
            )
        return name, matrix

    def _set_scale_tril(self, name: str, matrix: Tensor) -> None:
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            # P = L^-T L^-1: the Cholesky factor of P, rows and columns reversed, is L^-1 reversed and transposed.
            inverse = flip(cholesky(flip(matrix, (-2, -1))), (-2, -1)).mT
            self._unbroadcasted_scale_tril = solve_triangular(inverse, identity_like(matrix), upper=False)

    @property
    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, self._event_shape[-1], self._event_shape[-1])

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(self._matrix_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(self._matrix_shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return cholesky_inverse(self._unbroadcasted_scale_tril).expand(self._matrix_shape)


class MultivariateNormal(_WithCovariance):
    """Normal vectors of given mean and covariance.

    Args:
        loc: the mean, along the last dimension.
        covariance_matrix: the positive definite covariance; or
        precision_matrix: its inverse; or
        scale_tril: its lower Cholesky factor, which needs no decomposition.

    Raises:
        ValueError: not exactly one matrix is passed, or a parameter is invalid.

    >>> d = rg.distributions.MultivariateNormal(rg.zeros(2), rg.eye(2))
    >>> d.log_prob(rg.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        mean = operand(loc, "loc")
        if mean.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = self._take_covariance(covariance_matrix, precision_matrix, scale_tril)
        batch_shape = broadcast_shapes(matrix.shape[:-2], mean.shape[:-1])
        vars(self)[name] = matrix.expand((*batch_shape, -1, -1))
        self.loc = mean.expand((*batch_shape, matrix.shape[-1]))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._set_scale_tril(name, matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.square().sum(-1).expand(self.loc.shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + times(self._unbroadcasted_scale_tril, noise)

    def _log_prob(self, value: Tensor) -> Tensor:
        distance = mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_TAU + distance) - half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1 + LOG_TAU)
        return (constant + half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance is ``W W^T + D``, where W has few columns and D is diagonal.

    Inverse and determinant come from the capacitance ``I + W^T D^-1 W``, whose size is the rank of W (Woodbury's
    identity and the matrix determinant lemma).

    Args:
        loc: the mean, of n elements along the last dimension.
        cov_factor: W, n x rank.
        cov_diag: the diagonal of D, positive.

    Raises:
        ValueError: the shapes do not fit, or a parameter is invalid.

    >>> d = rg.distributions.LowRankMultivariateNormal(rg.zeros(2), rg.tensor([[1.0], [0.0]]), rg.ones(2))
    >>> d.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        loc, factor, diag = operand(loc, "loc"), operand(cov_factor, "cov_factor"), operand(cov_diag, "cov_diag")
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = tuple(loc.shape[-1:])
        if factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if tuple(factor.shape[-2:-1]) != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m, got {factor.shape}")
        if tuple(diag.shape[-1:]) != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}, got {diag.shape}")
        try:
            batch_shape = broadcast_shapes(loc.shape[:-1], factor.shape[:-2], diag.shape[:-1])
        except RuntimeError:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {factor.shape}, cov_diag {diag.shape}"
            ) from None
        self.loc = loc.expand((*batch_shape, *event))
        self.cov_factor = factor.expand((*batch_shape, *factor.shape[-2:]))
        self.cov_diag = diag.expand((*batch_shape, *event))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = factor, diag
        super().__init__(batch_shape, event, validate_args=validate_args)
        scaled = factor.mT / diag.unsqueeze(-2)
        capacitance = scaled @ factor
        self._capacitance_tril = cholesky(capacitance + identity_like(capacitance))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        factor, diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        return (factor.square().sum(-1) + diag).expand(self.loc.shape)

    @property
    def covariance_matrix(self) -> Tensor:
        """``W W^T + D``."""
        factor, diag = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag
        return self._expanded(factor @ factor.mT + diag.diag_embed())

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        root = self._precision_root()
        return self._expanded(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - root.mT @ root)

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        # W W^T + D = S (I + S^-1 W W^T S^-1) S with S the root of D: all eigenvalues of the factored matrix are >= 1.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        square = scaled @ scaled.mT
        return self._expanded(root * cholesky(square + identity_like(square)))

    def _expanded(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    def _precision_root(self) -> Tensor:
        """Return A with covariance^-1 = D^-1 - A^T A."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        return solve_triangular(self._capacitance_tril, scaled, upper=False)

    def log_det(self) -> Tensor:
        """Return the logarithm of the determinant of the covariance."""
        return 2 * half_log_det(self._capacitance_tril) + self._unbroadcasted_cov_diag.log().sum(-1)

    def mahalanobis(self, x: Tensor) -> Tensor:
        """``x^T covariance^-1 x``."""
        within = times(self._precision_root(), x).square().sum(-1)
        return (x.square() / self._unbroadcasted_cov_diag).sum(-1) - within

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        common = normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc)
        own = normal(shape, self.loc)
        return self.loc + times(self._unbroadcasted_cov_factor, common) + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * (self._event_shape[0] * LOG_TAU + self.log_det() + self.mahalanobis(value - self.loc))

    def entropy(self) -> Tensor:
        return (0.5 * (self._event_shape[0] * (1 + LOG_TAU) + self.log_det())).expand(self._batch_shape)


class Wishart(_WithCovariance):
    """The distribution of the sum of ``x x^T`` over df normal vectors x of mean 0 and a given covariance.

    Args:
        df: the degrees of freedom, above p - 1 for p x p matrices; it need not be an integer.
        covariance_matrix: the positive definite covariance of x; or
        precision_matrix: its inverse; or
        scale_tril: its lower Cholesky factor.

    Raises:
        ValueError: not exactly one matrix is passed, df is too small, or a parameter is invalid.

    >>> rg.distributions.Wishart(rg.tensor(3.0), rg.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Tensor | Number,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = self._take_covariance(covariance_matrix, precision_matrix, scale_tril)
        freedom = matrix.new_tensor(df) if is_number(df) else operand(df, "df")
        batch_shape = broadcast_shapes(matrix.shape[:-2], freedom.shape)
        side = matrix.shape[-1]
        self.df = freedom.expand(batch_shape)
        if not bool((self.df > side - 1).all()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {side - 1}.")
        if bool((self.df < side).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=3,
            )
        vars(self)[name] = matrix.expand((*batch_shape, -1, -1))
        super().__init__(batch_shape, (side, side), validate_args=validate_args)
        self._set_scale_tril(name, matrix)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    @property
    def _matrix_df(self) -> Tensor:
        return self.df[..., None, None]

    @property
    def mean(self) -> Tensor:
        return self._matrix_df * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The mode; NaN where df <= p + 1."""
        factor = self._matrix_df - self._event_shape[-1] - 1
        return choose(factor > 0, factor, math.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        return self._matrix_df * (covariance.square() + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Sample by Bartlett's decomposition: standard normal numbers below a diagonal of square roots of chi-square
        numbers."""
        shape = self._extended_shape(sample_shape)
        halves = 0.5 * (self.df.unsqueeze(-1) - self._steps())
        chi = (2 * standard_gamma(halves.expand(shape[:-1]))).sqrt()
        factor = normal(shape, self.df).tril(-1) + chi.clamp(min=eps_of(chi)).diag_embed()
        root = self._unbroadcasted_scale_tril @ factor
        return root @ root.mT

    def _steps(self) -> Tensor:
        return arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)

    def _log_prob(self, value: Tensor) -> Tensor:
        df, side = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        # tr(covariance^-1 X)
        trace = cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (df - side - 1) / 2 * slogdet(value).logabsdet - trace / 2 - self.log_norm()

    def log_norm(self) -> Tensor:
        """Return the logarithm of the normalizing constant of the density."""
        df, side = self.df, self._event_shape[-1]
        scale = side * math.log(2) / 2 + half_log_det(self._unbroadcasted_scale_tril)
        return df * scale + mvlgamma(df / 2, side)

    def expected_log_det(self) -> Tensor:
        """Return the mean of log det X."""
        side = self._event_shape[-1]
        digammas = ((self.df.unsqueeze(-1) - self._steps()) / 2).digamma().sum(-1)
        return digammas + side * math.log(2) + 2 * half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Tensor:
        df, side = self.df, self._event_shape[-1]
        return self.log_norm() - (df - side - 1) / 2 * self.expected_log_det() + df * side / 2


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, whose density is proportional to ``det(L)^(concentration - 1)``.

    After D. Lewandowski, D. Kurowicka and H. Joe, "Generating random correlation matrices based on vines and extended
    onion method" (2009).

    Args:
        dim: the number of rows of a matrix, at least 2.
        concentration: positive; 1 is uniform, larger values give samples closer to the identity.

    Raises:
        ValueError: dim is below 2, or the concentration is not positive.

    >>> rg.distributions.LKJCholesky(3, 0.5).sample().shape
    (3, 3)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Tensor | Number = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Sample by the onion method: row k is a random direction times the square root of a beta number."""
        with recording(False):
            like = self.concentration
            row = arange(1, self.dim, dtype=like.dtype, device=like.device)
            marginal = like.unsqueeze(-1) + 0.5 * (self.dim - 2)
            squares = Beta(0.5 * row, marginal - 0.5 * (row - 1), validate_args=False).sample(sample_shape)
            noise = normal(self._extended_shape(sample_shape), like).tril(-1)[..., 1:, :]
            direction = noise / noise.square().sum(-1, keepdim=True).sqrt()
            below = like.new_zeros(self._extended_shape(sample_shape))
            below[..., 1:, :] = squares.sqrt().unsqueeze(-1) * direction
            diagonal = (1 - below.square().sum(-1)).clamp(min=tiny_of(below)).sqrt()
            return below + diagonal.diag_embed()

    def _log_prob(self, value: Tensor) -> Tensor:
        steps = self.dim - 1
        order = arange(2, self.dim + 1, dtype=value.dtype, device=value.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        alpha = self.concentration + 0.5 * steps
        norm = 0.5 * steps * math.log(math.pi) + mvlgamma(alpha - 0.5, steps) - alpha.lgamma() * steps
        return unnormalized - norm
