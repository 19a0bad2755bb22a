"""Text to tokens and back, by the tokenizer files beside the weights."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any, Protocol


class Tokens(Protocol):
    """What makes tokens of a text, and a text of tokens."""

    def encode(self, text: str) -> list[int]:
        """The text's tokens."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """Their text."""
        ...


class Bytes:
    """The bytes of a text in UTF-8.

    >>> from retrograd.weights.tokens import Bytes
    >>> Bytes().decode(Bytes().encode("né"))
    'né'
    """

    def encode(self, text: str) -> list[int]:
        """The text's bytes."""
        return list(text.encode())

    def decode(self, tokens: list[int]) -> str:
        """What they spell; � for what is no text."""
        return bytes(token for token in tokens if token < 256).decode(errors="replace")


class Library:
    """A tokenizer of the tokenizers library."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """The text's tokens, with those that the tokenizer puts at its beginning."""
        return list(self._tokenizer.encode(text).ids)

    def decode(self, tokens: list[int]) -> str:
        """Their text, without special tokens."""
        return str(self._tokenizer.decode(tokens))


def load_tokens(folder: Path) -> Tokens:
    """The tokenizer of a folder: ``tokenizer.json``, or ``vocab.json`` with ``merges.txt``; bytes where there is none.

    Raises:
        FileNotFoundError, NotADirectoryError: there is no such folder.
        ImportError: there are such files, and the tokenizers library (extra ``tokenizers``) is not installed.
        ValueError: they are damaged.

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
            raise ValueError(f"{folder} has a tokenizer.model of sentencepiece alone; convert it to tokenizer.json")
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
        raise ValueError(f"{whole if whole.is_file() else vocabulary}: no tokenizer ({error})") from None
