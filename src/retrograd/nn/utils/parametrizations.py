"""Weight normalization, spectral normalization and orthogonality as parametrizations."""

from __future__ import annotations

from functools import partial

from ..._generated.linalg import householder_product, matrix_exp, qr, solve
from ..._generated.toplevel import allclose, cat, eye, geqrf, randn_like, where
from ...core.arrays.dtypes import precision
from ...core.errors import describe
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import functional as F
from .. import init
from ..base.module import Module
from ..layers.convolution import _ConvTransposeNd
from ..parameter import Buffer
from . import weight_hooks
from .parametrize import register_parametrization
from .weight_hooks import matrix_of, norm_except


def _tensor_of(function: str, module: Module, name: str) -> Tensor:
    tensor = getattr(module, name, None)
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{function}: {type(module).__name__} has no parameter or buffer {name!r}")
    return tensor


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except(self.dim, weight_v))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(self.dim, weight), weight


def _rename_older_keys(name: str, module: Module, state: dict[str, object], prefix: str, *rest: object) -> None:
    """Rename the entries of g and v in a state dict that a layer of ``weight_hooks.weight_norm`` has saved."""
    for place, older in enumerate(("g", "v")):
        key = f"{prefix}{name}_{older}"
        if key in state:
            state[f"{prefix}parametrizations.{name}.original{place}"] = state.pop(key)


@like(weight_hooks.weight_norm)
def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Reparametrize a weight by length and direction: ``w = g * v / |v|`` (Salimans and Kingma, 2016).

    Args:
        module: the module that owns the weight.

    Returns:
        The module, with g and v as ``parametrizations.<name>.original0`` and ``original1``.

    >>> layer = rg.nn.utils.parametrizations.weight_norm(rg.nn.Linear(3, 2))
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    ((2, 1), (2, 3))
    """
    _tensor_of("weight_norm", module, name)
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module.register_load_state_dict_pre_hook(partial(_rename_older_keys, name))
    return module


class _SpectralNorm(Module):
    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"spectral_norm: dim={dim} is out of range for weight {describe(weight)}")
        if n_power_iterations <= 0:
            raise ValueError(f"spectral_norm: n_power_iterations must be positive, got {n_power_iterations}")
        self.dim = dim % weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = matrix_of(self.dim, weight.detach())
            rows, columns = matrix.shape
            self._u = Buffer(F.normalize(init.normal_(matrix.new_empty(rows)), dim=0, eps=eps))
            self._v = Buffer(F.normalize(init.normal_(matrix.new_empty(columns)), dim=0, eps=eps))
            self._iterate(matrix, 15)

    @no_grad()
    def _iterate(self, matrix: Tensor, count: int) -> None:
        for _ in range(count):
            self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
            self._v.copy_(F.normalize(matrix.T @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(self.dim, weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copy the vectors for the graph of this use, because the next use changes them in place.
        sigma = (self._u.clone() * (matrix @ self._v.clone())).sum()
        return weight / sigma

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


@like(weight_hooks.spectral_norm)
def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value, estimated by power iteration (Miyato et al., 2018).

    Args:
        module: the module that owns the weight.

    >>> layer = rg.nn.utils.parametrizations.spectral_norm(rg.nn.Linear(3, 3)).eval()
    >>> sorted(layer.state_dict())[:2]
    ['bias', 'parametrizations.weight.0._u']
    """
    weight = _tensor_of("spectral_norm", module, name)
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


_ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


def _nonzero_sign(x: Tensor) -> Tensor:
    """Return the sign of each element (the phase if complex), 1 for zero."""
    sign = x.sgn()
    return where(sign == 0, 1, sign)


