"""``save_model``: write a model and its configuration under the published names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from .. import nn
from ..core.tensor.tensor import Tensor
from ..files import replacing
from ..models import BERT, GPT2, Llama
from ..serialization import save
from .loading import tied_weights
from .name_maps import ARCHITECTURES

KINDS: dict[type[nn.Module], str] = {GPT2: "gpt2", Llama: "llama", BERT: "bert"}
PREFIXES = {"llama": "model."}  # GPT-2 and BERT are published with and without a prefix


def save_model(model: nn.Module, path: str | os.PathLike[str], config: Mapping[str, object] | None = None) -> None:
    """Save a GPT2, Llama or BERT to a folder in the layout of Hugging Face's transformers.

    ``load_model`` and the ``from_pretrained`` of transformers read the folder. Copy the files of the tokenizer into it.
    Heads of tasks, which ``load_model`` does not read, are not saved.

    Args:
        model: a model of ``retrograd.models``, such as ``load_model`` returns.
        path: the folder, which is created if it does not exist; ``config.json`` and ``model.safetensors`` in it are
            replaced.
        config: the content of ``config.json``; by default that of the folder from which ``load_model`` read the model.

    Raises:
        TypeError: the model is not a GPT2, Llama or BERT.
        ValueError: no configuration is known, or its ``model_type``, ``vocab_size`` or number of layers is not the
            model's.
        RuntimeError: the model has weights for which the architecture has no published name.
        OSError: the folder cannot be written.

    >>> rg.weights.save_model(rg.nn.Linear(2, 1), "out")
    Traceback (most recent call last):
    TypeError: save_model: expected a GPT2, Llama or BERT of retrograd.models, got Linear
    """
    kind = next((name for cls, name in KINDS.items() if isinstance(model, cls)), None)
    if kind is None:
        raise TypeError(f"save_model: expected a GPT2, Llama or BERT of retrograd.models, got {type(model).__name__}")
    config = getattr(model, "published_config", None) if config is None else config
    if config is None:
        raise ValueError("save_model: pass config=, the content of config.json; the model was not made by load_model")
    _check(model, kind, config)
    weights = _published(model, kind)
    dtype = next(iter(weights.values())).dtype.name
    config = {name: dtype if name in ("dtype", "torch_dtype") else value for name, value in config.items()}
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    save(weights, folder / "model.safetensors")
    with replacing(folder / "config.json") as stream:
        stream.write((json.dumps(config, indent=2) + "\n").encode())


def _published(model: nn.Module, kind: str) -> dict[str, Tensor]:
    """Return the weights by their published names, without weights that are tied to others."""
    architecture, prefix = ARCHITECTURES[kind], PREFIXES.get(kind, "")
    templates = {ours: theirs for theirs, ours in architecture.names.items()}
    tied = tied_weights(model)
    found = {}
    for name, value in model.state_dict().items():
        number = re.search(r"\.(\d+)\.", name)
        theirs = templates.get(name if number is None else name.replace(number[0], ".{}.", 1))
        if theirs is None:
            hint = "; load_model(..., dtype=) expands weights of 8 bits" if name.endswith(".scales") else ""
            raise RuntimeError(f"save_model: {kind} has no published name for {name}{hint}")
        if name not in tied:
            full = theirs if number is None else theirs.format(number[1])
            # The only transformation is transposition, which is its own inverse.
            found[full if full.startswith("lm_head.") else prefix + full] = architecture.change(theirs)(value.detach())
    return found


def _check(model: nn.Module, kind: str, config: Mapping[str, object]) -> None:
    """Raise ValueError if the configuration is that of another model."""
    layers = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    wanted = {"model_type": kind, "vocab_size": model.token.weight.shape[0], layers: len(model.blocks)}
    for name, value in wanted.items():
        if config.get(name) != value:
            raise ValueError(f"save_model: config has {name} = {config.get(name)!r}, but the model has {value!r}")
