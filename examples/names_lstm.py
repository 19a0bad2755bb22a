"""An LSTM that learns to spell first names and makes up new ones.

python examples/names_lstm.py --steps 2000
python examples/names_lstm.py --steps 5     a quick look
"""

import argparse

import numpy as np

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import nn, optim
from retrograd.data import names

LETTERS = ".abcdefghijklmnopqrstuvwxyz"  # the dot begins and ends a name


class Speller(nn.Module):
    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), 32)
        self.lstm = nn.LSTM(32, channels, batch_first=True)
        self.logits = nn.Linear(channels, len(LETTERS))

    def forward(self, letters: rg.Tensor, state: tuple[rg.Tensor, rg.Tensor] | None = None) -> tuple[rg.Tensor, tuple]:
        hidden, state = self.lstm(self.embed(letters), state)
        return self.logits(hidden), state


def batch_of(words: list[str]) -> tuple[rg.Tensor, rg.Tensor]:
    """Letters as numbers, padded with dots; and the letters that follow, padded with -100, which the loss ignores."""
    longest = max(map(len, words)) + 1
    x = np.zeros((len(words), longest), dtype=np.int64)
    y = np.full((len(words), longest), -100, dtype=np.int64)
    for row, word in enumerate(words):
        spelled = [LETTERS.index(letter) for letter in word]
        x[row, 1 : len(word) + 1] = spelled
        y[row, : len(word) + 1] = [*spelled, 0]
    return rg.from_numpy(x), rg.from_numpy(y)


@rg.no_grad()
def sample(model: Speller, count: int) -> list[str]:
    letters, state = rg.zeros(count, 1, dtype=rg.int64), None
    words = [""] * count
    ended = [False] * count
    for _ in range(20):
        logits, state = model(letters, state)
        letters = rg.multinomial(F.softmax(logits[:, -1], -1), 1)
        for row, index in enumerate(letters[:, 0].tolist()):
            ended[row] = ended[row] or index == 0
            words[row] += "" if ended[row] else LETTERS[index]
    return words


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args(arguments)

    rg.manual_seed(0)
    words = names()
    model = Speller()
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)
    for step in range(1, options.steps + 1):
        x, y = batch_of([words[index] for index in rng.integers(0, len(words), 64)])
        logits, _ = model(x)
        loss = F.cross_entropy(logits.reshape(-1, len(LETTERS)), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 200 == 0 or step == options.steps:
            print(f"step {step}: loss {loss.item():.3f}")
    print(", ".join(sample(model, 10)))


if __name__ == "__main__":
    main()
