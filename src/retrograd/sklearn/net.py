"""``NeuralNet``: a module, a loss and an optimizer as a scikit-learn estimator."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from math import prod
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_random_state, validate_data

from .. import nn
from ..core.arrays.dtypes import FLOATING
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor
from ..data import DataLoader
from ..ops.make.creation import tensor
from ..ops.make.generators import Generator, get_rng_state, manual_seed, set_rng_state
from ..ops.table.types import DeviceLike
from ..optim import SGD, Adam, Optimizer
from ..serialization import load, save
from .splits import Predefined, Seed, Split, ValidSplit

Inputs: TypeAlias = ArrayLike | Mapping[str, ArrayLike] | Sequence[ArrayLike]

_PREFIXES = ("module__", "criterion__", "optimizer__", "iterator_train__", "iterator_valid__")
# The values of "auto" for the caller's module (as in skorch) and for the default module (as in scikit-learn).
_AUTO = {
    "optimizer": (SGD, Adam),
    "max_epochs": (10, 200),
    "shuffle": (False, True),
}


class Perceptron(nn.Sequential):
    """The default module: Linear layers with ReLU between them."""

    def __init__(self, inputs: int, outputs: int, hidden: tuple[int, ...] = (64,)) -> None:
        sizes = (inputs, *hidden, outputs)
        layers: list[nn.Module] = [nn.Flatten()]
        for before, after in zip(sizes, sizes[1:]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        super().__init__(*layers[:-1])


class History(list[dict[str, Any]]):
    """A list of dictionaries, one per epoch, which can also be indexed by rows and names, as skorch's.

    >>> from retrograd.sklearn import History
    >>> history = History([{"epoch": 1, "train_loss": 0.9}, {"epoch": 2, "train_loss": 0.5}])
    >>> history[:, "train_loss"], history[-1, ("epoch", "train_loss")]
    ([0.9, 0.5], (2, 0.5))
    """

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, tuple):
            return super().__getitem__(key)
        if len(key) != 2:
            raise KeyError(f"history takes at most two keys, history[epochs, names], got {len(key)}")
        rows, names = super().__getitem__(key[0]), key[1]
        single = isinstance(rows, dict)
        for row in [rows] if single else rows:
            for name in names if isinstance(names, (tuple, list)) else (names,):
                if name not in row:
                    raise KeyError(f"the name must be one of {', '.join(row)}, got {name!r}")
        found = [
            tuple(row[name] for name in names) if isinstance(names, (tuple, list)) else row[names]
            for row in ([rows] if single else rows)
        ]
        return found[0] if single else found


class Callback:
    """The base class of callbacks: the estimator calls the methods during training; they do nothing by default.

    Further arguments are keywords, so a method may name those that it reads and accept ``**kwargs``.
    """

    def initialize(self) -> Callback:
        """Called before training from new weights; returns the callback."""
        return self

    def on_train_begin(self, net: NeuralNet, **kwargs: object) -> None:
        """Called at the start of training with the ``X`` and ``y`` of ``fit``."""

    def on_train_end(self, net: NeuralNet, **kwargs: object) -> None:
        """Called at the end of training."""

    def on_epoch_begin(self, net: NeuralNet, **kwargs: object) -> None:
        """Called at the start of an epoch."""

    def on_epoch_end(self, net: NeuralNet, **kwargs: object) -> None:
        """Called at the end of an epoch; ``net.history[-1]`` has its results."""

    def on_batch_begin(self, net: NeuralNet, **kwargs: object) -> None:
        """Called before a batch; ``training`` is False for a validation batch."""

    def on_batch_end(self, net: NeuralNet, **kwargs: object) -> None:
        """Called with ``loss`` after an optimizer step or a validation batch."""

    def on_grad_computed(self, net: NeuralNet, **kwargs: object) -> None:
        """Called between the backward pass and the optimizer step."""


class NeuralNet(BaseEstimator):  # type: ignore[misc]
    """A module, a loss and an optimizer with ``fit`` and ``predict``; the base class of the two estimators.

    Args:
        module: a subclass of Module, or a Module, of which a copy is trained. The default has Linear layers and ReLU,
            in sizes that fit the data and widths ``module__hidden=(64,)``.
        criterion: a loss class, or a loss: ``criterion(output, target)``.
        optimizer: an optimizer class; "auto" is SGD if ``module`` is given, as in skorch, else Adam.
        lr: the learning rate.
        max_epochs: the number of epochs in ``fit``; "auto" is 10 if ``module`` is given, else 200.
        batch_size: samples per step; -1 for all samples.
        train_split: selects validation samples: a ``ValidSplit``, ``predefined_split``, a function of the number of
            samples and ``y`` that returns two lists of indices, or None. "auto" selects a fifth if ``module`` is given,
            as in skorch, else none.
        callbacks: a list of ``Callback`` objects or of (name, callback) pairs.
        warm_start: ``fit`` continues training instead of starting from new weights.
        verbose: 1 prints a line per epoch.
        device: the device of the module.
        random_state: a seed for the weights, the sample order and other random draws; None uses the global generator.
        kwargs: ``module__NAME``, ``criterion__NAME`` and ``optimizer__NAME`` are passed to module, criterion and
            optimizer; ``iterator_train__NAME`` and ``iterator_valid__NAME`` (``shuffle``, ``drop_last``,
            ``batch_size``) to the ``DataLoader`` of training and validation.

    Attributes:
        module_: the module that was created.
        criterion_: the loss that was created.
        optimizer_: the optimizer that was created.
        history_: a ``History`` with the losses of each epoch; also available as ``history``.

    ``X`` is an array, a Tensor, a data frame, or a dictionary or list of arrays, which the module receives as keyword
    or positional arguments. Floating numbers are cast to the module's dtype.
    """

    def __init__(
        self,
        module: type[nn.Module] | nn.Module | None = None,
        criterion: type[nn.Module] | Callable[..., Tensor] = nn.MSELoss,
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
        **kwargs: Any,
    ) -> None:
        self.module = module
        self.criterion = criterion
        self.optimizer = optimizer
        self.lr = lr
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.train_split = train_split
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.verbose = verbose
        self.device = device
        self.random_state = random_state
        for name, value in kwargs.items():  # scikit-learn requires that arguments are validated in fit only
            setattr(self, name, value)

    # Parameters, in scikit-learn's protocol

    @classmethod
    def _get_param_names(cls) -> list[str]:
        # Include arguments of base classes, for subclasses whose __init__ passes *args and **kwargs on.
        names: set[str] = set()
        for kind in cls.__mro__:
            if "__init__" in vars(kind) and issubclass(kind, NeuralNet):
                signature = inspect.signature(vars(kind)["__init__"])
                names.update(
                    p.name for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
                )
        return sorted(names - {"self"})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments by name, including those with a prefix."""
        return {**super().get_params(deep=deep), **{name: vars(self)[name] for name in self._passed()}}

    def _passed(self) -> list[str]:
        known = self._get_param_names()
        return [
            name for name in vars(self) if not name.startswith("_") and not name.endswith("_") and name not in known
        ]

    def set_params(self, **params: Any) -> Self:
        """Change arguments. A new learning rate, or another option of the optimizer's groups, applies at once."""
        passed = {name: params.pop(name) for name in list(params) if name.startswith(_PREFIXES)}
        super().set_params(**params)
        for name, value in passed.items():
            setattr(self, name, value)
        if hasattr(self, "optimizer_"):
            changed = {
                name.removeprefix("optimizer__"): value for name, value in passed.items() if "optimizer__" in name
            }
            if "lr" in params:
                changed["lr"] = params["lr"]
            for group in self.optimizer_.param_groups:
                group.update({name: value for name, value in changed.items() if name in group})
        return self

    def _options(self, prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): vars(self)[name] for name in self._passed() if name.startswith(prefix)}

    def _auto(self, name: str) -> Any:
        value = getattr(self, name, "auto")
        return _AUTO[name][self.module is None] if isinstance(value, str) and value == "auto" else value

    # Creation of module, loss and optimizer

    def initialize(self) -> Self:
        """Create module, loss and optimizer, and clear the history."""
        self._check_arguments()
        with self._seeded():
            self.module_ = self._create("module").to(self.device)
            self.criterion_ = self._create("criterion").to(self.device)
        parameters = [*self.module_.parameters(), *self.criterion_.parameters()]
        options = {"lr": self.lr, **self._options("optimizer__")}
        self.optimizer_ = self._auto("optimizer")(parameters, **options)
        self.history_ = History()
        return self

    @property
    def history(self) -> History:
        """The results of the epochs so far."""
        return self.history_

    @property
    def initialized_(self) -> bool:
        """Whether module, loss and optimizer exist."""
        return hasattr(self, "module_")

    def _check_arguments(self) -> None:
        name, epochs = type(self).__name__, self._auto("max_epochs")
        unknown = [name for name in self._passed() if not name.startswith(_PREFIXES)]
        if unknown:
            raise TypeError(
                f"{name}: unexpected argument {unknown[0]!r}; prefix arguments of the module, loss or optimizer, as in "
                f"{', '.join(f'{prefix}{unknown[0]}' for prefix in _PREFIXES[:3])}"
            )
        if not isinstance(epochs, (int, np.integer)) or epochs < 0:
            raise ValueError(f"{name}: max_epochs must be an int of at least 0, got {epochs!r}")
        if not isinstance(self.batch_size, (int, np.integer)) or not (self.batch_size > 0 or self.batch_size == -1):
            raise ValueError(
                f"{name}: batch_size must be a positive int, or -1 for all samples, got {self.batch_size!r}"
            )
        for callback in self._callbacks():
            if not hasattr(callback, "on_train_begin"):
                raise TypeError(f"{name}: callbacks must be Callbacks or (name, Callback) pairs, got {callback!r}")
        if not (self.train_split in ("auto", None, False) or callable(self.train_split)):
            raise TypeError(f"{name}: train_split must be a ValidSplit, a function or None, got {self.train_split!r}")
        optimizer = self._auto("optimizer")
        if not callable(optimizer):
            raise TypeError(f"{name}: optimizer must be a class, got {optimizer!r}")

    def _outputs(self) -> int:
        """Return the number of outputs of the default module."""
        raise ValueError(f"{type(self).__name__}: module must be given")

    def _create(self, part: str) -> nn.Module:
        given, options = getattr(self, part), self._options(f"{part}__")
        if part == "module" and given is None:
            given = Perceptron
            if not hasattr(self, "_shape"):
                raise ValueError(
                    f"{type(self).__name__}: the default module needs an array X; call fit with an array, "
                    "or pass a module"
                )
            options = {"inputs": prod(self._shape), "outputs": self._outputs(), **options}
            return given(**options).to(self._dtype)
        if isinstance(given, nn.Module):
            if options:
                raise TypeError(
                    f"{type(self).__name__}: {part} is an instance, so {part}__{next(iter(options))} has no effect; "
                    f"pass its class, {type(given).__name__}"
                )
            return deepcopy(given)
        if not callable(given):
            raise TypeError(f"{type(self).__name__}: {part} must be a Module or a class of Modules, got {given!r}")
        return given(**options)

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """Draw from a generator seeded with ``random_state``, if given."""
        if self.random_state is None:
            yield
            return
        before = get_rng_state()
        manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        try:
            yield
        finally:
            set_rng_state(before)

    # Data

    def _checked(self, X: Any, reset: bool) -> Any:
        """Return inputs as a NumPy array, or a dictionary or list of arrays."""
        if isinstance(X, Mapping) and not hasattr(X, "shape"):  # scipy's dok matrix is a Mapping with a shape
            return {name: _array(value) for name, value in X.items()}
        if isinstance(X, (list, tuple)) and len(X) and hasattr(X[0], "dtype") and getattr(X[0], "ndim", 0) > 1:
            return [_array(value) for value in X]
        X = validate_data(self, _array(X) if isinstance(X, Tensor) else X, reset=reset, allow_nd=True)
        if reset:
            self._shape = X.shape[1:]
            self._dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        return X

    def _checked_target(self, y: Any, reset: bool) -> Any:
        return y

    def _moved(self, array: Any) -> Tensor:
        """Return a batch of inputs on the module's device, with floating numbers in its dtype."""
        x = tensor(array, device=self.device)
        dtype = next((p.dtype for p in self.module_.parameters() if p.dtype.kind in FLOATING), None)
        own = self.module is None
        return x.to(dtype) if dtype is not None and (x.dtype.kind in FLOATING or own) else x

    def _output(self, X: Any) -> Any:
        if isinstance(X, dict):
            return self.module_(**{name: self._moved(value) for name, value in X.items()})
        if isinstance(X, list):
            return self.module_(*map(self._moved, X))
        return self.module_(self._moved(X))

    def _batches(self, X: Any, y: Any, rows: Any, training: bool) -> Iterator[tuple[Any, Any]]:
        options = self._options("iterator_train__" if training else "iterator_valid__")
        size = options.pop("batch_size", self.batch_size)
        if training:
            options.setdefault("shuffle", self._auto("shuffle"))
        else:  # predictions do not advance the global generator
            options.setdefault("generator", Generator())
        rows = np.asarray(rows)

        def gathered(places: list[int]) -> tuple[Any, Any]:
            chosen = rows[places]
            return _rows(X, chosen), None if y is None else y[chosen]

        loader: Any = DataLoader(range(len(rows)), len(rows) if size == -1 else size, collate_fn=gathered, **options)
        yield from loader

    # Training

    def fit(self, X: Inputs, y: ArrayLike | None = None) -> Self:
        """Train from new weights, or continue if ``warm_start``."""
        if not self.warm_start or not self.initialized_:
            X, y = self._prepared(X, y, reset=True)
            self.initialize()
            for callback in self._callbacks():
                callback.initialize()
        else:
            X, y = self._prepared(X, y, reset=False)
        return self._train(X, y)

    def partial_fit(self, X: Inputs, y: ArrayLike | None = None) -> Self:
        """Continue training for ``max_epochs`` more epochs."""
        fresh = not self.initialized_
        X, y = self._prepared(X, y, reset=fresh or not hasattr(self, "n_features_in_"))
        if fresh:
            self.initialize()
        return self._train(X, y)

    def _prepared(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        if y is None:
            raise ValueError(f"{type(self).__name__}.fit requires y to be passed, but the target y is None")
        X = self._checked(X, reset)
        y = self._checked_target(y, reset)
        if len(y) != (count := _length(X)):
            raise ValueError(f"{type(self).__name__}: X has {count} samples but y has {len(y)}")
        return X, y

    def _split(self, count: int, y: Any) -> tuple[Any, Any, Any, Any]:
        """Return the indices of the training samples, and the validation inputs, targets and indices, or None."""
        split: Any = self.train_split
        if split == "auto":
            split = self._default_split() if self.module is not None and count > 1 else None
        if not split:
            return np.arange(count), None, None, None
        if isinstance(split, Predefined):
            X, y = split.dataset
            X = self._checked(X, reset=False)
            return np.arange(count), X, self._checked_target(y, reset=False), np.arange(_length(X))
        train, valid = split(count, y)
        return train, None, y, valid

    def _default_split(self) -> ValidSplit:
        return ValidSplit(5)

    def _callbacks(self) -> list[Callback]:
        return [callback[1] if isinstance(callback, tuple) else callback for callback in self.callbacks or ()]

    def _notify(self, moment: str, **kwargs: Any) -> None:
        for callback in self._callbacks():
            getattr(callback, moment)(self, **kwargs)

    def stop_training(self) -> None:
        """Stop training after this epoch; for callbacks."""
        self._stopped = True

    def _train(self, X: Any, y: Any) -> Self:
        train, X_valid, y_valid, valid = self._split(_length(X), y)
        self._stopped = False
        self._notify("on_train_begin", X=X, y=y)
        with self._seeded():
            for _ in range(self._auto("max_epochs")):
                start = time.perf_counter()
                row: dict[str, object] = {"epoch": len(self.history_) + 1}
                self._notify("on_epoch_begin")
                self.history_.append(row)
                row["train_loss"] = self._epoch(X, y, train, training=True)[0]
                if valid is not None:
                    inputs = X if X_valid is None else X_valid
                    row["valid_loss"], measure = self._epoch(inputs, y_valid, valid, training=False)
                    row.update(measure)
                row["dur"] = time.perf_counter() - start
                self._notify("on_epoch_end", X=X, y=y)
                if self.verbose:
                    self._print(row)
                if self._stopped:
                    break
        self._notify("on_train_end", X=X, y=y)
        del self._stopped
        return self

    def _epoch(self, X: Any, y: Any, rows: Any, training: bool) -> tuple[float, dict[str, float]]:
        """Run an epoch; return the mean loss over the samples, and further measures."""
        self.module_.train(training)
        total, count = 0.0, 0
        outputs, targets = [], []
        for inputs, target in self._batches(X, y, rows, training):
            self._notify("on_batch_begin", training=training)
            if training:
                loss = self._step(inputs, target)
            else:
                with no_grad():
                    output = self._output(inputs)
                    loss = self.get_loss(output, target).item()
                    outputs.append(self._numbers(output))
                    targets.append(target)
            total, count = total + loss * len(target), count + len(target)
            self._notify("on_batch_end", training=training, loss=loss)
        return total / max(count, 1), self._measured(outputs, targets) if outputs else {}

    def _step(self, inputs: Any, target: Any) -> float:
        value: list[float] = []

        def closure() -> Tensor:
            self.optimizer_.zero_grad()
            loss = self.get_loss(self._output(inputs), target)
            loss.backward()
            self._notify("on_grad_computed")
            value.append(loss.item())
            return loss

        self.optimizer_.step(closure)
        return value[0]

    def get_loss(self, output: Tensor | tuple[Tensor, ...], target: ArrayLike) -> Tensor:
        """Return the loss of a batch; subclasses may override it."""
        return self.criterion_(_first(output), tensor(target, device=self.device))

    def _measured(self, outputs: list[Any], targets: list[Any]) -> dict[str, float]:
        return {}

    def _print(self, row: dict[str, Any]) -> None:
        names = [name for name in row if name != "dur"]
        if len(self.history_) == 1:
            print("  ".join(f"{name:>10}" for name in [*names, "dur"]))
            print("  ".join("-" * 10 for _ in range(len(names) + 1)))
        numbers = [f"{row[name]:>10d}" if name == "epoch" else f"{row[name]:>10.4f}" for name in names]
        print("  ".join([*numbers, f"{row['dur']:>10.4f}"]))

    # Prediction

    def __sklearn_is_fitted__(self) -> bool:
        return self.initialized_

    def forward(self, X: Inputs) -> Tensor:
        """Return the module's output for all samples, computed batch by batch in evaluation mode without gradients."""
        if not self.initialized_:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
        X = self._checked(X, reset=False)
        self.module_.eval()
        rows = np.arange(_length(X))
        with no_grad():
            outputs = [self._numbers(self._output(x)) for x, _ in self._batches(X, None, rows, training=False)]
        return tensor(np.concatenate(outputs), device=self.device)

    @staticmethod
    def _numbers(output: Tensor | tuple[Tensor, ...]) -> np.ndarray:
        return _first(output).detach().cpu().numpy()

    def predict(self, X: Inputs) -> np.ndarray:
        """Return the module's output as an array."""
        return self.forward(X).cpu().numpy()

    def save_params(self, f_params: str | os.PathLike[str]) -> None:
        """Write the module's weights to a safetensors file."""
        save(self.module_.state_dict(), f_params)

    def load_params(self, f_params: str | os.PathLike[str]) -> None:
        """Load the module's weights, after ``initialize`` or ``fit``."""
        if not self.initialized_:
            self.initialize()
        self.module_.load_state_dict(load(f_params, self.device))


def _first(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    """Return a module's output, or its first element if it is a tuple, as in skorch."""
    return output[0] if isinstance(output, tuple) else output


def _array(value: object) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _length(X: Any) -> int:
    parts = list(X.values()) if isinstance(X, dict) else X if isinstance(X, list) else [X]
    lengths = {len(part) for part in parts}
    if len(lengths) != 1:
        raise ValueError(f"the arrays in X must have one length, got {sorted(lengths)}")
    return int(lengths.pop())


def _rows(X: Any, rows: Any) -> Any:
    if isinstance(X, dict):
        return {name: value[rows] for name, value in X.items()}
    return [value[rows] for value in X] if isinstance(X, list) else X[rows]
