"""The settings of a training run: from the command line, a TOML file, a checkpoint to resume, and the recipe."""

import argparse
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..arguments import device, path, positive_float, positive_int, seed, threads
from ..console import UserError
from ..tasks.csv_files import read_csv
from .checkpoints import SavedRun, read_run
from .recipes import OPTIMIZERS, RECIPES, Recipe

ENGINES = ("autograd", "manual")
KINDS = ("regression", "classification")
# The settings that a resumed run may change; a new length also changes the learning-rate schedule.
FREE_ON_RESUME = (
    *("epochs", "steps", "out", "device", "threads", "tensorboard", "watch", "doctor", "compile"),
    *("data", "text"),  # the data file may have moved
)
NEEDED = {"table": ("data", "target"), "text": ("text",)}


@dataclass(frozen=True)
class Setting:
    """One option of `retrograd train TASK`, and of its TOML file under the same name."""

    name: str
    type: Callable[[str], Any]
    help: str
    choices: tuple[str, ...] | None = None

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    def read(self, value: object) -> Any:
        """Convert and check a TOML value as on the command line."""
        if self.type is bool:
            if not isinstance(value, bool):
                raise UserError(f"{self.name} = {value!r}: expected true or false")
            return value
        try:
            result = self.type(str(value))
        except argparse.ArgumentTypeError as error:
            raise UserError(f"{self.name}: {error}") from None
        if self.choices and result not in self.choices:
            raise UserError(f"{self.name} = {value!r}: choose from {', '.join(self.choices)}")
        return result


def settings_of(task: str) -> list[Setting]:
    models = tuple(RECIPES[task])
    settings = [
        *_sources(task),
        Setting("model", str, f"default: {models[0]}", models),
        Setting("epochs", positive_int, "passes over the training data"),
        Setting("steps", positive_int, "stop after this many batches, in place of --epochs"),
        Setting("batch_size", positive_int, "examples for each step"),
        Setting("lr", positive_float, "highest learning rate"),
        Setting("optimizer", str, "the optimizer", OPTIMIZERS),
        Setting("seed", seed, "seed of the weights and of the order of the data (default: 0)"),
        Setting("out", path, f"folder for metrics, checkpoint, plots and report (default: runs/{task})"),
        Setting("device", device, "cpu, cuda, cuda:1 ... (default: cpu)"),
        Setting("threads", threads, "threads of the BLAS"),
        Setting("tensorboard", bool, "also write TensorBoard event files"),
        Setting("compile", bool, "compile the training step"),
        Setting("watch", bool, "watch gradients, weights and activations: alarms, and a page watch.html"),
        Setting("doctor", bool, "look for reasons why the model does not learn, and write doctor.json"),
    ]
    if task == "mnist":
        settings.append(Setting("engine", str, "manual: layers with gradients written by hand", ENGINES))
    return settings


def _sources(task: str) -> list[Setting]:
    """Return the settings that name the user's data."""
    if task == "text":
        return [Setting("text", path, "the text file, in UTF-8")]
    if task != "table":
        return []
    return [
        Setting("data", path, "the CSV file; its first line names the columns"),
        Setting("target", str, "the column to predict"),
        Setting("kind", str, "default: by the column: text and few whole numbers are classes", KINDS),
    ]


def add_options(parser: argparse.ArgumentParser, task: str) -> None:
    for setting in settings_of(task):
        if setting.type is bool:
            parser.add_argument(setting.option, action="store_true", default=None, help=setting.help)
        else:
            parser.add_argument(setting.option, type=setting.type, choices=setting.choices, help=setting.help)
    parser.add_argument(
        "--config", type=path, metavar="FILE", help="settings in TOML; command-line options override it"
    )
    parser.add_argument("--resume", type=path, metavar="CHECKPOINT", help="resume a stopped run")


