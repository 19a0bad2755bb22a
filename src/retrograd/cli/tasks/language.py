"""Text and names, predicted by character, by a transformer or an LSTM."""

from pathlib import Path

import numpy as np

import retrograd as rg
from retrograd import data, nn
from retrograd.data import DataLoader, RandomSampler, TensorDataset
from retrograd.models import CharTransformer, NamesLSTM, generate

from ..console import UserError
from ..training.report import Section, Text
from .base import Array, Classification, Predict, Split, check_batch_size, shuffled
from .csv_files import read_text

STEPS_PER_EPOCH = 250  # steps per epoch for Shakespeare, whose sequences start at random positions
CONTEXT = 64
EVALUATED = 2_048  # maximum pieces of validation text, so that evaluation takes seconds
END = "\n"  # the character between names
SAMPLE_NAMES = 10
SAMPLE_CHARACTERS = 400


class Language(Classification):
    """Prediction of the next character. `of_names`: whether each line is a name, after which a sample ends."""

    of_names = False

    def sections(self, predict: Predict, seed: int) -> list[Section]:
        """Generated text."""
        random = np.random.default_rng(seed)
        texts = [
            sample(self.model, self.vocabulary, length=SAMPLE_CHARACTERS, random=random, of_names=self.of_names)
            for _ in range(SAMPLE_NAMES if self.of_names else 1)
        ]
        return [Text("Samples", "\n".join(texts).strip("\n"))]


class Pieces(data.Dataset[tuple[Array, Array]]):
    """The pieces of a text that start at each position, and the same pieces shifted by one character."""

    def __init__(self, text: Array, length: int) -> None:
        self.text = text
        self.length = length

    def __len__(self) -> int:
        return len(self.text) - self.length

    def __getitem__(self, start: int) -> tuple[Array, Array]:
        piece = self.text[start : start + self.length + 1]
        return piece[:-1], piece[1:]


class Passages(Language):
    """Pieces of one text; the last tenth of the text, or evenly spaced pieces of it, is the validation data."""

    def __init__(self, text: str, model: str, batch_size: int, order: rg.Generator) -> None:
        self.vocabulary = "".join(sorted({*text, END}))
        train, validation = np.split(encode(text, self.vocabulary), [int(0.9 * len(text))])
        pieces = Pieces(train, CONTEXT)
        check_batch_size(batch_size, pieces)
        places = RandomSampler(pieces, replacement=True, num_samples=STEPS_PER_EPOCH * batch_size, generator=order)
        rows = (len(validation) - 1) // CONTEXT
        inputs, targets = (validation[i : i + rows * CONTEXT].reshape(rows, CONTEXT) for i in (0, 1))
        chosen = np.arange(min(rows, EVALUATED)) * rows // min(rows, EVALUATED)
        super().__init__(
            language_model("text", model, len(self.vocabulary)),
            DataLoader(pieces, batch_size, sampler=places, generator=order),
            Split("validation", inputs[chosen], targets[chosen]),
        )


def text_of(path: Path) -> str:
    """Return the text of a file; raise UserError if it is too short to train on."""
    text = read_text(path)
    least = 10 * (CONTEXT + 1)
    if len(text) < least:
        raise UserError(f"{path} has {len(text):,} characters; at least {least} are needed, and some 100,000 to learn")
    return text


class Names(Language):
    """First names; a tenth of them is the validation data."""

    of_names = True

    def __init__(self, model: str, batch_size: int, order: rg.Generator) -> None:
        names = data.names()
        self.vocabulary = END + "".join(sorted(set("".join(names))))
        length = max(map(len, names)) + 1
        inputs = np.zeros((len(names), length), np.int64)
        targets = np.full((len(names), length), self.PADDING)
        for row, name in enumerate(names):
            codes = encode(END + name + END, self.vocabulary)
            inputs[row, : len(name) + 1] = codes[:-1]
            targets[row, : len(name) + 1] = codes[1:]
        train, test = np.split(order.numpy.permutation(len(names)), [int(0.9 * len(names))])
        dataset = TensorDataset(inputs[train], targets[train])
        super().__init__(
            language_model("names", model, len(self.vocabulary), length),
            shuffled(dataset, batch_size, order),
            Split("validation", inputs[test], targets[test]),
        )


def language_model(task: str, model: str, vocabulary: int, context: int = CONTEXT) -> nn.Module:
    """Return a language model, without its data."""
    if model == "lstm":
        return NamesLSTM(vocabulary, context=context)
    return CharTransformer(vocabulary, context, channels=64 if task == "names" else 128)


def encode(text: str, vocabulary: str) -> Array:
    """Return each character's index in the vocabulary; raise KeyError for an unknown character."""
    places = {character: place for place, character in enumerate(vocabulary)}
    return np.array([places[character] for character in text], np.int64)


def sample(
    model: nn.Module,
    vocabulary: str,
    prompt: str = "",
    *,
    length: int,
    random: np.random.Generator,
    of_names: bool,
    temperature: float = 0.8,
    top_k: int | None = None,
) -> str:
    """Return text sampled after the prompt; for a model of names, up to the end of the first name."""
    # A name starts after the end of another; text without a prompt starts at the beginning of a line.
    start = END + prompt if of_names or not prompt else prompt
    with np.errstate(all="ignore"):  # at a temperature near zero, unlikely characters underflow
        codes = generate(
            model,
            encode(start, vocabulary).tolist(),
            length,
            temperature=temperature,
            top_k=top_k,
            stop=vocabulary.index(END) if of_names else None,
            random=random,
        )
    return prompt + "".join(vocabulary[code] for code in codes).rstrip("\n")
