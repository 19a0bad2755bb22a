"""The command `retrograd`: check gradients, train on real data, show what is installed."""

from .application import main as main
