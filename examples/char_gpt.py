"""A transformer that predicts the next character of Shakespeare.

python examples/char_gpt.py --steps 500
python examples/char_gpt.py --steps 3 --sample 20     a quick look
"""

import argparse

import numpy as np

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import nn, optim
from retrograd.data import shakespeare

CONTEXT, CHANNELS, HEADS, LAYERS = 64, 128, 4, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(CHANNELS), nn.LayerNorm(CHANNELS)
        self.qkv, self.out = nn.Linear(CHANNELS, 3 * CHANNELS), nn.Linear(CHANNELS, CHANNELS)
        self.mlp = nn.Sequential(nn.Linear(CHANNELS, 4 * CHANNELS), nn.GELU(), nn.Linear(4 * CHANNELS, CHANNELS))

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        batch, time, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, time, 3, HEADS, CHANNELS // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, time, CHANNELS))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, CHANNELS), nn.Embedding(CONTEXT, CHANNELS)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(CHANNELS)
        self.logits = nn.Linear(CHANNELS, vocabulary, bias=False)
        self.apply(self.initialize)

    @staticmethod
    def initialize(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: rg.Tensor) -> rg.Tensor:
        x = self.token(tokens) + self.position(rg.arange(tokens.shape[1]))
        return self.logits(self.norm(self.blocks(x)))


@rg.no_grad()
def generate(model: GPT, tokens: list[int], length: int) -> list[int]:
    for _ in range(length):
        logits = model(rg.tensor([tokens[-CONTEXT:]]))[0, -1]
        tokens.append(int(rg.multinomial(F.softmax(logits, -1), 1)))
    return tokens


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--sample", type=int, default=300, help="characters to generate")
    options = parser.parse_args(arguments)

    rg.manual_seed(0)
    text = shakespeare()
    alphabet = sorted(set(text))
    number = {character: index for index, character in enumerate(alphabet)}
    tokens = np.array([number[character] for character in text])
    model = GPT(len(alphabet))
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    rng = np.random.default_rng(0)
    for step in range(1, options.steps + 1):
        starts = rng.integers(0, len(tokens) - CONTEXT - 1, 12)
        windows = np.stack([tokens[start : start + CONTEXT + 1] for start in starts])
        logits = model(rg.from_numpy(windows[:, :-1]))
        loss = F.cross_entropy(logits.reshape(-1, len(alphabet)), rg.from_numpy(windows[:, 1:].reshape(-1)))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0 or step == options.steps:
            print(f"step {step}: loss {loss.item():.3f}")
    print("".join(alphabet[token] for token in generate(model, [number["\n"]], options.sample)))


if __name__ == "__main__":
    main()
