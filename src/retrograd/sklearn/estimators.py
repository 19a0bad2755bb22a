"""``NeuralNetClassifier`` and ``NeuralNetRegressor``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from .. import nn
from ..core.arrays.dtypes import precision
from ..core.tensor.tensor import Tensor
from ..nn import functional as F
from ..ops.make.creation import tensor
from ..ops.shape.joining import cat
from ..ops.table.documentation import like
from ..ops.table.types import DeviceLike
from ..optim import Optimizer
from .net import Callback, Inputs, NeuralNet, Perceptron, _array, _first
from .splits import Seed, Split, ValidSplit


class NeuralNetClassifier(ClassifierMixin, NeuralNet):  # type: ignore[misc]
    __doc__ = f"""A classifier with ``fit``, ``predict`` and ``predict_proba``.

    With ``NLLLoss``, the default, the module returns probabilities, whose logarithm goes to the loss, as in skorch.
    With ``CrossEntropyLoss`` it returns logits; with ``BCEWithLogitsLoss`` one logit for the second of two classes.
    {(NeuralNet.__doc__ or "").partition("both estimators.")[2].rstrip()}

    A fitted classifier also has ``classes_`` and ``n_features_in_``. Labels are numbers or strings.

    Raises:
        ImportError: scikit-learn (extra ``sklearn``) is not installed.
        TypeError: an argument is unknown, or ``module`` or ``optimizer`` has the wrong type.

    >>> from retrograd.sklearn import NeuralNetClassifier
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> y = np.where(X[:, 0] > X[:, 1], "above", "below")
    >>> net = NeuralNetClassifier(lr=0.02, max_epochs=30, random_state=0).fit(X, y)
    >>> net.score(X, y) > 0.95, net.predict([[1.0, -1.0]])
    (True, array(['above'], dtype='<U5'))
    """

    def __init__(
        self,
        module: type[nn.Module] | nn.Module | None = None,
        criterion: type[nn.Module] | Callable[..., Tensor] = nn.NLLLoss,
        optimizer: type[Optimizer] | str = "auto",
        lr: float = 0.01,
        max_epochs: int | str = "auto",
        batch_size: int = 128,
        train_split: Split | str | None = "auto",
        callbacks: Sequence[Callback | tuple[str, Callback]] | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        device: DeviceLike = "cpu",
        random_state: Seed = None,
        classes: ArrayLike | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            module, criterion, optimizer, lr, max_epochs, batch_size, train_split, callbacks, warm_start, verbose,
            device, random_state, **kwargs,
        )  # fmt: skip
        self.classes = classes

    def _outputs(self) -> int:
        return 1 if self._criterion_is(nn.BCEWithLogitsLoss) else len(self.classes_)

    def _criterion_is(self, kind: type) -> bool:
        criterion = getattr(self, "criterion_", self.criterion)
        return isinstance(criterion, kind) or isinstance(criterion, type) and issubclass(criterion, kind)

    def _default_split(self) -> ValidSplit:
        return ValidSplit(5, stratified=True)

    def _create(self, part: str) -> nn.Module:
        made = super()._create(part)
        if isinstance(made, Perceptron) and self._criterion_is(nn.NLLLoss):
            made.append(nn.Softmax(-1))
        return made

    def fit(self, X: Inputs, y: ArrayLike | None = None) -> Self:
        """Train from new weights, or continue if ``warm_start``.

        Args:
            X: the samples, along the first axis.
            y: the labels.
        """
        return super().fit(X, y)

    @like(fit)
    def partial_fit(self, X: Inputs, y: ArrayLike | None = None, classes: ArrayLike | None = None) -> Self:
        """Continue training for ``max_epochs`` more epochs.

        Args:
            classes: all labels, needed in the first call if ``y`` does not contain all of them.
        """
        if not self.initialized_:
            self._known = classes
        try:
            return super().partial_fit(X, y)
        finally:
            self.__dict__.pop("_known", None)

    def _checked_target(self, y: Any, reset: bool) -> Any:
        y = column_or_1d(_array(y) if isinstance(y, Tensor) else y, warn=True)
        check_classification_targets(y)
        if reset:
            known = vars(self).get("_known")
            known = self.classes if known is None else known
            self.classes_ = np.unique(y if known is None else np.asarray(known))
            if self._criterion_is(nn.BCEWithLogitsLoss) and len(self.classes_) != 2:
                raise ValueError(f"NeuralNetClassifier: BCEWithLogitsLoss needs two classes, got {len(self.classes_)}")
        places = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if (wrong := self.classes_[places] != y).any():
            raise ValueError(
                f"NeuralNetClassifier: y contains the label {y[wrong].tolist()[0]!r}, which is not in classes_"
            )
        return places.astype(np.int64)

    def get_loss(self, output: Tensor | tuple[Tensor, ...], target: ArrayLike) -> Tensor:
        """Return the loss of a batch from outputs and class indices."""
        output = _first(output)
        target = tensor(target, device=self.device)
        if self._criterion_is(nn.NLLLoss):
            output = (output + precision(output.dtype)).log()
        elif self._criterion_is(nn.BCEWithLogitsLoss):
            output = output.reshape(target.shape)
            target = target.to(output.dtype)
        return self.criterion_(output, target)

    def _probabilities(self, output: Any) -> Any:
        output = tensor(output)
        if self._criterion_is(nn.CrossEntropyLoss):
            output = F.softmax(output, 1)
        elif self._criterion_is(nn.BCEWithLogitsLoss):
            second = output.reshape(-1, 1).sigmoid()
            output = cat([1 - second, second], 1)
        return output.numpy()

    def predict_proba(self, X: Inputs) -> np.ndarray:
        """Return the probabilities of the classes, in the order of ``classes_``: an array ``(samples, classes)``."""
        return self._probabilities(self.forward(X).cpu().numpy())

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the most probable label of each sample."""
        places = self.predict_proba(X).argmax(1)
        return self.classes_[places]

    def _measured(self, outputs: list[Any], targets: list[Any]) -> dict[str, float]:
        found = self._probabilities(np.concatenate(outputs)).argmax(1)
        return {"valid_acc": float((found == np.concatenate(targets)).mean())}


