"""The command `retrograd`: check gradients, train on real data, say what is installed."""

from .application import main as main
