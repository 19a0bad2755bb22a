"""The base class of distributions: shapes, validation of parameters and samples, and expansion."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TypeVar

from .._generated.toplevel import zeros_like
from ..autograd.gradients import grad
from ..core.arrays.dtypes import get_default_dtype
from ..core.graph.modes import recording
from ..core.tensor.tensor import Size, Tensor
from ..ops.table.arguments import ChecksOptions
from .constraints import Constraint, is_dependent
from .utils import Number, broadcast_all, lazy_property, parameter_text, sum_rightmost

Self = TypeVar("Self", bound="Distribution")

Shape = Sequence[int]


class Distribution(ChecksOptions):
    """A probability distribution, or a batch of them.

    A family declares ``arg_constraints`` (a constraint per parameter) and ``support``, and implements any of
    ``rsample`` (or ``sample``), ``_log_prob``, ``_cdf``, ``icdf``, ``mean``, ``mode``, ``variance`` and ``entropy``.
    Classes outside this library may override ``log_prob`` and ``cdf`` themselves, as for PyTorch.

    Args:
        batch_shape: the shape of the batch of distributions.
        event_shape: the shape of one sample of one distribution.
        validate_args: whether parameters and values are checked; None for the default, which is to check.

    Raises:
        ValueError: a parameter violates its constraint.
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set the default of ``validate_args`` for distributions that are created from now on.

        Raises:
            ValueError: the value is not a bool.
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: value must be True or False, got {value!r}")
        Distribution._validate_args = bool(value)

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _set(self, validate_args: bool | None, **parameters: Tensor | Number) -> None:
        """Initialize a distribution of scalars from its parameters, which are broadcast to the batch shape."""
        for name, value in zip(parameters, broadcast_all(*parameters.values())):
            vars(self)[name] = value if value.is_floating_point() else value.to(dtype=get_default_dtype())
        Distribution.__init__(self, vars(self)[next(iter(parameters))].shape, validate_args=validate_args)

    # Checks

    def _check_parameters(self) -> None:
        try:
            listed = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        for name, constraint in listed.items():
            derived = name not in vars(self) and isinstance(getattr(type(self), name, None), lazy_property)
            if is_dependent(constraint) or derived:
                continue
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError unless a value has the shape of a sample and lies in the support."""
        if not isinstance(value, Tensor):
            raise ValueError(f"The value argument to log_prob must be a Tensor, not {type(value).__name__}")
        shape, event = tuple(value.shape), tuple(self._event_shape)
        if shape[len(shape) - len(event) :] != event or len(shape) < len(event):
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {event}.")
        expected = (*self._batch_shape, *event)
        if any(i != j and i != 1 and j != 1 for i, j in zip(reversed(shape), reversed(expected))):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {shape}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    # Shapes

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample of one distribution."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        if isinstance(sample_shape, int):
            raise TypeError(f"sample_shape must be a sequence of lengths such as ({sample_shape},), got an int")
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def expand(self: Self, batch_shape: Shape, _instance: Self | None = None) -> Self:
        """Return the distribution expanded to a batch shape; parameters are expanded without a copy.

        >>> rg.distributions.Normal(rg.zeros(3), 1.0).expand((2, 3)).batch_shape
        (2, 3)
        """
        new = self._get_checked_instance(type(self), _instance)
        new.__dict__.update(vars(self))
        for name in self.arg_constraints:
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                new.__dict__[name] = value.expand((*batch_shape, *value.shape[len(self._batch_shape) :]))
        new._batch_shape = Size(batch_shape)
        return new

    def _get_checked_instance(self: Self, cls: type, _instance: Self | None = None) -> Self:
        """Return the instance that ``expand`` initializes: an instance from a subclass's ``expand``, or a new one."""
        return type(self).__new__(type(self)) if _instance is None else _instance

    # Declared or implemented by subclasses

    @property
    def arg_constraints(self) -> Mapping[str, Constraint]:
        """The constraint of each parameter, by name."""
        raise NotImplementedError(f"{type(self).__name__} does not declare arg_constraints")

    @property
    def support(self) -> Constraint:
        """The constraint that samples satisfy."""
        raise NotImplementedError(f"{type(self).__name__} does not declare a support")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mean")

    @property
    def mode(self) -> Tensor:
        """The value of highest probability or density."""
        raise NotImplementedError(f"{type(self).__name__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        raise NotImplementedError(f"{type(self).__name__} does not implement variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each element."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw a sample of shape ``sample_shape + batch_shape + event_shape``, without gradient."""
        with recording(False):
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw a reparameterized sample, which is differentiable with respect to the parameters."""
        raise NotImplementedError(f"{type(self).__name__} does not implement rsample")

    def sample_n(self, n: int) -> Tensor:
        """Return ``sample((n,))``; older programs use this name."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, at a value.

        Args:
            value: a Tensor whose shape broadcasts with ``batch_shape + event_shape``.

        Raises:
            ValueError: the value does not broadcast or lies outside the support.
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob(value)

    def _log_prob(self, value: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at a value.

        Raises:
            ValueError: the value does not broadcast or lies outside the support.
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def _cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse of the cumulative distribution function at a probability."""
        raise NotImplementedError(f"{type(self).__name__} does not implement icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution along a new first dimension.

        Args:
            expand: whether to expand the batch dimensions, which otherwise have length 1.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement enumerate_support")

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Return the values along the first dimension, followed by the dimensions of the batch."""
        event = values.shape[1:]
        values = values.reshape((-1, *[1] * len(self._batch_shape), *event))
        return values.expand((len(values), *self._batch_shape, *event)) if expand else values

    def entropy(self) -> Tensor:
        """Return the entropy in nats, in the batch shape."""
        raise NotImplementedError(f"{type(self).__name__} does not implement entropy")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def __repr__(self) -> str:
        parameters = {name: vars(self)[name] for name in self.arg_constraints if name in vars(self)}
        parts = [f"{name}: {parameter_text(x) if x.numel() == 1 else x.shape}" for name, x in parameters.items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """A family of densities exp(<t(x), theta> - F(theta) + k(x)): entropy and KL divergence follow from F by gradients.

    A subclass implements the natural parameters theta, the log normalizer F, and the expectation of k. The families of
    this library have closed forms instead. After F. Nielsen and R. Nock, "Entropies and cross-entropies of
    exponential families" (2010).
    """

    _mean_carrier_measure: float | Tensor

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} does not implement _natural_params")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement _log_normalizer")

    def entropy(self) -> Tensor:
        """Return ``F(theta) - <theta, dF/dtheta> - E[k]``."""
        return self.cross_entropy_to(self) - self._mean_carrier_measure

    def cross_entropy_to(self, q: ExponentialFamily) -> Tensor:
        """Return -E[log q(x)] for samples x of this distribution and q of the same family, without the term E[k]."""
        parameters = self._natural_params
        with recording(True):
            expected = self._expected_statistics(parameters)
        total = q._log_normalizer(*q._natural_params)
        for theta, statistic in zip(q._natural_params, expected):
            total = total - sum_rightmost(theta * statistic, max(theta.dim() - total.dim(), 0))
        return total

    def _expected_statistics(self, parameters: tuple[Tensor, ...]) -> list[Tensor]:
        """Return E[t(x)] = dF/dtheta, differentiable if a parameter requires grad."""
        attached = any(theta.requires_grad for theta in parameters)
        leaves = [theta + zeros_like(theta).requires_grad_() for theta in parameters]
        normalizer = self._log_normalizer(*leaves)
        gradients = grad(normalizer.sum(), leaves, create_graph=attached)
        return [gradient for gradient in gradients if gradient is not None]