class NeuralNetRegressor(RegressorMixin, NeuralNet):  # type: ignore[misc]
    __doc__ = f"""A regressor with ``fit`` and ``predict``.

    Targets are a vector, or a matrix with one column per output. The module's output has the shape of the targets; for
    a vector it may have one column.
    {(NeuralNet.__doc__ or "").partition("both estimators.")[2].rstrip()}

    Raises:
        ImportError: scikit-learn (extra ``sklearn``) is not installed.
        TypeError: an argument is unknown, or ``module`` or ``optimizer`` has the wrong type.

    >>> from retrograd.sklearn import NeuralNetRegressor
    >>> X = np.linspace(-1, 1, 64)[:, None]
    >>> net = NeuralNetRegressor(lr=0.02, random_state=0).fit(X, X[:, 0] ** 2)
    >>> net.score(X, X[:, 0] ** 2) > 0.95
    True
    """

    def _outputs(self) -> int:
        return 1 if self.n_outputs_ is None else self.n_outputs_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _checked_target(self, y: Any, reset: bool) -> Any:
        y = check_array(_array(y) if isinstance(y, Tensor) else y, ensure_2d=False, dtype="numeric", input_name="y")
        if y.ndim == 0 or y.ndim > 2:
            raise ValueError(f"NeuralNetRegressor: y must have one or two axes, got shape {y.shape}")
        outputs = None if y.ndim == 1 else y.shape[1]
        if reset:
            self.n_outputs_ = outputs
        elif outputs != self.n_outputs_:
            raise ValueError(
                f"NeuralNetRegressor: y must have {self.n_outputs_ or 1} outputs as before, got shape {y.shape}"
            )
        return y

    def get_loss(self, output: Tensor | tuple[Tensor, ...], target: ArrayLike) -> Tensor:
        """Return the loss of a batch from outputs and targets."""
        output = _first(output)
        target = tensor(np.asarray(target), dtype=output.dtype, device=self.device)
        if output.ndim == 2 and target.ndim == 1 and output.shape[1] == 1:
            target = target.reshape(-1, 1)
        if output.shape != target.shape:
            raise ValueError(
                f"NeuralNetRegressor: the module's output must have the shape of y, {tuple(target.shape)}, "
                f"got {tuple(output.shape)}"
            )
        return self.criterion_(output, target)

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the module's output for each sample, in the shape of the targets."""
        found = self.forward(X).cpu().numpy()
        return found.reshape(len(found)) if self.n_outputs_ is None and found.ndim == 2 else found
