"""A variational autoencoder on MNIST (D. Kingma and M. Welling, 2014), which draws digits of its own.

python examples/vae.py --epochs 3 --out digits.png
python examples/vae.py --steps 5     a quick look
"""

import argparse

import numpy as np

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import nn, optim
from retrograd.data import DataLoader, TensorDataset, mnist


class VAE(nn.Module):
    def __init__(self, latent: int = 20) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = nn.Sequential(nn.Linear(784, 400), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(400, latent), nn.Linear(400, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 400), nn.ReLU(), nn.Linear(400, 784))

    def forward(self, x: rg.Tensor) -> tuple[rg.Tensor, rg.Tensor, rg.Tensor]:
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + rg.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(z), mean, log_variance


def bound(logits: rg.Tensor, x: rg.Tensor, mean: rg.Tensor, log_variance: rg.Tensor) -> rg.Tensor:
    """The negative evidence lower bound per image, in nats."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
    return (reconstruction + divergence) / len(x)


def save_digits(model: VAE, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with rg.no_grad():
        digits = model.decoder(rg.randn(64, model.latent)).sigmoid().numpy().reshape(8, 8, 28, 28)
    pyplot.imsave(path, digits.transpose(0, 2, 1, 3).reshape(224, 224), cmap="gray")
    print(f"wrote {path}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, help="stop after this many steps")
    parser.add_argument("--out", help="a PNG file for the digits that the model draws")
    options = parser.parse_args(arguments)

    rg.manual_seed(0)
    images = mnist().train_images.reshape(-1, 784).astype(np.float32) / 255
    loader = DataLoader(TensorDataset(rg.from_numpy(images)), batch_size=128, shuffle=True)
    model = VAE()
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    steps = options.steps or options.epochs * len(loader)
    step = 0
    while step < steps:
        for (x,) in loader:
            logits, mean, log_variance = model(x)
            loss = bound(logits, x, mean, log_variance)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % 100 == 0 or step == steps:
                print(f"step {step}: {loss.item():.1f} nats per image")
            if step == steps:
                break
    if options.out:
        save_digits(model, options.out)


if __name__ == "__main__":
    main()
