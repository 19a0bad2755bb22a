"""``retrograd.sklearn``: scikit-learn's own checks, and what skorch's users do."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn

pytest.importorskip("sklearn")
from sklearn.base import clone
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from retrograd.sklearn import (
    Callback,
    EarlyStopping,
    LRScheduler,
    NeuralNetClassifier,
    NeuralNetRegressor,
    ValidSplit,
    predefined_split,
)

X, Y = make_classification(200, 20, n_informative=10, random_state=0)
X32 = X.astype(np.float32)
LABELS = np.array(["no", "yes"])[Y]


class Net(nn.Module):
    """The module of skorch's first example."""

    def __init__(self, num_units=10, nonlin=nn.ReLU()):  # noqa: B008
        super().__init__()
        self.dense0 = nn.Linear(20, num_units)
        self.nonlin = nonlin
        self.output = nn.Linear(num_units, 2)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, X, **kwargs):
        return self.softmax(self.output(self.nonlin(self.dense0(X))))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [NeuralNetClassifier, NeuralNetRegressor])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(kind):
    from sklearn.utils.estimator_checks import check_estimator

    results = check_estimator(kind(max_epochs=20), on_skip=None)
    statuses = [result["status"] for result in results]
    assert (
        len(statuses) > 50 and statuses.count("passed") >= len(statuses) - 2 and set(statuses) <= {"passed", "skipped"}
    )


def test_a_module_is_trained_searched_piped_cloned_and_pickled():
    net = NeuralNetClassifier(Net, max_epochs=3, lr=0.1, iterator_train__shuffle=True, module__num_units=5)
    net.fit(X32, Y)
    assert net.module_.dense0.weight.shape == (5, 20) and len(net.history) == 3
    assert {"epoch", "train_loss", "valid_loss", "valid_acc"} <= set(net.history[-1])
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again.predict_proba(X32), net.predict_proba(X32))
    assert clone(net).get_params() == net.get_params() and not hasattr(clone(net), "module_")
    piped = Pipeline([("scale", StandardScaler()), ("net", net)]).fit(X, LABELS)
    assert set(piped.predict(X)) <= {"no", "yes"} and piped.predict_proba(X).shape == (200, 2)
    net.set_params(train_split=False, verbose=0)
    search = GridSearchCV(net, {"lr": [0.01, 0.1], "module__num_units": [2, 4]}, refit=False, cv=2, scoring="accuracy")
    search.fit(X32, Y)
    assert set(search.best_params_) == {"lr", "module__num_units"}


def test_without_a_module_a_small_network_learns_labels_and_numbers():
    net = NeuralNetClassifier(random_state=0, max_epochs=50).fit(X, LABELS)
    assert net.classes_.tolist() == ["no", "yes"] and net.score(X, LABELS) > 0.95
    np.testing.assert_allclose(net.predict_proba(X).sum(1), 1)
    inputs, targets = make_regression(100, 5, random_state=0)
    targets = targets / targets.std()
    assert NeuralNetRegressor(random_state=0).fit(inputs, targets).score(inputs, targets) > 0.95
    both = NeuralNetRegressor(random_state=0, max_epochs=5).fit(inputs, np.stack([targets, targets], 1))
    assert both.predict(inputs).shape == (100, 2)


