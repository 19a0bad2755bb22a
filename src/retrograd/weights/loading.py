"""``load_model``: construct a model from a folder with ``config.json`` and safetensors files, or from a GGUF file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import nn
from ..core.arrays.dtypes import is_differentiable
from ..core.tensor.tensor import Tensor
from ..files import open_regular
from ..nn.init import no_random_weights
from ..ops.table.types import DeviceLike
from ..serialization import CorruptFileError, load
from . import gguf
from .compact import Compact, CompactEmbedding, CompactLinear
from .name_maps import ARCHITECTURES, Architecture


def load_model(path: str | os.PathLike[str], dtype: object = None, device: DeviceLike = "cpu") -> nn.Module:
    """Load a GPT2, Llama or BERT from a folder in the layout of Hugging Face's transformers, or a Llama from GGUF.

    Matrices of F16, BF16 and Q8_0 of a GGUF file stay in these formats, as constants that are multiplied in float32:
    the layers are ``CompactLinear`` and ``CompactEmbedding``. Other quantizations become float32; for them the gguf
    package (extra ``gguf``) is needed.

    Args:
        path: the folder, with ``config.json``, which has a ``model_type``, and ``model.safetensors`` or
            ``model.safetensors.index.json``; or a file whose name ends in ``.gguf``.
        dtype: convert all weights to this dtype; by default they keep the file's dtype, bfloat16 included.
        device: the device of the model.

    Returns:
        The model, in evaluation mode.

    Raises:
        FileNotFoundError: the folder, the configuration or the weights do not exist.
        ImportError: the file has a quantization for which the gguf package is not installed.
        ValueError: the kind of model is unknown, the configuration has a setting that these models do not support, or
            ``dtype`` is not floating.
        RuntimeError: weights are missing, unexpected or of another shape; the message names the first such weight.
        CorruptFileError: a file is damaged.

    >>> rg.weights.load_model("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'nowhere/config.json'
    """
    place, where = Path(path), os.fspath(path)
    weights: Mapping[str, Tensor | Compact]
    if place.suffix == ".gguf":
        config, weights = gguf.model_of(gguf.read(place))
    else:
        config = read_config(place)
    kind = config.get("model_type")
    architecture = ARCHITECTURES.get(kind) if isinstance(kind, str) else None
    if architecture is None:
        raise ValueError(f"{place / 'config.json'}: model_type must be one of {', '.join(ARCHITECTURES)}, got {kind!r}")
    if place.suffix != ".gguf":
        weights = load(weights_file(place), device)
    found = {}
    for full, (ours, change) in _new_names(architecture, weights, where).items():
        value = weights[full]
        found[ours] = change(value) if isinstance(value, Tensor) else value
    if dtype is not None:
        if not is_differentiable(rg_dtype := _dtype(dtype)):
            raise ValueError(f"load_model: dtype must be floating, got {rg_dtype}")
        found = {name: value.to(rg_dtype) for name, value in found.items()}
    with no_random_weights():  # not needed: the file has all weights
        model = architecture.model(config, {_bare(architecture, name) for name in weights})
    tied = tied_weights(model)
    for name, source in tied.items():
        if name not in found and source in found:
            found[name] = found[source]
    _check(model, found, where)
    plain = {name: value for name, value in found.items() if isinstance(value, Tensor)}
    model.load_state_dict(plain, assign=True, strict=False)
    for name, value in found.items():
        if isinstance(value, Compact):
            _replace_layer(model, name, value)
    if tied and "head.weight" in plain:
        model.head.weight = model.token.weight
    model.published_config = config  # for `save_model`
    return model.to(device).eval()


def _replace_layer(model: nn.Module, name: str, matrix: Compact) -> None:
    """Replace the layer of a weight by a layer that keeps the weight as it is stored."""
    path, _, attribute = name.removesuffix(".weight").rpartition(".")
    owner = model.get_submodule(path)
    layer = getattr(owner, attribute)
    compact = CompactEmbedding(matrix) if isinstance(layer, nn.Embedding) else CompactLinear(matrix, layer.bias)
    setattr(owner, attribute, compact)


def read_config(folder: Path) -> dict[str, Any]:
    """Return the object in ``config.json``."""
    with open_regular(folder / "config.json") as stream:
        try:
            config = json.load(stream)
        except ValueError as error:
            raise CorruptFileError(f"{folder / 'config.json'}: invalid JSON ({error})") from None
    if not isinstance(config, dict):
        raise CorruptFileError(f"{folder / 'config.json'}: must contain a JSON object")
    return config


def weights_file(folder: Path) -> Path:
    """Return the path of the weights, or of the index of several files."""
    for name in ("model.safetensors", "model.safetensors.index.json"):
        if (folder / name).is_file():
            return folder / name
    others = sorted(file.name for file in folder.glob("*.bin"))
    hint = f"; {others[0]} is a pickle; convert it to safetensors" if others else ""
    raise FileNotFoundError(f"{folder} has neither model.safetensors nor model.safetensors.index.json{hint}")


def _dtype(dtype: Any) -> Any:
    import numpy as np

    from ..core.arrays.bfloat16 import bfloat16

    return bfloat16() if getattr(dtype, "name", dtype) == "bfloat16" else np.dtype(dtype)


def _bare(architecture: Architecture, name: str) -> str:
    for prefix in architecture.prefixes:
        name = name.removeprefix(prefix)
    return name


def renamed(architecture: Architecture | str, weights: Mapping[str, Tensor], where: str = "") -> dict[str, Tensor]:
    """Rename tensors to the names of ``retrograd.models``, and transpose them where the layers require it.

    Args:
        architecture: ``"gpt2"``, ``"llama"`` or ``"bert"``.
        weights: tensors by published name.
        where: prefix of error messages.

    Raises:
        ValueError: ``architecture`` is unknown.
        RuntimeError: a name is unknown.

    >>> list(rg.weights.renamed("gpt2", {"transformer.h.0.attn.c_attn.weight": rg.ones(2, 6)}))
    ['blocks.0.qkv.weight']
    """
    if isinstance(architecture, str):
        if architecture not in ARCHITECTURES:
            raise ValueError(f"renamed: architecture must be one of {', '.join(ARCHITECTURES)}, got {architecture!r}")
        architecture = ARCHITECTURES[architecture]
    names = _new_names(architecture, weights, where)
    return {ours: change(weights[full]) for full, (ours, change) in names.items()}


def _new_names(
    architecture: Architecture, names: Iterable[str], where: str
) -> dict[str, tuple[str, Callable[[Tensor], Tensor]]]:
    """Map each published name, unless it is ignored, to our name and the transformation of the array."""
    found = {}
    for full in names:
        bare = _bare(architecture, full)
        # The first published BERT files use gamma and beta for the weight and bias of a layer norm.
        bare = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", bare))
        number = re.search(r"\.(\d+)\.", bare)
        template = bare if number is None else bare.replace(number[0], ".{}.", 1)
        ours = architecture.names.get(template)
        if ours is None:
            if template.startswith(architecture.ignored):
                continue
            raise RuntimeError(f"{where}{': ' if where else ''}unexpected weights {full!r}")
        found[full] = ours if number is None else ours.format(number[1]), architecture.change(template)
    return found


def tied_weights(model: nn.Module) -> dict[str, str]:
    """Return a dict from the second names of tied weights to their first names."""
    head = getattr(model, "head", None)
    return {"head.weight": "token.weight"} if head is not None and head.weight is model.token.weight else {}


def _check(model: nn.Module, found: Mapping[str, Tensor | Compact], where: str) -> None:
    wanted = model.state_dict()
    for name, value in wanted.items():
        if name not in found:
            raise RuntimeError(f"{where}: the file has no weights for {name}")
        if found[name].shape != value.shape:
            shape, wanted_shape = tuple(found[name].shape), tuple(value.shape)
            raise RuntimeError(f"{where}: {name} has shape {shape}, but the configuration implies {wanted_shape}")
    for name in found:
        if name not in wanted:
            raise RuntimeError(f"{where}: the file has weights for {name}, which the configured model does not have")
