"""Convert text to tokens and back, by the tokenizer files in a model's folder."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Protocol


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

    Raises:
        FileNotFoundError, NotADirectoryError: the folder does not exist.
        ImportError: the tokenizers library (extra ``tokenizers``) is needed and not installed.
        ValueError: a tokenizer file is damaged.

    >>> import tempfile
    >>> type(rg.weights.load_tokens(tempfile.mkdtemp())).__name__
    'Bytes'
    """
    folder = Path(folder)
    if not folder.is_dir():
        error = NotADirectoryError if folder.exists() else FileNotFoundError
        number = errno.ENOTDIR if folder.exists() else errno.ENOENT
        raise error(number, os.strerror(number), os.fspath(folder))
    whole, vocabulary, merges = folder / "tokenizer.json", folder / "vocab.json", folder / "merges.txt"
    if not whole.is_file() and not (vocabulary.is_file() and merges.is_file()):
        if (folder / "tokenizer.model").is_file():
            raise ValueError(f"{folder} has only sentencepiece's tokenizer.model; convert it to tokenizer.json")
        return Bytes()
    try:
        import tokenizers
    except ImportError:
        raise ImportError("tokenizer files need the tokenizers library: pip install 'retrograd[tokenizers]'") from None
    try:
        if whole.is_file():
            return Library(tokenizers.Tokenizer.from_file(str(whole)))
        return Library(tokenizers.ByteLevelBPETokenizer.from_file(str(vocabulary), str(merges)))
    except Exception as error:  # the library raises bare Exceptions
        raise ValueError(f"{whole if whole.is_file() else vocabulary}: not a tokenizer file ({error})") from None
