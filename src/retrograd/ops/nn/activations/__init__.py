"""Activation functions, as ``nn.functional`` has them."""
