"""Read GGUF files, the format of llama.cpp: metadata, and the weights and configuration of a Llama.

A file is a header with typed metadata, a table of tensors, and their data. F32, F16, BF16 and Q8_0 are read here and
keep their bits; the gguf package expands other quantizations (decision 157).
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np

from ..core.arrays.bfloat16 import bfloat16
from ..core.tensor.tensor import Tensor, new_tensor
from ..files import open_regular
from ..serialization import CorruptFileError
from .compact import BLOCK, Compact
from .name_maps import GGUF_NAMES

Kind = TypeVar("Kind")
Value = int | float | bool | str | list[int] | list[float] | list[bool] | list[str]
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_FLOAT32, _STRING, _ARRAY = 6, 8, 9
_Q8_0 = 8
_DTYPES = {0: "float32", 1: "float16", 28: "float64", 30: "bfloat16"}
_ALIGNMENT = 32

_FACTORS = "rope_freqs.weight"  # the divisors of the frequencies of rotary embeddings


@dataclass
class Contents:
    """A file's metadata, and for each tensor its shape, its type number, and the file's bytes from its start on."""

    path: str
    metadata: dict[str, Value]
    tensors: dict[str, tuple[tuple[int, ...], int, memoryview]]

    def get(self, key: str, kind: type[Kind], default: Kind | None = None) -> Kind:
        """Return a value of the given type.

        Raises:
            CorruptFileError: the value is missing and has no default, or has another type.
        """
        value = self.metadata.get(key, default)
        if value is None:
            raise CorruptFileError(f"{self.path}: the metadata has no {key}")
        if type(value) is not kind:
            raise CorruptFileError(f"{self.path}: {key} must be of type {kind.__name__}, got {type(value).__name__}")
        return value


class _Header:
    """A position in the header of a file."""

    def __init__(self, path: str, data: memoryview) -> None:
        self.path, self.data, self.at = path, data, 0

    def numbers(self, kind: str, count: int = 1) -> tuple[int, ...]:
        size = count * struct.calcsize(f"<{kind}")
        if size > len(self.data) - self.at:
            raise CorruptFileError(f"{self.path}: the file ends inside its header")
        found = struct.unpack_from(f"<{count}{kind}", self.data, self.at)
        self.at += size
        return found

    def text(self) -> str:
        (length,) = self.numbers("Q")
        if length > len(self.data) - self.at:
            raise CorruptFileError(f"{self.path}: the file ends inside its header")
        self.at += length
        return str(self.data[self.at - length : self.at], "utf-8", "replace")

    def value(self, kind: int) -> Value:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            (kind,), (count,) = self.numbers("I"), self.numbers("Q")
            if kind == _STRING:
                return [self.text() for _ in range(count)]
            return list(self.numbers(self.letter(kind), count))
        (number,) = self.numbers(self.letter(kind))
        # The shortest decimal: 1e-05, not 9.999999747378752e-06.
        return float(str(np.float32(number))) if kind == _FLOAT32 else number

    def letter(self, kind: int) -> str:
        if kind not in _NUMBERS:
            raise CorruptFileError(f"{self.path}: the metadata has a value of the unknown type {kind}")
        return _NUMBERS[kind]


def read(path: str | os.PathLike[str]) -> Contents:
    """Read the header of a GGUF file; the data of its tensors is mapped into memory.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptFileError: the file is not GGUF, ends too early, or has another version or byte order.
    """
    with open_regular(path) as stream:
        if stream.read(4) != b"GGUF":
            raise CorruptFileError(f"{path}: not a GGUF file; it does not start with GGUF")
        data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    header = _Header(os.fspath(path), data)
    header.at = 4
    (version,) = header.numbers("I")
    if version not in (2, 3):
        hint = "it is big-endian" if version and not version & 0xFFFF else "expected version 2 or 3"
        raise CorruptFileError(f"{path}: GGUF version {version} cannot be read; {hint}")
    tensors, values = header.numbers("Q", 2)
    found = Contents(header.path, {}, {})
    for _ in range(values):
        name = header.text()
        found.metadata[name] = header.value(header.numbers("I")[0])
    places = {}
    for _ in range(tensors):
        name = header.text()
        shape = header.numbers("Q", header.numbers("I")[0])
        places[name] = shape[::-1], header.numbers("I")[0], header.numbers("Q")[0]
    step = found.get("general.alignment", int, _ALIGNMENT) or 1
    begin = -(-header.at // step) * step
    for name, (shape, kind, offset) in places.items():
        found.tensors[name] = shape, kind, data[begin + offset :]
    return found


def weights_of(file: Contents) -> dict[str, Tensor | Compact]:
    """Return all tensors by their names in the file; matrices of F16, BF16 and Q8_0 are ``Compact``.

    Raises:
        CorruptFileError: the file ends inside a tensor.
        ImportError: a tensor has another quantization, for which the gguf package (extra ``gguf``) is not installed.
        ValueError: the gguf package does not know the quantization.
    """
    return {name: _tensor(file, name, *place) for name, place in file.tensors.items()}


def _tensor(file: Contents, name: str, shape: tuple[int, ...], kind: int, data: memoryview) -> Tensor | Compact:
    if kind == _Q8_0:
        if not shape or shape[-1] % BLOCK:
            raise CorruptFileError(f"{file.path}: {name} has rows that are not a multiple of {BLOCK} numbers: {shape}")
        blocks = _array(
            file, name, np.dtype([("scale", "<f2"), ("numbers", "i1", (BLOCK,))]), prod(shape) // BLOCK, data
        )
        scales = new_tensor(blocks["scale"].reshape(*shape[:-1], -1).astype(np.float16))
        matrix = Compact(new_tensor(blocks["numbers"].reshape(shape).copy()), scales)
        return matrix if len(shape) == 2 else matrix.to(np.dtype("float32"))
    if kind in _DTYPES:
        dtype = bfloat16() if _DTYPES[kind] == "bfloat16" else np.dtype(_DTYPES[kind])
        found = new_tensor(_array(file, name, dtype, prod(shape), data).reshape(shape).copy())
        if dtype.itemsize > 2:
            return found
        return Compact(found) if len(shape) == 2 else found.float()
    try:
        import gguf
    except ImportError:
        raise ImportError(
            f"{file.path}: {name} has type {kind} of GGUF. F32, F16, BF16 and Q8_0 need no other library; "
            "quantizations with fewer bits need gguf: pip install 'retrograd[gguf]'"
        ) from None
    try:
        kind = gguf.GGMLQuantizationType(kind)
        size, length = gguf.GGML_QUANT_SIZES[kind]
        raw = _array(file, name, np.dtype(np.uint8), prod(shape) // size * length, data)
        expanded = gguf.quants.dequantize(raw.reshape(*shape[:-1], -1), kind)
    except (ValueError, KeyError, NotImplementedError) as error:
        raise ValueError(f"{file.path}: the gguf package cannot expand {name} of type {kind} ({error})") from None
    return new_tensor(np.ascontiguousarray(expanded, np.float32))


def _array(file: Contents, name: str, dtype: np.dtype, count: int, data: memoryview) -> np.ndarray:
    if count * dtype.itemsize > len(data):
        raise CorruptFileError(f"{file.path}: the file ends inside {name}")
    return np.frombuffer(data, dtype, count)


def model_of(file: Contents) -> tuple[dict[str, object], dict[str, Tensor | Compact]]:
    """Return the configuration and the weights of a Llama, under the names of transformers.

    llama.cpp rotates adjacent channels of queries and keys where transformers rotates channels i and i + C/2, so that
    its files have the rows of these weights in another order.

    Raises:
        ValueError: the model is not a Llama, or has a setting that is not supported.
    """
    weights = weights_of(file)
    config, head = _config(file, weights)
    found = {}
    for name, value in weights.items():
        if name == _FACTORS:
            continue
        number = re.search(r"\.(\d+)\.", name)
        template = name if number is None else name.replace(number[0], ".{}.", 1)
        if template not in GGUF_NAMES:
            raise RuntimeError(f"{file.path}: unexpected weights {name!r}")
        if template.startswith(("blk.{}.attn_q.", "blk.{}.attn_k.")):
            value = _in_halves(value, head)
        found[GGUF_NAMES[template].format(number and number[1])] = value
    return config, found


def _in_halves(value: Tensor | Compact, head: int) -> Tensor | Compact:
    """Reorder the rows of each head from channels 0, C/2, 1, C/2 + 1 ... to 0, 1, 2 ..."""

    def reordered(rows: Tensor) -> Tensor:
        return rows.unflatten(0, (-1, head // 2, 2)).transpose(1, 2).flatten(0, 2).contiguous()

    if isinstance(value, Tensor):
        return reordered(value)
    return Compact(reordered(value.weight), None if value.scales is None else reordered(value.scales))


def _config(file: Contents, weights: dict[str, Tensor | Compact]) -> tuple[dict[str, object], int]:
    """Return what ``config.json`` of transformers would contain, and the channels of a head."""
    kind = file.get("general.architecture", str)
    if kind != "llama":
        raise ValueError(f"{file.path}: general.architecture must be 'llama', got {kind!r}")
    if "token_embd.weight" not in weights:
        raise CorruptFileError(f"{file.path}: the file has no token_embd.weight")
    rows, channels = weights["token_embd.weight"].shape
    heads = file.get("llama.attention.head_count", int)
    head = file.get("llama.attention.key_length", int, channels // max(heads, 1))
    config: dict[str, object] = {
        "model_type": "llama",
        "hidden_act": "silu",
        "vocab_size": rows,
        "hidden_size": file.get("llama.embedding_length", int),
        "intermediate_size": file.get("llama.feed_forward_length", int),
        "num_hidden_layers": file.get("llama.block_count", int),
        "num_attention_heads": heads,
        "num_key_value_heads": file.get("llama.attention.head_count_kv", int, heads),
        "head_dim": head,
        "max_position_embeddings": file.get("llama.context_length", int),
        "rms_norm_eps": file.get("llama.attention.layer_norm_rms_epsilon", float),
        "rope_theta": file.get("llama.rope.freq_base", float, 10000.0),
        "attention_bias": "blk.0.attn_q.bias" in weights,
        "tie_word_embeddings": "output.weight" not in weights,
    }
    expected = {
        "llama.rope.dimension_count": (head,),
        "llama.attention.value_length": (head,),
        "llama.expert_count": (0,),
        "llama.rope.scaling.type": ("none", "linear"),
    }
    for key, values in expected.items():
        if (value := file.metadata.get(key, values[0])) not in values:
            wanted = " or ".join(map(repr, values))
            raise ValueError(f"{file.path}: {key} = {value!r} is not supported; it must be {wanted}")
    if file.metadata.get("llama.rope.scaling.type") == "linear":
        factor = file.get("llama.rope.scaling.factor", float)
        config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    factors = weights.get(_FACTORS)
    if isinstance(factors, Tensor):
        config["rope_scaling"] = {"rope_type": "factors", "factors": factors.tolist()}
    for name in ("bos_token_id", "eos_token_id"):
        if f"tokenizer.ggml.{name}" in file.metadata:
            config[name] = file.get(f"tokenizer.ggml.{name}", int)
    return config, head