def _orthonormal_columns(matrix: Tensor) -> Tensor:
    """Return the factor Q of ``matrix = Q R`` with a nonnegative real diagonal of R."""
    q, r = qr(matrix)
    return q * _nonzero_sign(r.diagonal(dim1=-2, dim2=-1)).unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows if wide) as a function of an unconstrained matrix.

    With ``use_trivialization`` the function is multiplied by a constant matrix ``base``, so that training can start
    at any matrix (Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, 2019).
    """

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("orthogonal: the householder parametrization does not support complex tensors")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        tall = x.mT if wide else x
        rows, columns = tall.shape[-2:]
        if self.orthogonal_map == "householder":
            vectors = tall.tril(-1)
            factors = 2 / (1 + (vectors * vectors).sum(-2))
            # The diagonal holds signs, which are constant.
            signs = _nonzero_sign(tall.diagonal(dim1=-2, dim2=-1).detach())
            result = householder_product(vectors, factors) * signs.unsqueeze(-2)
        else:
            lower = tall.tril()
            if rows > columns:
                lower = cat([lower, lower.new_zeros(*tall.shape[:-1], rows - columns)], -1)
            skew = lower - lower.mH
            if self.orthogonal_map == "matrix_exp":
                result = matrix_exp(skew)
            else:  # Cayley: (I - A/2)^-1 (I + A/2)
                identity = eye(rows, dtype=skew.dtype, device=skew.device)
                result = solve(identity - skew / 2, identity + skew / 2)
            result = result[..., :columns]
        if self.use_trivialization:
            result = self.base @ result
        return result.mT if wide else result

    @no_grad()
    def right_inverse(self, value: Tensor) -> Tensor:
        if value.shape != self.shape:
            raise ValueError(
                f"orthogonal: expected a matrix or batch of matrices of shape {self.shape}, got {describe(value)}"
            )
        wide = value.shape[-2] < value.shape[-1]
        tall = value.mT if wide else value
        rows, columns = tall.shape[-2:]
        if self.use_trivialization:
            if rows > columns:  # append random columns, so that QR gives a square orthogonal matrix
                tall = cat([tall, randn_like(tall.new_empty(*tall.shape[:-1], rows - columns))], -1)
            identity = eye(rows, dtype=tall.dtype, device=tall.device)
            tolerance = 10 * rows * precision(tall.dtype)
            is_orthogonal = rows == columns and allclose(tall.mH @ tall, identity.expand_as(tall), atol=tolerance)
            self.base = tall.clone() if is_orthogonal else _orthonormal_columns(tall)
            # All three maps send -I to the first columns of I (householder: zero vectors reflect by -I, times sign -1).
            result = value.new_zeros(value.shape)
            result.diagonal(dim1=-2, dim2=-1).fill_(-1)
            return result
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "orthogonal: it is not possible to assign to the matrix exponential or the Cayley parametrizations "
                "when use_trivialization=False"
            )
        vectors, factors = geqrf(tall)
        diagonal = vectors.diagonal(dim1=-2, dim2=-1)
        # LAPACK omits a reflection with a factor of zero, but ``forward`` applies it.
        diagonal.copy_(_nonzero_sign(diagonal) * where(factors == 0, -1, 1))
        return vectors.mT if wide else vectors


@like(weight_norm)
def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Constrain a matrix to be orthogonal (unitary if complex): orthonormal columns, or rows of a wide matrix.

    The initial weight is preserved if it is orthogonal, else replaced by the factor Q of its QR decomposition. Without
    ``use_trivialization``, ``"matrix_exp"`` and ``"cayley"`` start from the map applied to the weight and do not
    support assignment.

    Args:
        name: the name of the weight, a matrix or a batch of matrices.
        orthogonal_map: how the weight is computed: ``"matrix_exp"`` or ``"cayley"`` of a skew-symmetric matrix, or
            ``"householder"``, a product of reflections of a real matrix. By default ``"matrix_exp"`` for square and
            complex matrices, else ``"householder"``.
        use_trivialization: multiply by a constant orthogonal matrix, the buffer ``base`` of the parametrization.

    Raises:
        ValueError: the weight does not exist or is not a matrix; the map is unknown or does not support its dtype.

    Source: Lezcano-Casado, Trivializations for gradient-based optimization on manifolds, 2019.

    >>> layer = rg.nn.utils.parametrizations.orthogonal(rg.nn.Linear(3, 2))
    >>> rg.allclose(layer.weight @ layer.weight.T, rg.eye(2), atol=1e-5)
    True
    """
    weight = _tensor_of("orthogonal", module, name)
    if weight.ndim < 2:
        raise ValueError(f"orthogonal: expected a matrix or batch of matrices, got {describe(weight)}")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _ORTHOGONAL_MAPS:
        raise ValueError(f"orthogonal: orthogonal_map must be one of {_ORTHOGONAL_MAPS}, got {orthogonal_map!r}")
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