@dataclass(frozen=True)
class Settings:
    """All settings of a run, and the recipe with these settings applied."""

    values: dict[str, Any]
    recipe: Recipe
    checkpoint: SavedRun | None

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    def plain(self) -> dict[str, Any]:
        """Return the settings as plain data, for a checkpoint and a report."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in self.values.items()}


def collect(task: str, options: argparse.Namespace) -> Settings:
    """Return the settings: the command line's, then the file's, then the checkpoint's, then the recipe's."""
    settings = {setting.name: setting for setting in settings_of(task)}
    given = read_config(options.config, settings) if options.config else {}
    given |= {name: value for name in settings if (value := getattr(options, name)) is not None}
    if {"epochs", "steps"} <= set(given):
        raise UserError("pass --epochs or --steps, not both")
    checkpoint = read_run(options.resume) if options.resume else None
    values = {} if checkpoint is None else resumed(task, checkpoint, given)
    if checkpoint is not None:
        values["out"] = checkpoint.path.parent
        if "epochs" in given or "steps" in given:
            values |= {"epochs": None, "steps": None}
    values |= given
    for name in NEEDED.get(task, ()):
        if values.get(name) is None:
            raise UserError(f"'retrograd train {task}' needs --{name}{_columns_of(values)}")
    if task == "mnist":
        engine = values.setdefault("engine", "autograd")
        if engine == "manual" and values.setdefault("model", "mlp") != "mlp":
            raise UserError("--engine manual supports only --model mlp")
        if engine == "manual" and values.get("compile"):
            raise UserError("--compile does not support --engine manual")
        if engine == "manual" and values.get("watch"):
            raise UserError("--watch does not support --engine manual")
        if engine == "manual" and values.get("doctor"):
            raise UserError("--doctor does not support --engine manual")
    if values.get("doctor") and values.get("compile"):
        raise UserError("--doctor does not support --compile: a compiled step calls no backward()")
    model = values.setdefault("model", next(iter(RECIPES[task])))
    recipe = RECIPES[task][model]
    if values.get("epochs") is None and values.get("steps") is None:
        values["epochs"] = recipe.epochs
    changes = {name: values[name] for name in ("epochs", "batch_size", "lr", "optimizer") if values.get(name)}
    recipe = replace(recipe, **changes)
    source = values.get("data") or values.get("text")
    out = Path("runs") / (task if source is None else Path(source).stem)
    defaults = {"epochs": None, "steps": None, "seed": 0, "out": out, "device": "cpu"}
    defaults |= {"threads": None, "tensorboard": False, "watch": False, "doctor": False, "compile": False}
    defaults |= {name: getattr(recipe, name) for name in ("batch_size", "lr", "optimizer")}
    values = {"task": task, **defaults, **values}
    values["out"] = Path(values["out"])
    return Settings(values, recipe, checkpoint)


def _columns_of(values: dict[str, Any]) -> str:
    """Name the columns of the CSV file to choose from."""
    return f": one of {', '.join(read_csv(Path(values['data'])).columns)}" if values.get("data") else ""


def resumed(task: str, checkpoint: SavedRun, given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the run to resume; raise UserError if a setting is unknown or cannot be changed."""
    saved, settings = checkpoint.config, {setting.name: setting for setting in settings_of(task)}
    if saved["task"] != task:
        raise UserError(f"the checkpoint is from 'retrograd train {saved['task']}', not {task}")
    for name, value in saved.items():
        if name in ("task", "out") or value is None and name in ("epochs", "steps", "threads", "kind"):
            continue
        if name not in settings:
            raise UserError(f"{checkpoint.path}: 'retrograd train {task}' has no setting {name!r}")
        try:
            read = settings[name].read(value)
        except UserError as error:
            raise UserError(f"{checkpoint.path}: {error}") from None
        if read != value and str(read) != value:  # a path is saved as text
            raise UserError(f"{checkpoint.path}: {name} = {value!r}: expected {read!r}")
    for name, value in given.items():
        if name not in FREE_ON_RESUME and value != saved.get(name):
            raise UserError(f"a resumed run cannot change {name} from {saved.get(name)} to {value}")
    return {name: value for name, value in saved.items() if name not in ("task", "out")}


def read_config(path: Path, settings: dict[str, Setting]) -> dict[str, Any]:
    """Return the settings in a TOML file; names may contain dashes or underscores."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a TOML file: {error}") from None
    values = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in settings:
            raise UserError(f"{path}: unknown setting {key!r}; the settings are {', '.join(settings)}")
        values[name] = settings[name].read(value)
    return values