def test_a_seed_makes_it_repeatable_and_leaves_the_global_generator_alone():
    before = rg.get_rng_state()
    first, second = (NeuralNetClassifier(random_state=3, max_epochs=2).fit(X, Y).predict_proba(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert str(rg.get_rng_state()) == str(before)


@pytest.mark.parametrize(
    ("criterion", "module"),
    [
        (nn.NLLLoss, lambda: nn.Sequential(nn.Linear(20, 2), nn.Softmax(-1))),
        (nn.CrossEntropyLoss, lambda: nn.Linear(20, 2)),
        (nn.BCEWithLogitsLoss, lambda: nn.Linear(20, 1)),
        (nn.CrossEntropyLoss(label_smoothing=0.1), lambda: None),
        (nn.BCEWithLogitsLoss, lambda: None),
    ],
)
def test_each_loss_gives_probabilities_of_labels(criterion, module):
    net = NeuralNetClassifier(module(), criterion=criterion, optimizer=rg.optim.Adam, lr=0.05, max_epochs=20)
    net.fit(X32, LABELS)
    found = net.predict_proba(X32)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)
    assert net.score(X32, LABELS) > 0.7 and (net.predict(X32) == net.classes_[found.argmax(1)]).all()


def test_the_training_is_the_loop_that_somebody_would_write():
    linear = nn.Linear(20, 2)
    net = NeuralNetClassifier(
        linear, criterion=nn.CrossEntropyLoss, lr=0.1, max_epochs=3, batch_size=64, train_split=None,
        optimizer__momentum=0.9,
    )  # fmt: skip
    net.fit(X32, Y)
    by_hand = nn.Linear(20, 2)
    by_hand.load_state_dict(linear.state_dict())  # the module given is left as it was
    optimizer = rg.optim.SGD(by_hand.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        for start in range(0, 200, 64):
            optimizer.zero_grad()
            x, t = rg.from_numpy(X32[start : start + 64]), rg.from_numpy(Y[start : start + 64])
            nn.functional.cross_entropy(by_hand(x), t).backward()
            optimizer.step()
    assert rg.equal(net.module_.weight, by_hand.weight) and not rg.equal(linear.weight, by_hand.weight)


def test_partial_fit_and_warm_start_go_on_and_fit_begins_anew():
    net = NeuralNetClassifier(max_epochs=2, random_state=0)
    net.partial_fit(X[:50], LABELS[:50], classes=["maybe", "no", "yes"]).partial_fit(X[50:], LABELS[50:])
    assert len(net.history_) == 4 and net.predict_proba(X).shape == (200, 3)
    assert len(net.fit(X, LABELS).history_) == 2
    assert len(net.set_params(warm_start=True).fit(X, LABELS).history_) == 4
    net.set_params(lr=0.5, optimizer__weight_decay=0.1)
    assert net.optimizer_.param_groups[0]["lr"] == 0.5 and net.optimizer_.param_groups[0]["weight_decay"] == 0.1
    with pytest.raises(ValueError, match="the label 'never', which is not in classes_"):
        net.partial_fit(X[:2], ["no", "never"])


def test_inputs_may_be_tensors_images_and_dictionaries():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(20, 2), nn.Linear(20, 2)

        def forward(self, first, second):
            return (self.a(first) + self.b(second)).softmax(-1)

    inputs = {"first": X32, "second": rg.tensor(X32)}
    assert NeuralNetClassifier(Two, lr=0.1, max_epochs=2).fit(inputs, Y).predict(inputs).shape == (200,)
    assert NeuralNetClassifier(max_epochs=2).fit(rg.tensor(X32), rg.tensor(Y)).predict(X32).shape == (200,)
    assert NeuralNetClassifier(max_epochs=2).fit(X.reshape(200, 4, 5), Y).predict(X.reshape(200, 4, 5)).shape == (200,)


def test_callbacks_stop_early_keep_the_best_and_change_the_rate():
    class Told(Callback):
        moments = []

        def on_train_begin(self, net, X, **kwargs):
            self.moments.append("train")

        def on_batch_end(self, net, training, **kwargs):
            self.moments.append(training)

        def on_epoch_end(self, net, **kwargs):
            self.moments.append(net.optimizer_.param_groups[0]["lr"])

    stop = EarlyStopping(patience=2, load_best=True)
    net = NeuralNetClassifier(
        max_epochs=100, lr=0.1, callbacks=[("told", Told()), LRScheduler("StepLR", step_size=1, gamma=0.5), stop],
        train_split=ValidSplit(4, stratified=True), random_state=0,
    )  # fmt: skip
    net.fit(X, Y)
    losses = net.history[:, "valid_loss"]
    assert len(losses) < 100 and stop.best_ == losses[-3] > 0.999 * min(losses)
    assert Told.moments[:4] == ["train", True, True, False] and Told.moments[4] == 0.1
    assert net.optimizer_.param_groups[0]["lr"] == 0.1 * 0.5 ** len(losses)
    assert net._epoch(X, Y.astype(np.int64), net._split(200, Y)[3], training=False)[0] == pytest.approx(losses[-3])


def test_validation_may_be_on_samples_of_ones_own():
    net = NeuralNetClassifier(max_epochs=1, train_split=predefined_split((X[:50], LABELS[:50])), random_state=0)
    net.fit(X[50:], LABELS[50:])
    assert net.history[0, "valid_acc"] == net.score(X[:50], LABELS[:50])


def test_parameters_are_saved_and_loaded(tmp_path):
    net = NeuralNetClassifier(Net, max_epochs=1).fit(X32, Y)
    net.save_params(f_params=tmp_path / "net.safetensors")
    other = NeuralNetClassifier(Net).initialize()
    other.load_params(f_params=tmp_path / "net.safetensors")
    assert rg.equal(other.module_.dense0.weight, net.module_.dense0.weight)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"lrr": 3}, TypeError, "unexpected argument 'lrr'"),
        ({"module__foo": 3}, TypeError, "unexpected keyword argument 'foo'"),
        ({"module": 3}, TypeError, "module must be a Module or a class of Modules, got 3"),
        ({"module": nn.Linear(20, 2), "module__bias": False}, TypeError, "module__bias has no effect"),
        ({"optimizer": "adam"}, TypeError, "optimizer must be a class, got 'adam'"),
        ({"max_epochs": -1}, ValueError, "max_epochs must be an int of at least 0"),
        ({"batch_size": 0}, ValueError, "batch_size must be a positive int"),
        ({"lr": -1}, ValueError, "lr must be >= 0, got -1"),
        ({"callbacks": [3]}, TypeError, "callbacks must be Callbacks"),
        ({"callbacks": [EarlyStopping()]}, ValueError, "must be one of epoch, train_loss, dur, got 'valid_loss'"),
        ({"train_split": 3}, TypeError, "train_split must be a ValidSplit"),
    ],
)
def test_a_wrong_argument_is_named(options, error, message):
    with pytest.raises(error, match=message):
        NeuralNetClassifier(**options).fit(X, Y)


def test_wrong_data_is_named():
    with pytest.raises(NotFittedError):
        NeuralNetClassifier().predict(X)
    with pytest.raises(ValueError, match="X has 200 samples but y has 3"):
        NeuralNetClassifier().fit(X, Y[:3])
    with pytest.raises(ValueError, match="continuous"):
        NeuralNetClassifier().fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"must have the shape of y, \(128,\), got \(128, 3\)"):
        NeuralNetRegressor(nn.Linear(20, 3), train_split=None).fit(X32, X32[:, 0])
    with pytest.raises(ValueError, match="call fit with an array, or pass a module"):
        NeuralNetRegressor().initialize()


def test_without_scikit_learn_the_import_names_the_extra():
    program = "import sys; sys.modules['sklearn'] = None; import retrograd.sklearn"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "pip install 'retrograd[sklearn]'" in done.stderr.splitlines()[-1]
