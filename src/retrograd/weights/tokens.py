"""Convert text to tokens and back, by the tokenizer files in a model's folder, or the metadata of a GGUF file."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from . import gguf


class Tokens(Protocol):
    """A protocol for tokenizers."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens."""
        ...


class Bytes:
    """A tokenizer whose tokens are the bytes of UTF-8.

    >>> from retrograd.weights.tokens import Bytes
    >>> Bytes().decode(Bytes().encode("né"))
    'né'
    """

    def encode(self, text: str) -> list[int]:
        """Return the bytes of a text."""
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        """Return the decoded text, with U+FFFD for invalid bytes."""
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


class Library:
    """A tokenizer of the tokenizers library."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, with the special tokens that the tokenizer adds at its start."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens, without special tokens."""
        return str(self._tokenizer.decode(tokens))


def load_tokens(folder: Path) -> Tokens:
    """Load a folder's tokenizer: ``tokenizer.json``, or ``vocab.json`` with ``merges.txt``, or else ``Bytes``.

    If the path ends in ``.gguf``, load the tokenizer in the metadata of this file.

    Raises:
        FileNotFoundError, NotADirectoryError: the folder does not exist.
        ImportError: the tokenizers library (extra ``tokenizers``) is needed and not installed.
        ValueError: a tokenizer file is damaged, or a GGUF file has a tokenizer that is not supported.
        CorruptFileError: a GGUF file is damaged.

    >>> import tempfile
    >>> type(rg.weights.load_tokens(tempfile.mkdtemp())).__name__
    'Bytes'
    """
    folder = Path(folder)
    if folder.suffix == ".gguf":
        return _from_gguf(gguf.read(folder))
    if not folder.is_dir():
        error = NotADirectoryError if folder.exists() else FileNotFoundError
        number = errno.ENOTDIR if folder.exists() else errno.ENOENT
        raise error(number, os.strerror(number), os.fspath(folder))
    whole, vocabulary, merges = folder / "tokenizer.json", folder / "vocab.json", folder / "merges.txt"
    if not whole.is_file() and not (vocabulary.is_file() and merges.is_file()):
        if (folder / "tokenizer.model").is_file():
            raise ValueError(f"{folder} has only sentencepiece's tokenizer.model; convert it to tokenizer.json")
        return Bytes()
    tokenizers = _library()
    try:
        if whole.is_file():
            return Library(tokenizers.Tokenizer.from_file(str(whole)))
        return Library(tokenizers.ByteLevelBPETokenizer.from_file(str(vocabulary), str(merges)))
    except Exception as error:  # the library raises bare Exceptions
        raise ValueError(f"{whole if whole.is_file() else vocabulary}: not a tokenizer file ({error})") from None


def _library() -> ModuleType:
    try:
        import tokenizers
    except ImportError:
        raise ImportError("tokenizer files need the tokenizers library: pip install 'retrograd[tokenizers]'") from None
    return tokenizers


# The regular expressions that split a text before pairs are merged, by llama.cpp's names; an empty string stands for
# the expression of GPT-2.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {"gpt-2": "", "smollm": "", "llama-bpe": _WORDS % "{1,3}", "qwen2": _WORDS % ""}
_CONTROL, _USER_DEFINED = 3, 4  # token types in GGUF files


def _from_gguf(file: gguf.Contents) -> Tokens:
    """Return the byte-level BPE that is in the metadata of a GGUF file."""
    kind, split = file.get("tokenizer.ggml.model", str), file.get("tokenizer.ggml.pre", str, "gpt-2")
    if kind != "gpt2" or split not in _SPLITS:
        raise ValueError(
            f"{file.path}: the tokenizer {kind!r} with pre-tokenizer {split!r} is not supported; supported are 'gpt2' "
            f"with {', '.join(map(repr, _SPLITS))}. Pass the folder of a tokenizer.json to load_tokens"
        )
    tokenizers = _library()
    tokens, merges = file.get("tokenizer.ggml.tokens", list), file.get("tokenizer.ggml.merges", list)
    types = file.get("tokenizer.ggml.token_type", list, [])
    whole = split == "llama-bpe"  # a word that is in the vocabulary is one token, without merges
    try:
        model = tokenizers.models.BPE(
            {token: number for number, token in enumerate(tokens)},
            [tuple(pair.split(" ", 1)) for pair in merges],
            ignore_merges=whole,
        )
    except Exception as error:  # the library raises bare Exceptions
        raise ValueError(f"{file.path}: the vocabulary and the merges do not fit together ({error})") from None
    tokenizer = tokenizers.Tokenizer(model)
    splits = tokenizers.pre_tokenizers
    before = [splits.Digits(individual_digits=True)] if split == "smollm" else []
    if _SPLITS[split]:
        before.append(splits.Split(tokenizers.Regex(_SPLITS[split]), "isolated"))
    by_bytes = splits.ByteLevel(add_prefix_space=False, use_regex=not _SPLITS[split])
    tokenizer.pre_tokenizer = splits.Sequence([*before, by_bytes])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    for token, number in zip(tokens, types, strict=False):
        if number in (_CONTROL, _USER_DEFINED):
            added = tokenizers.AddedToken(token, special=number == _CONTROL, normalized=False)
            tokenizer.add_special_tokens([added]) if number == _CONTROL else tokenizer.add_tokens([added])
    if file.get("tokenizer.ggml.add_bos_token", bool, whole):
        first = file.get("tokenizer.ggml.bos_token_id", int)
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            f"{tokens[first]} $A", special_tokens=[(tokens[first], first)]
        )
    return Library(tokenizer)
